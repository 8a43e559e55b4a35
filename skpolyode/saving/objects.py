"""Save and load estimators and streams.

A file is a safetensors file whose header holds one text. The arrays are stored as in memory. The
first line of the text has the version of the format, the version of the package, and a digest of
everything, which detects damage. A JSON document follows, which assigns the arrays to values.
"""

from __future__ import annotations

import glob
import hashlib
import inspect
import json
import os
import stat
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from skpolyode.saving import modules  # noqa: F401 (registers classes of torch)
from skpolyode.saving.codec import (
    ArrayError,
    Decoder,
    DeviceError,
    Encoder,
    UnknownNameError,
    place,
    register,
)

SCHEMA = 1
"""Version of the format. Readers understand all versions up to this one."""

_PACKAGE = __name__.partition(".")[0]
_LEFT = 3600.0  # seconds since the last write, after which a partial file is abandoned


def write_file(
    path: str | os.PathLike[str], content: Any, arrays: dict[str, np.ndarray], version: str
) -> None:
    """Write a file as `replace_file` does.

    Parameters
    ----------
    path : str or PathLike
        An existing file is replaced.
    content : JSON
        Values that refer to the arrays.
    arrays : dict of str to ndarray
        Contiguous numeric arrays.
    version : str
        Version of the package, for messages.
    """
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    about = f"{SCHEMA} {version}"
    head = f"{about} {_digest(about, text, arrays)}"
    replace_file(path, to_bytes(arrays, metadata={_PACKAGE: f"{head}\n{text}"}))


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never a part.

    The permissions of an existing file are kept, and links are followed.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder: name a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{os.fspath(path)!r} is in a folder that is not there: make the folder first."
        )
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        with suppress(OSError):  # of a killed writer; another one may have removed it
            if left.stat().st_mtime < time.time() - _LEFT:
                left.unlink()
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            if target.exists():
                # Before anything is written, so that a private file is never readable.
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def read_file(path: str | os.PathLike[str]) -> tuple[Any, str, dict[str, np.ndarray]]:
    """Read a file: its content, the version that wrote it, and its arrays.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is damaged, was not written by this package, or has a later format.
    """
    target = Path(path)
    if not target.is_file():
        raise FileNotFoundError(f"no file {str(target)!r}: pass the path that was given to `save`.")
    try:
        with safe_open(target, framework="numpy") as file:
            text = (file.metadata() or {}).get(_PACKAGE)
            names = [] if text is None else file.keys()
            arrays = {name: file.get_tensor(name) for name in names}
    # For number types that numpy lacks, the error depends on the version of safetensors.
    except (SafetensorError, OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise damaged(path) from error
    if text is None:
        raise ValueError(
            f"{str(path)!r} is a safetensors file, but not of skpolyode: only what `save` of an "
            "estimator wrote can be loaded."
        )
    try:
        head, _, text = text.partition("\n")
        about, digest = head.rsplit(" ", 1)
        schema, version = about.split(" ")
        newer = int(schema) > SCHEMA
        content = None if newer else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path) from error
    if newer:
        raise ValueError(
            f"{str(path)!r} was saved by skpolyode {version} in format {schema}; this version "
            f"reads formats up to {SCHEMA}: update skpolyode."
        )
    if digest != _digest(about, text, arrays):
        raise damaged(path)
    return content, version, arrays


def damaged(path: str | os.PathLike[str]) -> ValueError:
    """Error for a file that has changed since it was saved."""
    return ValueError(
        f"{str(path)!r} is not a file of skpolyode, or it is damaged or cut short: pass a file "
        "that `save` of an estimator wrote, and copy or save it again."
    )


def _digest(about: str, text: str, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(f"{about}\n{text}\n".encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


_OTHERS = (".pkl", ".pickle", ".joblib", ".pt", ".pth")  # readers of these expect a pickle


def load(path: str | os.PathLike[str], device: str | None = None) -> Any:
    """Load a file that the method `save` of an estimator, or of a stream, has written.

    A file cannot execute code: it holds numbers, text and names of classes, which are looked up in
    a table of this package.

    Parameters
    ----------
    path : str or PathLike
        The file.
    device : str or None, default=None
        Device of torch from now on, instead of the saved `device`.

    Returns
    -------
    estimator or stream
        Equal to the saved object in parameters, fitted attributes and results.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, was not written by skpolyode or by a later version, or if the
        device cannot be used here.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import skpolyode
    >>> series = [([0.0, 0.4, 1.5, 2.0], [1.0, 2.0, 2.0, 0.0]), ([0.0, 1.2, 2.0], [0.0, 3.0, 1.0])]
    >>> transformer = skpolyode.HiPPOTransformer(n_coefficients=4).fit(series)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     transformer.save(Path(folder) / "model.safetensors")
    ...     again = skpolyode.load(Path(folder) / "model.safetensors")
    >>> again
    HiPPOTransformer(n_coefficients=4)
    >>> (again.transform(series) == transformer.transform(series)).all()
    np.True_
    """
    content, version, arrays = read_file(path)
    try:
        value = Decoder(arrays).decode(content)
        if not _is_object(content):
            raise damaged(path)
        return place(value, device)
    except UnknownNameError as error:
        raise ValueError(
            f"{str(path)!r} holds {error}, which skpolyode {_version()} does not know; it was "
            f"saved by skpolyode {version}: update skpolyode, or fit and save again if that one is "
            "older."
        ) from None
    except DeviceError as error:
        raise ValueError(
            f"the device of {str(path)!r} cannot be used here ({error}); "
            "load(path, device='cpu') always can."
        ) from None
    except ArrayError as error:
        raise ValueError(
            f"{str(path)!r} cannot be what was saved: {error}; copy or save it again."
        ) from None
    except Exception as error:  # an invalid state may fail anywhere
        raise damaged(path) from error


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Save an estimator, or anything that is registered, in one file without any code.

    Parameters
    ----------
    value : object
        Instance of a class that is registered by :func:`register_estimator` or
        :func:`skpolyode.saving.codec.register`.
    path : str or PathLike
        The safetensors file; an existing one is replaced.

    Raises
    ------
    ValueError
        If the file is named like a pickle.
    TypeError
        If the value, or something inside it, is of a type that files cannot hold.
    """
    if (suffix := Path(path).suffix.lower()) in _OTHERS:
        name = str(Path(path).with_suffix(".safetensors"))
        raise ValueError(
            f"save writes a safetensors file, and {str(path)!r} has the name of another kind: call "
            f"it {name!r}, or write {suffix} with joblib.dump."
        )
    encoder = Encoder()
    content = encoder.encode(value, type(value).__name__)
    if not _is_object(content):
        raise TypeError(f"only estimators and streams can be saved, got {type(value).__name__}.")
    write_file(path, content, encoder.arrays, _version())


def _is_object(content: Any) -> bool:
    """Whether a document holds an instance of a registered class, not a number or a list."""
    return isinstance(content, dict) and "object" in content


def register_estimator(
    cls: type | None = None, *, fitted: Callable[[Any], dict[str, Any]] = vars, **options: Any
) -> Any:
    """Register an estimator, so that files can hold its parameters and all other attributes.

    Use it as a function, or as a class decorator with or without options. Parameters that an older
    file lacks get their defaults.

    Parameters
    ----------
    cls : type or None, default=None
        Exactly this class, not its subclasses. None: used as a decorator with options.
    fitted : callable, default=vars
        Returns the attributes that files hold, besides parameters.
    **options : dict
        `part` of :func:`skpolyode.saving.codec.register`.

    Returns
    -------
    type
        The class.

    Examples
    --------
    >>> from skpolyode import HiPPOTransformer
    >>> from skpolyode.saving import register_estimator
    >>> class ShortMemory(HiPPOTransformer):
    ...     "Four coefficients a channel."
    ...
    ...     def __init__(self):
    ...         super().__init__(n_coefficients=4)
    >>> register_estimator(ShortMemory).__name__
    'ShortMemory'
    """
    if cls is None:
        return partial(register_estimator, fitted=fitted, **options)

    def to_state(estimator: Any) -> dict[str, Any]:
        params = estimator.get_params(deep=False)
        held = {name: value for name, value in fitted(estimator).items() if name not in params}
        return {"params": params, "fitted": held}

    def from_state(state: dict[str, Any]) -> Any:
        if unknown := state["params"].keys() - inspect.signature(cls).parameters.keys():
            raise UnknownNameError(f"the parameter {min(unknown)!r} of {cls.__name__}")
        estimator = cls(**state["params"])
        vars(estimator).update(state["fitted"])
        return estimator

    register(cls, to_state, from_state, place=_place_estimator, **options)
    return cls


def _place_estimator(estimator: Any, device: str | None) -> Any:
    """Move an estimator to a device, by default to that of its parameter `device`."""
    if device is not None and hasattr(estimator, "device"):
        estimator.device = device
    target = getattr(estimator, "device", device)
    for name, value in list(vars(estimator).items()):
        setattr(estimator, name, place(value, target))
    return estimator


def _version() -> str:
    # Not imported: the root of the package, which imports all layers, is above this one.
    return sys.modules[_PACKAGE].__version__


class SafeFiles:
    """Mixin, to be listed before a base of sktime, whose own files hold pickles."""

    def save(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Save to one file without any code; a forecaster's holds no series.

        Parameters
        ----------
        path : str, PathLike or None, default=None
            Name of the safetensors file, such as "model.safetensors"; an existing file is replaced.
            A name without an ending, such as "model", is for `sktime.base.load`: it writes
            pickles, in "model.zip", which hold series as well. None: the same, in memory.

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
        if path is None or not Path(path).suffix:
            return super().save(path)
        return save(self, path)
