"""Sampled futures of processes whose joint law is known.

    python -m benchmarks.paths [--epochs 10] [--seed 0]

Two channels of an Ornstein-Uhlenbeck process and of a random walk with drift, whose steps are
correlated (0.8), observed at irregular times. Prints mean scores of samples of 16 time points ahead
of both channels: the energy score and the variogram score (of power 1/2) judge the joint law, the
CRPS each value alone; less is better. The law itself is the best that there is. "independent" has
the samples of sample_paths, shuffled at each time and in each channel: the same marginals.
"Gaussian processes" are one for each series and channel, with a Matern kernel of 1/2, which is the
kernel of an Ornstein-Uhlenbeck process, whose size and length are fitted to the rows of the series.
"highest" is the standard deviation of the highest value of the first channel on the way, and how
many of the true ones lie in the central nine tenths of the samples.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from benchmarks.lines import heading, line
from skpolyode import PolyODETransformer

N_TRAIN, N_TEST, N_ROWS, N_SAMPLES = 60, 300, 40, 200
AHEAD = np.arange(1.0, 17.0)
RATE, DRIFT, CORRELATION = 0.15, 0.2, 0.8
PROCESSES = ("Ornstein-Uhlenbeck", "walk with drift")
_MIX = np.linalg.cholesky([[1.0, CORRELATION], [CORRELATION, 1.0]])


def step(name: str, x: np.ndarray, gap: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Values (..., 2) after gaps (..., 1) of a process of standard deviation 1, or steps of 1."""
    noise = rng.standard_normal(x.shape) @ _MIX.T
    if name == "walk with drift":
        return x + DRIFT * gap + np.sqrt(gap) * noise
    left = np.exp(-RATE * gap)
    return left * x + np.sqrt(1 - left**2) * noise


def simulate(name: str, n_series: int, rng: np.random.Generator) -> tuple[list, np.ndarray]:
    """Series up to a time, and what follows (n_series, T, 2)."""
    gaps = 0.1 + 0.9 * rng.exponential(size=(N_ROWS - 1, n_series, 1))
    x = [rng.standard_normal((n_series, 2)) @ _MIX.T]
    for gap in gaps:
        x.append(step(name, x[-1], gap, rng))
    times = np.concatenate([np.zeros((1, n_series)), np.cumsum(gaps[..., 0], axis=0)])
    series = [(times[:, i], np.stack(x)[:, i]) for i in range(n_series)]
    return series, futures(name, x[-1], rng)


def futures(name: str, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Courses (n, T, 2) from values (n, 2)."""
    found = []
    for gap in np.diff(AHEAD, prepend=0.0):
        x = step(name, x, gap, rng)
        found.append(x)
    return np.stack(found, axis=1)


def energy_score(samples: np.ndarray, actual: np.ndarray) -> float:
    """Of samples (S, V) beside a vector (V,)."""
    apart = np.linalg.norm(samples[:, None] - samples[None], axis=-1).mean()
    return float(np.linalg.norm(samples - actual, axis=1).mean() - apart / 2)


def variogram_score(samples: np.ndarray, actual: np.ndarray) -> float:
    """Mean over all pairs of values."""
    expected = np.sqrt(np.abs(samples[:, :, None] - samples[:, None])).mean(axis=0)
    return float(np.mean((np.sqrt(np.abs(actual[:, None] - actual)) - expected) ** 2))


def crps(samples: np.ndarray, actual: np.ndarray) -> float:
    """Mean over the values."""
    ordered, n = np.sort(samples, axis=0), len(samples)
    weights = (2 * np.arange(1, n + 1) - n - 1)[:, None]
    spread = 2 * (weights * ordered).sum(axis=0) / n**2
    return float((np.abs(samples - actual).mean(axis=0) - spread / 2).mean())


def scores(samples: np.ndarray, actual: np.ndarray) -> list[str]:
    """Of samples (n, S, T, 2) beside what came (n, T, 2)."""
    pairs = [(s.reshape(len(s), -1), a.ravel()) for s, a in zip(samples, actual, strict=True)]
    found = [np.mean([f(*p) for p in pairs]) for f in (energy_score, variogram_score, crps)]
    highest = samples[..., 0].max(axis=2)
    low, high = np.quantile(highest, [0.05, 0.95], axis=1)
    came = actual[..., 0].max(axis=1)
    inside = ((low <= came) & (came <= high)).mean()
    return [*(f"{x:.3f}" for x in found), f"{highest.std(axis=1).mean():.3f}", f"{inside:.2f}"]


def gaussian_processes(known: list, random_state: int) -> np.ndarray:
    """Courses (n, S, T, 2) of a process that is fitted to each channel of each series."""
    found, rng = [], np.random.RandomState(random_state)
    for times, values in known:
        own = []
        for x in values.T:
            kernel = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(5.0, (0.1, 1e4), nu=0.5)
            process = GaussianProcessRegressor(kernel, normalize_y=True)
            with warnings.catch_warnings():  # of lengths at their bounds: a walk has no length
                warnings.simplefilter("ignore", ConvergenceWarning)
                process.fit(times[:, None], x)
            asked = (times[-1] + AHEAD)[:, None]
            own.append(process.sample_y(asked, N_SAMPLES, random_state=rng).T)
        found.append(np.stack(own, axis=-1))
    return np.stack(found)


def shuffled(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same marginals, independent of each other."""
    return rng.permuted(samples, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    titles = ["process", "samples", "energy", "variogram", "CRPS", "highest, std", "covered"]
    print("\n".join(heading(titles)))
    for name in PROCESSES:
        rng = np.random.default_rng(args.seed)
        train, _ = simulate(name, N_TRAIN, rng)
        known, actual = simulate(name, N_TEST, rng)
        model = PolyODETransformer(max_epochs=args.epochs, random_state=args.seed).fit(train)
        options = {"relative_to": "end", "n_samples": N_SAMPLES, "random_state": 0}
        paths = model.sample_paths(known, AHEAD, **options).values
        now = np.stack([x[-1] for _, x in known])
        law = futures(name, np.repeat(now, N_SAMPLES, axis=0), rng)
        law = law.reshape(len(known), N_SAMPLES, len(AHEAD), 2)
        rows = {"sample_paths": paths, "independent": shuffled(paths, rng)}
        rows |= {"Gaussian processes": gaussian_processes(known, args.seed), "the law": law}
        for title, samples in rows.items():
            print(line([name, title, *scores(samples, actual)]), flush=True)


if __name__ == "__main__":
    main()
