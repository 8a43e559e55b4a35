"""Beside what users pick instead: time, memory and what the features are worth.

    python -m benchmarks.peers [--sizes 300 3000 30000] [--draws 1]    # needs numba, for MiniRocket

Data are irregular series of Lorenz63 (30 observations of 2 channels on average). Each line is a
process of its own; its peak memory is told beyond what the imports and the data take. With several
draws of the data a line has their means, and all values of AUC.

- PolyODE with its defaults and the paper's window.
- GRU: a plain recurrent forecaster of 64 hidden units, which reads values, masks and the time since
  the observation before, and whose head reads the time to the next one; trained on padded series
  with Adam, to forecast the next values. Its last state is the embedding. 40 epochs, 4 of 30 000
  series: it has no budget of steps.
- MiniRocketMultivariate of sktime (its defaults, compiled before the clock starts), on straight
  lines between the observations at 100 even times.
- MiniRocket of this package on the path that the same PolyODE learns, at 100 common times.
- Summary statistics, and the memory along straight lines, need no training.

AUC is that of the label of the data set, the sign of a state at a moment in the past, on series
that the classifier has not seen: by the paper's small network, but for MiniRocket by a ridge
classifier, as its authors advise. It is computed from the first 3000 series at most. "growth" is
that of the seconds of fit over the size before. All seconds are of the processor.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch
from torch import nn

from benchmarks.paper.cells import with_clock
from benchmarks.processes import in_a_process
from benchmarks.protocol import PAPER_WINDOW, label_auc
from benchmarks.units import Units
from skpolyode import (
    InterpolationTransformer,
    Panel,
    PolyODETransformer,
    Resampler,
    SummaryStatsTransformer,
)
from skpolyode.datasets import make_lorenz63
from skpolyode.heads import MiniRocket
from skpolyode.panel import series_index

N_SCORED = 3000
N_TIMES = 100


class Run(NamedTuple):
    """What a method has made of a panel."""

    features: np.ndarray
    n_epochs: int  # 0 without training by epochs
    fit_seconds: float


class Row(NamedTuple):
    """A method, and how its features are scored."""

    run: Callable[[Panel], Run]
    auc: Callable[[np.ndarray, Bunch], float] = label_auc


def run(estimator: Any, panel: Panel) -> Run:
    start = time.process_time()
    estimator.fit(panel)
    seconds = time.process_time() - start
    return Run(estimator.transform(panel), getattr(estimator, "n_epochs_", 0), seconds)


def polyode(panel: Panel) -> Run:
    return run(PolyODETransformer(window=PAPER_WINDOW, random_state=0), panel)


def learned_path(panel: Panel) -> Run:
    path = PolyODETransformer(window=PAPER_WINDOW, random_state=0)
    resampler = Resampler(path, grid=np.linspace(0, 10, N_TIMES), relative_to=None)
    return run(make_pipeline(resampler, MiniRocket(random_state=0)), panel)


class GRUForecaster(nn.Module):
    """Forecasts each observation from those before it and the time that has passed since."""

    def __init__(self, n_channels: int, n_hidden: int = 64) -> None:
        super().__init__()
        self.gru = nn.GRU(2 * n_channels + 1, n_hidden, batch_first=True)
        self.head = nn.Sequential(
            nn.Linear(n_hidden + 1, n_hidden), nn.SiLU(), nn.Linear(n_hidden, n_channels)
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        """Mean squared error of the forecasts of all observations but those of first rows."""
        hidden, _ = self.gru(torch.cat([x, mask, gap], dim=2))
        forecast = self.head(torch.cat([hidden[:, :-1], gap[:, 1:]], dim=2))
        return ((forecast - x[:, 1:]).square() * mask[:, 1:]).sum() / mask[:, 1:].sum()


def gru(panel: Panel) -> Run:
    start, n_epochs = time.process_time(), min(40, max(4, 120_000 // len(panel)))
    panel = Units.of(panel).standardised(panel)
    model = fit_gru(padded(panel), n_epochs)
    seconds = time.process_time() - start
    return Run(last_states(model, panel), n_epochs, seconds)


def fit_gru(
    columns: tuple[torch.Tensor, ...], n_epochs: int, batch_size: int = 32, seed: int = 0
) -> GRUForecaster:
    torch.manual_seed(seed)
    model = GRUForecaster(columns[0].shape[2])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(n_epochs):
        for index in torch.randperm(len(columns[0])).split(batch_size):
            optimizer.zero_grad()
            model(*(column[index] for column in columns)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return model


def last_states(model: GRUForecaster, panel: Panel) -> np.ndarray:
    """States after the last observations: the embedding."""
    columns, last, states = padded(panel), torch.from_numpy(panel.lengths - 1), []
    with torch.no_grad():
        for index in torch.arange(len(panel)).split(1000):
            hidden, _ = model.gru(torch.cat([column[index] for column in columns], dim=2))
            states.append(hidden[torch.arange(len(index)), last[index]])
    return torch.cat(states).double().numpy()


def padded(panel: Panel) -> tuple[torch.Tensor, ...]:
    """Values, masks and gaps (B, L, ...), zero where there is nothing."""
    place = np.arange(len(panel.times)) - np.repeat(panel.offsets[:-1], panel.lengths)
    series = series_index(panel.offsets)
    gaps = np.where(place > 0, np.diff(panel.times, prepend=0.0), 0.0)
    known = ~np.isnan(panel.values)
    columns = np.nan_to_num(panel.values), known.astype(float), gaps[:, None]
    result = []
    for column in columns:
        table = np.zeros((len(panel), panel.lengths.max(), column.shape[1]), dtype=np.float32)
        table[series, place] = column
        result.append(torch.from_numpy(table))
    return tuple(result)


def minirocket(panel: Panel) -> Run:
    from sktime.transformations.panel.rocket import MiniRocketMultivariate

    grid = np.empty((len(panel), panel.n_channels, N_TIMES), dtype=np.float32)
    for i, (times, values) in enumerate(panel):
        even = np.linspace(times[0], times[-1], N_TIMES)
        for j in range(panel.n_channels):
            seen = ~np.isnan(values[:, j])
            grid[i, j] = np.interp(even, times[seen], values[seen, j]) if seen.any() else 0.0
    rocket, start = MiniRocketMultivariate(random_state=0, n_jobs=-1), time.process_time()
    rocket.fit(grid)
    seconds = time.process_time() - start
    return Run(rocket.transform(grid).to_numpy(), 0, seconds)


def ridge_auc(Z: np.ndarray, data: Bunch) -> float:
    test = data.split == "test"
    classifier = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-3, 3, 7)))
    classifier.fit(Z[~test], data.y[~test])
    return roc_auc_score(data.y[test], classifier.decision_function(Z[test]))


ROWS = {
    "PolyODE": Row(polyode),
    "GRU forecaster": Row(gru),
    "MiniRocketMultivariate": Row(minirocket, ridge_auc),
    "MiniRocket, learned path": Row(learned_path, ridge_auc),
    "summary statistics": Row(
        partial(run, SummaryStatsTransformer()),
        lambda Z, data: label_auc(StandardScaler().fit_transform(Z), data),
    ),
    "memory of straight lines": Row(partial(run, InterpolationTransformer(window=PAPER_WINDOW))),
}


def measure(name: str, size: int, draw: int) -> dict[str, float]:
    """Seconds, MiB and AUC of one row, in this process; a small run before loads what is needed."""
    warm_up, data = (make_lorenz63(n, rate=0.3, random_state=n + draw) for n in (20, size))
    ROWS[name].run(warm_up.panel)
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts anew from here
    before = memory("VmRSS")
    start = time.process_time()
    Z, epochs, fit = ROWS[name].run(data.panel)
    seconds = time.process_time() - start
    grown = memory("VmHWM") - before
    scored = Bunch(y=data.y[:N_SCORED], split=np.asarray(data.split)[:N_SCORED])
    auc = ROWS[name].auc(with_clock(Z, data.panel)[:N_SCORED], scored)
    return {
        "fit": fit,
        "seconds": seconds,
        "grown": grown,
        "features": Z.shape[1],
        "epochs": epochs,
        "auc": auc,
    }


def memory(name: str) -> float:
    """MiB that this process takes now (VmRSS) or took at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[300, 3000, 30_000])
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        name, *which = arguments.measure
        print(json.dumps(measure(name, *map(int, which))))
        return
    print(f"{'series':>7s}  {'':26s}{'epochs':>6s}{'fit':>10s}{'growth':>8s}", end="")
    print(f"{'fit + transform':>17s}{'memory':>11s}{'features':>10s}{'AUC':>8s}")
    before: dict[str, float] = {}
    for size in arguments.sizes:
        for name in arguments.rows:
            rows = [
                in_a_process("benchmarks.peers", name, size, draw)
                for draw in range(arguments.draws)
            ]
            row = {key: np.mean([own[key] for own in rows]) for key in rows[0]}
            each = " ".join(f"{own['auc']:.3f}" for own in rows) if len(rows) > 1 else ""
            growth = f"{row['fit'] / before[name]:.1f}" if name in before else ""
            before[name] = row["fit"]
            print(
                f"{size:7d}  {name:26s}{row['epochs']:6.0f}{row['fit']:8.2f} s{growth:>8s}"
                f"{row['seconds']:15.2f} s{row['grown']:7.0f} MiB{row['features']:10.0f}"
                f"{row['auc']:8.3f}  {each}",
                flush=True,
            )


if __name__ == "__main__":
    main()
