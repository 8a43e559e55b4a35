"""Intervals of channels that start late and of series of a few rows, on processes that are known.

    python -m benchmarks.late_and_short [--only walk] [--seeds 0 1] [--n-series 40] [--epochs 10]

Three channels of a process are mixed, so that they are correlated, and a third of the cells is
missing. Of new series, one channel is hidden up to 30 to 70 % of the rows ("late"); its cells there
and its mean in time from the start to a random time of that stretch are asked for. Others end after
one, two or three rows, and the next eight rows are asked for ("after 1" ...). Coverage of intervals
of 90 %, their mean width in standard deviations of the channel, and their interval score. "middle"
are rows of other cells between observations, which must not get worse.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from benchmarks.lines import heading, line
from skpolyode import Panel, PolyODETransformer

COVERAGE, N_ROWS, FINER, N_TEST = 0.9, 30, 8, 120
Course = tuple[np.ndarray, np.ndarray]


def walk(rng: np.random.Generator, t: np.ndarray) -> np.ndarray:
    """Random walks from levels of their own."""
    steps = np.sqrt(np.diff(t, prepend=0.0))[:, None] * rng.normal(size=(len(t), 3))
    return rng.normal(size=3) * 2 + 0.5 * steps.cumsum(axis=0)


def reverting(rng: np.random.Generator, t: np.ndarray) -> np.ndarray:
    """Ornstein-Uhlenbeck processes."""
    x = [rng.normal(size=3)]
    for gap in np.diff(t):
        kept = np.exp(-0.3 * gap)
        x.append(kept * x[-1] + np.sqrt(1 - kept**2) * rng.normal(size=3))
    return np.array(x)


def swings(rng: np.random.Generator, t: np.ndarray) -> np.ndarray:
    """Waves of random phase and size."""
    phase, size = rng.uniform(0, 6.3, 3), rng.gamma(4, 0.25, 3)
    return size * np.sin(np.array([0.5, 0.8, 1.1]) * t[:, None] + phase)


PROCESSES: dict[str, Callable[..., np.ndarray]] = {
    "walk": walk,
    "reverting": reverting,
    "swings": swings,
}
MIXED = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.6, 0.4, 0.7]])


def drawn(name: str, n: int, rng: np.random.Generator) -> list[Course]:
    """Courses at 8 times a row."""
    found = []
    for _ in range(n):
        rows = np.cumsum(0.2 + rng.exponential(0.8, N_ROWS))
        gaps = np.diff(rows, append=rows[-1] + 1.0)
        t = (rows[:, None] + gaps[:, None] * np.arange(FINER) / FINER).ravel()
        found.append((t, PROCESSES[name](rng, t) @ MIXED.T))
    return found


def observed(courses: list[Course], rng: np.random.Generator) -> Panel:
    series = []
    for t, x in courses:
        values = x[::FINER].copy()
        values[rng.random(values.shape) < 1 / 3] = np.nan
        values[0] = np.where(np.isnan(values).all(), 0.0, x[0])
        series.append((t[::FINER], values))
    return Panel.from_series(series)


class Tally:
    """Intervals and truths by question."""

    def __init__(self) -> None:
        self.found: dict[str, list[np.ndarray]] = {}

    def add(self, name: str, low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> None:
        known = ~np.isnan(truth + low)
        self.found.setdefault(name, []).append(np.stack([low, high, truth])[:, known])

    def lines(self, process: str) -> list[str]:
        rows = []
        for name, parts in self.found.items():
            low, high, truth = np.concatenate(parts, axis=1)
            missed = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
            score = (high - low + 2 / (1 - COVERAGE) * missed).mean()
            figures = (missed == 0).mean(), (high - low).mean(), score
            rows.append(line([process, name, str(len(truth)), *(f"{x:.3f}" for x in figures)]))
        return rows


def late(model: PolyODETransformer, courses: list[Course], scale, rng, tally: Tally) -> None:
    panel = observed(courses, rng)
    values, truth = panel.values.copy(), np.concatenate([x[::FINER] for _, x in courses])
    hidden = np.zeros(values.shape, dtype=bool)
    channel, first = rng.integers(3, size=len(courses)), rng.uniform(0.3, 0.7, len(courses))
    asked = []
    for k, (j, share) in enumerate(zip(channel, first, strict=True)):
        start, n = panel.offsets[k], int(share * N_ROWS)
        hidden[start : start + n, j] = True
        values[start, (j + 1) % 3] = truth[start, (j + 1) % 3]  # the series starts
        asked.append(
            panel.times[start]
            + rng.uniform(0.3, 1) * (panel.times[start + n - 1] - panel.times[start])
        )
    known = panel.like(panel.times, np.where(hidden, np.nan, values), panel.offsets)
    low, high = (x.values / scale for x in model.interpolate_interval(known, coverage=COVERAGE))
    tally.add("late", low[hidden], high[hidden], (truth / scale)[hidden])
    inner = np.isnan(known.values) & ~hidden
    tally.add("middle", low[inner], high[inner], (truth / scale)[inner])
    table = model.average(known, None, asked, coverage=COVERAGE)
    ends = table[["lower", "upper"]].to_numpy().reshape(len(courses), 3, 2)
    for what in ("mean of late", "mean of others"):
        at = (channel + (what != "mean of late")) % 3
        means = []
        for (t, x), end, j in zip(courses, asked, at, strict=True):
            own = t <= end
            means.append(np.trapezoid(x[own, j], t[own]) / (t[own][-1] - t[0]))
        low, high = (ends[np.arange(len(at)), at, k] / scale[at] for k in (0, 1))
        tally.add(what, low, high, np.array(means) / scale[at])


def short(model: PolyODETransformer, courses: list[Course], scale, rng, tally: Tally) -> None:
    whole = observed(courses, rng)
    truth = np.stack([x[::FINER] for _, x in courses])
    for n in (1, 2, 3, 10):
        cut = Panel.from_series([(t[:n], x[:n]) for t, x in whole], empty="keep")
        times = [t[::FINER][n : n + 8] for t, _ in courses]
        seen = np.isfinite(cut.values).any(axis=1).reshape(-1, n)
        is_whole = np.flatnonzero(seen[:, 0] & seen[:, -1])
        asked = [times[k] for k in is_whole]
        low, high = model.forecast_interval(cut[is_whole], asked, coverage=COVERAGE)
        actual = truth[is_whole, n : n + 8].reshape(-1, 3) / scale
        tally.add(f"after {n}", *((x.values / scale).ravel() for x in (low, high)), actual.ravel())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PROCESSES, default=list(PROCESSES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--n-series", type=int, default=40)
    parser.add_argument("--epochs", type=int)
    args = parser.parse_args()
    print("\n".join(heading(["process", "question", "n", "coverage", "width", "score"])))
    for name in args.only:
        tally = Tally()
        for seed in args.seeds:
            rng = np.random.default_rng([seed, len(name)])
            train = observed(drawn(name, args.n_series, rng), rng)
            model = PolyODETransformer(max_epochs=args.epochs or "auto", random_state=seed)
            model.fit(train)
            scale, courses = np.nanstd(train.values, axis=0), drawn(name, N_TEST, rng)
            late(model, courses, scale, rng, tally)
            short(model, courses, scale, rng, tally)
        print("\n".join(tally.lines(name)), flush=True)


if __name__ == "__main__":
    main()
