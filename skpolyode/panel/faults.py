"""The table of all faults that an input of series can have, each with its remedy."""

from __future__ import annotations

from skpolyode.errors import FaultKind

UNSORTED = FaultKind("times out of order", "pass sort=True to sort every series by time")
DUPLICATE = FaultKind(
    "duplicate times",
    'pass duplicates="mean", "first" or "last" to merge rows of equal time',
)
BAD_TIME = FaultKind("missing or infinite times", "drop these rows or repair their times")
INFINITE = FaultKind("infinite values", "replace them by NaN, which means not observed")
TOO_LARGE = FaultKind(
    "values too large to compute with",
    "repair their unit, or replace them by NaN, which means not observed",
)
UNOBSERVED = FaultKind("series without any observation", "leave these series out")
NOT_NUMERIC = FaultKind(
    "cells that are not numbers",
    "convert them to numbers (for example one-hot columns), or to NaN where not observed",
)
LENGTHS = FaultKind("times and values of different length", "give one time for each row of values")
SHAPE = FaultKind(
    "wrong number of dimensions",
    "give times of shape (L,) and values of shape (L,) or (L, D)",
)
CHANNELS = FaultKind(
    "different numbers of channels",
    "give every series the same channels, with NaN where one was not observed",
)
COLUMNS = FaultKind(
    "different channel names",
    "give every frame the same columns in the same order, with frame.reindex(columns=...)",
)
IDS = FaultKind("ids that do not fit", "give one unique id for each series")
NAMES = FaultKind("channel names that do not fit", "give one unique name for each channel")
STATIC = FaultKind(
    "static rows that do not fit", "give one row for each series, indexed by the ids"
)
NOT_CONSTANT = FaultKind(
    "static columns that vary",
    "keep in `static` only columns that are constant in each series",
)
