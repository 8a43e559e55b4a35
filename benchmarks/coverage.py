"""Coverage of `forecast_std`, lead by lead: filters of noisy observations, on new series.

    python benchmarks/coverage.py [--sets sines lorenz63] [--noise 0.1 0.3] [--seeds 0 1]

A filter with default parameters is fitted to 200 series with noise, given in parts of the channel's
standard deviation (of sines of amplitude .5 to 1.5: in their units). 500 other series are observed
for two thirds of their span, and forecast at their later times by the free run. Printed is, for
leads in typical gaps of the set, the share of the truth without noise within 1.645 standard
deviations (.90 if errors are normal and of that size), and how much larger the root mean square
error is than that of the standard deviations.
"""

from __future__ import annotations

import argparse
import itertools
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_lorenz63

EDGES = (0, 1, 2, 4, 6, 8, 10)  # leads, in median gaps
N_TRAIN, N_TEST = 200, 500
SEEN = 2 / 3  # of a span


class Series(NamedTuple):
    times: np.ndarray
    values: np.ndarray  # with noise
    truth: np.ndarray  # at the same times


def sines(noise: float, rng: np.random.Generator) -> list[Series]:
    made = []
    for _ in range(N_TRAIN + N_TEST):
        times = np.sort(rng.uniform(0, 12, 40))
        size, speed, phase = rng.uniform([0.5, 0.8, 0.0], [1.5, 1.6, 2 * np.pi])
        truth = size * np.sin(speed * times + phase)[:, None]
        made.append(Series(times, truth + noise * rng.normal(size=truth.shape), truth))
    return made


def lorenz63(noise: float, rng: np.random.Generator) -> list[Series]:
    seed, n_series = int(rng.integers(2**31)), N_TRAIN + N_TEST
    data = make_lorenz63(rate=0.3, n_series=n_series, noise=noise, random_state=seed)
    truth = CubicSpline(data.truth.times, data.truth.values[..., data.truth.observed], axis=1)
    return [Series(*rows, truth(rows[0])[k]) for k, rows in enumerate(data.panel)]


SETS = {"sines": sines, "lorenz63": lorenz63}


def measure(name: str, noise: float, seed: int) -> list[str]:
    """Cells of a row of the table, one for each bin of leads."""
    series = SETS[name](noise, np.random.default_rng(seed))
    train, test = series[:N_TRAIN], series[N_TRAIN:]
    model = PolyODETransformer(observations="noisy", random_state=seed)
    model.fit(Panel.from_series([(s.times, s.values) for s in train]))
    gap = np.median(np.concatenate([np.diff(s.times) for s in train]))
    known = [s.times < s.times[0] + SEEN * np.ptp(s.times) for s in test]
    pairs = list(zip(test, known, strict=True))
    seen = Panel.from_series([(s.times[part], s.values[part]) for s, part in pairs])
    asked = [s.times[~part] for s, part in pairs]
    lead = np.concatenate([s.times[~part] - s.times[part][-1] for s, part in pairs]) / gap
    truth = np.concatenate([s.truth[~part] for s, part in pairs])
    error = model.forecast(seen, asked, combine=False).values - truth
    std = model.stream(seen).forecast_std(asked).values
    cells = []
    for low, high in pairwise(EDGES):
        near = (lead > low) & (lead <= high)
        covered = np.mean(np.abs(error[near]) < 1.645 * std[near])
        larger = np.sqrt(np.mean(error[near] ** 2) / np.mean(std[near] ** 2))
        cells.append(f"{covered:.2f} ({larger:.2f})")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--noise", type=float, nargs="+", default=[0.1, 0.3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    args = parser.parse_args()
    leads = [f"{low} to {high}" for low, high in pairwise(EDGES)]
    print("| set, noise, seed |", *(f" {lead} |" for lead in leads), sep="")
    print("|---|", "---|" * len(leads), sep="")
    for case in itertools.product(args.sets, args.noise, args.seeds):
        print(
            f"| {case[0]}, {case[1]:g}, {case[2]} |",
            *(f" {x} |" for x in measure(*case)),
            sep="",
            flush=True,
        )


if __name__ == "__main__":
    main()
