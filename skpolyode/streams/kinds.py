"""The kinds of streams: of sequence models, and of polynomial memories of the observations.

An update of a model is a flow over the gap, then an observation.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from skpolyode.embedders import ModelEmbedder, PathEmbedder
from skpolyode.embedders.base import Known, take_known
from skpolyode.embedders.model import Ends
from skpolyode.embedders.paths import split_channels
from skpolyode.errors import check_switch
from skpolyode.futures.continued import Ahead, Future, LastCells, draw_courses, read_until
from skpolyode.futures.samples import SamplePaths
from skpolyode.futures.spread import spread_after, spread_at
from skpolyode.models import Packed
from skpolyode.models.contract import State, select
from skpolyode.models.single import Observation, SingleMemory, SinglePolyODE
from skpolyode.panel import Panel, series_index
from skpolyode.panel.query import edge
from skpolyode.panel.select import series_of_rows
from skpolyode.panel.units import Standardised, clipped
from skpolyode.streams.panels import at_times
from skpolyode.streams.stream import SeriesStream, Update

# Parts that a stream keeps in addition to the model's state, one row per series:
_STATIC = "static"  # standardised static covariates
_POSTERIOR = "posterior"  # variances after the last observations, of a filter with known errors
_DRIVEN = "driven"  # responses to inputs, NaN before the first observation
_KNOWN = "known."  # prefix of the state of the combiner
_SPREAD = "spread"  # statistics (n, D, K) that errors of forecasts depend on
_STRUCTURAL = (
    "forecasts learned from few series have structural models of whole series, which a stream does "
    "not keep: ask the PolyODEForecaster itself for their errors, with all rows so far."
)
_PARTS = (_SPREAD, "now", "noisy", "floor", "ceiling")  # the others are the fields of `LastCells`


class ModelStream(SeriesStream):
    """State of a trained model for each series, updated one observation at a time.

    Made by the `stream` of `PolyODETransformer` and its siblings. Its results always equal those of
    the transformer for all observations so far, up to rounding. The time of an update does not
    depend on the number of observations: only the state at the last one is kept.

    Parameters
    ----------
    embedder : ModelEmbedder
        A trained model with its units.
    panel : Panel
        Labels of the series; its rows are not read.
    keep : int, float, timedelta, str or None, default=None
        How far `insert`, `correct` and `retract` may go back: an int number of rows of each series,
        or a duration; floats are in the units of `times`. None: not at all, in less memory.

    Attributes
    ----------
    n_series : int
        Number of series.
    n_observations : int64 ndarray of shape (n_series,)
        Observations of each series so far.
    last_times : float64 ndarray or DatetimeIndex of shape (n_series,)
        Time of the last one, NaN before the first.

    See Also
    --------
    HiPPOStream : Streams with a polynomial memory of the observations.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import PolyODETransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> transformer = PolyODETransformer(n_coefficients=8, max_epochs=5, random_state=0).fit(series)
    >>> stream = transformer.stream(6)
    >>> for t, x in zip(*series[4]):
    ...     stream = stream.update(t, x, series=4)
    >>> bool(abs(stream.embedding(4) - transformer.transform(series[4:5])).max() < 1e-12)
    True
    >>> stream.forecast([6.5, 7.0], series=4)
    Panel(1 series, 1 channel, 2 observations, 100% of cells observed, times 6.5 to 7)
    """

    _embedder: ModelEmbedder

    def forecast(
        self,
        times: Any = None,
        series: Any = None,
        relative_to: str | None = None,
        combine: bool = True,
    ) -> Panel:
        """Continue the series beyond their last observation, under the inputs known so far.

        Parameters
        ----------
        times : array-like of shape (Q,) or list of such, default=None
            Times from the last observation on, for all of the series or for each. Required.
        series : int, str, array-like of such or None, default=None
            Series, by position or by id; None means all.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from: the first or the last observation of each series; they are then
            numbers, or timedeltas for series with datetimes. None: absolute times, like those of
            the series.
        combine : bool, default=True
            Whether to combine the model with simple forecasts, as in the transformer. False: the
            forecast of the model alone.

        Returns
        -------
        Panel
            All channels at these times.

        Raises
        ------
        ValueError
            If a time is before the last observation of its series, or a series has not been
            observed.
        """
        check_switch("combine", combine)
        chosen = self._started(series)
        panel, flat, offsets = self._asked(chosen, times, relative_to)
        values = self._embedder.continued(self._ends(chosen, combine), flat, offsets)
        found, place = self._embedder.units.scaler.inverse(values), chosen[series_index(offsets)]
        limits = (self._parts[name].cpu().numpy()[place] for name in _PARTS[-2:])
        return panel.like(flat, clipped(found, *limits), offsets)

    def _ends(self, chosen: np.ndarray, combine: bool = True) -> Ends:
        """Where series end: their panel only has the last rows."""
        state, clock = self._states(chosen), self._clock.take(chosen)
        panel = at_times(self._panel[chosen], clock.last, np.arange(len(chosen) + 1))
        ends = Ends(panel, clock.start, partial(select, state))
        if not combine or self._embedder.stacking is None:
            return ends
        driven = self._parts[_DRIVEN].cpu().numpy()[chosen]
        return ends._replace(known=take_known(_known(self._parts), chosen), driven=driven)

    def sample_paths(
        self,
        times: Any = None,
        series: Any = None,
        relative_to: str | None = None,
        *,
        n_samples: int = 200,
        random_state: Any = None,
    ) -> SamplePaths:
        """Sample futures of the series: whole paths, joint in time and across channels.

        Parameters
        ----------
        times : array-like of shape (Q,) or list of such, default=None
            Times from the last observation on, as in `forecast`. Required.
        series : int, str, array-like of such or None, default=None
            Series, by position or by id; None means all.
        relative_to : {"start", "end"} or None, default=None
            As in `forecast`.
        n_samples : int, default=200
            Number of samples. At most 500 different error paths are known.
        random_state : int, RandomState, Generator or None, default=None
            Draws the error paths.

        Returns
        -------
        SamplePaths
            As from the transformer's `sample_paths` for all rows so far.

        Raises
        ------
        ValueError
            If a time is before the last observation of its series, or a series has not been
            observed.
        """
        chosen, futures = self._futures(series, n_samples, random_state)
        return futures.paths(*self._asked(chosen, times, relative_to)[1:])

    def crossing_times(
        self,
        threshold: float,
        until: Any,
        series: Any = None,
        relative_to: str | None = None,
        *,
        channel: str | int | None = None,
        direction: str = "above",
        coverage: float = 0.9,
        n_samples: int = 500,
        random_state: Any = 0,
    ) -> pd.DataFrame:
        """When the series will first reach a line, and how probable that is.

        Parameters
        ----------
        threshold : float
            The line, in the units of the channel.
        until : scalar or array-like of shape (n_series,)
            How far to look: a time after the last observation, for all of the series or for each.
        series : int, str, array-like of such or None, default=None
            Series, by position or by id; None means all.
        relative_to : {"start", "end"} or None, default=None
            What `until` counts from, as in `forecast`.
        channel : str, int or None, default=None
            Which channel, by name or position. None: the only one.
        direction : {"above", "below"}, default="above"
            The side of the line that counts as crossed.
        coverage : float, default=0.9
            Probability of the window from the earliest to the latest time.
        n_samples : int, default=500
            Number of samples.
        random_state : int, RandomState, Generator or None, default=0
            Draws the error paths.

        Returns
        -------
        DataFrame
            As from the transformer's `crossing_times` for all rows so far.

        Raises
        ------
        ValueError
            If `until` is not after the last observation of a series, a series has not been
            observed, the line is far from all values of the channel, or the channel or the
            direction is not valid.
        """
        chosen, futures = self._futures(series, n_samples, random_state)
        clock = self._clock.take(chosen)
        last = read_until(futures.panel, until, edge(relative_to, clock.start, clock.last))
        return futures.crossings(threshold, last, channel, direction, coverage)

    def forecast_std(self, times: Any, series: Any = None, relative_to: str | None = None) -> Panel:
        """Standard deviation of the forecast, as from `interpolate_std` of the transformer.

        Parameters
        ----------
        times : array-like of shape (Q,) or list of such
            Times from the last observation on, as in `forecast`.
        series : int, str, array-like of such or None, default=None
            Series, by position or by id; None means all.
        relative_to : {"start", "end"} or None, default=None
            As in `forecast`.

        Returns
        -------
        Panel
            Standard deviations of the signal, in the units of the channels, at these times.

        Raises
        ------
        ValueError
            If a time is before the last observation of its series, or a series has not been
            observed.
        """
        if (errors := self._embedder.path_errors) is None:
            raise ValueError("errors of paths are not known: fit again, with this version.")
        chosen, futures = self._futures(series, 1, 0)
        panel, flat, offsets = self._asked(chosen, times, relative_to)
        half = futures.half_widths(flat, offsets, errors.level)
        least = None
        if self._has_posterior:
            after = self._parts[_POSTERIOR] * self._model.gain.noise.square()
            least = np.repeat(after.sqrt().double().cpu().numpy()[chosen], np.diff(offsets), axis=0)
        std = futures.units.scaler.scale * errors.of_signal(half, least)
        return panel.like(flat, std, offsets)

    def _bind(self) -> None:
        self._model = self._embedder.exact
        vars(self).pop("_single", None)
        gain = self._model.gain
        self._has_posterior = gain is not None and gain.known_errors == "each"

    @cached_property
    def _single(self) -> SinglePolyODE | None:
        """The model for one series at a time; it and its tables are made on first use."""
        return self._model.single

    def _blank(self) -> State:
        static = np.empty((self._panel.n_series, 0))
        if self._embedder.static is not None:
            static = self._embedder.static.transform(self._panel)
        nothing = np.full((len(static), self._panel.n_channels), np.nan)
        _, update = self._clock.move(nothing[:, 0], nothing, unit=1.0)
        data = self._pack(update, {_STATIC: torch.from_numpy(static)})
        with torch.no_grad():
            state = self._model.initial(data, data.series) | {_STATIC: data.static}
        if self._embedder.stacking is not None:
            driven = np.full((len(nothing), self._embedder.n_responses), np.nan)
            state |= self._combined(self._embedder.stacking.start(*nothing.shape), driven)
        ends = self._embedder.units.scaler.limits_of(self._panel.without_rows())
        cells, rows = LastCells(nothing, np.isfinite(nothing), *ends), np.arange(len(nothing) + 1)
        state |= self._last_cells(cells, nothing, rows, rows[:-1])
        if self._has_posterior:
            state[_POSTERIOR] = torch.zeros_like(data.channel_gap)
        # Updates write to it, and a state may be a view of weights that all series share.
        return {name: part.clone() for name, part in state.items()}

    def _resume(self, panel: Panel) -> State:
        parts = self._parts | self._embedder.states(panel)
        if self._embedder.stacking is not None:
            since = (self._clock.last - self._clock.start) / self._embedder.units.time_scale
            driven = self._embedder.responses(panel, since, np.arange(len(since)))
            parts |= self._combined(self._embedder.known(panel), driven)
        rows = self._embedder.standardised(panel).values, panel.offsets, panel.offsets[1:] - 1
        last = LastCells.of(panel, self._embedder.units, self._embedder.filters)
        parts |= self._last_cells(last, *rows)
        if self._has_posterior:
            parts[_POSTERIOR] = self._model.gain.follow(self._embedder.pack(panel))[1]
        return parts

    def _take_in(self, parts: State, update: Update) -> State:
        state, model, share = _of_model(parts), self._model, None
        noisy, is_one = update.errors is not None or self._has_posterior, len(update.values) == 1
        if noisy or not is_one or self._single is None:
            data = self._pack(update, parts)
        if noisy:
            share = model.share(data, data.series)
        if is_one and self._single is not None:
            one = {name: part[0].numpy() for name, part in state.items()}
            gains = None if share is None else share[0].numpy()
            observation = Observation(*(column[0] for column in update[:6]), gains)
            moved = self._single.take_in(one, observation, parts[_STATIC][0].numpy())
            state = {name: torch.from_numpy(part)[None] for name, part in moved.items()}
        else:
            if (gap := update.driven_gap) is None:
                before = model.flow_where(data.elapsed > 0, state, data.gap, data.elapsed)
            else:
                before = gap.follow(model, state)
                data = replace(data, inputs=gap.course.inputs[gap.target])
            state = model.observe(before, data, data.series)
        state = state | {_STATIC: parts[_STATIC]}
        if self._has_posterior:
            columns = data.channel_gap, data.seen, data.error, data.posterior
            after = model.gain.posterior_after(*columns)
            state[_POSTERIOR] = torch.where(data.mask, after, data.posterior)
        return state | self._known_after(parts, update)

    def _known_after(self, parts: State, update: Update) -> State:
        """Parts of the combiner and of last cells after one more observation of each series."""
        values, known = update.values, {}
        noisy = np.full(values.shape, self._embedder.filters)
        if update.errors is not None:
            values = self._embedder.without_noisy(values, update.errors)
            noisy |= update.errors > 0
        if self._embedder.stacking is not None:
            driven = parts[_DRIVEN].cpu().numpy()
            if update.driven_gap is not None:
                asked = update.driven_gap.panel, update.gap, np.arange(len(update.gap))
                driven = self._embedder.responses(*asked, driven)
            rows = Standardised(update.elapsed, values, np.arange(len(values) + 1), driven)
            known = self._combined(self._embedder.stacking.updated(_known(parts), rows), driven)
        floor, ceiling = (parts[name].cpu().numpy() for name in _PARTS[-2:])
        scaler, x = self._embedder.units.scaler, update.values
        floor = np.where(x < scaler.transform(floor), -np.inf, floor)
        ceiling = np.where(x > scaler.transform(ceiling), np.inf, ceiling)
        known |= self._last_cells(LastCells(x, noisy, floor, ceiling))
        if self._embedder.calibration is not None:
            spread = spread_after(parts[_SPREAD].cpu().numpy(), values)
            known[_SPREAD] = torch.from_numpy(spread).to(self._embedder.device)
        return known

    def _futures(self, series: Any, n_samples: int, random_state: Any) -> tuple[np.ndarray, Future]:
        """Positions (n,) of the selected series, and these, continued with drawn error paths."""
        if getattr(self._embedder.stacking, "structural", None) is not None:
            raise ValueError(_STRUCTURAL)
        known = draw_courses(self._embedder.calibration, n_samples, random_state)
        chosen = self._started(series)
        last = LastCells(*(self._parts[name].cpu().numpy()[chosen] for name in _PARTS[1:]))
        panel, model = self._ends(chosen).panel, self._embedder

        def outlook(part: Any, times: np.ndarray, offsets: np.ndarray) -> Ahead:
            clock, series = self._clock.take(chosen[part]), series_index(offsets)
            age = np.where(np.isnan(clock.seen_at), np.inf, clock.elapsed[:, None] - clock.seen_at)
            since = times - clock.last[series]
            leads = since[:, None] + model.units.time_scale * age[series]
            spread = self._parts[_SPREAD].cpu().numpy()[chosen[part]]
            return model.outlook_from(self._ends(chosen[part]), times, offsets, leads, spread)

        return chosen, Future(panel, last, model.units, *known, outlook)

    def _last_cells(self, last: LastCells, *rows: np.ndarray) -> State:
        """Parts for last cells and, from all `rows`, for the spread of errors that are known."""
        parts, device = dict(zip(_PARTS[1:], last, strict=True)), self._embedder.device
        if rows and self._embedder.calibration is not None:
            parts[_SPREAD] = spread_at(*rows)
        return {name: torch.from_numpy(part.copy()).to(device) for name, part in parts.items()}

    def _combined(self, known: Known, driven: np.ndarray) -> State:
        """Parts for the state of the combiner and the responses to inputs."""
        found, device = {_KNOWN + name: part for name, part in known.items()}, self._embedder.device
        return {k: torch.from_numpy(x).to(device) for k, x in (found | {_DRIVEN: driven}).items()}

    def _pack(self, update: Update, parts: State) -> Packed:
        """An update in the form that the model reads."""
        values, *columns = update[:6]
        columns = map(torch.from_numpy, (np.where(update.mask, values, 0.0), *columns))
        series = torch.arange(len(values), device="cpu")
        following = torch.full_like(series, -1)
        data = Packed([[len(values)]], *columns, following, series, parts[_STATIC])
        if update.errors is not None or self._has_posterior:
            errors = np.full_like(values, np.nan) if update.errors is None else update.errors
            data = replace(data, error=torch.from_numpy(errors), posterior=parts.get(_POSTERIOR))
        device = self._embedder.device
        return data if device.type == "cpu" else data.to(device, torch.float64)

    def _coefficients(self, series: np.ndarray) -> np.ndarray:
        return self._embedder.coefficients_of(self._states(series))

    def _features(self, series: np.ndarray) -> np.ndarray:
        return self._embedder.features_of(self._states(series))

    def _states(self, series: np.ndarray) -> State:
        return select(_of_model(self._parts), torch.from_numpy(series))


def _of_model(parts: State) -> State:
    others = (_STATIC, _POSTERIOR, _DRIVEN, *_PARTS)
    return {k: x for k, x in parts.items() if k not in others and not k.startswith(_KNOWN)}


def _known(parts: State) -> Known:
    """State of the combiner for each series."""
    known = {k: x for k, x in parts.items() if k.startswith(_KNOWN)}
    return {name.removeprefix(_KNOWN): part.cpu().numpy() for name, part in known.items()}


class HiPPOStream(SeriesStream):
    """Polynomial memory of series, updated one observation at a time.

    Made by :meth:`HiPPOTransformer.stream`. Its results always equal those of the transformer for
    all observations so far, up to rounding. The time of an update does not depend on the number of
    observations: only the coefficients, the last value and the last times of each series are kept.

    Parameters
    ----------
    embedder : PathEmbedder
        Embedder with the path "linear" or "constant".
    panel : Panel
        Labels of the series; its rows are not read.
    keep : int, float, timedelta, str or None, default=None
        How far `insert`, `correct` and `retract` may go back: an int number of rows of each series,
        or a duration; floats are in the units of `times`. None: not at all, in less memory.

    Attributes
    ----------
    n_series : int
        Number of series.
    n_observations : int64 ndarray of shape (n_series,)
        Observations of each series so far.
    last_times : float64 ndarray or DatetimeIndex of shape (n_series,)
        Time of the last one, NaN before the first.

    See Also
    --------
    ModelStream : Streams that forecast as well.

    Examples
    --------
    >>> from skpolyode import HiPPOTransformer
    >>> series = [([0.0, 0.4, 1.5, 2.0], [1.0, 2.0, 2.0, 0.0]), ([0.0, 1.2, 2.0], [0.0, 3.0, 1.0])]
    >>> transformer = HiPPOTransformer(n_coefficients=4, window=2.0).fit(series)
    >>> stream = transformer.stream(2)
    >>> for times, values in zip([[0.0, 0.4], [1.5], [2.0]], [[1.0, 2.0], [2.0], [0.0]]):
    ...     stream = stream.update(times, values, series=0)
    >>> bool(abs(stream.embedding(0) - transformer.transform(series[:1])).max() < 1e-12)
    True
    """

    _embedder: PathEmbedder

    def _bind(self) -> None:
        self._memory = self._embedder.past.memory

    @cached_property
    def _single(self) -> SingleMemory:
        """The memory of one series; it and its tables are made on first use."""
        return SingleMemory(self._memory)

    def _blank(self) -> State:
        shape = self._panel.n_series, self._panel.n_channels
        size = self._memory.n_coefficients
        # Each channel's memory ends at its last observation. From there to the last one of the
        # series the value is held, until the next value of the channel turns it into a line.
        return {
            "c": torch.zeros(*shape, size, dtype=torch.float64, device="cpu"),
            "x": torch.zeros(shape, dtype=torch.float64, device="cpu"),
        }

    def _resume(self, panel: Panel) -> State:
        parts, (scaler, unit) = self._blank(), self._embedder.units
        times, values = panel.elapsed / unit, scaler.read(panel.values)
        for rows in split_channels(times, values, series_of_rows(panel)):
            end = np.zeros(panel.n_series)
            end[rows.series] = rows.times  # keeps the last of each series
            parts["c"][:, rows.channels] = torch.from_numpy(self._embedder.remembered(rows, end))
            x = np.zeros((panel.n_series, len(rows.channels)))
            x[rows.series] = rows.values
            parts["x"][:, rows.channels] = torch.from_numpy(x)
        return parts

    def _take_in(self, parts: State, update: Update) -> State:
        c, x = parts["c"].numpy().copy(), parts["x"].numpy()
        new = np.where(update.mask, update.values, x)
        first, again = update.mask & ~update.seen, update.mask & update.seen
        c[first, 0] = new[first]
        if again.any():
            known, gap = x[again], update.channel_gap[again]
            elapsed = np.broadcast_to(update.elapsed[:, None], again.shape)[again]
            steps = known[:, None, None]  # (P, 1, Q): of the value, and of the slope of a line
            if self._embedder.path != "constant":
                steps = np.stack([known, (new[again] - known) / gap], axis=1)[:, None]
            if len(x) == 1:
                propagate = self._single.propagate
                pairs = zip(c[again], gap, strict=True)
                moved = [propagate(one[None], g, elapsed[0])[0] for one, g in pairs]
                c[again] = moved + self._single.respond(steps, gap, elapsed[0])[:, 0]
            else:
                before, steps = torch.from_numpy(c[again][:, None]), torch.from_numpy(steps)
                when = torch.from_numpy(gap), torch.from_numpy(elapsed)
                moved = self._memory.propagate(before, *when) + self._memory.respond(steps, *when)
                c[again] = moved[:, 0].numpy()
        return {"c": torch.from_numpy(c), "x": torch.from_numpy(new)}

    def _coefficients(self, series: np.ndarray) -> np.ndarray:
        clock, index = self._clock.take(series), torch.from_numpy(series)
        c, x = self._parts["c"][index].flatten(0, 1), self._parts["x"][index].flatten()
        since = np.where(np.isnan(clock.seen_at), 0.0, clock.elapsed[:, None] - clock.seen_at)
        elapsed = torch.from_numpy(clock.elapsed).repeat_interleave(since.shape[1])
        held = self._memory.hold(c[:, None], x[:, None], torch.from_numpy(since.ravel()), elapsed)
        return held.view(*since.shape, -1).numpy()

    def _features(self, series: np.ndarray) -> np.ndarray:
        return self._coefficients(series).reshape(len(series), -1)
