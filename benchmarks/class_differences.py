"""Which features suit what differs between two classes, on simulations of one difference each.

    python -m benchmarks.class_differences [--series 200] [--seeds 0 1 2 3 4]

Half of the series train, the others test: mean area under the ROC curve over the draws. Paths are
straight lines between the observations, as nothing here depends on how they are filled.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from skpolyode import (
    Inputs,
    InterpolationTransformer,
    Panel,
    Resampler,
    SummaryStatsTransformer,
)

HOURS = 48.0
Signal = Callable[[np.ndarray], np.ndarray]


def observed(signal: Signal, rng: np.random.Generator, n_rows: int = 30) -> tuple:
    """A series (times, values) of a signal, at random times of nearly two days."""
    start, end = rng.uniform(0, 8), rng.uniform(HOURS - 8, HOURS)
    times = np.sort(rng.uniform(start, end, n_rows))
    values = signal(times)
    return times, values + 0.1 * rng.normal(size=values.shape)


def swings(rng: np.random.Generator, period: float, phase: float | None = None) -> Signal:
    """A sine, at a random phase unless one is given, around a level that varies."""
    phase = rng.uniform(0, 2 * np.pi) if phase is None else phase
    level, size = 0.3 * rng.normal(), rng.uniform(0.8, 1.2)
    return lambda t: level + size * np.sin(2 * np.pi * t / period + phase)


def level(y: int, rng: np.random.Generator) -> tuple:
    swing = swings(rng, 16)
    return observed(lambda t: 0.5 * y + swing(t), rng)


def counts(y: int, rng: np.random.Generator) -> tuple:
    return observed(swings(rng, 40), rng, n_rows=rng.poisson(24 + 8 * y) + 2)


def shape(y: int, rng: np.random.Generator) -> tuple:
    """Two channels, of which one follows the other by a quarter of a period."""
    phase, period = rng.uniform(0, 2 * np.pi), rng.uniform(20, 30)
    sign = 2 * y - 1

    def circle(t: np.ndarray) -> np.ndarray:
        angle = 2 * np.pi * t / period + phase
        return np.stack([np.sin(angle), sign * np.cos(angle)], axis=1)

    return observed(circle, rng)


def phase(y: int, rng: np.random.Generator) -> tuple:
    return observed(swings(rng, 16, np.pi * y / 2 + 0.6 * rng.normal()), rng)


def period(y: int, rng: np.random.Generator) -> tuple:
    return observed(swings(rng, rng.uniform(6, 9) - 3 * y), rng)


def event(y: int, rng: np.random.Generator) -> tuple:
    """A step up or down, early or late in the same two days."""
    size, at = rng.choice([-1, 1]) * rng.uniform(0.8, 1.2), rng.normal(20 + 8 * y, 3)
    return observed(lambda t: size / (1 + np.exp(-2 * (t - at))), rng)


DIFFERENCES = {
    "level": level,
    "how often observed": counts,
    "shape: which channel follows": shape,
    "phase, by the clock": phase,
    "period": period,
    "time of an event": event,
}
DOSES = "what was done (doses)"


def doses(n_series: int, rng: np.random.Generator) -> tuple[Panel, np.ndarray]:
    """Series that doses hardly move; one class takes larger ones."""
    y = np.arange(n_series) % 2
    series = [observed(swings(rng, 16), rng) for _ in y]
    taken = [
        (np.sort(rng.uniform(0, HOURS, n := rng.integers(3, 7))), rng.gamma(8, 1 + 0.5 * own, n))
        for own in y
    ]
    inputs = Inputs(Panel.from_series(taken, channel_names=["dose"]), "impulse")
    return Panel.from_series(series, inputs=inputs), y


def simulate(difference: str, n_series: int, seed: int) -> tuple[Panel, np.ndarray]:
    """Series whose two classes differ in one thing, and the labels."""
    rng = np.random.default_rng(seed)
    if difference == DOSES:
        return doses(n_series, rng)
    y = np.arange(n_series) % 2
    return Panel.from_series([DIFFERENCES[difference](own, rng) for own in y]), y


def spectrum(grid: np.ndarray) -> np.ndarray:
    """Sizes of the frequencies of series (series, channel, time), without the mean."""
    return np.abs(np.fft.rfft(grid))[..., 1:].reshape(len(grid), -1)


def flat(grid: np.ndarray) -> np.ndarray:
    return grid.reshape(len(grid), -1)


def inputs_of(panel: Panel) -> Panel:
    """The inputs as series of their own."""
    return panel.inputs.panel


def features() -> dict[str, BaseEstimator]:
    """Pipelines by the name of their features; `PolyODEClassifier` uses the same names."""
    trees, lines = ExtraTreesClassifier(200, random_state=0), InterpolationTransformer()
    return {
        "summary": make_pipeline(SummaryStatsTransformer(), trees),
        "coefficients": make_pipeline(InterpolationTransformer(n_coefficients=32), SVC(C=10)),
        "clock": make_pipeline(
            Resampler(lines, n_points=48, relative_to=None), FunctionTransformer(flat), SVC(C=10)
        ),
        "spectrum": make_pipeline(
            Resampler(lines, n_points=64), FunctionTransformer(spectrum), SVC(C=10)
        ),
        "summary of inputs": make_pipeline(
            FunctionTransformer(inputs_of), SummaryStatsTransformer(), trees
        ),
    }


def score(model: BaseEstimator, panel: Panel, y: np.ndarray) -> float:
    """Area under the ROC curve on the second half of the series."""
    middle = len(y) // 2
    model.fit(panel[:middle], y[:middle])
    head = getattr(model, "decision_function", None)
    values = head(panel[middle:]) if head else model.predict_proba(panel[middle:])[:, 1]
    return float(roc_auc_score(y[middle:], values))


def scores(difference: str, n_series: int, seed: int) -> dict[str, float]:
    """Scores of all features that the series have."""
    panel, y = simulate(difference, n_series, seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not use the inputs")
        return {
            name: score(model, panel, y)
            for name, model in features().items()
            if panel.inputs is not None or name != "summary of inputs"
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    options = parser.parse_args()
    names = list(features())
    print(f"| the classes differ in | {' | '.join(names)} |")
    print("| --- " * (len(names) + 1) + "|")
    for difference in (*DIFFERENCES, DOSES):
        draws = [scores(difference, options.series, seed) for seed in options.seeds]
        means = {name: np.mean([draw[name] for draw in draws]) for name in draws[0]}
        best = max(means.values())
        cells = [f"{means[name]:.2f}" if name in means else "" for name in names]
        cells = [f"**{cell}**" if cell == f"{best:.2f}" else cell for cell in cells]
        print(f"| {difference} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
