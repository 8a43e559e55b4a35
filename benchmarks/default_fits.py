"""Seconds and errors of default fits, of this checkout and of an earlier one, in turn.

    python -m benchmarks.default_fits --against 7086d52                   # half an hour
    python -m benchmarks.default_fits --against 7086d52 --only 20 --seeds 1

Each fit has a process of its own with one thread; seconds are those of the processor in `fit`.
Errors are mean squares against what is true without noise, in variances of the channels, on new
series or, of forecasters, on later rows: of the next observation, of the path between the first
and the last observation, and of eight observations ahead (24 rows of forecasters). A cell is the
mean of the seeds of the earlier commit, then of this checkout; the ratio is the geometric mean.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.interpolate import CubicSpline

HERE, N_TESTED, AHEAD = Path(__file__).resolve().parents[1], 40, 24
Truth = Callable[[np.ndarray], np.ndarray]
Series = list[tuple[np.ndarray, np.ndarray, Truth]]  # times, values, and what is true at any times


def waves(n_series: int, n_rows: int, noise: float, rng: np.random.Generator) -> Series:
    """Three mixtures of two oscillators, whose amplitudes and phases differ between series."""
    turns, lags = np.array([0.5, 1.1]), rng.uniform(0, 6, (2, 3))
    weights = rng.uniform(0.3, 1.0, (2, 3))

    def one() -> tuple[np.ndarray, np.ndarray, Truth]:
        size, phase = rng.uniform(0.5, 1.5, 2), rng.uniform(0, 2 * np.pi, 2)

        def truth(t: np.ndarray) -> np.ndarray:
            angle = (t[:, None] * turns + phase)[..., None] + lags
            return (size[:, None] * weights * np.sin(angle)).sum(axis=1)

        times = np.sort(rng.uniform(0, n_rows, n_rows))
        return times, truth(times) + noise * rng.standard_normal((n_rows, 3)), truth

    return [one() for _ in range(n_series)]


def lorenz(n_series: int, seed: int) -> Series:
    from skpolyode.datasets import make_lorenz63

    data = make_lorenz63(n_series, rate=0.3, protocol="independent", random_state=seed)
    found, known = [], data.truth.values[:, :, data.truth.observed]
    for own, values in zip(data.panel, known, strict=True):
        found.append((own.times, own.values, CubicSpline(data.truth.times, values)))
    return found


def monthly(n_series: int, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Levels that wander, with trends, a season of twelve rows and short memory."""
    t, shocks = np.arange(n_rows), rng.standard_normal((n_series, n_rows))
    wander, rest = np.cumsum(0.05 * shocks, axis=1), 0.2 * rng.standard_normal((n_series, n_rows))
    for k in range(1, n_rows):
        rest[:, k] += 0.6 * rest[:, k - 1]
    slope, size, phase = rng.uniform(-0.5, 2.0, (3, n_series, 1))
    season = size * np.sin(2 * np.pi * t / 12 + phase) + 0.3 * np.cos(4 * np.pi * t / 12 + phase)
    return slope * t / 100 + wander + season + rest


def embedded(series: Series, seed: int) -> dict[str, float]:
    """Fit a transformer to all series but the last ones, and forecast these."""
    from skpolyode import PolyODETransformer

    start, model = time.process_time(), PolyODETransformer(random_state=seed)
    model.fit([own[:2] for own in series[:-N_TESTED]])
    result = {"seconds": time.process_time() - start}
    rng, tested, asked = np.random.default_rng(1), series[-N_TESTED:], {"next": 1, "ahead": 8}
    scale = np.concatenate([truth(t) for t, _, truth in series]).std(axis=0)
    inner = [np.sort(rng.uniform(t[0], t[-1], 50)) for t, *_ in tested]
    found = {"path": (model.interpolate([own[:2] for own in tested], inner).values, inner, tested)}
    for name, ahead in asked.items():
        cuts = [(k, own) for own in tested for k in rng.integers(5, len(own[0]) - ahead, 4)]
        known = [(t[:k], x[:k]) for k, (t, x, _) in cuts]
        times = [t[k + ahead - 1 : k + ahead] for k, (t, *_) in cuts]
        found[name] = model.forecast(known, times).values, times, [own for _, own in cuts]
    for name in ("next", "path", "ahead"):
        values, times, own = found[name]
        actual = np.concatenate([truth(t) for (*_, truth), t in zip(own, times, strict=True)])
        result[name] = float(np.mean(((values - actual) / scale) ** 2))
    return result


def forecast(values: np.ndarray, seed: int) -> dict[str, float]:
    """Fit a forecaster to all rows but the last ones, and forecast these."""
    from skpolyode.forecasting import PolyODEForecaster

    known = values[:, :-AHEAD]
    index = pd.MultiIndex.from_product([range(len(known)), range(known.shape[1])])
    y = pd.DataFrame({"y": known.ravel()}, index=index)
    if len(known) == 1:
        y = y.droplevel(0)
    start, model = time.process_time(), PolyODEForecaster(random_state=seed)
    model.fit(y)
    seconds = time.process_time() - start
    wrong = model.predict(fh=range(1, AHEAD + 1)).to_numpy().reshape(len(known), AHEAD)
    wrong = ((wrong - values[:, -AHEAD:]) / values.std()) ** 2
    return {"seconds": seconds, "next": wrong[:, 0].mean(), "ahead": wrong.mean()}


SETS: dict[str, Callable[[int], dict[str, float]]] = {
    "200 x 30": lambda s: embedded(waves(240, 30, 0.0, np.random.default_rng(s)), s),
    "200 x 30, noise .2": lambda s: embedded(waves(240, 30, 0.2, np.random.default_rng(s)), s),
    "60 x 199": lambda s: embedded(waves(100, 199, 0.0, np.random.default_rng(s)), s),
    "20 x 30": lambda s: embedded(waves(60, 30, 0.0, np.random.default_rng(s)), s),
    "Lorenz63, 400": lambda s: embedded(lorenz(440, s), s),
    "forecaster, 12 x 408": lambda s: forecast(
        monthly(12, 408 + AHEAD, np.random.default_rng(s)), s
    ),
    "forecaster, 144 rows": lambda s: forecast(
        monthly(1, 144 + AHEAD, np.random.default_rng(s)), s
    ),
}


def fitted(code: Path, name: str, seed: int) -> dict[str, float]:
    """What a fit by the package in a folder takes and errs."""
    env = os.environ | {"PYTHONPATH": str(code), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", __file__, "--child", name, str(seed)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} by {code}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(commit: str, names: list[str], seeds: int) -> None:
    """Print the table."""
    cells = ("seconds", "next", "path", "ahead")
    print(f"| | {' | '.join(f'{cell} | ratio' for cell in cells)} |\n|{'---|' * 9}")
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit], cwd=HERE, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        for name in names:
            pairs = [[fitted(p, name, s) for p in (Path(folder), HERE)] for s in range(seeds)]
            found: list[Any] = []
            for cell in cells:
                if cell not in pairs[0][0]:
                    found.append("| ")
                    continue
                both = np.array([[own[cell] for own in pair] for pair in pairs])
                ratio = np.exp(np.log(both[:, 1] / both[:, 0]).mean())
                before, now = (
                    f"{x:.1f}" if cell == "seconds" else f"{x:.3g}" for x in both.mean(0)
                )
                found.append(f"{before}, {now} | {ratio:.2f}")
            print(f"| {name} | {' | '.join(found)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", default="7086d52")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[""], help="beginnings of names of sets")
    parser.add_argument("--child", nargs=2)
    arguments = parser.parse_args()
    if arguments.child:
        warnings.simplefilter("ignore")
        name, seed = arguments.child
        print(json.dumps(SETS[name](int(seed))))
        return
    names = [name for name in SETS if name.startswith(tuple(arguments.only))]
    compare(arguments.against, names, arguments.seeds)


if __name__ == "__main__":
    main()
