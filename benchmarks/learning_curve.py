"""Error against seconds of training: PolyODE beside a plain recurrent forecaster.

    python -m benchmarks.learning_curve [--sizes 300 3000] [--seeds 0] [--figure curve.svg]

Series of Lorenz63 as in `benchmarks.peers`, and its GRU. A line is a training of its own, with a
schedule for so many epochs; PolyODE's seconds are those of the whole `fit`, with stacking. Printed
are the error of one-step forecasts on series that training has not seen, in variances of the
channel, and the AUC of a label in the past from the embedding. Below each size stand the seconds in
which PolyODE reaches the best error and the best AUC that the GRU has at any number of epochs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch

from benchmarks.lines import heading, line
from benchmarks.paper.cells import with_clock
from benchmarks.peers import fit_gru, last_states, padded
from benchmarks.protocol import PAPER_WINDOW, label_auc
from benchmarks.units import Units
from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_lorenz63

EPOCHS = {"GRU": (1, 2, 5, 10, 20, 40, 80, 160), "PolyODE": (1, 2, 5, 10, 20, 40)}


class Trained(NamedTuple):
    seconds: float
    error: float  # of one-step forecasts of test series
    features: np.ndarray  # of all series


def gru(panel: Panel, is_test: np.ndarray, n_epochs: int, seed: int) -> Trained:
    start = time.process_time()
    model = fit_gru(padded(panel[~is_test]), n_epochs, seed=seed)
    seconds = time.process_time() - start
    with torch.no_grad():
        error = model(*padded(panel[is_test])).item()
    return Trained(seconds, error, last_states(model, panel))


def polyode(panel: Panel, is_test: np.ndarray, n_epochs: int, seed: int) -> Trained:
    start = time.process_time()
    model = PolyODETransformer(window=PAPER_WINDOW, max_epochs=n_epochs, random_state=seed)
    model.fit(panel[~is_test])
    seconds = time.process_time() - start
    missed = model.residuals(panel[is_test]).values
    return Trained(seconds, float(np.nanmean(missed**2)), model.transform(panel))


METHODS: dict[str, Callable[[Panel, np.ndarray, int, int], Trained]] = {
    "GRU": gru,
    "PolyODE": polyode,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 3000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--most", type=int, default=160, help="epochs")
    parser.add_argument("--figure", type=Path, help="file for a plot of the errors")
    args, curves = parser.parse_args(), {}
    titles = ["series, seed", "method", "epochs", "seconds", "error", "AUC"]
    print(*heading(titles), sep="\n")
    for size in args.sizes:
        for seed in args.seeds:
            data = make_lorenz63(size, rate=0.3, random_state=size + seed)
            is_test = np.asarray(data.split) == "test"
            panel, found = Units.of(data.panel[~is_test]).standardised(data.panel), {}
            for method in METHODS.values():  # loads what is needed
                method(panel[:20], np.arange(20) < 2, 1, seed)
            for name, epochs in EPOCHS.items():
                for n_epochs in (n for n in epochs if n <= args.most):
                    one = METHODS[name](panel, is_test, n_epochs, seed)
                    auc = label_auc(with_clock(one.features, panel), data, seed)
                    found.setdefault(name, []).append((one.seconds, one.error, auc))
                    cells = f"{one.seconds:.1f}", f"{one.error:.4f}", f"{auc:.3f}"
                    print(line([f"{size}, {seed}", name, str(n_epochs), *cells]), flush=True)
            summary(size, found)
            curves[size] = found
    if args.figure is not None:
        draw(curves, args.figure)


Curve = list[tuple[float, float, float]]
"""Seconds, error and AUC of trainings that grow longer."""


def draw(curves: dict[int, dict[str, Curve]], file: Path) -> None:
    """Errors of the last seed over seconds, both on logarithmic scales: one axes for each size."""
    figure, axes = plt.subplots(1, len(curves), figsize=(7, 3), sharey=True, layout="constrained")
    for ax, (size, found) in zip(np.atleast_1d(axes), curves.items(), strict=True):
        for name, curve in found.items():
            seconds, error, _ = np.array(curve).T
            ax.loglog(seconds, error, marker="o", label=name)
        ax.set(title=f"{size} series", xlabel="seconds of fit, one core")
    np.atleast_1d(axes)[0].set_ylabel("error one step ahead")
    np.atleast_1d(axes)[0].legend()
    figure.savefig(file)


def summary(size: int, found: dict[str, Curve]) -> None:
    """When either method first is as good as the GRU ever is."""
    rival, own = (np.array(found[name]) for name in ("GRU", "PolyODE"))
    for name, column, sign in (("error", 1, 1), ("AUC", 2, -1)):
        goal = sign * (sign * rival[:, column]).min()
        first = [rows[sign * rows[:, column] <= sign * goal, 0] for rows in (rival, own)]
        when = [f"{seconds.min():.1f} s" if len(seconds) else "never" for seconds in first]
        print(f"{size} series, {name} of {goal:.4g}: GRU {when[0]}, PolyODE {when[1]}", flush=True)


if __name__ == "__main__":
    main()
