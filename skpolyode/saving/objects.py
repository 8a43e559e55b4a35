"""What can be saved, and the way back."""

from __future__ import annotations

import inspect
import os
import sys
from abc import abstractmethod
from pathlib import Path
from typing import Any, Self

from torch import nn

from skpolyode.saving import frames  # noqa: F401 (registers the classes of pandas)
from skpolyode.saving.codec import Decoder, Encoder, UnknownNameError, register
from skpolyode.saving.container import damaged, read_file, write_file

__all__ = ["Saveable", "SaveableEstimator", "SaveableForSktime", "load"]

_PACKAGE = __name__.partition(".")[0]
_SUFFIX = ".safetensors"


def load(path: str | os.PathLike[str], device: str | None = None) -> Any:
    """Load what the method `save` of an estimator, or of a stream, has written.

    Nothing in a file can execute: it holds numbers and text, and the names of classes, which are
    looked up in a table of this package.

    Parameters
    ----------
    path : str or PathLike
        The file.
    device : str or None, default=None
        Where torch computes from now on, in place of the `device` that was saved.

    Returns
    -------
    estimator or stream
        Equal to what was saved: parameters, fitted attributes and every result.

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
    >>> embedder = skpolyode.HiPPOTransformer(n_coefficients=4).fit(series)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     embedder.save(Path(folder) / "model.safetensors")
    ...     again = skpolyode.load(Path(folder) / "model.safetensors")
    >>> again
    HiPPOTransformer(n_coefficients=4)
    >>> (again.transform(series) == embedder.transform(series)).all()
    np.True_
    """
    content, version, arrays = read_file(path)
    try:
        value = Decoder(arrays).decode(content)
    except UnknownNameError as error:
        raise ValueError(
            f"{str(path)!r} holds {error}, which skpolyode {_version()} does not know; it was "
            f"saved by skpolyode {version}: update skpolyode."
        ) from None
    except Exception as error:  # a state that makes no sense may fail anywhere
        raise damaged(path) from error
    if not isinstance(value, Saveable):
        raise damaged(path)
    try:
        value._place(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"the device of {str(path)!r} cannot be used here ({reason}); "
            "load(path, device='cpu') always can."
        ) from None
    return value


class Saveable:
    """Mixin of what can be saved as a file of its own.

    A class of this package can be saved by being defined. What `_get_state` gives must be known to
    :mod:`skpolyode.saving.codec`.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        package, part = [*cls.__module__.split("."), ""][:2]
        if package == _PACKAGE:  # a class defined elsewhere could not be found again
            register(cls, cls._get_state, cls._from_state, part=part)

    @abstractmethod
    def _get_state(self) -> dict[str, Any]:
        """Everything that an equal object can be made of."""

    @classmethod
    @abstractmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        """Make an equal object, on the CPU; `_place` is called next."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save everything, parameters and what was fitted, in one file without any code.

        Parameters
        ----------
        path : str or PathLike
            The file, a safetensors file whatever its name; one that exists is replaced.

        Raises
        ------
        TypeError
            If a parameter or an attribute is of a type that files cannot hold.

        See Also
        --------
        skpolyode.load : The way back.
        """
        encoder = Encoder()
        content = encoder.encode(self, type(self).__name__)
        write_file(path, content, encoder.arrays, _version())

    def _place(self, device: str | None) -> None:
        """Move what torch computes with to a device; by default to the one that was saved."""
        if device is not None and hasattr(self, "device"):
            self.device = device
        for value in vars(self).values():
            if isinstance(value, nn.Module):
                value.to(self.device)
            elif isinstance(value, Saveable):
                value._place(device)


class SaveableEstimator(Saveable):
    """Mixin of estimators: what is saved are their parameters and all other attributes.

    Parameters that a file lacks, since they are newer than it, get their defaults.
    """

    def _get_state(self) -> dict[str, Any]:
        params = self.get_params(deep=False)
        fitted = {name: value for name, value in vars(self).items() if name not in params}
        return {"params": params, "fitted": fitted}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        if unknown := state["params"].keys() - inspect.signature(cls).parameters.keys():
            raise UnknownNameError(f"the parameter {min(unknown)!r} of {cls.__name__}")
        estimator = cls(**state["params"])
        vars(estimator).update(state["fitted"])
        return estimator


class SaveableForSktime(SaveableEstimator):
    """Mixin of estimators of sktime, whose own `save` pickles."""

    def save(
        self, path: str | os.PathLike[str] | None = None, serialization_format: str = "pickle"
    ) -> Any:
        """Save everything in one file without any code, or in sktime's own way.

        Parameters
        ----------
        path : str, PathLike or None, default=None
            A name that ends in ".safetensors" makes a file for :func:`skpolyode.load`, which holds
            no code. Any other is for `sktime.base.load`: a zip archive with a pickle, of that
            name and ".zip". None: such a pickle, in memory.
        serialization_format : str, default="pickle"
            Of sktime's own way: "pickle" or "cloudpickle".

        Returns
        -------
        None, or what sktime returns

        Raises
        ------
        TypeError
            If a parameter or an attribute is of a type that files cannot hold.

        See Also
        --------
        skpolyode.load : The way back.
        """
        if path is not None and Path(path).suffix == _SUFFIX:
            return Saveable.save(self, path)
        return super(Saveable, self).save(path, serialization_format)


def _version() -> str:
    # Not imported: this layer lies below the root, which imports all others.
    return sys.modules[_PACKAGE].__version__
