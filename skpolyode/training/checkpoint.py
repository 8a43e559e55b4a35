"""What an interrupted training goes on from."""

from __future__ import annotations

import os
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from skpolyode.saving.codec import Decoder, Encoder
from skpolyode.saving.container import read_file, write_file


class Checkpoint:
    """A file with the state of one training, replaced at once from time to time.

    Parameters
    ----------
    path : str or PathLike
        The file. Its folder is made if there is none.
    interval : float, default=1.0
        Seconds between two writings, at least.

    Notes
    -----
    A checkpoint is a help and never a reason to fail: what cannot be read is set aside, and where
    nothing can be written training goes on without, each with a warning. Several trainings with
    one file, such as the same fit in two processes, do not disturb each other.

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
        """Write a state down, unless the last one is more recent than the interval.

        Warns
        -----
        UserWarning
            If it cannot be written, once: no other attempt is made.
        """
        if time.monotonic() - self._written < self.interval:
            return
        encoder = Encoder()
        content = encoder.encode(state, "checkpoint")
        try:
            try:
                self._write(content, encoder.arrays)
            except FileNotFoundError:  # the same training has ended elsewhere, and cleaned up
                self._write(content, encoder.arrays)
        except OSError as error:
            self.interval = float("inf")
            warnings.warn(
                f"the checkpoint {str(self.path)!r} cannot be written ({error}): training goes on "
                "without it, and starts from the beginning after an interruption.",
                UserWarning,
                stacklevel=2,
            )
        self._written = time.monotonic()

    def _write(self, content: Any, arrays: dict[str, np.ndarray]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self.path, content, arrays, version="checkpoint")

    def load(self) -> dict[str, Any] | None:
        """State that was written last; None if there is none.

        Warns
        -----
        UserWarning
            If the file is damaged: it is renamed, and training starts anew.
        """
        try:
            content, _, arrays = read_file(self.path)
            return Decoder(arrays).decode(content)
        except FileNotFoundError:
            return None
        except Exception:  # whatever is wrong with it, it is no reason not to train
            self.set_aside("is damaged")
            return None

    def set_aside(self, why: str) -> None:
        """Rename the file, so that it is not read again, and warn that training starts anew.

        Parameters
        ----------
        why : str
            What is wrong with it, after its name.
        """
        aside = self.path.with_suffix(".damaged")
        with suppress(OSError):  # another process may have done so
            self.path.replace(aside)
        warnings.warn(
            f"the checkpoint {str(self.path)!r} {why}; it is now {str(aside)!r}, and training "
            "starts anew.",
            UserWarning,
            stacklevel=3,
        )

    def remove(self) -> None:
        """Forget the training, with what was left of interrupted writings."""
        with suppress(OSError):
            for left in (self.path, *self.path.parent.glob(f".{self.path.name}.*.part")):
                left.unlink(missing_ok=True)
