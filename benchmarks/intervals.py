"""Intervals of forecasts that adapt to how wild a series is, against one width for all series.

    python -m benchmarks.intervals                   # made sets, three seeds: quarter of an hour
    python -m benchmarks.intervals --data FOLDER     # and real ones, as benchmarks.real reads them
    python -m benchmarks.intervals --sets "two kinds" --seeds 0
    python -m benchmarks.intervals --processes 1 3 5 12 40 --seeds 0 1 --epochs 10
    python -m benchmarks.intervals --between 12 30 200 --seeds 0 1 --epochs 8

One model is trained on some series and forecasts others, from a cutoff at 60 % of each on, with
and without scales of its calibration. Prints what intervals of 90 % cover, of all series and of the
quieter and the wilder half (by the mean step before the cutoff), their mean width, and the mean of
their score (the width, and 20 times what they miss by: it is least for the true quantiles), in
standard deviations; with scales, width and score also as multiples of those without. Last, whether
series were seen in units of their own, in which widths adapt in either case.

A third line is of values between observations: a fifth of the rows of the whole series is hidden,
and `interpolate_interval` asked for them; a fourth of single values that are hidden, where a row
has several. `--noise 0.3` adds noise to the made sets.

With `--processes` a forecaster is trained on so many series of each of six processes whose law is
known. For their future, and that of 60 other series, it prints what intervals of 90 % cover, and
their mean width over that of an oracle's ("own" and "others"). Of fewer series more seeds are used.

With `--between` a transformer is trained on so many series of two or three channels whose truth is
known at all times, and asked about 100 others at times up to their last rows: sines, reverting
walks of different sizes, and Lorenz63, exact and with noise of 0.2. Of 30 rows, a cell in three is
missing. By thirds of the distance to the nearest observation of the channel, before its first one,
and before all rows, it prints the root mean square error, what intervals of 50 and 90 % of a new
observation hold, the median half width and the mean score of those of 90 %, and the share of the
truth within 1.645 standard deviations of `interpolate_std`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.special import ndtri

from benchmarks.known_laws import PROCESSES, draw
from benchmarks.lines import heading, line
from benchmarks.real.sets import SETS as REAL
from benchmarks.units import Units
from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_lorenz63, make_ode_system
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.panel.select import keep_rows, observed_part, take

MADE = ("two kinds", "two kinds, long", "one kind", "lorenz63", "lotka_volterra", "damped_pendulum")
REAL_SETS = ("eicu", "storms", "pbcseq", "wages")
COVERAGE = 0.9
PLACES = "nearest third", "middle third", "furthest third", "before the first", "before all rows"
N_ROWS, N_DENSE, DURATION, N_ASKED = 30, 480, 24.0, 100  # rows and times of a series; series asked
FEW, N_OTHERS = 6, 60  # series that a seed trains on at least, and is asked of


class Walks(NamedTuple):
    """Ornstein-Uhlenbeck processes, 2 observations a unit of their time."""

    scales: tuple[float, ...]  # standard deviations of the series, in turn
    n_rows: tuple[int, int]


WALKS = {
    "two kinds": Walks((0.2, 1.0), (20, 40)),
    "two kinds, long": Walks((0.2, 1.0), (80, 120)),
    "one kind": Walks((1.0,), (20, 40)),
}


def walks(n_series: int, kind: Walks, rng: np.random.Generator) -> Panel:
    series = []
    for k in range(n_series):
        times = np.cumsum(rng.exponential(0.5, rng.integers(*kind.n_rows, endpoint=True)))
        x = rng.standard_normal(len(times))
        for i, gap in enumerate(np.diff(times)):
            kept = np.exp(-gap)
            x[i + 1] = kept * x[i] + np.sqrt(1 - kept**2) * x[i + 1]
        series.append((times, kind.scales[k % len(kind.scales)] * x))
    return Panel.from_series(series)


def split(name: str, seed: int, args: argparse.Namespace) -> tuple[Panel, Panel]:
    """Series to train on and series to forecast."""
    if name in REAL_SETS:
        fold = list(REAL[name].folds(args.data, seed + 1))[seed]
        train, test = fold.train, fold.test
    elif name in WALKS:
        rng = np.random.default_rng(seed)
        train, test = (walks(n, WALKS[name], rng) for n in (3 * args.n_series // 4, args.n_series))
    else:
        options = {"n_series": args.n_series, "noise": args.noise, "random_state": seed}
        data = (
            make_lorenz63(rate=0.3, **options)
            if name == "lorenz63"
            else make_ode_system(name, **options)
        )
        train, test = data.panel[data.split != "test"], data.panel[data.split == "test"]
    units = Units.of(train)
    return units.standardised(train), units.standardised(test)


def cut(panel: Panel) -> tuple[Panel, Panel]:
    """Rows up to 60 % of the duration of each series, and those after it, where there are any."""
    start, stop = panel.offsets[:-1], panel.offsets[1:]
    ends = []
    for first, end in pairwise(panel.offsets):
        times = panel.times[first:end]
        at = np.searchsorted(times, times[0] + 0.6 * (times[-1] - times[0]), "right")
        ends.append(first + max(int(at), 1))
    ends = np.array(ends)
    some = np.flatnonzero(ends < stop)
    start, ends, stop = start[some], ends[some], stop[some]
    return take(panel, some, start, ends), take(panel, some, ends, stop)


def mean_steps(panel: Panel) -> np.ndarray:
    """Mean step of all channels of each series, in standard deviations."""
    steps = np.zeros(panel.n_series)
    for k, (_, values) in enumerate(panel):
        own = [np.abs(np.diff(x[~np.isnan(x)])) for x in values.T]
        steps[k] = np.mean(np.concatenate(own)) if sum(map(len, own)) else np.nan
    return steps


def measure(model: PolyODEForecaster, past: Panel, future: Panel) -> np.ndarray:
    """Coverage of all, the quieter and the wilder half, mean width and mean score."""
    times = np.split(future.times, future.offsets[1:-1])
    ends = model.forecast_interval(past, times, COVERAGE)
    return judge(ends, future, mean_steps(past))


def hide(panel: Panel, cells: bool, rng: np.random.Generator) -> tuple[Panel, Panel]:
    """Series without a fifth of their inner rows, or of the values in them; what was hidden."""
    inner = np.ones(panel.n_observations, dtype=bool)
    inner[panel.offsets[:-1]] = inner[panel.offsets[1:] - 1] = False
    drawn = rng.random(panel.values.shape if cells else (panel.n_observations, 1)) < 0.2
    if cells:  # not the last one of its row
        drawn &= (np.isfinite(panel.values) & ~drawn).any(axis=1, keepdims=True)
    values = np.where(inner[:, None] & drawn, np.nan, panel.values)
    hidden = np.where(np.isnan(values), panel.values, np.nan)
    rows = np.isfinite(hidden).any(axis=1)
    return (
        observed_part(panel.like(panel.times, values, panel.offsets)),
        keep_rows(panel.like(panel.times, hidden, panel.offsets), rows),
    )


def measure_paths(model: PolyODEForecaster, test: Panel, cells: bool) -> np.ndarray:
    """The same of hidden rows or values."""
    left, hidden = hide(test, cells, np.random.default_rng(0))
    times = np.split(hidden.times, hidden.offsets[1:-1])
    some = np.flatnonzero(hidden.lengths)
    ends = model.interpolate_interval(left[some], [times[k] for k in some], COVERAGE)
    return judge(ends, hidden[some], mean_steps(left[some]))


def judge(ends: tuple[Panel, Panel], future: Panel, steps: np.ndarray) -> np.ndarray:
    """Figures of intervals about what came, or was hidden, by the `steps` of the series."""
    lower, upper = (own.values for own in ends)
    known = np.isfinite(future.values) & np.isfinite(lower)
    inside = (lower <= future.values) & (future.values <= upper)
    steps = np.repeat(steps, future.lengths)[:, None]
    quiet = steps <= np.nanmedian(steps)
    missed = np.maximum(lower - future.values, 0) + np.maximum(future.values - upper, 0)
    score = upper - lower + 2 / (1 - COVERAGE) * missed
    rows = inside[known], inside[known & quiet], inside[known & ~quiet]
    return np.array([*map(np.mean, rows), (upper - lower)[known].mean(), score[known].mean()])


def run(name: str, args: argparse.Namespace) -> Iterator[str]:
    """Lines of the table: without and with scales, and of hidden rows and values."""
    found, hidden = [], []
    embedder = PolyODETransformer(observations="noisy" if args.noise else "exact")
    for seed in args.seeds:
        train, test = split(name, seed, args)
        past, future = cut(test)
        with patch("skpolyode.ensemble.conformal.cross_fitted_scales", return_value=None):
            plain = PolyODEForecaster(embedder, random_state=seed)
            plain.pretrain(train)
        adapted = PolyODEForecaster(embedder, random_state=seed)
        adapted.pretrain(train)
        found.append([measure(model, past, future) for model in (plain, adapted)])
        kinds = (False, True) if test.n_channels > 1 else (False,)
        hidden.append([measure_paths(adapted, test, cells) for cells in kinds])
    plain, adapted = np.mean(found, axis=0)
    ratio = adapted[3:] / plain[3:]
    ratios = f"{ratio[0]:.2f}, {ratio[1]:.2f}"
    yield row(name, "ahead, one width", plain, "")
    yield row(name, "ahead", adapted, ratios)
    for kind, own in zip(("rows", "values"), np.mean(hidden, axis=0), strict=False):
        yield row(name, f"hidden {kind}", own, "")


def of_processes(n_series: int, args: argparse.Namespace) -> Iterator[str]:
    """Lines of coverage and of width over the oracle's, of series of each process."""
    often = max(1, round(FEW / n_series))
    for k, name in enumerate(PROCESSES):
        found = []
        for seed in (often * seed + i for seed in args.seeds for i in range(often)):
            rng = np.random.default_rng([seed, n_series, k])
            own, others = draw(name, n_series, rng), draw(name, N_OTHERS, rng)
            embedder = PolyODETransformer(max_epochs=args.epochs or "auto")
            model = PolyODEForecaster(embedder, random_state=seed).pretrain(own[0])
            found.append([oracle_ratio(model, *asked) for asked in (own, others)])
        figures = np.mean(found, axis=0).ravel()
        yield line([name, str(n_series), *(f"{x:.2f}" for x in figures), str(len(found))])


def oracle_ratio(
    model: PolyODEForecaster, known: Panel, future: Panel, deviations: np.ndarray
) -> tuple[float, float]:
    """Coverage, and mean width over the oracle's."""
    times = np.split(future.times, future.offsets[1:-1])
    lower, upper = (x.values for x in model.forecast_interval(known, times, COVERAGE))
    inside = (lower <= future.values) & (future.values <= upper)
    oracle = 2 * ndtri((1 + COVERAGE) / 2) * deviations
    return inside.mean(), (upper - lower).mean() / oracle.mean()


def dense(name: str, n_series: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Times (N,), and true values (n_series, N, D)."""
    t = np.linspace(0, DURATION, N_DENSE)
    if name == "sines":
        p, q = rng.uniform(0, 2 * np.pi, (2, n_series, 1))
        swing = rng.uniform(0.8, 1.2, (n_series, 1)) * t + p
        parts = [np.sin(swing) + np.sin(2.3 * t + q) / 2, np.cos(swing) - np.cos(1.3 * t + q) / 2]
        return t, np.stack(parts, axis=2)
    if name == "walks":
        x = rng.standard_normal((n_series, N_DENSE, 2)) @ np.array([[1, 0.5], [0, 0.87]])
        kept = np.exp(-0.3 * t[1])
        for i in range(1, N_DENSE):
            x[:, i] = kept * x[:, i - 1] + np.sqrt(1 - kept**2) * x[:, i]
        return t, x * rng.lognormal(0, 0.4, (n_series, 1, 1))
    truth = make_lorenz63(n_series, random_state=int(rng.integers(2**31))).truth
    return truth.times, truth.values[:, :, truth.observed]


def sparse(
    name: str, n_series: int, noise: float, rng: np.random.Generator
) -> tuple[Panel, list, np.ndarray, np.ndarray]:
    """Series, times between their rows, and the truth and new observations (Q, D) there."""
    t, truth = dense(name, n_series, rng)
    noisy = truth + noise * truth.std(axis=(0, 1)) * rng.standard_normal(truth.shape)
    series, asked, values = [], [], []
    for x, y in zip(truth, noisy, strict=True):
        rows = np.sort(rng.choice(len(t), N_ROWS, replace=False))
        cells = np.where(rng.random((N_ROWS, x.shape[1])) < 0.7, y[rows], np.nan)
        some = np.isfinite(cells).any(axis=1)
        rows, cells = rows[some], cells[some]
        between = np.setdiff1d(np.arange(rows[-1]), rows)
        series.append((t[rows], cells))
        asked.append(t[between])
        values.append((x[between], y[between]))
    return Panel.from_series(series), asked, *map(np.concatenate, zip(*values, strict=True))


def places(panel: Panel, asked: list) -> np.ndarray:
    """Position (Q, D) among `PLACES`; -1 after the last observation of a channel."""
    found = []
    for (t, x), at in zip(panel, asked, strict=True):
        since, until = np.full((2, len(at), x.shape[1]), np.inf)
        for j, column in enumerate(x.T):
            seen = np.append(np.append(-np.inf, t[np.isfinite(column)]), np.inf)
            k = np.searchsorted(seen, at, side="right")
            since[:, j], until[:, j] = at - seen[k - 1], seen[k] - at
        begun = np.broadcast_to(at[:, None] > t[0], since.shape)
        found.append(np.stack([since, until, begun]))
    since, until, begun = np.concatenate(found, axis=1)
    nearest, inside = np.minimum(since, until), np.isfinite(since + until)
    cuts = np.quantile(nearest[inside], [1 / 3, 2 / 3])
    early = np.where(np.isinf(since) & np.isfinite(until), 4 - begun.astype(np.int64), -1)
    return np.where(inside, np.searchsorted(cuts, nearest), early)


def of_truth(n_series: int, args: argparse.Namespace) -> Iterator[str]:
    """Lines of errors and intervals between the rows of series whose truth is known."""
    for name in ("sines", "walks", "lorenz63"):
        for noise in (0.0, 0.2):
            found = []
            for seed in args.seeds:
                rng = np.random.default_rng([seed, n_series])
                train = sparse(name, n_series, noise, rng)[0]
                panel, asked, truth, values = sparse(name, N_ASKED, noise, rng)
                kind = "noisy" if noise else "exact"
                model = PolyODETransformer(
                    max_epochs=args.epochs or "auto", observations=kind, random_state=seed
                ).fit(train)
                found.append(between_rows(model, panel, asked, truth, values))
            for place, own in zip(PLACES, np.mean(found, axis=0), strict=True):
                label = f"{name}, noise {noise:g}" if noise else name
                yield line([label, str(n_series), place, *(f"{x:.3f}" for x in own)])


def between_rows(
    model: PolyODETransformer, panel: Panel, asked: list, truth: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Figures (5, 6) of times up to the last row, in standard deviations of the channels."""
    scale, place = model.scaler_.scale, places(panel, asked)
    path, std = (f(panel, asked).values for f in (model.interpolate, model.interpolate_std))
    error, off, std = np.abs(path - values) / scale, np.abs(path - truth) / scale, std / scale
    columns = [off**2, off <= ndtri((1 + COVERAGE) / 2) * std]
    for coverage in (0.5, COVERAGE):
        lower, upper = (x.values for x in model.interpolate_interval(panel, asked, coverage))
        half = (upper - lower) / 2 / scale
        columns += [
            error <= half,
            half,
            2 * half + 2 / (1 - coverage) * np.maximum(error - half, 0),
        ]
    found = []
    for k in range(len(PLACES)):
        square, near, inside, _, _, within, half, score = (x[place == k] for x in columns)
        figures = np.sqrt(square.mean()), inside.mean(), within.mean()
        found.append([*figures, np.median(half), score.mean(), near.mean()])
    return np.array(found)


def row(name: str, asked: str, numbers: np.ndarray, ratios: str) -> str:
    return line([name, asked, *(f"{x:.3f}" for x in numbers), ratios])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the real sets; none without it")
    parser.add_argument("--sets", nargs="+", choices=MADE + REAL_SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--n-series", type=int, default=600, help="of the made sets")
    parser.add_argument("--noise", type=float, default=0.0, help="in standard deviations")
    parser.add_argument("--processes", nargs="+", type=int, help="numbers of series of each")
    parser.add_argument("--between", nargs="+", type=int, help="the same, at times between rows")
    parser.add_argument("--epochs", type=int, help="of the processes")
    args = parser.parse_args()
    if args.processes:
        columns = "process", "series", "own: coverage", "width", "others: coverage", "width", "fits"
        print("\n".join(heading([*columns])))
        for n_series in args.processes:
            for found in of_processes(n_series, args):
                print(found, flush=True)
        return
    if args.between:
        columns = "series", "where", "error", "50 %", "90 %", "half width", "score", "std"
        print("\n".join(heading(["set", *columns])))
        for n_series in args.between:
            for found in of_truth(n_series, args):
                print(found, flush=True)
        return
    names = args.sets or MADE + (REAL_SETS if args.data else ())
    if args.data is None and set(names) & set(REAL_SETS):
        parser.error("--data says where the real sets are")
    columns = "set", "asked", "coverage", "calmer half", "more volatile half", "width", "score"
    print("\n".join(heading([*columns, "width and score, ratios"])))
    for name in names:
        for found in run(name, args):
            print(found, flush=True)


if __name__ == "__main__":
    main()
