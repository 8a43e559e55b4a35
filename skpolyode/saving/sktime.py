"""Files of estimators that have sktime's interface."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from skpolyode.saving.objects import load, save


class SafeFiles:
    """Mixin, to be listed before a base of sktime, whose files hold pickles."""

    def save(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Save everything in one file without any code.

        Parameters
        ----------
        path : str, PathLike or None, default=None
            Name of the safetensors file, such as "model.safetensors"; an existing file is replaced.
            A name without an ending, such as "model", also writes "model.zip", which only names the
            class: with it `sktime.base.load("model")` finds the file. None: a pickle in memory, for
            `sktime.base.load`.

        Returns
        -------
        None, or what sktime returns

        Raises
        ------
        TypeError
            If a parameter or an attribute is of a type that files cannot hold.

        See Also
        --------
        skpolyode.load : Load the file.
        """
        if path is None:
            return super().save()
        save(self, path)
        if not Path(path).suffix:
            with ZipFile(f"{os.fspath(path)}.zip", "w") as archive:
                archive.writestr("_metadata", pickle.dumps(type(self)))
        return None

    @classmethod
    def load_from_path(cls, serial: str | os.PathLike[str]) -> Any:
        """Load the file beside the archive that names the class, for `sktime.base.load`."""
        return load(Path(serial).with_suffix(""))
