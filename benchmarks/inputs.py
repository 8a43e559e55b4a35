"""Forecasts under doses, beside forecasts from observations alone.

    python -m benchmarks.inputs [--n-train 150] [--n-test 40] [--seeds 0 1 2] [--siblings]

One compartment with first-order absorption (``gut' = -1.2 gut``, ``x' = 1.2 gut - 0.25 x``, in
hours), solved in closed form. Each patient takes eight doses of 0.5 to 2 at random times of 36
hours, and is observed at 20 random times of the first 24; a third of the doses is still to come.
Errors are root mean squares ahead, by the hours after the 24th, in units of the concentration,
whose standard deviation is 0.7.

- driven: the transformer is given all doses, at their times.
- alone: the same one from observations only.
- last: the last value.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from skpolyode import (
    GRUODEBayesTransformer,
    Inputs,
    ODERNNTransformer,
    Panel,
    PolyODETransformer,
)

ABSORBED, ELIMINATED = 1.2, 0.25  # per hour
OBSERVED, END, N_DOSES, N_ROWS = 24.0, 36.0, 8, 20
LEADS = np.arange(1.0, END - OBSERVED + 1)
PARTS = {"1 to 4 h": slice(0, 4), "5 to 8 h": slice(4, 8), "9 to 12 h": slice(8, 12)}


def concentration(t: np.ndarray, doses: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Closed form (Q,) at times (Q,): each dose has its curve, and these add up."""
    since = np.maximum(t[:, None] - doses, 0.0)
    curves = np.exp(-ELIMINATED * since) - np.exp(-ABSORBED * since)
    return curves @ amounts * ABSORBED / (ABSORBED - ELIMINATED)


class Patients:
    """Readings with and without the doses, and the truth ahead (B, Q)."""

    def __init__(self, n_patients: int, rng: np.random.Generator) -> None:
        readings, doses, truth = [], [], []
        for _ in range(n_patients):
            taken = np.sort(rng.uniform(0, END, N_DOSES)), rng.uniform(0.5, 2.0, N_DOSES)
            t = np.sort(rng.uniform(0, OBSERVED, N_ROWS))
            readings.append((t, concentration(t, *taken)))
            doses.append(taken)
            truth.append(concentration(OBSERVED + LEADS, *taken))
        inputs = Inputs(Panel.from_series(doses, channel_names=["dose"]), kinds="impulse")
        self.alone, self.truth = Panel.from_series(readings), np.array(truth)
        self.driven = Panel.from_series(readings, inputs=inputs)


def measure(seed: int, n_train: int, n_test: int, siblings: bool) -> None:
    rng = np.random.default_rng(seed)
    train, test = Patients(n_train, rng), Patients(n_test, rng)
    kinds = [PolyODETransformer]
    kinds += [ODERNNTransformer, GRUODEBayesTransformer] if siblings else []
    for kind in kinds:
        for name in ("driven", "alone"):
            start = time.perf_counter()
            model = kind(random_state=0).fit(getattr(train, name))
            seconds = time.perf_counter() - start
            found = model.forecast(getattr(test, name), OBSERVED + LEADS).values
            title = f"{kind.__name__.removesuffix('Transformer')} {name}"
            line(title, found.reshape(test.truth.shape), test.truth, seconds)
    last = test.alone.values[test.alone.offsets[1:] - 1]
    line("last value", np.broadcast_to(last, test.truth.shape), test.truth, 0.0)


def line(name: str, found: np.ndarray, truth: np.ndarray, seconds: float) -> None:
    """Print the errors of one forecast (B, Q), by lead."""
    errors = [np.sqrt(np.mean((found - truth)[:, part] ** 2)) for part in PARTS.values()]
    whole = np.sqrt(np.mean((found - truth) ** 2))
    columns = "".join(f"{error:11.4f}" for error in (*errors, whole))
    print(f"{name:22s}{columns}{seconds:8.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-train", type=int, default=150)
    parser.add_argument("--n-test", type=int, default=40)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--siblings", action="store_true", help="ODE-RNN and GRU-ODE-Bayes too")
    options = parser.parse_args()
    for seed in options.seeds:
        head = "".join(f"{name:>11s}" for name in (*PARTS, "all"))
        print(f"\n{f'seed {seed}':22s}{head}")
        measure(seed, options.n_train, options.n_test, options.siblings)


if __name__ == "__main__":
    main()
