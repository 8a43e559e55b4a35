"""Coverage of `forecast_std`, lead by lead: filters of noisy observations, on new series.

    python -m benchmarks.forecast_coverage [--sets sines lorenz63] [--noise 0.1 0.3] [--seeds 0 1]

A filter with default parameters is fitted to 200 series with noise, given in parts of the channel's
standard deviation (of sines of amplitude .5 to 1.5: in their units). 500 other series are observed
for two thirds of their span, and forecast at their later times. Printed is, for
leads in typical gaps of the set, the share of the truth without noise within 1.645 standard
deviations (.90 if errors are normal and of that size), and how much larger the root mean square
error is than that of the standard deviations.
"""

from __future__ import annotations

import argparse
import itertools
from itertools import pairwise

import numpy as np
from scipy.interpolate import CubicSpline

from benchmarks.lines import heading, line
from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_lorenz63
from skpolyode.panel.select import split_rows

EDGES = (0, 1, 2, 4, 6, 8, 10)  # leads, in median gaps
N_TRAIN, N_TEST = 200, 500
SEEN = 2 / 3  # of a span


def sines(noise: float, rng: np.random.Generator) -> tuple[Panel, Panel]:
    """Series with noise, and what they would be without."""
    noisy, clean = [], []
    for _ in range(N_TRAIN + N_TEST):
        times = np.sort(rng.uniform(0, 12, 40))
        size, speed, phase = rng.uniform([0.5, 0.8, 0.0], [1.5, 1.6, 2 * np.pi])
        truth = size * np.sin(speed * times + phase)[:, None]
        noisy.append((times, truth + noise * rng.normal(size=truth.shape)))
        clean.append((times, truth))
    return Panel.from_series(noisy), Panel.from_series(clean)


def lorenz63(noise: float, rng: np.random.Generator) -> tuple[Panel, Panel]:
    """As `sines`, of a chaotic system."""
    seed, n_series = int(rng.integers(2**31)), N_TRAIN + N_TEST
    data = make_lorenz63(rate=0.3, n_series=n_series, noise=noise, random_state=seed)
    truth = CubicSpline(data.truth.times, data.truth.values[..., data.truth.observed], axis=1)
    clean = [(times, truth(times)[k]) for k, (times, _) in enumerate(data.panel)]
    return data.panel, Panel.from_series(clean)


SETS = {"sines": sines, "lorenz63": lorenz63}


def measure(name: str, noise: float, seed: int) -> list[str]:
    """Cells of a row of the table, one for each bin of leads."""
    panel, clean = SETS[name](noise, np.random.default_rng(seed))
    train, test = panel[:N_TRAIN], panel[N_TRAIN:]
    model = PolyODETransformer(observations="noisy", random_state=seed).fit(train)
    gap = np.median(np.concatenate([np.diff(times) for times, _ in train]))
    first, last = test.times[test.offsets[:-1]], test.times[test.offsets[1:] - 1]
    cuts = first + SEEN * (last - first)
    seen, later = split_rows(test, cuts)
    truth = split_rows(clean[N_TRAIN:], cuts)[1].values
    asked = [times for times, _ in later]
    lead = (later.times - np.repeat(seen.times[seen.offsets[1:] - 1], later.lengths)) / gap
    error = model.forecast(seen, asked).values - truth
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
    print(*heading(["set, noise, seed", *leads]), sep="\n")
    for case in itertools.product(args.sets, args.noise, args.seeds):
        print(line([f"{case[0]}, {case[1]:g}, {case[2]}", *measure(*case)]), flush=True)


if __name__ == "__main__":
    main()
