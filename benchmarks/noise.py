"""Noisy observations: how near each method comes to the signal without the noise.

    python -m benchmarks.noise [--systems van_der_pol ...] [--noise 0 0.1 0.3] [--seeds 0 1]
        [--models auto exact noisy told] [--spread 10] [--no-rivals]

Series of 100 observations on average, all channels together, with Gaussian noise in parts of the
channel's standard deviation. Models are fitted to the training part. The test series are cut at
80 % of the span; errors are mean squares against the *clean* truth, in variances of the channel:

- past: over the last quarter of the span up to the last observation, read from 32 coefficients;
- path: the same by `interpolate`, or by the fixed method itself;
- ahead: forecasts over the 5 % of the span that follow the cut.

Rivals work on each channel of each test series by itself: PCHIP through the observations; least
squares on the observations of the last quarter, with the number of coefficients that has the least
leave-one-out error; SciPy's smoothing spline with the penalty of least generalised
cross-validation; a Gaussian process (Matern 5/2) whose amplitude, length and noise have the
largest likelihood. The last columns are the share of the truth within 1.64 of `interpolate_std`,
on the path and ahead, .90 if errors are normal and of that size, and the learned noise of each
channel, in its standard deviations.

With ``--spread 10`` the noise of each cell is drawn: of tenfold range, log-uniform around `noise`.
The model "told" is "auto" with these known errors, and the Gaussian process "told" knows them too.

"auto", "exact" and "noisy" are values of the `observations` of `PolyODETransformer`. Prints a table
of means over the seeds, with the number of seeds on which a method's path was the best, and the
least and largest of the learned noise; what each seed gave goes to stderr as it comes.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from numpy.polynomial import legendre
from scipy.interpolate import PchipInterpolator, make_smoothing_spline
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.utils import Bunch

from benchmarks.lines import heading, line
from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_lorenz63, make_ode_system
from skpolyode.panel.select import keep_rows

CUT, PAST, AHEAD = 0.8, 0.25, 0.05  # of the span
SYSTEMS: dict[str, Callable[..., Bunch]] = {
    "van_der_pol": lambda n, **options: make_ode_system("van_der_pol", n, **options),
    "fitzhugh_nagumo": lambda n, **options: make_ode_system("fitzhugh_nagumo", n, **options),
    "lorenz63": make_lorenz63,
}


def least_squares(t: np.ndarray, x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Polynomial of the degree with the least leave-one-out error, over the recent past."""
    first = max(np.searchsorted(t, at[0]) - 1, 0)  # or the fit goes astray at the beginning
    start, end = t[first], t[-1]
    t, at = (2 * (times - start) / (end - start) - 1 for times in (t[first:], at))
    x = x[first:]
    best, coefficients = np.inf, np.array([x.mean()])
    for degree in range(min(len(t) // 2, 20)):
        basis = legendre.legvander(t, degree)
        q, _ = np.linalg.qr(basis)
        leverage = np.minimum((q**2).sum(axis=1), 1 - 1e-9)
        error = np.mean(((x - q @ (q.T @ x)) / (1 - leverage)) ** 2)
        if error < best:
            best, coefficients = error, np.linalg.lstsq(basis, x, rcond=None)[0]
    return legendre.legval(at, coefficients)


def smoothing_spline(t: np.ndarray, x: np.ndarray, at: np.ndarray) -> np.ndarray:
    return make_smoothing_spline(t, x)(at)


def pchip(t: np.ndarray, x: np.ndarray, at: np.ndarray) -> np.ndarray:
    return PchipInterpolator(t, x)(at)


def gaussian_process(t: np.ndarray, x: np.ndarray, at: np.ndarray) -> np.ndarray:
    length = 3 * np.median(np.diff(t))
    kernel = ConstantKernel() * Matern(length, (length / 10, 100 * length), nu=2.5)
    model = GaussianProcessRegressor(
        kernel + WhiteKernel(0.05, (1e-8, 1.0)), normalize_y=True, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(t[:, None], x).predict(at[:, None])


def told_process(t: np.ndarray, x: np.ndarray, at: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    length, (centre, scale) = 3 * np.median(np.diff(t)), (x.mean(), x.std())
    kernel = ConstantKernel() * Matern(length, (length / 10, 100 * length), nu=2.5)
    model = GaussianProcessRegressor(kernel, alpha=(sigma / scale) ** 2 + 1e-8, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(t[:, None], (x - centre) / scale)
        return model.predict(at[:, None]) * scale + centre


NAIVE = {
    "PCHIP": pchip,
    "least squares": least_squares,
    "smoothing spline": smoothing_spline,
    "Gaussian process": gaussian_process,
}


def without_errors(panel: Panel) -> Panel:
    return Panel(panel.times, panel.values, panel.offsets)


def with_cell_noise(data: Bunch, noise: float, spread: float, seed: int) -> Bunch:
    """The same with noise whose size differs from cell to cell, and is known."""
    rng, panel = np.random.default_rng(seed), data.panel
    exponent = rng.uniform(-0.5, 0.5, panel.values.shape)
    sigma = noise * data.truth.values[..., data.truth.observed].std(axis=(0, 1)) * spread**exponent
    values = panel.values + sigma * rng.normal(size=sigma.shape)
    return Bunch(**{**data, "panel": Panel(panel.times, values, panel.offsets, errors=sigma)})


class Task:
    """Test series up to the cut, and the clean truth before and after it."""

    def __init__(self, data: Bunch) -> None:
        truth, test = data.truth, np.flatnonzero(np.asarray(data.split) == "test")
        grid, clean = truth.times, truth.values[:, :, truth.observed]
        span = grid[-1]
        self.window, self.scale = PAST * span, clean.std(axis=(0, 1))
        whole = data.panel[test]
        kept = whole.times <= CUT * span
        self.told = keep_rows(whole, kept)
        self.panel = without_errors(self.told)
        end = self.panel.times[self.panel.offsets[1:] - 1]
        before = [(grid > e - self.window) & (grid <= e) for e in end]
        after = [(grid > CUT * span) & (grid <= (CUT + AHEAD) * span) for _ in end]
        # From the very first moment of the window, which least squares take as its beginning.
        self.past = [np.append(e - self.window, grid[m]) for e, m in zip(end, before, strict=True)]
        self.ahead = [grid[m] for m in after]
        pick = [
            np.concatenate([clean[i][m] for i, m in zip(test, marks, strict=True)])
            for marks in (before, after)
        ]
        self.true_past, self.true_ahead = pick

    def _error(self, found: np.ndarray, true: np.ndarray) -> float:
        return float(np.mean(((found - true) / self.scale) ** 2))

    def of_model(self, model: PolyODETransformer, panel: Panel) -> list[float]:
        times = [t[1:] for t in self.past]
        found = model.reconstruct(panel, times), model.interpolate(panel, times)
        ahead = model.forecast(panel, self.ahead)
        pairs = [(f.values, self.true_past) for f in found] + [(ahead.values, self.true_ahead)]
        return [self._error(*pair) for pair in pairs]

    def coverage(self, model: PolyODETransformer, panel: Panel) -> list[float]:
        past, ahead = [t[1:] for t in self.past], self.ahead
        shares = []
        for times, true in ((past, self.true_past), (ahead, self.true_ahead)):
            found, std = (
                f(panel, times).values for f in (model.interpolate, model.interpolate_std)
            )
            shares.append(float(np.mean(np.abs(found - true) < 1.645 * std)))
        return shares

    def of_rival(self, rival: Callable[..., np.ndarray], told: bool = False) -> float:
        found = []
        for k, (s, at) in enumerate(zip(self.panel, self.past, strict=True)):
            columns = list(s.values.T)
            known = self.told[[k]].errors.T if told else [()] * len(columns)
            extra = [(e,) if told else () for e in known]
            pairs = zip(columns, extra, strict=True)
            found.append(np.stack([rival(s.times, x, at, *e) for x, e in pairs], axis=1)[1:])
        return self._error(np.concatenate(found), self.true_past)


def measure(
    task: Task, training: Panel, seed: int, kinds: list[str], rivals: dict[str, Callable]
) -> dict[str, list[float]]:
    """Errors (past, path, ahead), seconds, and of filters the shares covered and the noise."""
    rows: dict[str, list[float]] = {}
    for kind in kinds:
        start = time.process_time()
        observations = "auto" if kind == "told" else kind
        model = PolyODETransformer(window=task.window, observations=observations, random_state=seed)
        panel = task.told if kind == "told" else task.panel
        model.fit(training if kind == "told" else without_errors(training))
        rows[kind] = [0.0, 0.0, 0.0, time.process_time() - start]
        rows[kind][:3] = task.of_model(model, panel)
        if getattr(model, "noise_", None) is not None:
            rows[kind] += [*task.coverage(model, panel), *model.noise_ / task.scale]
        print(plain_line(kind, rows[kind]), file=sys.stderr)
    if rivals and training.errors is not None:
        rivals = rivals | {"GP, told": told_process}
    for name, rival in rivals.items():
        start = time.process_time()
        error = task.of_rival(rival, told=rival is told_process)
        rows[name] = [np.nan, error, np.nan, time.process_time() - start]
        print(plain_line(name, rows[name]), file=sys.stderr)
    return rows


def plain_line(name: str, row: list[float]) -> str:
    errors = "".join(" " * 9 if np.isnan(x) else f"{x:9.4f}" for x in row[:3])
    return f"{name:18s}{errors}   {row[3]:4.0f} s  " + " ".join(f"{x:.3f}" for x in row[4:])


def print_means(cell: str, seeds: list[dict[str, list[float]]]) -> None:
    best = [min(rows, key=lambda name: rows[name][1]) for rows in seeds]
    for name in seeds[0]:
        errors = np.mean([rows[name][:3] for rows in seeds], axis=0)
        cells = ["" if np.isnan(x) else f"{x:.2g}" for x in errors]
        filters = [rows[name][4:] for rows in seeds if len(rows[name]) > 4]
        noise = [x for row in filters for x in row[2:]]
        cells.append(f"{best.count(name)} of {len(seeds)}")
        cells.append(f"{min(noise):.3f} to {max(noise):.3f}" if filters else "")
        inside = np.mean([row[:2] for row in filters], axis=0) if filters else ()
        cells.append(", ".join(f"{x:.2f}" for x in inside))
        print(line([cell, name, *cells]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.1, 0.3])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--n-series", type=int, default=400)
    parser.add_argument("--spread", type=float, help="largest error of a cell over the least")
    parser.add_argument("--no-rivals", action="store_true", help="they do not change, and are slow")
    parser.add_argument("--models", nargs="+", default=["auto", "exact"])
    options = parser.parse_args()
    rivals = {} if options.no_rivals else NAIVE
    found: dict[str, list[dict[str, list[float]]]] = {}
    for seed in options.seeds:
        for system in options.systems:
            for noise in options.noise:
                print(f"\n{system}, noise {noise:g}, seed {seed}", file=sys.stderr)
                make = SYSTEMS[system]
                level = 0.0 if options.spread else noise
                data = make(options.n_series, rate=1.0, noise=level, random_state=seed)
                if options.spread:
                    data = with_cell_noise(data, noise, options.spread, seed)
                training = data.panel[np.asarray(data.split) != "test"]
                rows = measure(Task(data), training, seed, options.models, rivals)
                found.setdefault(f"{system}, {noise:g}", []).append(rows)
    columns = "system", "method", "past", "path", "ahead", "best path", "noise learned", "within"
    print("\n".join(heading(columns)))
    for cell, seeds in found.items():
        print_means(cell, seeds)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="window=")
    main()
