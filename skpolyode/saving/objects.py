"""Save and load estimators and streams."""

from __future__ import annotations

import inspect
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from skpolyode.saving import frames, modules  # noqa: F401 (register classes of pandas and torch)
from skpolyode.saving.arrays import ArrayError
from skpolyode.saving.codec import Decoder, DeviceError, Encoder, UnknownNameError, place, register
from skpolyode.saving.container import damaged, read_file, write_file

_PACKAGE = __name__.partition(".")[0]
_SUFFIX = ".safetensors"
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
        raise ValueError(
            f"save writes a safetensors file, and {str(path)!r} has the name of another kind: call "
            f"it {str(Path(path).with_suffix(_SUFFIX))!r}, or write {suffix} with joblib.dump."
        )
    encoder = Encoder()
    content = encoder.encode(value, type(value).__name__)
    if not _is_object(content):
        raise TypeError(f"only estimators and streams can be saved, got {type(value).__name__}.")
    write_file(path, content, encoder.arrays, _version())


def _is_object(content: Any) -> bool:
    """Whether a document holds an instance of a registered class, not a number or a list."""
    return isinstance(content, dict) and "object" in content


def register_estimator(cls: type | None = None, **options: Any) -> Any:
    """Register an estimator, so that files can hold its parameters and all other attributes.

    Use it as a function, or as a class decorator with or without options. Parameters that an older
    file lacks get their defaults.

    Parameters
    ----------
    cls : type or None, default=None
        Exactly this class, not its subclasses. None: used as a decorator with options.
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
        return partial(register_estimator, **options)

    def to_state(estimator: Any) -> dict[str, Any]:
        params = estimator.get_params(deep=False)
        fitted = {name: value for name, value in vars(estimator).items() if name not in params}
        return {"params": params, "fitted": fitted}

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
