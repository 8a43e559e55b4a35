"""The path between observations: all channels of series at any times.

Between two observations of a channel a model expects h0(s), and its error at the second one is
x - h0. A linear ramp between the two corrects it: the path passes through every observation, like
that of a bridging memory before projection. The path of a filter is smoothed instead, by the
recursion of Rauch, Tung and Striebel. Embedders here are those of a model.

Waves are periodic fits to single series, with a period that all channels of a series share. If a
series is nearly periodic and sampled sparsely, a few of its cycles fill a gap better than learned
dynamics. No single period is chosen: waves of all likely periods, with any number of harmonics, are
weighted by the Bayesian information criterion (G. L. Bretthorst, "Bayesian spectrum analysis and
parameter estimation", 1988).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from skpolyode.embedders.base import CHUNK_TIMES, Embedder, Parts, cut, map_slices
from skpolyode.embedders.paths import PathQuery
from skpolyode.models import Packed, SequenceModel
from skpolyode.models.contract import State, agree, join, select
from skpolyode.panel import Panel
from skpolyode.panel.select import series_of_rows
from skpolyode.panel.units import ChannelScaler

_PART_ROWS = 64  # least rows per part of a long series: few steps for many parts
_HARMONICS = 4  # maximum number
_SPARE = 3  # least number of values of a channel minus coefficients of its wave
_FEWEST = 3 + _SPARE  # least number of values of a channel with a wave
_MOST_ROWS = 400  # rows per part: the cost rises with their square
_PER_TURN = 4  # frequencies to try per cycle over the series
_N_LIKELY, _N_CLOSE = 3, 17  # best of these to refine, and frequencies around each
_LEAST = 0.01  # floor of errors and residuals, in standard deviations
_RIDGE = 0.01  # penalty, for values of variance 1; of harmonic k times k squared


def path_values(
    embedder: Embedder, panel: Panel, times: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Values (Q, D) of the learned path, bridged to the observations; forecasts after them.

    The path of a filter does not pass through observations, but as near to them as their noise
    suggests. Where no observation of the channel follows, forecasts are combined, as after the end
    of a series: the path is continuous at the last observation.
    """
    asked, filtered = PathQuery.of(panel, times, offsets), shares(embedder, panel)
    seen, scaler, stacking = panel, embedder.units.scaler, embedder.stacking
    expected = follow(embedder, seen, asked)
    if filtered is not None:
        expected = _without_wall(embedder, asked, expected, filtered)
    x = scaler.transform(seen.values)
    rise = np.where(np.isnan(x), 0.0, x - expected.mean)
    signal = expected.signal + bridges(asked, rise, filtered)
    if embedder.waves is not None:
        through = x
        if filtered is not None:  # its last signals, from which forecasts start
            is_last = PathQuery(seen, seen.times, np.arange(len(x))).following < 0
            through = np.where(is_last, expected.mean + filtered.share * rise, np.nan)
        signal += np.nan_to_num(embedder.waves * (bridged_waves(embedder, asked, through) - signal))
    if embedder.beginnings is not None:
        rate, share = embedder.beginnings
        is_early = (asked.before < 0) & (asked.following >= 0)
        until = np.where(is_early, asked.leads(embedder.units.time_scale)[1], 0.0)
        begun = share * expected.signal + np.exp(-rate * until) * (signal - share * expected.signal)
        signal = np.where(is_early & (rate > 0), begun, signal)
    is_open = asked.following < 0
    place = np.flatnonzero(is_open.any(axis=1))
    if stacking is not None and len(place):
        series, times = asked.series[place], asked.times[place]
        others, _ = stacking.of_series(scaler, seen, asked.row[place], times)
        elapsed = (times - seen.start[series]) / embedder.units.time_scale
        driven = embedder.responses(seen, elapsed, series)
        given = {"run": signal[place]} | others
        stacked = stacking.combine(given, embedder.known(seen), series, elapsed, driven)
        signal[place] = np.where(is_open[place], stacked, signal[place])
    signal = scaler.inverse(scaler.at_mean(signal))
    return signal if filtered is not None else asked.keep_observed(signal)


class Shares(NamedTuple):
    """Gains of a filter and of its smoother, at rows (P, D)."""

    share: np.ndarray  # Kalman gains K: shares of innovations
    lost: np.ndarray  # 1 - G: share of a correction that is not carried back
    # Variances of the signal at observations, NaN where not observed: given those until then or, if
    # errors are known, all of them.
    variances: np.ndarray


def bridges(asked: PathQuery, rise: np.ndarray, filtered: Shares | None = None) -> np.ndarray:
    """Corrections (Q, D) that lead paths to the next observations of their channels.

    `rise` (P, D) is the innovation of each observation, zero where there is none. Before the first
    observation of a channel its path is shifted. A filter uses a share K of each innovation, and
    its path is smoothed: each correction is carried back beyond the previous observation, except
    for the share `lost`.
    """
    seen, before, after = asked.seen, asked.before, asked.following
    at = np.maximum(after, 0)
    if filtered is not None:
        rise = rts_smoothed(seen, filtered.share * rise, 1.0 - filtered.lost)
    rise = np.where(after < 0, 0.0, np.take_along_axis(rise, at, axis=0))
    start, end = seen.times[before], seen.times[after]
    ramp = (before >= 0) & (after >= 0)
    length = np.where(ramp, end - start, 1.0)
    passed = (asked.times[:, None] - start) / length
    if filtered is not None:
        passed = 1.0 - np.take_along_axis(filtered.lost, at, axis=0) * (1.0 - passed)
    return rise * np.where(ramp, passed, 1.0)


def bridged_waves(embedder: Embedder, asked: PathQuery, through: np.ndarray) -> np.ndarray:
    """Waves (Q, D) through signals at rows (P, D), all in standard deviations.

    The error of a wave at the observations is interpolated linearly and subtracted; where the
    signal is NaN, the error is 0. NaN where there is no wave, or no later observation.
    """
    wave, at_rows = waves_at(asked, embedder.units.scaler, partial(embedder.once, asked.seen))
    off, passed = np.nan_to_num(through - at_rows), bridges(asked, np.ones(at_rows.shape))
    ends = asked.before, asked.following
    first, second = (np.take_along_axis(off, np.maximum(row, 0), axis=0) for row in ends)
    return np.where(asked.following < 0, np.nan, wave + first + passed * (second - first))


def rts_smoothed(panel: Panel, rise: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Smoothed corrections (P, D) of the forecasts at rows, from all observations from there on.

    The recursion of Rauch, Tung and Striebel, ``s_i = K_i e_i + G_k s_k``, from each observation k
    of a channel to the previous one i.
    """
    result, observed = rise.copy(), ~np.isnan(panel.values)
    stop, lengths = panel.offsets[1:], panel.lengths
    later = np.zeros((panel.n_series, panel.n_channels))  # G s_k
    for back in range(1, int(lengths.max(initial=0)) + 1):
        series = np.flatnonzero(lengths >= back)
        row = stop[series] - back
        result[row] += np.where(observed[row], later[series], 0.0)
        later[series] = np.where(observed[row], kept[row] * result[row], later[series])
    return result


def shares(embedder: Embedder, panel: Panel) -> Shares | None:
    """Kalman gain of each row, and the share of a correction that is not carried back.

    The two are equal unless errors of observations are known.
    """
    if not embedder.filters:
        return None
    data, model = embedder.pack(panel), embedder.exact
    with torch.no_grad():
        share = model.share(data, torch.arange(len(data), device=embedder.device))
        columns = [share, share * model.gain.level.square()]
        if data.posterior is not None:
            unit = model.gain.noise.square()
            ahead, carried = model.gain.carried(data.channel_gap, data.posterior)
            after = share * model.gain.log_noise(data.error).exp()
            columns = [1.0 - carried, after * unit, ahead * unit]
    order = data.observations
    share, lost, after, *ahead = (x[order].cpu().numpy() for x in (share, *columns))
    if ahead:
        after = ahead[0] + rts_smoothed(panel, after - ahead[0], (1.0 - lost) ** 2)
    return Shares(share, lost, np.where(np.isnan(panel.values), np.nan, after))


def _without_wall(
    embedder: Embedder, asked: PathQuery, expected: Expected, filtered: Shares
) -> Expected:
    """Expectations without the pull of the wall, where an observation follows.

    A smoother takes any change after an observation as part of the dynamics. The pull only bounds
    free runs, and would bend paths wherever a run starts outside the wall.
    """
    seen, model, unit = asked.seen, embedder.follower, embedder.units.time_scale
    wall, pull, after = model.field.wall, model.field.pull, expected.after
    outside = after - np.clip(after, -wall, wall)
    if not outside.any():
        return expected

    def pulled(row: np.ndarray, since: np.ndarray) -> np.ndarray:
        passed = np.minimum(since / unit, model.max_gap)[:, None]
        return -np.expm1(-pull * passed) * outside[row]

    gap, kept = np.diff(seen.times, prepend=0.0), 1.0 - filtered.share
    kept[np.isnan(seen.values)] = 1.0
    before, left = np.zeros((2, *after.shape))  # what is missing before rows, and after them
    for k in range(1, int(seen.lengths.max())):
        row = seen.offsets[:-1][seen.lengths > k] + k
        before[row] = left[row - 1] + pulled(row - 1, gap[row])
        left[row] = kept[row] * before[row]
    missing = left[asked.row] + pulled(asked.row, asked.times - seen.times[asked.row])
    signal = expected.signal + np.where(asked.following < 0, 0.0, missing)
    return expected._replace(signal=signal, mean=expected.mean + before)


Arrays = tuple[np.ndarray, ...]


class Expected(NamedTuple):
    """Expectations of a model, in standard deviations."""

    signal: np.ndarray  # float64 (Q, D), at the query times
    mean: np.ndarray  # float64 (P, D), just before each row
    log_scale: np.ndarray | None  # float64 (P, D), of the errors there, or None
    after: np.ndarray | None  # float64 (P, D), signals of a filter just after each row, or None


def follow(embedder: Embedder, seen: Panel, asked: PathQuery | None = None) -> Expected:
    """Run a model through series: its expectations at rows, and at the times `asked`, if any.

    All rows of the panel hold an observation.

    Long series are cut, and the parts run in parallel, each after a warm-up. Where one part ends
    and the next begins the states must agree; otherwise the warm-ups are doubled.
    """
    asked = asked or PathQuery(seen, np.empty(0), np.empty(0, dtype=np.int64))
    unit = embedder.units.time_scale
    reach = math.inf if embedder.recent is None else embedder.recent.context
    gap = np.diff(seen.times, append=0.0)
    gap[seen.offsets[1:] - 1] = np.inf
    order = asked.row.argsort(kind="stable")
    row = asked.row[order]
    at = gap / unit, row, (asked.times[order] - seen.times[row]) / unit
    while True:
        n_rows = max(_PART_ROWS, int(min(4 * reach / unit, seen.n_observations)))
        parts = cut(seen, reach, n_rows)
        work = partial(_follow_parts, embedder, seen, parts, at)
        found, *borders = zip(*map_slices(work, parts.panel.lengths), strict=True)
        entry, end = (join(list(states)) for states in borders)
        if agree(select(entry, parts.later), select(end, parts.later - 1)):
            break
        reach *= 2
    columns = zip(*found, strict=True)
    joint = Expected(*(None if x[0] is None else np.concatenate(x) for x in columns))
    return joint._replace(signal=joint.signal[order.argsort()])


@torch.no_grad()
def _follow_parts(
    embedder: Embedder, seen: Panel, parts: Parts, at: Arrays, chunk: slice
) -> tuple[Expected, State, State]:
    """Expectations at the rows of a chunk of parts, and at the times after these rows.

    `at` are the times from each row to the next one (P,), and of the times asked the row before,
    sorted, and the time since (Q,). Also returns the states after the last rows of the warm-ups and
    of the parts.
    """
    gap, row, since = at
    panel = parts.panel[chunk]
    series = series_of_rows(panel)
    place = np.arange(panel.n_observations) + (parts.start[chunk] - panel.offsets[:-1])[series]
    kept = np.flatnonzero(place >= parts.bounds[chunk][series])  # outside of warm-ups
    first, stop = parts.bounds[[chunk.start, chunk.stop]]
    own = slice(*np.searchsorted(row, [first, stop]))
    behind, passed = row[own] - first, since[own]
    # Inputs are needed up to the furthest time after the last row of each series.
    furthest, whose = np.zeros(panel.n_series), series[kept[behind]]
    last = kept[behind] == panel.offsets[1:][whose] - 1
    np.maximum.at(furthest, whose[last], passed[last])
    run = partial(_run_through, embedder, panel, furthest)
    is_kept = embedder.inputs is None or not furthest.any()
    key = "run", parts.start[chunk].tobytes(), panel.lengths.tobytes()
    data, before, joint = embedder.once(seen, key, run) if is_kept else run()
    packed = data.observations
    mean, log_scale = (x if x is None else x[packed][kept].cpu().numpy() for x in before)
    columns = gap[first:stop], behind, passed
    columns = (torch.from_numpy(x).to(data.x.device) for x in columns)
    state = select(joint, packed)
    after = select(state, kept)
    if data.knot is None:
        columns = after, data.elapsed[packed][kept], *columns
    else:
        columns = joint, data.elapsed, *_behind_knots(data, packed[kept], *columns)
    signal = _signal_after(embedder.follower, *columns).cpu().numpy()
    signals = after["z"][:, embedder.follower.signals].cpu().numpy() if embedder.filters else None
    n_before = np.maximum(parts.bounds[chunk] - parts.start[chunk], 1)
    entry = select(state, panel.offsets[:-1] + n_before - 1)
    end = select(state, panel.offsets[1:] - 1)
    return Expected(signal, mean, log_scale, signals), entry, end


@torch.no_grad()
def _run_through(
    embedder: Embedder, panel: Panel, ahead: np.ndarray
) -> tuple[Packed, list[Tensor | None], State]:
    """Packed rows of series, what a model expects just before them, and its states after them."""
    data = embedder.pack(panel, ahead=ahead)
    steps = [(step.rows, step.state, step.prediction) for step in embedder.follower.run(data)]
    rows, states, before = zip(*steps, strict=True)
    every = torch.cat(rows).argsort()
    expected = [None if x[0] is None else torch.cat(x)[every] for x in zip(*before, strict=True)]
    return data, expected, select(join(list(states)), every)


def _behind_knots(
    data: Packed, rows: Tensor, gap: Tensor, at: Tensor, since: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Last packed row up to each time (Q,), including knots of inputs.

    `rows` (n,) are those of observations, followed by gaps (n,); each time is `since` (Q,) after
    the observation `at` (Q,). Returns the gaps after all packed rows, and for each time its last
    row and the time since.
    """
    row, left = rows[at], gap[at]
    while True:
        following = data.next[row]
        on = (following >= 0) & data.knot[following] & (data.gap[following] <= since)
        if not on.any():
            break
        passed = torch.where(on, data.gap[following], 0.0)
        row, since, left = torch.where(on, following, row), since - passed, left - passed
    gaps = data.gap[data.next]
    ends = data.next[row] < 0
    return gaps.index_put((row[ends],), left[ends]), row, since


def _signal_after(
    model: SequenceModel, state: State, elapsed: Tensor, gap: Tensor, row: Tensor, since: Tensor
) -> Tensor:
    """Expected signals (Q, D) at times `since` (Q,) after the states of the rows `row` (Q,)."""
    signal = model.predict(state).mean[row]
    later = (since > 0).nonzero()[:, 0]
    # Sorted by length, so that no interval is padded to a much longer one.
    later = later[gap[row[later]].argsort(stable=True)]
    for part in later.split(CHUNK_TIMES) if len(later) else ():
        rows, index = row[part].unique(return_inverse=True)
        found = model.between(select(state, rows), index, since[part], gap[rows], elapsed[rows])
        signal[part] = found.mean
    return signal


def waves_at(asked: PathQuery, scaler: ChannelScaler, once: Any = lambda _, fit: fit()) -> Arrays:
    """Waves (Q, D) at the query times, and (P, D) at the rows; NaN for channels without one.

    A long series is cut into parts that overlap by half, each with a wave. At each time the waves
    of two parts are averaged, with weights that fall linearly from the middle of a part. They are
    fitted `once`, which is called with a key and the fit.
    """
    seen, x = asked.seen, scaler.transform(asked.seen.values)
    errors = np.ones(x.shape) if seen.errors is None else seen.errors / scaler.scale
    places = np.searchsorted(asked.row, seen.offsets)  # times of a series are contiguous
    found, at_rows = (np.full((len(t), x.shape[1]), np.nan) for t in (asked.times, seen.times))
    for k in range(seen.n_series):
        rows, place = slice(*seen.offsets[k : k + 2]), slice(*places[k : k + 2])
        t, enough = seen.times[rows], (~np.isnan(x[rows])).sum(axis=0) >= _FEWEST
        if not enough.any():
            continue
        at = np.concatenate([t, asked.times[place]])
        values, sure = x[rows, enough], errors[rows, enough]
        wave, beyond = np.zeros((len(at), values.shape[1])), max(len(t) - _MOST_ROWS, 0)
        n_parts = 1 + -(-beyond // (_MOST_ROWS // 2))
        starts = np.linspace(0, beyond, n_parts).astype(np.int64)  # evenly spaced
        stops = np.minimum(starts + _MOST_ROWS, len(t))
        for share, first, stop in zip(np.eye(len(starts)), starts, stops, strict=True):
            part = slice(first, stop)
            weight = np.interp(at, (t[starts] + t[stops - 1]) / 2, share)
            near, zero = weight > 0, t[first]
            fit = partial(_wave, t[part] - zero, values[part], sure[part])
            wave[near] += weight[near, None] * once(("wave", k, first), fit)(at[near] - zero)
        at_rows[rows, enough], found[place, enough] = np.split(wave, [len(t)])
    return found, at_rows


def _wave(t: np.ndarray, x: np.ndarray, errors: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Waves of a series with rows (n, D), as a function: values (Q, D) at times (Q,).

    An unknown error counts as the standard deviation of the channel.
    """
    seen = ~np.isnan(x)
    counts = np.maximum(seen.sum(axis=0), 1)  # a part of a series may hold none
    mean = np.where(seen, x, 0.0).sum(axis=0) / counts
    scale = np.sqrt((np.where(seen, x - mean, 0.0) ** 2).sum(axis=0) / counts) + 1e-9  # rounding
    errors = np.where(np.isnan(errors), 1.0, errors / scale)
    weight = seen / np.maximum(errors, _LEAST) ** 2
    weight *= counts / np.maximum(weight.sum(axis=0), 1e-300)
    y, turns = np.nan_to_num((x - mean) / scale), np.arange(1, len(t) / 2, 1 / _PER_TURN)
    best = _fits(t, y, weight, turns / t[-1])[0].min(axis=1)
    likely = turns[np.argsort(best, kind="stable")[:_N_LIKELY], None]
    close = (likely + np.linspace(-1, 1, _N_CLOSE) / _PER_TURN).ravel() / t[-1]
    criteria, root, solution = _fits(t, y, weight, close)
    share = np.exp((criteria.min() - criteria) / 2)
    share = share[:, ::-1].cumsum(axis=1)[:, ::-1] / share.sum()  # of all models with a harmonic
    solution *= np.repeat(share, 2, axis=1)[:, None, 1:]
    coefficients = np.linalg.solve(root.swapaxes(2, 3), solution[..., None])[..., 0]

    def values(at: np.ndarray) -> np.ndarray:
        chunks = np.split(at, range(CHUNK_TIMES, len(at), CHUNK_TIMES))
        bases = (_harmonics(chunk, close) for chunk in chunks)
        parts = [np.einsum("fpq,fdp->qd", basis, coefficients) for basis in bases]
        return mean + scale * np.concatenate(parts)

    return values


def _fits(t: np.ndarray, y: np.ndarray, w: np.ndarray, turns: np.ndarray) -> tuple[np.ndarray, ...]:
    """Criteria (F, K + 1) of 0 to K harmonics, and two arrays for their coefficients.

    Models with fewer harmonics are nested, so all follow from the Cholesky factor (F, D, P, P) of
    the normal equations, and the solution (F, D, P) of the triangular system with it. A channel
    with few values has fewer harmonics, independent of the others.
    """
    basis, counts = _harmonics(t, turns), (w > 0).sum(axis=0)
    most = np.clip((counts - 1 - _SPARE) // 2, 0, _HARMONICS)[:, None]
    counts = np.maximum(counts, 1)[:, None]
    gram = np.stack([(basis * weight) @ basis.swapaxes(1, 2) for weight in w.T], axis=1)
    order = np.arange(1, gram.shape[-1] + 1) // 2  # harmonics of the coefficients
    gram += np.diag(_RIDGE * np.maximum(order, 1) ** 2)
    root, product = np.linalg.cholesky(gram), (basis @ (w * y)).swapaxes(1, 2)
    solution = np.where(order <= most, np.linalg.solve(root, product[..., None])[..., 0], 0.0)
    left = (w * y**2).sum(axis=0)[:, None] - (solution**2).cumsum(axis=2)[..., ::2]
    n_coefficients = 1 + 2 * np.minimum(np.arange(_HARMONICS + 1), most)
    criteria = counts * np.log(np.maximum(left / counts, _LEAST**2))
    return (criteria + n_coefficients * np.log(counts)).sum(axis=1), root, solution


def _harmonics(t: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Basis (F, 1 + 2 K, n): 1, cosine and sine, those of twice the frequency, and so on."""
    wave = np.exp(2j * np.pi * np.multiply.outer(turns, t))
    powers = np.cumprod(np.broadcast_to(wave, (_HARMONICS, *wave.shape)), axis=0)
    parts = [part for power in powers for part in (power.real, power.imag)]
    return np.stack([np.ones(wave.shape), *parts], axis=1)
