"""Kalman's gain: the share of its innovation by which an observation moves the signal."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from skpolyode.memory.base import SHORTEST_GAP
from skpolyode.models.contract import Packed
from skpolyode.saving.modules import register_module

FEWEST = 30
"""Observations of a channel that statistics of its noise need at least."""

_ENDS = (np.min, np.inf), (np.max, -1.0)  # least and largest error, and those without any
_ENOUGH = 300  # errors that nothing was learned from; their mean square is 8 % off
_LEAST = 1e-6  # of p and q
_LEAST_NOISE = 1e-4  # standard deviations of a channel


class Passed(NamedTuple):
    """Forecasts of n observations that do not know the ones before them."""

    row: Tensor  # int64 (n,): rows that are passed by
    following: Tensor  # int64 (n,): rows that are forecast
    prediction: Tensor  # (n, D)


@register_module
class Gain(nn.Module):
    """Kalman's gain of each channel, as a function of the time since it was last observed.

    The variance of a forecast, in units of that of the noise, is ``v = p + q gap``: the variance at
    the last observation, and what has been added since. The gain is ``K = v / (v + 1)``, which is
    Kalman's ``1 - R / S``. Gradients do not learn p and q: :meth:`estimate` reads them off the
    errors of forecasts. For a random walk this is exact after the first few observations, or at
    even gaps.

    If the errors sigma of observations are known and differ, the gain follows Kalman's variance
    itself: ``v = posterior + p + q gap`` and ``K = v / (v + r)``. The posterior variance then is
    ``K r``. The noise r of a cell is sigma**2 in the unit of v, where it is known; an error of 0 is
    met exactly. Where it is not known, r is learned by gradients. For a random walk this is
    Kalman's filter. With one p instead of the posterior variance, the smoothed path of a random
    walk was 7 to 250 % off Kalman's error, for errors that differ tenfold.

    Until a channel is observed, its signal is at `start`, with the variance
    ``v = spread / noise**2``.

    Parameters
    ----------
    n_channels : int
    known_errors : {"none", "equal", "each"}, default="none"
        Which errors of observations are known: none, one for all cells, or one for each.

    Attributes
    ----------
    noise : Tensor of shape (n_channels,)
        Standard deviation of the noise, the unit of v: known, or found by :meth:`estimate`.
    start, spread : Tensor of shape (n_channels,)
        Mean of the innovations of first observations, and variance of the signal there: those of
        the channel, 0 and 1, or found by :meth:`estimate`.

    Notes
    -----
    Learned by gradients, K came out at 0.86 where the errors of forecasts and the noise ask for
    0.35 (FitzHugh-Nagumo, noise 0.1). A state that has seen several observations filters them
    itself, and forecasts as well whatever K is. Paths then had twice the error.

    References
    ----------
    R. K. Mehra, "On the identification of variances and adaptive Kalman filtering", IEEE
    Transactions on Automatic Control, 1970.

    G. Matheron, "Principles of geostatistics", Economic Geology, 1963.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.models.gain import Gain
    >>> gain, seen = Gain(1).double(), torch.tensor([[True], [True], [False]])
    >>> gap = torch.tensor([[0.01], [1.0], [1.0]], dtype=torch.float64)
    >>> gain(gap, seen).flatten().tolist()  # without noise a first observation is taken whole
    [0.78..., 0.88..., 1.0]
    """

    def __init__(self, n_channels: int, known_errors: str = "none") -> None:
        super().__init__()
        self.n_channels, self.known_errors = n_channels, known_errors
        at_first = {"known": 1.3, "added": 1.3, "noise": 0.0, "start": 0.0, "spread": 1.0}
        for name, value in at_first.items():  # `known` and `added` are log p and log q
            self.register_buffer(name, torch.full((n_channels,), value, dtype=torch.float32))
        if known_errors == "each":  # log r where it is not known
            self.unknown = nn.Parameter(torch.zeros(n_channels, dtype=torch.float32))

    @classmethod
    def of_errors(cls, errors: np.ndarray, observed: np.ndarray) -> Self:
        """Gain of observations (P, D) with standardised errors, NaN where not known.

        At least one is positive.
        """
        known = ~np.isnan(errors)
        least, largest = (f(np.where(known, errors, x), axis=0) for f, x in _ENDS)
        partly = known.any(axis=0) & (observed & ~known).any(axis=0)
        differ = (least < largest) | partly | (largest == 0)
        gain = cls(len(least), "each" if differ.any() else "equal")
        typical = np.maximum(largest, 0.0)  # is to be met to the last bit where all are equal
        if gain.known_errors == "each":
            positive = known & (errors > 0)
            logs = np.log(np.where(positive, errors, 1.0)).sum(axis=0)
            typical = np.exp(logs / np.maximum(positive.sum(axis=0), 1))
        gain.noise.copy_(torch.from_numpy(typical))
        return gain

    def forward(
        self,
        gap: Tensor,
        seen: Tensor,
        error: Tensor | None = None,
        posterior: Tensor | None = None,
    ) -> Tensor:
        """Gains (n, D) of observations, `gap` (n, D) after the previous ones of their channels.

        `error` and `posterior` (n, D) are those of :class:`~skpolyode.models.contract.Packed`.
        """
        odds = self._forecast(gap, posterior)
        odds = torch.where(seen, odds, self.unseen.to(odds.dtype))
        if error is not None:
            odds = odds - self.log_noise(error)
        return torch.sigmoid(odds).to(self.known.dtype)

    @property
    def unseen(self) -> Tensor:
        """Logarithms (D,) of v before the first observations of channels."""
        return self.spread.log() - 2 * self.noise.log()

    @property
    def level(self) -> Tensor:
        """Standard deviation (D,) of the noise of observations whose error is not known."""
        each = self.known_errors == "each"
        return self.noise * (self.unknown.detach() / 2).exp() if each else self.noise

    def _forecast(self, gap: Tensor, posterior: Tensor | None) -> Tensor:
        """Logarithms (n, D) of the variances v of forecasts."""
        added = self.added + gap.clamp(min=SHORTEST_GAP).log()
        grown = torch.logaddexp(self.known.expand_as(added).to(added.dtype), added)
        return grown if posterior is None else torch.logaddexp(grown, posterior.log())

    def log_noise(self, error: Tensor) -> Tensor:
        """Logarithms (n, D) of the noise r of observations, from their errors (n, D).

        They are in units of the noise, which a gain that was learned without errors has measured.
        """
        unknown = self.unknown if self.known_errors == "each" else torch.zeros_like(self.noise)
        # In the precision of the noise, so that an equal error is equal to the last bit.
        log_error = error.float().to(self.noise.dtype).log() - self.noise.log()
        return torch.where(~error.isnan() & (self.noise > 0), 2 * log_error, unknown)

    def carried(self, gap: Tensor, posterior: Tensor) -> tuple[Tensor, Tensor]:
        """Variances v (n, D) of forecasts, and the share of them from the observation before."""
        ahead = self._forecast(gap, posterior).exp()
        return ahead, posterior / ahead

    @torch.no_grad()
    def follow(self, data: Packed) -> tuple[Tensor, Tensor]:
        """Posterior variances before each row (P, D) and after the last one (n_series, D).

        In units of v.
        """
        posterior = torch.zeros_like(data.channel_gap)
        end = posterior.new_zeros(data.n_series, posterior.shape[1])
        for block in data.blocks():
            now = posterior[block[0]]
            for rows in block:
                now = posterior[rows] = now[: rows.stop - rows.start]
                columns = data.channel_gap[rows], data.seen[rows], data.error[rows]
                after = self.posterior_after(*columns, now)
                now = torch.where(data.mask[rows], after, now)
                end[data.series[rows]] = now
        return posterior, end

    def posterior_after(
        self, gap: Tensor, seen: Tensor, error: Tensor, posterior: Tensor
    ) -> Tensor:
        """Posterior variance (n, D) after observations: K r, Kalman's ``(1 - K) v``."""
        return self(gap, seen, error, posterior) * self.log_noise(error).exp()

    @torch.no_grad()
    def estimate(
        self, data: Packed, predictions: Tensor, passed: Passed | None, judged: Tensor
    ) -> None:
        """Set noise, p, q, `start` and `spread` from the `predictions` (P, D) before rows.

        The variance of an error is ``v + r``. A step of Fisher's scoring from the present v, to the
        p and q that make the errors likeliest, is a least-squares fit of ``e**2 - r`` by p and
        q gap with the weights ``1 / (v + r)**2`` (Mehra, 1970, matches covariances likewise).

        Parameters
        ----------
        data : Packed
        predictions : Tensor of shape (P, D)
        passed : Passed or None
            Forecasts that give the noise; None if errors are known.
        judged : bool Tensor of shape (P, D)
            Observations that nothing was learned from, whose errors are not too small. Of a channel
            with fewer than 300 of them all observations count.
        """
        known = [predictions] if passed is None else [predictions, passed.prediction]
        if not all(x.isfinite().all() for x in known):  # training has gone astray, and will say so
            return
        if self.known_errors == "none":
            self._measure_noise(data, predictions, passed)
        self._measure_start(data, predictions)
        unit = self.noise.double().clamp(min=_LEAST_NOISE)
        again, ones = data.mask & data.seen, torch.ones_like(data.channel_gap, dtype=torch.float64)
        gap = data.channel_gap.double().clamp(min=SHORTEST_GAP)
        has_errors = data.error is not None
        noise = self.log_noise(data.error).double().exp() if has_errors else ones
        posterior = data.posterior if has_errors else None
        square = ((data.x - predictions) / unit).double().square() - noise
        expected = self._forecast(gap, posterior).double().exp() + noise
        precision = 1.0 / expected**2
        for j in range(self.n_channels):
            chosen = again[:, j] & judged[:, j]
            if chosen.sum() < _ENOUGH:
                chosen = again[:, j]
            if chosen.sum() < FEWEST:
                continue
            terms = torch.stack([ones[chosen, j], gap[chosen, j]], dim=1)
            excess = square[chosen, j] - (0.0 if posterior is None else posterior[chosen, j])
            p, q = _not_negative(terms, excess, precision[chosen, j])
            self.known[j], self.added[j] = math.log(p), math.log(q)

    def _measure_start(self, data: Packed, predictions: Tensor) -> None:
        """Set `start` and `spread` by a step of scoring; with few series they stay as they are."""
        first, missed = data.mask & ~data.seen, (data.x - predictions).double()
        noise = self.noise.double().square().expand_as(missed)
        if data.error is not None:
            noise = noise * self.log_noise(data.error).double().exp()
        precision = torch.where(first, 1.0 / (self.spread + noise), 0.0)
        enough = (precision > 0).sum(dim=0) >= FEWEST
        shift = (precision * missed).sum(dim=0) / precision.sum(dim=0)
        weight = precision / (self.spread + noise)
        spread = (weight * ((missed - shift).square() - noise)).sum(dim=0) / weight.sum(dim=0)
        self.start.add_(torch.where(enough, shift, 0.0))
        self.spread.copy_(torch.where(enough, spread.clamp(min=_LEAST), self.spread))

    def _measure_noise(self, data: Packed, predictions: Tensor, passed: Passed) -> None:
        """Set `noise` from the errors of two forecasts with the same origin.

        One has the error e at an observation, the other the error e' at the next observation,
        without an update in between. Signals move little in a short gap, and the noise of the two
        observations is independent. So the mean of ``e (e - e')`` goes to the variance of the noise
        as the gap goes to zero. In geostatistics that is the nugget of the forecast's errors
        (Matheron, 1963). Pairs are weighted by ``exp(-2 gap / median gap)``.

        Squared errors alone cannot separate noise from signal: with ``(1 - K) e**2`` for the noise
        every gain K confirms itself. So this is the estimate only if a channel has fewer than 30
        pairs, or if the two errors are not positively correlated, as when signals are faster than
        their observations.
        """
        first, second = data.mask & data.seen, data.mask[passed.following]
        error = (data.x - predictions).double()
        kept = 1.0 - self(data.channel_gap, data.seen).double()
        variance = counted_mean(kept * error.square(), first)
        later = (data.x[passed.following] - passed.prediction).double()
        gap = (data.elapsed[passed.following] - data.elapsed[passed.row]).double()
        for j in range(self.n_channels):
            pairs = first[passed.row, j] & second[:, j]
            if pairs.sum() < FEWEST:
                continue
            rows, gaps = passed.row[pairs], gap[pairs]
            counts = torch.exp(-2 * gaps / gaps.median())
            e = error[rows, j]
            if (shared := counts @ (e * later[pairs, j])) > 0:
                variance[j] = (counts @ e.square() - shared) / counts.sum()
        self.noise.copy_(variance.clamp(min=0.0).sqrt())

    @torch.no_grad()
    def after(self, data: Packed, predictions: Tensor) -> Tensor:
        """Variance (D,) of the signal around the state after observations.

        That is ``K**2 R + (1 - K)**2 P``, whatever the gain K, with the variances R of the noise
        and P of the errors of `predictions` (P, D) less R.
        """
        error, noise = (data.x - predictions).double(), self.level.double().square()
        share = self(data.channel_gap, data.seen).double()
        left = share.square() * noise + (1.0 - share).square() * (error.square() - noise)
        return counted_mean(left, data.mask).clamp(min=0.0)


def _not_negative(terms: Tensor, y: Tensor, weight: Tensor) -> tuple[float, float]:
    """Positive p and q of the weighted least squares of y (n,) by two terms (n, 2)."""
    square, product = terms.T @ (weight[:, None] * terms), terms.T @ (weight * y)
    p, q = (torch.linalg.pinv(square, hermitian=True) @ product).tolist()  # gaps may be equal
    if p < 0 or q < 0:  # the better one alone
        alone = (product / square.diag()).clamp(min=0.0)
        first = bool(alone[0] * product[0] >= alone[1] * product[1])
        p, q = (alone[0].item(), 0.0) if first else (0.0, alone[1].item())
    return max(p, _LEAST), max(q, _LEAST)


def counted_mean(x: Tensor, counted: Tensor, dim: tuple[int, ...] = (0,)) -> Tensor:
    """Mean (D,) of the counted entries of each channel; zero if there are none."""
    return torch.where(counted, x, 0.0).sum(dim=dim) / counted.sum(dim=dim).clamp(min=1)
