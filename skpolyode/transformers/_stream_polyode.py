"""Streams of the learned embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from skpolyode.models import Packed
from skpolyode.models.single import SinglePolyODE
from skpolyode.panel import Panel
from skpolyode.transformers._forecast import continue_series
from skpolyode.transformers._stream import Parts, SeriesStream
from skpolyode.transformers._stream_clock import Moment

__all__ = ["PolyODEStream"]


class PolyODEStream(SeriesStream):
    """Series that are followed by a trained PolyODE, one observation at a time.

    Made by :meth:`PolyODETransformer.stream`. At any moment its answers are those of the
    transformer for all observations so far, to rounding. An update takes the same time however
    many there were, and only the state at the last observation is kept.

    Parameters
    ----------
    transformer : PolyODETransformer
        Fitted; a copy is kept.
    panel : Panel
        Labels of the series; its rows are not read.

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
    HiPPOStream : Streams of the observations' own memory.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import PolyODETransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> embedder = PolyODETransformer(n_coefficients=8, max_epochs=5, random_state=0).fit(series)
    >>> stream = embedder.stream(6)
    >>> for t, x in zip(*series[4]):
    ...     stream = stream.update(t, x, series=4)
    >>> bool(abs(stream.embedding(4) - embedder.transform(series[4:5])).max() < 1e-12)
    True
    >>> stream.forecast([6.5, 7.0], series=4)
    Panel(1 series, 1 channel, 2 observations, 100% of cells observed, times 6.5 to 7)
    """

    _part_names = ("z", "c", "static")

    def forecast(self, times: Any, series: Any = None) -> Panel:
        """Continue the series beyond their last observation.

        Parameters
        ----------
        times : array-like of shape (Q,) or list of such
            Times from the last observation on, for all of the series or for each.
        series : int, array-like of int or None, default=None
            Which series, by position; None means all.

        Returns
        -------
        Panel
            All channels at these times. Further than 20 windows ahead the forecast is held.

        Raises
        ------
        ValueError
            If a time is before the last observation of its series, or a series has not been
            observed.
        """
        chosen = self._started(series)
        z = self._parts["z"][torch.from_numpy(chosen)]
        return continue_series(
            self._panel[chosen],
            times,
            self._clock.last[chosen],
            lambda part, ahead: self._transformer._run_ahead(self._model, z[part], ahead),
        )

    def _bind(self) -> None:
        self._model = self._transformer._model(torch.float64)
        exact = self._transformer.solver == "exact" and self._device.type == "cpu"
        self._single = SinglePolyODE(self._model) if exact else None

    def _blank(self) -> Parts:
        static = np.empty((self._panel.n_series, 0))
        if self._transformer.start_ is not None:
            static = self._transformer.static_.transform(self._panel)
        nothing = np.full((len(static), self._panel.n_channels), np.nan)
        _, moment = self._clock.move(nothing[:, 0], nothing > 0, unit=1.0)
        data = self._pack(nothing, moment, torch.from_numpy(static))
        with torch.no_grad():
            z = self._model.initial_state(data, data.series)
        return {"z": z, "c": self._model.memory.constant(z[..., 0]), "static": data.static}

    def _resume(self, panel: Panel) -> Parts:
        z, c = self._transformer._all_states(panel)
        return self._parts | {"z": z, "c": c}

    def _take_in(self, parts: Parts, values: np.ndarray, moment: Moment) -> Parts:
        static = parts["static"]
        if len(values) == 1 and self._single is not None:
            z, c = self._take_in_one(parts, values[0], moment)
        else:
            data = self._pack(values, moment, static)
            z, c = self._run_up(parts["z"], parts["c"], data)
            z, c = self._model.observe(z, c, data, data.series)
        return {"z": z, "c": c, "static": static}

    def _take_in_one(
        self, parts: Parts, values: np.ndarray, moment: Moment
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """State (1, D, 1 + N) and memory (1, D, N) of one series after its next observation."""
        z, c, offset = parts["z"][0].numpy(), parts["c"][0].numpy(), None
        mask, seen, gap, channel_gap, elapsed = (column[0] for column in moment)
        if elapsed > 0:
            z, c = self._single.advance(z, c, gap, elapsed)
        if self._model.start is not None:
            offset = self._model.start(parts["static"])[0].numpy().reshape(z.shape)[:, 1:]
        z, c = self._single.observe(z, c, values, mask, seen, channel_gap, elapsed, offset)
        return torch.from_numpy(z)[None], torch.from_numpy(c)[None]

    def _pack(self, values: np.ndarray, moment: Moment, static: torch.Tensor) -> Packed:
        """One observation of each of some series, as the model takes it."""
        columns = map(torch.from_numpy, (np.where(moment.mask, values, 0.0), *moment))
        series = torch.arange(len(values))
        data = Packed([[len(values)]], *columns, torch.full_like(series, -1), series, static)
        return data if self._device.type == "cpu" else data.to(self._device, torch.float64)

    def _run_up(
        self, z: torch.Tensor, c: torch.Tensor, data: Packed
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """States and memories just before the observations; first ones follow on nothing."""
        later = data.elapsed > 0
        if later.all():
            return self._model.advance(z, c, data.gap, data.elapsed)
        if later.any():
            states = self._model.advance(z[later], c[later], data.gap[later], data.elapsed[later])
            z, c = z.clone(), c.clone()
            z[later], c[later] = states
        return z, c

    def _coefficients(self, series: np.ndarray) -> np.ndarray:
        return self._parts["c"][torch.from_numpy(series)].cpu().numpy()

    def _features(self, series: np.ndarray) -> np.ndarray:
        index = torch.from_numpy(series)
        return self._transformer._features(self._parts["z"][index], self._parts["c"][index])
