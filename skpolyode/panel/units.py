"""Units of models, and conversion from and to those of users.

Values that are no measurements are found here too: those too far from all others, and numbers that
stand for "not observed".
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np

from skpolyode.errors import FaultKind, Faults
from skpolyode.panel.checks import note_cells
from skpolyode.panel.panel import Panel
from skpolyode.panel.rows import Rows, series_index
from skpolyode.panel.select import hide_cells, observed_part
from skpolyode.saving.codec import saved

# In half widths of the central 90 % of a channel. A cell further than _DOUBTFUL from the median is
# doubtful, if it is also _JUMP times as far as all nearer ones. In sets of 300 log-normal values of
# sigma 1 this happens in 1 %.
_DOUBTFUL, _JUMP = 10.0, 5.0
_FAULTY = 30.0  # times the distance from which cells are doubtful
_VAGUE = 1e3  # a cell with a larger error has no information
OUTLIER = FaultKind(
    "values far from all others",
    "such values are taken as not observed; correct them, or fit on more series that have them",
)
DOUBTFUL = FaultKind(
    "values that may be faults",
    "such values are used as they are; correct them, or make them NaN if they are no measurements",
)
_NOTHING_LEFT = FaultKind(
    "series far from all that fit has seen",
    "give them in the units of fit, fit on series like them, or leave them out",
)


class CheckedCells(NamedTuple):
    """Masks (P, D) of cells without information, of faulty and of doubtful ones."""

    vague: np.ndarray
    faulty: np.ndarray
    doubtful: np.ndarray

    @property
    def hidden(self) -> np.ndarray:
        """Mask (P, D) of cells that are taken as not observed."""
        return self.vague | self.faulty


@saved(lowest="D inf", highest="D inf", vaguest="D unsigned inf", floor="D inf", ceiling="D inf")
class CellLimits(NamedTuple):
    """Limits of the cells of each channel, beyond which they are taken as not observed.

    They are learned once, from all series of `fit`, and kept with the model: later methods and
    streams accept all cells that `fit` accepted. At most one value in a thousand, but at least one,
    may be an outlier; if more are as far out, the channel has heavy tails.

    Parameters
    ----------
    lowest, highest : float64 ndarray of shape (D,)
        Least and largest credible value; infinite if the central 90 % of the channel are equal.
    vaguest : float64 ndarray of shape (D,)
        Largest useful known error; infinite if the central 90 % of the channel are equal.
    floor, ceiling : float64 ndarray of shape (D,)
        Bounds of paths, forecasts, intervals and samples: those of `Panel.with_limits`, or else 0
        for a channel that was never below 0, or never above it, in at least as many values as the
        median series has rows; otherwise infinite.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.units import CellLimits
    >>> limits = CellLimits.of(Panel.from_array([[0.0, 1.0, 2.0, 3.0]] * 5))
    >>> limits.highest.tolist()
    [451.5]
    >>> limits.floor.tolist()
    [0.0]
    """

    lowest: np.ndarray
    highest: np.ndarray
    vaguest: np.ndarray
    floor: np.ndarray
    ceiling: np.ndarray

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # values near the largest float
    def of(cls, panel: Panel, *, of_values: bool = True) -> Self:
        """Limits from the cells of a panel; `lowest` and `highest` only if `of_values`."""
        values = panel.values
        half = _middle(values)[1]
        vaguest = np.where(half > 0, _VAGUE * half, np.inf)
        if panel.errors is not None:
            values = np.where(panel.errors > vaguest, np.nan, values)
        middle, half = _middle(values)
        reach = np.full(len(half), np.inf)
        for j in np.flatnonzero((half > 0) & of_values):
            away = np.abs(values[~np.isnan(values[:, j]), j] - middle[j])
            nearest, doubtful = -1 - max(1, len(away) // 1000), _DOUBTFUL * half[j]
            far = np.sort(np.partition(away, nearest)[nearest:])
            jumps = far[1:] > np.maximum(_JUMP * far[:-1], doubtful)
            credible = far[jumps.argmax()] if jumps.any() else far[-1]
            reach[j] = _FAULTY * max(_JUMP * credible, doubtful)
        low, high = (np.where(np.isfinite(reach), middle + s * reach, s * np.inf) for s in (-1, 1))
        values = np.where((values < low) | (values > high), np.nan, values)
        counts, varied = (~np.isnan(values)).sum(axis=0), (np.nan_to_num(values) != 0).any(axis=0)
        is_known = (counts >= np.median(panel.lengths)) & varied
        beyond = [(s * values > 0).any(axis=0) for s in (-1, 1)]
        ends = [np.where(is_known & ~beyond[k], 0.0, s * np.inf) for k, s in enumerate((-1, 1))]
        for j, name in enumerate(panel.channel_names):
            if name in panel.rows.limits:
                ends[0][j], ends[1][j] = panel.rows.limits[name]
        return cls(low, high, vaguest, *ends)

    def kept_by(self, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
        """Floor and ceiling (n, D) of each series; infinite if its values are beyond them."""
        floor, ceiling, filled = self.floor, self.ceiling, panel.lengths > 0
        least, most = np.full((2, panel.n_series, panel.n_channels), np.nan)
        for found, f in ((least, np.fmin), (most, np.fmax)):
            found[filled] = f.reduceat(panel.values, panel.offsets[:-1][filled])
        return np.where(least < floor, -np.inf, floor), np.where(most > ceiling, np.inf, ceiling)

    @np.errstate(over="ignore", invalid="ignore")
    def judge(self, values: np.ndarray, errors: np.ndarray | None) -> CheckedCells:
        """Masks of the cells of values (P, D) with NaN, and of their known errors, if any.

        A cell is not doubtful if its known error explains its distance.
        """
        reach = self.highest / 2 - self.lowest / 2
        away = np.abs(values - np.where(np.isfinite(reach), self.lowest + reach, 0.0))
        faulty = (away > reach) & np.isfinite(values)
        doubtful, vague = (away > reach / _FAULTY) & (away <= reach), np.zeros(values.shape, bool)
        if errors is not None:
            vague = errors > self.vaguest
            doubtful &= ~(away <= _JUMP * errors)
        return CheckedCells(vague, faulty & ~vague, doubtful & ~vague)


def clipped(values: np.ndarray, floor: np.ndarray, ceiling: np.ndarray) -> np.ndarray:
    """Values between two arrays; minus zero becomes zero."""
    return np.clip(values, floor, ceiling) + 0.0


def _middle(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median and half the width of the central nine tenths of the columns of values (P, D)."""
    with warnings.catch_warnings():  # channels without any value
        warnings.simplefilter("ignore", RuntimeWarning)
        low, middle, high = np.nanquantile(values, [0.05, 0.5, 0.95], axis=0)
    return middle, high / 2 - low / 2


def within_limits(panel: Panel, limits: CellLimits | None, name: str = "X") -> Panel:
    """Take cells beyond limits as not observed, with a warning that names them.

    Doubtful cells stay, with a warning. Each cell is judged by itself, so that a stream, which sees
    one at a time, gives the same result. A series without any cell left raises a ValueError: its
    unit probably differs.
    """
    if limits is None:
        return panel
    judged = limits.judge(panel.values, panel.errors)
    if not any(map(np.any, judged)):
        return panel
    why = "all errors are a thousand times as large as values vary"
    panel = _with_rest(panel, judged.vague, name, why)
    found = _with_rest(panel, judged.faulty, name, "all values are far from those of fit")
    faults = Faults(name, panel.ids, panel.channel_names)
    note_judged(judged, panel.rows, faults)
    faults.warn_if_any(stacklevel=5)
    return found


def credible_part(panel: Panel, limits: CellLimits | None) -> Panel:
    """Part of a panel that `within_limits` takes as observed, without its warnings.

    For estimators around a transformer that has read the panel by these limits.
    """
    if limits is None or not (hidden := limits.judge(panel.values, panel.errors).hidden).any():
        return panel
    return observed_part(hide_cells(panel, hidden))


def note_judged(judged: CheckedCells, rows: Rows, faults: Faults) -> None:
    """Add faulty and doubtful cells."""
    note_cells(OUTLIER, judged.faulty, "{:g} is far from all others", rows, faults)
    rule = "{:g} may be a fault: it is far from others"
    note_cells(DOUBTFUL, judged.doubtful, rule, rows, faults)


def _with_rest(panel: Panel, hidden: np.ndarray, name: str, why: str) -> Panel:
    """Panel without hidden cells; a ValueError for a series without any cell left."""
    if not hidden.any():
        return panel
    found = hide_cells(panel, hidden)
    lost = np.flatnonzero((panel.rows.n_observed > 0) & (found.rows.n_observed == 0))
    if len(lost) and not panel.rows.keeps_empty:
        faults = Faults(name, panel.ids, panel.channel_names)
        faults.add_each(_NOTHING_LEFT, lost, lambda i: f"{faults.series(i)}: {why}")
        faults.raise_if_any()
    return found


# A code occurs at least _FEWEST times. Its distance from the median of all other values is more
# than _FARTHER times that of the nearest one on its side, and half the width of their central 90 %.
# The others have at least _LEVELS levels, unlike classes and settings. No code was found in 350
# channels of bundled and public sets, nor in 3300 simulated ones (counts, rain, heavy tails, sensor
# limits, machines at rest). -999 in 5 % of cells was found in 253 of 272 channels that vary less.
_FEWEST, _FARTHER, _LEVELS = 3, 5.0, 10


def codes_of(values: np.ndarray) -> list[tuple[float, int]]:
    """Codes among the values (P,) of a channel, each with its number of occurrences.

    A code is the least or the largest value. Zero is never a code: counts often are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel.units import codes_of
    >>> codes_of(np.r_[np.arange(60.0), [-999.0] * 5])
    [(-999.0, 5)]
    """
    values, found = values[~np.isnan(values)], []
    for end in (np.min, np.max):
        while len(values) > _LEVELS and (code := float(end(values))) != 0:
            others = values[values != code]
            count = len(values) - len(others)
            if count < _FEWEST or not len(others):
                break
            low, middle, high = np.quantile(others, [0.05, 0.5, 0.95])
            near = max(abs(float(end(others)) - middle), high / 2 - low / 2)
            if not abs(code - middle) > _FARTHER * near or len(np.unique(others)) < _LEVELS:
                break
            found.append((code, count))
            values = others
    return found


def warn_of_codes(panel: Panel, name: str = "X") -> None:
    """Warn of numbers that repeat exactly, far from all other values of their channel."""
    faults = Faults(name, panel.ids, panel.channel_names)
    each = [(j, *one) for j in range(panel.n_channels) for one in codes_of(panel.values[:, j])]
    if not each:
        return
    codes = ", ".join(map(_text, sorted({code for _, code, _ in each})))
    kind = FaultKind(
        "numbers that may be codes",
        f"if they mean 'not observed', make them NaN, or pass missing=[{codes}] to "
        "Panel.from_long, Panel.from_series, ...; as values they set the scale of their channels",
    )
    lines = [
        f"{faults.channel(j)} is {_text(code)} in {count} cells, far from all others"
        for j, code, count in each
    ]
    faults.add(kind, lines)
    faults.warn_if_any(stacklevel=5)


def _text(code: float) -> str:
    return repr(code).removesuffix(".0")


LARGEST = 1e304  # in the user's units: differences of such values are still finite
_N_WEIGHINGS = 4  # iterations of weights of cells, from their errors and the channel's spread
_FURTHEST = 1e100  # standard deviations from the mean: products and slopes are still finite


@saved(mean="D", scale="D positive", observed="D", limits="D")
class ChannelScaler(NamedTuple):
    """Mean and standard deviation of each channel.

    Channels are scaled, not single coefficients: these are orthonormal, so that their Euclidean
    distance is the distance between histories, as long as they have a common scale.

    Parameters
    ----------
    mean : float64 ndarray of shape (D,)
        In the user's units.
    scale : float64 ndarray of shape (D,)
        Standard deviations; 1 for constant channels.
    observed : bool ndarray of shape (D,) or None, default=None
        Mask of the channels observed in training; None if all were. The others have the mean 0 and
        the scale 1, and their later values are ignored.
    limits : CellLimits or None, default=None
        Limits of cells; the model ignores cells beyond them.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel.units import ChannelScaler
    >>> scaler = ChannelScaler.of(np.array([[1.0], [np.nan], [3.0]]))
    >>> scaler.transform(np.array([[4.0]])).tolist()
    [[2.0]]
    """

    mean: np.ndarray
    scale: np.ndarray
    observed: np.ndarray | None = None
    limits: CellLimits | None = None

    @classmethod
    def of(
        cls,
        values: np.ndarray,
        *,
        errors: np.ndarray | None = None,
        limits: CellLimits | None = None,
    ) -> ChannelScaler:
        """Scaler of values (P, D) with NaN; safe for any finite size of the values.

        With `errors` (P, D), NaN where not known, cells are weighted by their inverse variances.
        """
        observed = ~np.isnan(values)
        size = np.where(observed, np.abs(values), 0.0).max(axis=0, initial=0.0)
        size = np.where(size > 0, size, 1.0)
        relative = np.where(observed, values / size, 0.0)
        mean, scale = _moments(relative, observed)
        if errors is not None:
            noise = np.nan_to_num(np.minimum(errors / size, _FURTHEST)) ** 2
            weights = observed.astype(np.float64)
            for _ in range(_N_WEIGHINGS):
                mean_noise = (weights * noise).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
                signal = np.maximum(scale**2 - mean_noise, 1e-3 * scale**2)
                weights = observed / np.maximum(signal + noise, np.finfo(np.float64).tiny)
                weights = weights / np.maximum(weights.max(axis=0), 1e-300)
                mean, scale = _moments(relative, weights)
        # The variation of a constant channel is rounding; do not amplify it.
        scale = np.where(scale > 1e-13, scale, 1.0)
        scale = np.maximum(scale * size, np.finfo(np.float64).tiny)
        known = observed.any(axis=0)
        return cls(mean * size, scale, None if known.all() else known, limits)

    def is_too_far(self, values: np.ndarray) -> np.ndarray:
        """Mask of values too large to compute with, absolutely or relative to those of `fit`."""
        reach = np.minimum(self.scale, 10 * LARGEST / _FURTHEST) * _FURTHEST
        lowest = np.maximum(self.mean - reach, -LARGEST)
        return (values < lowest) | (values > np.minimum(self.mean + reach, LARGEST))

    def known(self, values: np.ndarray, other: float = np.nan) -> np.ndarray:
        """Values (P, D), `other` ones in channels never observed in training."""
        return values if self.observed is None else np.where(self.observed, values, other)

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Values in standard deviations from the mean."""
        return (values - self.mean) / self.scale

    def read(self, values: np.ndarray) -> np.ndarray:
        """Standardised values for models, NaN in channels never observed in training."""
        return self.transform(self.known(values))

    def limits_of(self, panel: Panel) -> Iterable[np.ndarray]:
        """Floor and ceiling (n, D) of series; see `CellLimits.kept_by`."""
        if self.limits is not None:
            return self.limits.kept_by(panel)
        return np.multiply.outer((-np.inf, np.inf), np.ones((len(panel), panel.n_channels)))

    def within_limits(self, values: np.ndarray, panel: Panel, offsets: np.ndarray) -> np.ndarray:
        """Values (..., Q, D) of series, by offsets, in the user's units, within their limits."""
        return clipped(values, *(end[series_index(offsets)] for end in self.limits_of(panel)))

    def at_mean(self, values: np.ndarray) -> np.ndarray:
        """Standardised values (..., D), 0 in channels never observed in training."""
        return values if self.observed is None else values * self.observed

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Values in the user's units."""
        return values * self.scale + self.mean


def _moments(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and standard deviation (D,) of columns (P, D)."""
    total = weights.sum(axis=0)
    total = np.where(total > 0, total, 1.0)
    mean = (x * weights).sum(axis=0) / total
    return mean, np.sqrt(((x - mean) ** 2 * weights).sum(axis=0) / total)


class Standardised(NamedTuple):
    """Rows of series in the units of a model.

    Parameters
    ----------
    times : float64 ndarray of shape (P,)
        Times since the first row of the series.
    values : float64 ndarray of shape (P, D)
        In standard deviations from the mean, NaN where not observed.
    offsets : int64 ndarray of shape (B + 1,)
        Where the rows of each series start.
    driven : float64 ndarray of shape (P, F)
        Responses to inputs at the rows; F = 0 if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel.units import Standardised
    >>> times, values = np.array([0.0, 1.0]), np.array([[-1.0], [np.nan]])
    >>> rows = Standardised(times, values, np.array([0, 2]), np.empty((2, 0)))
    >>> int(np.isnan(rows.values).sum())
    1
    """

    times: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    driven: np.ndarray


@saved(scaler="D", time_scale="positive")
class Units(NamedTuple):
    """Conversion between the user's units and those of a model.

    Parameters
    ----------
    scaler : ChannelScaler
        Values are in standard deviations of their channels.
    time_scale : float
        The model's unit of time, in the units of `times`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel.units import ChannelScaler, Units
    >>> Units(ChannelScaler(np.zeros(1), np.ones(1)), time_scale=60.0).time_scale
    60.0
    """

    scaler: ChannelScaler
    time_scale: float

    @classmethod
    def of(cls, panel: Panel, time_scale: float, limits: CellLimits | None = None) -> Self:
        """Units from training series; see `ChannelScaler.of`."""
        return cls(ChannelScaler.of(panel.values, errors=panel.errors, limits=limits), time_scale)
