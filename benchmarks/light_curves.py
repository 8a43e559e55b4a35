"""Simulated light curves in two bands, with the error of each magnitude, beside a Gaussian process.

    python -m benchmarks.light_curves [--periods 4 12] [--n-train 200] [--n-test 40] [--seeds 0 1]

Pulsating stars: three harmonics whose amplitudes and phases go with the period, as those of RR
Lyrae and Cepheids do; the second band has 0.7 of the amplitude and lags a little. 60 nights at
random in 20 days observe one band each, with errors from 0.03 to 0.3 of the amplitude of the star,
log-uniform. What lies in four gaps of a day is hidden. Errors are root mean squares of the
magnitude without noise at the hidden nights, in both bands, in amplitudes; coverage is that of the
truth by 1.645 standard deviations. With periods of 4 to 12 days the nights resolve the curves, with
those of 1 to 5 days often not.

- PolyODE told: with the errors; noisy: without; trained on other stars.
- GP told: a Gaussian process for each star, of both bands together (Matern 5/2 in time, a learned
  length between the bands), with the same errors as the variances of its noise.
- nearest: the last magnitude of the band.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skpolyode import Panel, PolyODETransformer

SPAN, NIGHTS, BANDS = 20.0, 60, 2
SHAPES = {"amplitude": np.array([1.0, 0.45, 0.2]), "phase": np.array([0.0, 0.9, 2.1])}


class Stars:
    """Light curves, the nights that are hidden, and the truth there."""

    def __init__(
        self, n_stars: int, rng: np.random.Generator, periods: tuple[float, float]
    ) -> None:
        series, errors, self.hidden, self.truth = [], [], [], []
        for _ in range(n_stars):
            period, start = np.exp(rng.uniform(*np.log(periods))), rng.uniform(0, 2 * np.pi)
            age = np.log(period / periods[0]) / np.log(periods[1] / periods[0])
            size = SHAPES["amplitude"] * [1.0, 1.2 - 0.5 * age, 1.0]
            phase = SHAPES["phase"] + age * np.arange(3)

            def clean(
                t: np.ndarray, band: np.ndarray, period=period, start=start, size=size, phase=phase
            ):
                angle = 2 * np.pi * t / period + start - 0.15 * band
                waves = np.sin(angle[:, None] * (1 + np.arange(3)) + phase) @ size
                return waves * np.where(band == 1, 0.7, 1.0)

            t = np.sort(rng.uniform(0, SPAN, NIGHTS))
            band = rng.integers(BANDS, size=NIGHTS)
            sigma = 10 ** rng.uniform(np.log10(0.03), np.log10(0.3), NIGHTS)
            gaps = rng.uniform(2, SPAN - 3, 4)
            kept = ~((t[:, None] > gaps) & (t[:, None] < gaps + 1)).any(axis=1)
            values, error = np.full((2, NIGHTS, BANDS), np.nan)
            values[np.arange(NIGHTS), band] = clean(t, band) + sigma * rng.normal(size=NIGHTS)
            error[np.arange(NIGHTS), band] = sigma
            series.append((t[kept], values[kept]))
            errors.append(error[kept])
            ask = t[~kept] if (~kept).any() else np.array([SPAN / 2])
            self.hidden.append(ask)
            pair = [clean(ask, np.full(len(ask), b)) for b in range(BANDS)]
            self.truth.append(np.stack(pair, axis=1))
        names = ["g", "r"]
        self.told = Panel.from_series(series, errors=errors, channel_names=names)
        self.panel = Panel.from_series(series, channel_names=names)


def process(star: Panel, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (Q, 2) of a Gaussian process of both bands."""
    row, band = np.nonzero(~np.isnan(star.values))
    x, sigma = star.values[row, band], star.errors[row, band]
    points = np.stack([star.times[row], band], axis=1)
    kernel = ConstantKernel(1.0, (0.01, 100.0)) * Matern(
        [0.5, 2.0], [(0.05, 20.0), (0.1, 100.0)], nu=2.5
    )
    model = GaussianProcessRegressor(kernel, alpha=sigma**2, n_restarts_optimizer=1, random_state=0)
    model.fit(points, x - x.mean())
    found = [model.predict(np.stack([at, np.full(len(at), b)], axis=1), True) for b in range(BANDS)]
    mean, std = (np.stack(columns, axis=1) for columns in zip(*found, strict=True))
    return mean + x.mean(), std


def line(
    name: str, found: np.ndarray, true: np.ndarray, std: np.ndarray | None, start: float
) -> None:
    error = np.sqrt(np.mean((found - true) ** 2))
    share = "" if std is None else f"  covered {np.mean(np.abs(found - true) < 1.645 * std):.2f}"
    print(f"{name:16s}{error:8.3f}{share}   {time.process_time() - start:.0f} s", flush=True)


def measure(seed: int, n_train: int, n_test: int, periods: tuple[float, float]) -> None:
    rng = np.random.default_rng(seed)
    train, test = Stars(n_train, rng, periods), Stars(n_test, rng, periods)
    true = np.concatenate(test.truth)
    for name in ("told", "noisy"):
        start = time.process_time()
        own = [stars.told if name == "told" else stars.panel for stars in (train, test)]
        model = PolyODETransformer(
            observations="auto" if name == "told" else "noisy", random_state=0
        )
        model.fit(own[0])
        asked = own[1], test.hidden
        found, std = (f(*asked).values for f in (model.interpolate, model.interpolate_std))
        line(f"PolyODE {name}", found, true, std, start)
    start = time.process_time()
    pairs = [process(test.told[[k]], at) for k, at in enumerate(test.hidden)]
    found, std = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    line("GP told", found, true, std, start)
    start = time.process_time()
    last = []
    for (t, x), at in zip(test.panel, test.hidden, strict=True):
        columns = [x[~np.isnan(x[:, b]), b] for b in range(BANDS)]
        moments = [t[~np.isnan(x[:, b])] for b in range(BANDS)]
        place = [np.maximum(np.searchsorted(m, at) - 1, 0) for m in moments]
        last.append(np.stack([c[p] for c, p in zip(columns, place, strict=True)], axis=1))
    line("nearest", np.concatenate(last), true, None, start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--periods", nargs=2, type=float, default=[4.0, 12.0], help="in days")
    parser.add_argument("--n-train", type=int, default=200)
    parser.add_argument("--n-test", type=int, default=40)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    for seed in options.seeds:
        print(f"\nseed {seed}: error at hidden nights, in amplitudes")
        measure(seed, options.n_train, options.n_test, tuple(options.periods))


if __name__ == "__main__":
    main()
