"""Bad days: series as instruments, exports and mistakes deliver them.

Numbers are drawn through a seeded generator, so that an example is a few small decisions (how many
series, which clock, what is broken) that hypothesis can vary and shrink.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from skpolyode import Panel

Pairs = list[tuple[np.ndarray, np.ndarray]]

CLOCKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda t: t,
    "unix seconds": lambda t: np.round(1.7e9 + 60 * t),
    "unix nanoseconds": lambda t: 1.7e18 + np.round(1e9 * t),
    "nanoseconds as integers": lambda t: 1_700_000_000_000_000_000 + (1e9 * t).astype(np.int64),
    "integers": lambda t: np.round(1e3 * t).astype(np.int32),
    "float32": lambda t: t.astype(np.float32),
    "before zero": lambda t: t - 1e6,
    "tiny": lambda t: 1e-30 * t,
    "huge": lambda t: 1e30 * t,
    "dates": lambda t: np.datetime64("2024-02-28", "ns") + (1e9 * t).astype("m8[ns]"),
    "days": lambda t: np.datetime64("1999-12-31", "D") + (100 * t).astype("m8[D]"),
    "as text": lambda t: t.astype(str),
}

UNITS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda v: v,
    "1e-30": lambda v: 1e-30 * v,
    "1e30": lambda v: 1e30 * v,
    "largest": lambda v: 1.7e308 * np.tanh(v),
    "denormal": lambda v: 5e-324 * np.round(v),
    "large offset": lambda v: 1e9 + v,
    "offset beyond the digits": lambda v: 1e30 + v,
    "far apart": lambda v: v * 10.0 ** (30 * np.tanh(v)),
    "constant": lambda v: np.where(np.isnan(v), np.nan, 7.5),
    "float32": lambda v: v.astype(np.float32),
    "float16": lambda v: v.astype(np.float16),
    "integers": lambda v: np.nan_to_num(1e3 * v).astype(np.int64),
    "booleans": lambda v: np.nan_to_num(v) > 0,
    "objects": lambda v: v.astype(object),
    "with None": lambda v: np.where(np.isnan(v), None, v.astype(object)),
    "as text": lambda v: v.astype(str),
    "with infinity": lambda v: np.where(v > 1.5, np.inf, v),
    "complex": lambda v: v.astype(complex),
}

FORMATS: dict[str, Callable[[Pairs], Any]] = {
    "pairs": lambda pairs: pairs,
    "lists": lambda pairs: [(list(t), v.tolist()) for t, v in pairs],
    "panel": Panel.from_series,  # which may refuse them
    "frames": lambda pairs: [pd.DataFrame(v, index=t) for t, v in pairs],
    "read only": lambda pairs: [(_frozen(t), _frozen(v)) for t, v in pairs],
    "padded array": lambda pairs: _padded([v for _, v in pairs]),
    "first channel, padded": lambda pairs: _padded([v for _, v in pairs])[..., 0],
}


@st.composite
def pairs(draw: st.DrawFn, n_channels: int | None = None) -> Pairs:
    """One to eight series: times and values in some unit, some cells missing, maybe a defect."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    n_channels = n_channels or draw(st.sampled_from([1, 2, 3]), label="channels")
    lengths = draw(st.lists(st.sampled_from([1, 1, 2, 3, 7, 20]), min_size=1, max_size=8))
    decades = draw(st.sampled_from([0.0, 1.0, 6.0]), label="decades of gaps")
    missing = draw(st.sampled_from([0.0, 0.3, 0.9]), label="share missing")
    clock = CLOCKS[draw(_mostly("plain", CLOCKS), label="clock")]
    unit = UNITS[draw(_mostly("plain", UNITS), label="values")]
    never = draw(st.none() | st.integers(0, n_channels - 1), label="channel never observed")
    series = []
    for length in lengths:
        times = np.cumsum(10.0 ** rng.uniform(-decades, 0, length))
        values = rng.standard_normal((length, n_channels)).cumsum(axis=0)
        values[rng.random(values.shape) < missing] = np.nan
        if never is not None and n_channels > 1:
            values[:, never] = np.nan
        if np.isnan(values).all() and draw(
            _mostly(True, [True, False]), label="has an observation"
        ):
            values[-1, (never or 0) - 1] = 1.0
        series.append((clock(times), unit(values)))
    return DEFECTS[draw(_mostly("none", DEFECTS), label="defect")](series)


def _swapped(series: Pairs) -> Pairs:
    return [(times[::-1], values) for times, values in series]


def _repeated(series: Pairs) -> Pairs:
    return [(np.repeat(times, 2), np.repeat(values, 2, axis=0)) for times, values in series]


def _short(series: Pairs) -> Pairs:
    return [(times[:-1], values) for times, values in series]


def _other_channels(series: Pairs) -> Pairs:
    return [*series, (series[0][0], np.repeat(series[0][1], 2, axis=1))]


def _not_a_time(series: Pairs) -> Pairs:
    times, values = series[0]
    return [(np.full(len(times), np.nan), values), *series[1:]]


DEFECTS: dict[str, Callable[[Pairs], Pairs]] = {
    "none": lambda series: series,
    "times swapped": _swapped,
    "times twice": _repeated,
    "a row too many": _short,
    "more channels": _other_channels,
    "no time": _not_a_time,
    "no rows": lambda series: [(times[:0], values[:0]) for times, values in series],
    "no series": lambda series: [],
}


def _mostly(usual: Any, choices: Any) -> st.SearchStrategy[Any]:
    """The usual case half the time, so that rare ones meet one by one as well as together."""
    return st.booleans().flatmap(lambda b: st.just(usual) if b else st.sampled_from(list(choices)))


def _frozen(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def _padded(tables: list[np.ndarray]) -> np.ndarray:
    """Tables (L, D) in one array, rows of NaN (or what the type has instead) at the ends."""
    longest = max((len(table) for table in tables), default=0)
    width = max((table.shape[1] for table in tables), default=1)
    dtype = np.result_type(*tables, np.float16) if tables else float
    if not all(np.issubdtype(table.dtype, np.number) for table in tables):
        dtype = object
    array = np.full((len(tables), longest, width), np.nan, dtype=dtype)
    for i, table in enumerate(tables):
        array[i, : len(table), : table.shape[1]] = table
    return array
