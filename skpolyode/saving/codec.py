"""Conversion of Python values to and from the content of a file: JSON and named arrays.

Numbers, text, booleans, None and lists are plain JSON. Everything else is an object with one key,
which names its type: ``{"tuple": [...]}``, ``{"array": name}`` for an entry of the arrays,
``{"object": [tag, state]}`` for an instance of a registered class. Tags are looked up in a table:
no name in a file is imported or evaluated.

The arrays of a saved class are checked: shapes, order, and finite numbers.

Seeds, times and durations, which may be parameters, and tables of static covariates are registered
here.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

SPECS: dict[type, Mapping[str, str]] = {}
"""Specifications of the fields of each class; see `check_arrays`."""


class ArrayError(ValueError):
    """An array of a file does not fit the specification of its class."""


def check_arrays(owner: str, specs: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, int]:
    """Check fields, and return the sizes of the letters in their specifications.

    A specification has the sizes of the axes, such as "D" or "F+1", and then words: "rising" and
    "sorted" for the last axis, "positive" and "unsigned" for values, "inf" if they may be infinite.
    A letter has one size in all fields. For a tuple only the length is checked; for an object, or
    all objects in a dict, only that its letters agree. None and an empty tuple pass.

    Raises
    ------
    ArrayError
        With the names of the class and of the field.
    """
    sizes: dict[str, int] = {}
    for name, spec in specs.items():
        axes = [part for part in spec.split() if not part.islower()]
        words, value = set(spec.split()) - set(axes), values[name]
        where = f"{owner}.{name}"
        for part in value.values() if isinstance(value, dict) else [value]:
            if part is None or isinstance(part, str) or (isinstance(part, tuple) and not part):
                continue
            if isinstance(part, tuple) and type(part) not in SPECS:
                _bind(where, axes, (len(part),), sizes)
            elif isinstance(part, np.ndarray | float | int | np.generic):
                _bind(where, axes, np.shape(part), sizes)
                _check_values(where, words, np.asarray(part))
            elif (inner := SPECS.get(type(part))) is not None:
                held = {key: getattr(part, key) for key in inner}
                found = check_arrays(type(part).__name__, inner, held)
                _bind(where, axes, [found.get(axis, sizes.get(axis)) for axis in axes], sizes)
            elif axes and words:
                raise ArrayError(f"{where} is of type {type(part).__name__}")
    return sizes


def _bind(where: str, axes: list[str], shape: Any, sizes: dict[str, int]) -> None:
    if len(axes) != len(shape):
        raise ArrayError(f"{where} has {len(shape)} axes, not {len(axes)}")
    for axis, size in zip(axes, shape, strict=True):
        terms = axis.split("+")
        known = sum(int(term) if term.isdigit() else sizes.get(term, 0) for term in terms)
        unknown = [term for term in terms if not term.isdigit() and term not in sizes]
        if unknown and size is not None:
            sizes[unknown[0]] = size - known
        elif not unknown and size is not None and size != known:
            raise ArrayError(f"{where} has {size} entries along {axis}, not {known}")


def _check_values(where: str, words: set[str], array: np.ndarray) -> None:
    if array.dtype.kind not in "biuf":
        raise ArrayError(f"{where} is of {array.dtype}")
    if np.isnan(array).any() or not ("inf" in words or np.isfinite(array).all()):
        raise ArrayError(f"{where} has numbers that are not finite")
    steps = np.diff(array) if words & {"rising", "sorted"} else np.ones(1)
    if (steps < 0).any() or ("rising" in words and (steps == 0).any()):
        raise ArrayError(f"{where} is not in increasing order")
    if ("positive" in words and (array <= 0).any()) or ("unsigned" in words and (array < 0).any()):
        raise ArrayError(f"{where} has values that are not {min(words & {'positive', 'unsigned'})}")


_PACKAGE = __name__.partition(".")[0]
_JSON_TYPES = (bool, int, str, type(None))
_ARRAY_KINDS = "biuf"
_NUMBERS = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
_SCALARS = {dtype.name: dtype.type for dtype in map(np.dtype, _NUMBERS)}
# Parts of the package that register classes when they are imported.
_ROOMS = frozenset(module.name for module in iter_modules([str(Path(__file__).parents[1])]))


class UnknownNameError(ValueError):
    """A file names a class or a parameter that this version does not know."""


class DeviceError(ValueError):
    """Torch cannot use a device."""


class _Codec(NamedTuple):
    """Conversion of a class to and from its state in a file."""

    tag: str
    to_state: Callable[[Any], dict[str, Any]]
    from_state: Callable[[dict[str, Any]], Any]
    place: Callable[[Any, Any], Any]


_CODECS: dict[type, _Codec] = {}
_CLASSES: dict[str, type] = {}  # by tag
_TURNED: dict[type, Callable[[Any], Any]] = {}


def register(
    cls: type,
    to_state: Callable[[Any], dict[str, Any]],
    from_state: Callable[[dict[str, Any]], Any],
    *,
    part: str | None = None,
    place: Callable[[Any, Any], Any] = lambda value, device: value,
) -> None:
    """Register a class, so that files can hold its instances.

    Parameters
    ----------
    cls : type
        Exactly this class, not its subclasses.
    to_state : callable
        Returns the state to save, by name.
    from_state : callable
        Makes an instance from the state, on the CPU; may raise any error for an invalid state.
    part : str or None, default=None
        First half of the tag of the class in files; the second half is its name. None: the
        subpackage that defines it, or the name of another package.
    place : callable
        Moves the tensors of an instance to a device and returns it, or a new instance. Default:
        there is nothing to move.
    """
    package, _, room = cls.__module__.partition(".")
    default = room.partition(".")[0] if package == _PACKAGE else package
    tag = f"{part or default}.{cls.__name__}"
    _CODECS[cls] = _Codec(tag, to_state, from_state, place)
    _CLASSES[tag] = cls


def register_attributes(cls: type, *names: str, **options: Any) -> None:
    """Register a class whose constructor takes the attributes of these names; see `register`."""

    def to_state(value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in names}

    register(cls, to_state, lambda state: cls(**state), **options)


def register_as(cls: type, turned: Callable[[Any], Any]) -> None:
    """Save instances of `cls` as the result of `turned`."""
    _TURNED[cls] = turned


def saved(cls: type | None = None, **arrays: str) -> Any:
    """Class decorator: register a NamedTuple or a dataclass, to be saved field by field.

    On loading, fields must fit the specifications in `arrays`; see `check_arrays`.
    """
    if cls is None:
        return partial(saved, **arrays)
    SPECS[cls] = arrays
    names = [f.name for f in fields(cls)] if is_dataclass(cls) else cls._fields

    def to_state(value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in names}

    def move(value: Any, device: Any) -> Any:
        state = to_state(value)
        moved = {name: place(part, device) for name, part in state.items()}
        return value if all(moved[name] is state[name] for name in names) else cls(**moved)

    def from_state(state: dict[str, Any]) -> Any:
        value = cls(**state)  # defaults replace fields that older files lack
        check_arrays(cls.__name__, arrays, to_state(value))
        return value

    register(cls, to_state, from_state, place=move)
    return cls


def place(value: Any, device: Any) -> Any:
    """Move all tensors and modules inside a value to a device.

    Parameters
    ----------
    value : object
        Moved in place where possible. Objects of unregistered classes are not changed.
    device : str, torch.device or None
        None: the `device` of each estimator inside the value.

    Returns
    -------
    object
        The value or its replacement.

    Raises
    ------
    DeviceError
        If the device cannot be used here.
    """
    kind = type(value)
    if isinstance(value, nn.Module | Tensor):
        try:
            return value if device is None else value.to(device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise DeviceError(str(error).splitlines()[0]) from None
    if kind in (list, tuple):
        return kind(place(part, device) for part in value)
    if kind is dict:
        return {key: place(part, device) for key, part in value.items()}
    return _CODECS[kind].place(value, device) if kind in _CODECS else value


class Encoder:
    """Converts values to JSON, and collects their arrays.

    Attributes
    ----------
    arrays : dict of str to ndarray
        Arrays by name, which is their path.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def encode(self, value: Any, path: str) -> Any:
        """JSON of a value; `path` is its name in messages and in `arrays`.

        Raises
        ------
        TypeError
            If the value, or something inside it, is of a type that files cannot hold.
        """
        if type(value) in _TURNED:
            value = _TURNED[type(value)](value)
        kind = type(value)
        if kind in _JSON_TYPES:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind in (list, tuple):
            parts = [self.encode(part, f"{path}[{i}]") for i, part in enumerate(value)]
            return parts if kind is list else {"tuple": parts}
        if kind is dict:
            items = [(key, part, f"{path}[{key!r}]") for key, part in value.items()]
            return {"dict": [[self.encode(k, p), self.encode(v, p)] for k, v, p in items]}
        if isinstance(value, Path):
            return {"path": str(value)}
        if isinstance(value, Tensor):
            try:
                return {"tensor": self._keep(value.detach().cpu().numpy(), path)}
            except TypeError:  # not supported by numpy
                raise _refusal(value, path) from None
        if isinstance(value, np.generic) and value.dtype.name in _SCALARS:
            return {"scalar": [value.dtype.name, self.encode(value.item(), path)]}
        if isinstance(value, np.ndarray) and value.dtype.kind in _ARRAY_KINDS:
            return {"array": self._keep(value, path)}
        if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1:
            return {"objects": self.encode(value.tolist(), path)}
        if kind in _CODECS:
            codec = _CODECS[kind]
            try:
                parts = codec.to_state(value)
            except TypeError as error:
                raise TypeError(f"{path} cannot be saved: {error}") from None
            state = {name: self.encode(part, f"{path}.{name}") for name, part in parts.items()}
            return {"object": [codec.tag, state]}
        raise _refusal(value, path)

    def _keep(self, array: np.ndarray, path: str) -> str:
        native = array.dtype.newbyteorder("=")
        while path in self.arrays:  # different keys may have the same text
            path += "'"
        self.arrays[path] = np.array(array, dtype=native, order="C")
        return path


def _refusal(value: Any, path: str) -> TypeError:
    kind = type(value).__name__
    if isinstance(value, np.ndarray | Tensor):
        kind = f"{'array' if kind == 'ndarray' else 'tensor'} of {value.dtype}"
    return TypeError(
        f"{path} cannot be saved: it is of type {kind}, and a file holds numbers, text, arrays of "
        "numbers and the classes of skpolyode; change it, or keep the estimator with joblib."
    )


class Decoder:
    """Converts JSON and arrays to values, with memory bounded by the size of the file.

    Each array is used once.

    Parameters
    ----------
    arrays : dict of str to ndarray
        The arrays of the file.
    """

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = dict(arrays)
        self._of_kind: dict[str, Callable[[Any], Any]] = {
            "float": {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.__getitem__,
            "path": Path,
            "tuple": lambda parts: tuple(map(self.decode, parts)),
            "dict": lambda items: {self.decode(key): self.decode(part) for key, part in items},
            "array": lambda name: self.arrays.pop(name).copy(),
            "tensor": lambda name: torch.from_numpy(self.arrays.pop(name).copy()),
            "scalar": lambda pair: _SCALARS[pair[0]](self.decode(pair[1])),
            "objects": lambda parts: np.fromiter(map(self.decode, parts), object, len(parts)),
            "object": self._object,
        }

    def decode(self, document: Any) -> Any:
        """Value of a JSON document; may raise any error if it is invalid."""
        if isinstance(document, list):
            return [self.decode(part) for part in document]
        if isinstance(document, dict):
            ((kind, content),) = document.items()
            return self._of_kind[kind](content)
        return document

    def _object(self, pair: list) -> Any:
        tag, state = pair
        room = tag.partition(".")[0]
        if tag not in _CLASSES and room in _ROOMS:  # its modules register classes
            path = getattr(import_module(f"{_PACKAGE}.{room}"), "__path__", ())
            for module in walk_packages(path, f"{_PACKAGE}.{room}."):
                import_module(module.name)
        if tag not in _CLASSES:
            raise UnknownNameError(f"an object of {tag!r}")
        codec = _CODECS[_CLASSES[tag]]
        parts = {name: self.decode(part) for name, part in state.items()}
        return codec.from_state(parts)


def _random_state(state: dict[str, Any]) -> np.random.RandomState:
    result = np.random.RandomState()
    result.set_state(state["state"])
    return result


register(
    np.random.RandomState,
    lambda value: {"state": value.get_state(legacy=True)},
    _random_state,
    part="numpy",
)


_OFFSET = re.compile(r"UTC([+-]\d\d:\d\d(:\d\d)?)?")


def checked_zone(name: str | None) -> str | None:
    """Name of a time zone, if it is in the database or a fixed offset.

    pandas also accepts "dateutil/" and the path of any file, and would open that.

    Raises
    ------
    ValueError
        If it is another name.
    """
    if name is not None and not _OFFSET.fullmatch(name):
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            raise ValueError(f"{name!r} is no time zone of the database") from None
    return name


def _times_state(index: pd.DatetimeIndex | pd.TimedeltaIndex) -> dict[str, Any]:
    zone = getattr(index, "tz", None)
    try:
        tz = checked_zone(None if zone is None else str(zone))
    except ValueError as error:
        raise TypeError(f"{error}; use tz_convert with one, or 'UTC'.") from None
    return {"counts": index.asi8, "unit": index.unit, "tz": tz}


def _times(
    cls: type[pd.DatetimeIndex | pd.TimedeltaIndex], kind: str, state: dict[str, Any]
) -> pd.DatetimeIndex | pd.TimedeltaIndex:
    index = cls(state["counts"].view(f"{kind}[{state['unit']}]"))
    zone = checked_zone(state["tz"])
    return index if zone is None else index.tz_localize("UTC").tz_convert(zone)


def _frame_state(frame: pd.DataFrame) -> dict[str, Any]:
    cells = [frame.iloc[:, j].to_numpy() for j in range(frame.shape[1])]
    labels = {"index": frame.index.to_numpy(), "columns": frame.columns.tolist()}
    return labels | {"cells": cells, "dtypes": [str(dtype) for dtype in frame.dtypes]}


def _frame(state: dict[str, Any]) -> pd.DataFrame:
    columns = zip(state["cells"], state["dtypes"], strict=True)
    series = [pd.Series(cells, state["index"], dtype) for cells, dtype in columns]
    return pd.DataFrame(dict(enumerate(series)), state["index"]).set_axis(state["columns"], axis=1)


_OF_PANDAS: dict[type, tuple[Callable, Callable]] = {
    pd.DataFrame: (_frame_state, _frame),
    pd.DatetimeIndex: (_times_state, partial(_times, pd.DatetimeIndex, "M8")),
    pd.TimedeltaIndex: (_times_state, partial(_times, pd.TimedeltaIndex, "m8")),
    pd.Timedelta: (
        lambda value: {"count": int(value.asm8.view(np.int64)), "unit": value.unit},
        lambda state: pd.Timedelta(np.timedelta64(state["count"], state["unit"])),
    ),
    np.timedelta64: (
        lambda value: {"count": int(value.view(np.int64)), "unit": np.datetime_data(value)[0]},
        lambda state: np.timedelta64(state["count"], state["unit"]),
    ),
}
register_as(np.str_, str)
for _cls, (_to_state, _from_state) in _OF_PANDAS.items():
    register(_cls, _to_state, _from_state, part="pandas")
register_attributes(datetime.timedelta, "days", "seconds", "microseconds", part="pandas")
