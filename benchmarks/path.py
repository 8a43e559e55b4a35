"""Filling gaps on Lorenz63: the learned path, what 32 coefficients hold of it, fixed paths.

    python -m benchmarks.path [--seed 0]

Data: as in `training_speed.py`, 500 training series at rate 0.3, window 5. Errors are mean squares,
in variances of the channels, on the 250 test series at the grid times where they were not
observed: within the last window (which is all that coefficients remember), and from the first to
the last observation.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from sklearn.utils import Bunch

from benchmarks.lines import heading, line
from benchmarks.protocol import PAPER_WINDOW, held_out_truth, reverse_reconstruction
from skpolyode import InterpolationTransformer, Panel, PolyODETransformer
from skpolyode.datasets import make_lorenz63
from skpolyode.panel import series_index


def path_errors(transformer, data: Bunch) -> tuple[float, float]:
    """Errors of `interpolate` in the last window, and over whole series."""
    test = np.asarray(data.split) == "test"
    panel: Panel = data.panel[test]
    targets = held_out_truth(data, test)
    found = transformer.interpolate(panel, [t for t, _ in targets])
    error = ((found.values - targets.values) / data.panel.values.std(axis=0)) ** 2
    series = series_index(targets.offsets)
    start, end = (panel.times[edge][series] for edge in (panel.offsets[:-1], panel.offsets[1:] - 1))
    inside = (targets.times >= start) & (targets.times <= end)
    recent = inside & (targets.times > end - PAPER_WINDOW)
    return float(error[recent].mean()), float(error[inside].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-series", type=int, default=1000)
    options = parser.parse_args()
    seed = options.seed
    data = make_lorenz63(options.n_series, rate=0.3, protocol="paper-code", random_state=seed)
    training = data.panel[np.asarray(data.split) == "train"]

    start = time.perf_counter()
    model = PolyODETransformer(window=PAPER_WINDOW, random_state=seed).fit(training)
    seconds = [f"fit of {len(training)} series {time.perf_counter() - start:.0f} s"]
    for name, work in (("transform", model.transform), ("interpolate", model.interpolate)):
        start = time.perf_counter()
        work(data.panel)
        seconds.append(f"{name} of {len(data.panel)} {time.perf_counter() - start:.1f} s")
    print(", ".join(seconds), file=sys.stderr)
    print("\n".join(heading(["", "last window", "whole series"])))
    read = reverse_reconstruction(model, data).held_out
    rows = {"PolyODE, the path": path_errors(model, data)}
    rows["PolyODE, from 32 coefficients"] = (read, np.nan)
    for kind in ("linear", "hermite", "pchip", "cubic"):
        fixed = InterpolationTransformer(kind=kind, causal=False, window=PAPER_WINDOW)
        rows[kind] = path_errors(fixed.fit(training), data)
    for name, errors in rows.items():
        print(line([name, *("" if np.isnan(x) else f"{x:.4f}" for x in errors)]))


if __name__ == "__main__":
    main()
