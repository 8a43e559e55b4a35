"""A day and a week together: hourly load of five buildings, of which a weekend is forecast.

    python -m benchmarks.seasons [--seeds 0 1] [--epochs 5]

Three weeks, the last 48 hours of which are asked for from the hour before. A load is a base, a peak
each day and a level of working days (sharp at midnight), or a peak that is lower on weekends
(smooth), and noise. Errors are root mean squares in standard deviations of what is known; beside
them is that of the same hours a week before, and the share inside intervals of 90 %.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.lines import heading, line
from skpolyode import Panel, PolyODETransformer
from skpolyode.forecasting import PolyODEForecaster

HOURS, AHEAD, WEEK, N_BUILDINGS = np.arange(504.0), 48, 168, 5


def buildings(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Loads (5, 504) from a Monday on."""
    works, series = HOURS // 24 % 7 < 5, []
    for _ in range(N_BUILDINGS):
        peak, size, base = rng.uniform([10, 0.7, 1], [16, 1.4, 3])
        day = np.exp(2 * (np.cos(2 * np.pi * (HOURS % 24 - peak) / 24) - 1))
        own = day + 0.8 * works if kind == "sharp" else day * np.where(works, 1, 0.3) + 0.2 * works
        series.append(base + size * (own + 0.1 * rng.standard_normal(len(HOURS))))
    return np.array(series)


def measure(kind: str, seed: int, period: object, n_epochs: int) -> list[str]:
    """Error, that of a week before, cover, and the seasons of the mixed model."""
    x = buildings(kind, np.random.default_rng(seed))
    panel = Panel.from_series([(HOURS[:-AHEAD], own[:-AHEAD]) for own in x])
    small = PolyODETransformer(n_coefficients=8, hidden_layer_sizes=(16,), max_epochs=n_epochs)
    forecaster = PolyODEForecaster(small, period=period, random_state=seed).pretrain(panel)
    found = forecaster.forecast_quantiles(panel, HOURS[-AHEAD:], [0.05, 0.5, 0.95])
    low, middle, high = (found[q].values.reshape(N_BUILDINGS, AHEAD) for q in (0.05, 0.5, 0.95))
    truth, scale = x[:, -AHEAD:], x[:, :-AHEAD].std()
    naive = x[:, -AHEAD - WEEK : -WEEK]
    errors = [np.sqrt(np.mean((own - truth) ** 2)) / scale for own in (middle, naive)]
    cover = np.mean((low <= truth) & (truth <= high))
    transformer = forecaster.transformer_
    periods = transformer.embedder_.stacking.each["mixed"].periods
    seasons = ", ".join(f"{transformer.time_scale_ * period:.4g}" for period in periods)
    return [*(f"{error:.2f}" for error in errors), f"{cover:.2f}", seasons]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    print(*heading(["load, seed, period", "error", "a week before", "cover", "seasons"]), sep="\n")
    for kind in ("smooth", "sharp"):
        for seed in args.seeds:
            for period in ("auto", [24.0, 168.0]):
                cells = measure(kind, seed, period, args.epochs)
                print(line([f"{kind}, {seed}, {period}", *cells]), flush=True)


if __name__ == "__main__":
    main()
