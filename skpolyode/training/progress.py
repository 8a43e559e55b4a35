"""Whether somebody waits for a fit."""

from __future__ import annotations

import sys
from multiprocessing import current_process
from threading import current_thread, main_thread
from typing import Any

_PATIENCE = 2.0  # seconds before a bar appears that nobody asked for


def bar_settings(verbose: int | str) -> dict[str, Any]:
    """Arguments of tqdm that show a progress bar, or none.

    "auto" shows it in a terminal or a notebook after two seconds, but not in the workers of a
    search or where the output goes to a file.

    Examples
    --------
    >>> from skpolyode.training.progress import bar_settings
    >>> bar_settings(1), bar_settings(0)
    ({'disable': False}, {'disable': True})
    """
    if verbose != "auto":
        return {"disable": not verbose}
    is_watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    is_worker = current_process().name != "MainProcess" or current_thread() is not main_thread()
    return {"disable": is_worker or not is_watched, "delay": _PATIENCE}
