"""Light curves with errors of each magnitude: celerite2 beside the model that learns from stars.

    python -m benchmarks.peers_code.light_curves --seeds 0 1 2                  # half an hour
    python -m benchmarks.peers_code.light_curves --only "periods 4 to 12" --rows "celerite2, Matern"

The stars of `benchmarks.light_curves`: two bands, 60 nights in 20 days, one band a night; what lies
in four gaps of a day is hidden. Ours learns from 200 other stars, and interpolates 40; Gaussian
processes are fitted to each of the 40 alone. Everybody is told the errors. Scores are the root mean
squared error of the magnitude without noise at hidden nights, in amplitudes, and the share of the
truth within 1.645 standard deviations.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.light_curves import Stars
from benchmarks.peers_code.rows import Adapter, Command, Run, main
from benchmarks.real.part import Scores

PERIODS = {"periods 4 to 12": (4.0, 12.0), "periods 1 to 5": (1.0, 5.0)}
N_TRAIN, N_TEST = 200, 40


class Curves(NamedTuple):
    train: Stars
    test: Stars


def load(name: str, _: Path, seed: int) -> Curves:
    rng = np.random.default_rng(seed)
    return Curves(*(Stars(n, rng, PERIODS[name]) for n in (N_TRAIN, N_TEST)))


def measure(adapter: Adapter, data: Curves, run: Run) -> Scores:
    found, std = adapter(data, run)
    errors = found - np.concatenate(data.test.truth)
    inside = np.abs(errors) < 1.645 * std
    return {"error": float(np.sqrt(np.mean(errors**2))), "covered": float(inside.mean())}


ADAPTERS = {
    "PolyODETransformer()": "ours:stars",
    "three harmonics": "harmonics:likeliest",
    "celerite2, Matern": "celerite:matern",
    "celerite2, rotation": "celerite:rotation",
    "scikit-learn, both bands": "celerite:both_bands",
}
COMMAND = Command(
    "benchmarks.peers_code.light_curves",
    __doc__,
    load,
    measure,
    {name: list(ADAPTERS) for name in PERIODS},
    ADAPTERS,
)

if __name__ == "__main__":
    main(COMMAND)
