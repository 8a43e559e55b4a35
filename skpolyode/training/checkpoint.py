"""What an interrupted training goes on from."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

from skpolyode.saving.codec import Decoder, Encoder
from skpolyode.saving.container import read_file, write_file

__all__ = ["Checkpoint"]


class Checkpoint:
    """A file with the state of one training, replaced at once from time to time.

    Parameters
    ----------
    path : str or PathLike
        The file. Its folder is made if there is none.
    interval : float, default=1.0
        Seconds between two writings, at least.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skpolyode.training import Checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(Path(folder) / "fit.safetensors")
    ...     checkpoint.save({"epoch": 3})
    ...     Checkpoint(Path(folder) / "fit.safetensors").load()
    {'epoch': 3}
    """

    def __init__(self, path: str | os.PathLike[str], interval: float = 1.0) -> None:
        self.path = Path(path)
        self.interval = interval
        self._written = float("-inf")

    def save(self, state: dict[str, Any]) -> None:
        """Write a state down, unless the last one is more recent than the interval."""
        if time.monotonic() - self._written < self.interval:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        encoder = Encoder()
        content = encoder.encode(state, "checkpoint")
        write_file(self.path, content, encoder.arrays, version="checkpoint")
        self._written = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """State that was written last; None if there is none.

        Warns
        -----
        UserWarning
            If the file is damaged: it is renamed, and training starts anew.
        """
        if not self.path.is_file():
            return None
        try:
            content, _, arrays = read_file(self.path)
            return Decoder(arrays).decode(content)
        except Exception:  # whatever is wrong with it, it is no reason not to train
            aside = self.path.with_suffix(".damaged")
            self.path.replace(aside)
            warnings.warn(
                f"the checkpoint {str(self.path)!r} is damaged; it is now {str(aside)!r}, and "
                "training starts anew.",
                UserWarning,
                stacklevel=2,
            )
            return None

    def remove(self) -> None:
        """Forget the training, with what was left of interrupted writings."""
        for left in (self.path, *self.path.parent.glob(f".{self.path.name}.*.part")):
            left.unlink(missing_ok=True)
