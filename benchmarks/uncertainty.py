"""How much of an error was foreseen: the paper's experiment on uncertainty, made again.

    python -m benchmarks.uncertainty [--sets lorenz63 ...] [--seeds 0 1] [--n-series 600]

Models are fitted to three quarters of the series, and asked for the others at times at which
nothing was observed, between the first and the last observation. Errors are against the truth, in
standard deviations of the channels. Printed are the root mean square error, the correlation of the
predicted scale with the absolute error (Pearson's, and that of ranks), the first if normal,
and the share of errors within 1.645 scales: .90 if they are normal and the scale is right.

If normal, a perfect scale would reach that, as errors are random: of 200 bins by the predicted
scale each gets the root mean square of its errors for a scale, and errors are drawn normal anew.

- path: `interpolate` and `interpolate_std`;
- memory: `reconstruct`, 32 coefficients over the window; its scale is the root of the sum of two
  squares, `interpolate_std` and the distance between `interpolate` and `reconstruct`;
- last: the errors of `reconstruct`, and the one scale that the model has at the last observation,
  for a typical gap ahead: the paper's rival.

HiPPO is the fixed path of lines: a PolyODE whose dynamics stand still. The paper
prints a correlation of .56 for the memory and of .11 for the last scale.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import spearmanr

from benchmarks.lines import heading, line
from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_lorenz63, make_lorenz96, make_ode_system

SETS = ("lorenz63", "lorenz96", "damped_pendulum", "lotka_volterra")
MODELS = {
    "PolyODE": {},
    # So small a rate that the field stays what it begins as: nothing moves.
    "HiPPO": {"learning_rate_init": 1e-30, "max_epochs": 1, "validation_fraction": None},
}
N_BINS = 200


def made(name: str, n_series: int, noise: float, seed: int) -> tuple:
    options = {"n_series": n_series, "noise": noise, "random_state": seed}
    if name.startswith("lorenz"):
        make = {"lorenz63": make_lorenz63, "lorenz96": make_lorenz96}[name]
        data = make(rate=0.3, **options)
    else:
        data = make_ode_system(name, **options)
    n_train = 3 * n_series // 4
    truth = data.truth.values[:, :, data.truth.observed]
    return data.panel[:n_train], data.panel[n_train:], data.truth.times, truth[n_train:]


def hidden_times(panel: Panel, grid: np.ndarray, window: float) -> list[np.ndarray]:
    """Times of the grid that the window of each series covers, and that were not observed."""
    found = []
    for times, _ in panel:
        start = max(times[0], times[-1] - window)
        inside = (grid > start) & (grid < times[-1])
        found.append(grid[inside & ~np.isin(grid, times)])
    return found


def correlation_if_normal(error: np.ndarray, scale: np.ndarray) -> float:
    """Correlation of a perfect scale with the absolute errors that are drawn from it."""
    true = np.empty_like(scale)
    for part in np.array_split(np.argsort(scale), N_BINS):
        true[part] = np.sqrt(np.mean(error[part] ** 2))
    drawn = true * np.random.default_rng(0).standard_normal(len(true))
    return float(np.corrcoef(true, np.abs(drawn))[0, 1])


def row(name: str, error: np.ndarray, scale: np.ndarray) -> str:
    error, scale = np.abs(error).ravel(), scale.ravel()
    numbers = [
        np.sqrt(np.mean(error**2)),
        np.corrcoef(scale, error)[0, 1],
        spearmanr(scale, error)[0],
        correlation_if_normal(error, scale),
        np.mean(error <= 1.645 * scale),
    ]
    return line([name, *(f"{x:.3f}" for x in numbers)])


def measure(name: str, n_series: int, noise: float, seed: int) -> Iterator[str]:
    train, test, grid, truth = made(name, n_series, noise, seed)
    for label, options in MODELS.items():
        start = time.process_time()
        kind = "noisy" if noise and label == "PolyODE" else "exact"
        model = PolyODETransformer(observations=kind, random_state=seed, **options).fit(train)
        fitted = time.process_time()
        times = hidden_times(test, grid, model.window_)
        at = np.concatenate([np.searchsorted(grid, own) for own in times])
        known = truth[np.repeat(np.arange(len(times)), [len(own) for own in times]), at]
        unit = model.scaler_.scale
        path, memory, path_std = (
            ask(test, times).values / unit
            for ask in (model.interpolate, model.reconstruct, model.interpolate_std)
        )
        memory_std = np.hypot(path_std, path - memory)
        ahead = model.interpolate_std(test, [model.time_scale_], relative_to="end").values / unit
        last = np.repeat(ahead, [len(own) for own in times], axis=0)
        known = known / unit
        yield row(f"{name} {seed} {label}, path", path - known, path_std)
        yield row(f"{name} {seed} {label}, memory", memory - known, memory_std)
        yield row(f"{name} {seed} {label}, last", memory - known, last)
        print(f"{name} {seed} {label}: fit {fitted - start:.1f} s", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", nargs="+", default=["lorenz63"], choices=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--n-series", type=int, default=600)
    parser.add_argument("--noise", type=float, default=0.0, help="in standard deviations")
    options = parser.parse_args(argv)
    columns = "rmse", "Pearson", "ranks", "if normal", "within"
    print("\n".join(heading(["set, seed", *columns])))
    for name in options.sets:
        for seed in options.seeds:
            for found in measure(name, options.n_series, options.noise, seed):
                print(found, flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="window=")
    main()
