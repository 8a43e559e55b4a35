"""Features and forecasts of a trained model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from skpolyode.embedders import smoother
from skpolyode.embedders.base import Embedder
from skpolyode.embedders.batching import lead_batches, map_threads
from skpolyode.embedders.trained_model import Known, TrainedModel, take_known
from skpolyode.embedders.variance import std_coefficients
from skpolyode.futures.continued import Ahead
from skpolyode.models.contract import State, select
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.select import observed_part, series_of_rows, take, time_since_seen
from skpolyode.saving.codec import saved
from skpolyode.threads import one_thread
from skpolyode.training import forecasting_mse


@saved(
    units="D",
    past="D",
    recent="D",
    stacking="D",
    calibration="D",
    waves="D unsigned",
    path_calibration="D",
    path_errors="D",
)
@dataclass(frozen=True, eq=False)
class ModelEmbedder(TrainedModel, Embedder):
    """Embeds and forecasts by a sequence model.

    Parameters
    ----------
    model : SequenceModel
        As it was trained, in float32.
    units : Units
        Units of the model.
    blocks : tuple of str, default=()
        Names of the model's features in the embedding, in this order; all if there are none. "std"
        as the last: coefficients of the standard deviation of the path, which need a `scale`.
    past : MemoryReadout or None, default=None
        Converts the model's "coefficients" to series, if it has such features.
    recent : MemoryReadout or None, default=None
        The memory from which the dynamics continue, for a model that forgets; None if a state
        depends on all observations.
    static : StaticEncoder or None, default=None
        Encodes the static covariates of the model.
    inputs : InputEncoder or None, default=None
        Encodes the inputs of the model.
    scale : VarianceHead or None, default=None
        Predictive variance; None if it has not been learned.
    stacking : Combiner or None, default=None
        Combines the model with simple forecasts; None if forecasts are those of the model alone.
    calibration : KnownErrors or None, default=None
        Errors of the combined forecasts; None if they have not been learned.
    waves : float64 ndarray of shape (D,) or None, default=None
        Weight, by channel, of the periodic fit to each series in its path between observations;
        None without such fits.
    path_calibration : PathCalibration or None, default=None
        Half widths of intervals around paths, which an embedder only stores. None if they have not
        been learned.
    path_errors : PathErrors or None, default=None
        Errors of paths between observations, also only stored.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import Panel, PolyODETransformer
    >>> times = np.linspace(0, 4, 9)
    >>> panel = Panel.from_series([(times, np.sin(times + k)) for k in range(5)])
    >>> transformer = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0)
    >>> embedder = transformer.fit(panel).embedder_
    >>> {name: tuple(part.shape) for name, part in embedder.states(panel).items()}
    {'z': (5, 37), 'c': (5, 1, 4), 'history': (5, 1, 4)}
    >>> embedder.forecast_values(panel, np.full(5, 4.5), np.arange(6)).shape
    (5, 1)
    """

    def coefficients(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of standardised channels, at each series' last observation."""
        return self.coefficients_of(self.states(panel))

    def features(self, panel: Panel) -> np.ndarray:
        """Features (B, F) of each series."""
        features = self.features_of(self.states(panel))
        if "std" in self.blocks:
            std = std_coefficients(self, panel).reshape(len(features), -1)
            features = np.column_stack([features, std])
        if self.past is None:
            return features
        return self.past.with_duration(features, panel.start, panel.end)

    def path_values(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Values (Q, D) of the smoothed path; forecasts after the last observations."""
        return smoother.path_values(self, panel, times, offsets)

    def residuals(self, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
        """One-step errors (n_obs, D), in the user's units and in expected standard deviations."""
        return smoother.residuals(self, panel)

    def mean_errors(self, panel: Panel) -> np.ndarray:
        """Mean squared ratio (B, 1) of errors to expected ones, by series; 0 without forecasts."""
        error = self.residuals(panel)[1]
        columns = np.nansum(error**2, axis=1), (~np.isnan(error)).sum(axis=1)
        series, n = series_of_rows(panel), panel.n_series
        sums, counts = (np.bincount(series, column, minlength=n) for column in columns)
        return (sums / np.maximum(counts, 1))[:, None]

    def forecasting_mse(self, panel: Panel) -> float:
        """Mean squared one-step error, in standardised units."""
        return forecasting_mse(self.exact, self.pack(observed_part(panel)))

    def forecast_values(
        self,
        panel: Panel,
        times: np.ndarray,
        offsets: np.ndarray,
        combine: bool = True,
        known: Known | None = None,
    ) -> np.ndarray:
        """Forecasts (Q, D) at times (Q,) after the series end, by offsets; stacked if `combine`.

        The result of `known` may be passed to save its computation.
        """
        end, values = panel.end, np.empty((len(times), panel.n_channels))
        if known is None and combine and self.stacking is not None:
            known = self.known(panel)

        def answer(batch: tuple[slice, slice, np.ndarray, np.ndarray]) -> None:
            part, where, leads, asked = batch
            durations, here = (end - panel.start)[part], panel[part]
            run = self.free_run(self.recent_states(here), durations, leads, here)
            if known is not None:
                elapsed = (durations[:, None] + leads) / self.units.time_scale
                driven = self.responses_ahead(here, elapsed)
                run = self.stacked(run, take_known(known, part), elapsed, driven)
            values[where] = self.units.scaler.inverse(run)[asked]

        map_threads(answer, list(lead_batches(panel, times, offsets, end)))
        return values

    def outlook(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        """Stacked forecasts and the predictors of their errors; see `forecast_values`."""
        last, known, series = panel.offsets[1:] - 1, self.known(panel), series_index(offsets)
        values = self.forecast_values(panel, times, offsets, known=known)
        since = self.elapsed(panel, times, series)
        expected = self.stacking.expected_errors(take_known(known, series), since)
        leads = time_since_seen(panel, last[series], times)
        known = self.calibration.known_at(self.standardised(panel).values, panel.offsets, last)
        signs = self.calibration.signs(known[series], expected)
        return Ahead(self.units.scaler.transform(values), leads, signs, np.ones(values.shape))

    def stacked(
        self, run: np.ndarray, known: Known, elapsed: np.ndarray, driven: np.ndarray
    ) -> np.ndarray:
        """Combined forecasts (B, Q, D), from free runs (B, Q, D) and the state of the combiner.

        Times `elapsed` (B, Q) count from the start of the series, and responses to inputs (B Q, F)
        are those at these times; all in the units of the model.
        """
        series = np.repeat(np.arange(len(run)), run.shape[1])
        given = {"run": run.reshape(len(series), -1)}
        flat = given, take_known(known, series), elapsed.ravel(), driven
        return self.units.scaler.at_mean(self.stacking.combine(*flat).reshape(run.shape))

    def responses_ahead(
        self, panel: Panel, since: np.ndarray, known: np.ndarray | None = None
    ) -> np.ndarray:
        """Responses (B Q, F) to inputs at times (B, Q) since the first rows; see `responses`."""
        series = np.repeat(np.arange(len(since)), since.shape[1])
        return self.responses(panel, since.ravel(), series, known)

    def free_run(
        self, states: State, durations: np.ndarray, leads: np.ndarray, panel: Panel
    ) -> np.ndarray:
        """Free run (B, Q, D) of the model, in standard deviations, from states after the last rows.

        The times are `leads` (B, Q) after these rows, and histories have `durations` (B,), in the
        user's units. Later inputs are those of the panel.
        """
        unit, n_rows = self.units.time_scale, panel.lengths
        since, elapsed = (torch.from_numpy(x / unit).to(self.device) for x in (leads, durations))
        with torch.no_grad(), one_thread():
            if self.inputs is None:
                mean = self.exact.look_ahead(states, since, elapsed).mean
            else:
                last = take(panel, np.arange(len(n_rows)), panel.offsets[1:] - 1, panel.offsets[1:])
                course = self.pack(last, ahead=leads.max(axis=1) / unit)
                mean = self.exact.look_ahead_under(course, states, since, elapsed)
        return self.units.scaler.at_mean(mean.cpu().numpy())

    def forecast_from(
        self,
        panel: Panel,
        origins: np.ndarray,
        times: np.ndarray,
        counts: np.ndarray,
        **others: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Combined forecasts (Q, D), in standard deviations, from the rows up to several origins.

        Also returns the size (Q, D) of the errors that simple forecasts expect.

        Parameters
        ----------
        panel : Panel
            Panel without empty rows.
        origins : int64 ndarray of shape (O,)
            Increasing indices among all rows of the panel.
        times : float64 ndarray of shape (Q,)
            Forecast times, on the clock of the panel, origin by origin.
        counts : int64 ndarray of shape (O,)
            Number of times for each origin.
        **others : dict of str to float64 ndarray of shape (Q, D)
            Further forecasts to combine, such as "structural" ones.
        """
        run = self.runs_from(panel, origins, times, counts)
        known, elapsed = self.known_from(panel, origins, times, counts)
        driven = self.responses(panel, elapsed, series_of_rows(panel)[np.repeat(origins, counts)])
        stacked = self.stacking.combine({"run": run} | others, known, elapsed, driven)
        return self.units.scaler.at_mean(stacked), self.stacking.expected_errors(known, elapsed)

    def known_from(
        self, panel: Panel, origins: np.ndarray, times: np.ndarray, counts: np.ndarray
    ) -> tuple[Known, np.ndarray]:
        """State of the combiner at the origin of each time (Q,), and the elapsed times."""
        rows, origin = self.standardised(panel), np.repeat(np.arange(len(origins)), counts)
        known = take_known(self.stacking.known_at(rows, origins), origin)
        since = (times - panel.times[origins][origin]) / self.units.time_scale
        return known, rows.times[origins][origin] + since

    def runs_from(
        self, panel: Panel, origins: np.ndarray, times: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """Free runs (Q, D), in standard deviations, from several origins; see `forecast_from`."""
        series, end = series_of_rows(panel)[origins], panel.times[origins]
        durations = end - panel.times[panel.offsets[:-1][series]]
        states = self.states_at(panel, origins, self.follower)
        runs = np.empty((len(times), panel.n_channels))
        pasts = take(panel, series, origins, origins + 1)
        for part, rows, leads, asked in lead_batches(pasts, times, offsets_from(counts), end):
            run = self.free_run(select(states, part), durations[part], leads, pasts[part])
            runs[rows] = run[asked]
        return runs
