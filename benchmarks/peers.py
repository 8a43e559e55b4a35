"""Beside what users pick instead: time, memory and what the features are worth.

    python -m benchmarks.peers [--sizes 300 3000 30000]    # needs numba, for MiniRocket

Data are irregular series of Lorenz63 (30 observations of 2 channels on average). Each line is a
process of its own; its peak memory is told beyond what the imports and the data take.

- PolyODE with its defaults and the paper's window; at most 40 epochs, 4 of 30 000 series.
- GRU: a plain recurrent forecaster of as many hidden units (64), which is given values, masks and
  the time to the next observation, trained on padded series to the next value with Adam, for as
  many epochs as PolyODE took; its last state is the embedding.
- MiniRocketMultivariate of sktime (its defaults, compiled before the clock starts), on straight
  lines between the observations at 100 even times.
- Summary statistics, and the memory along straight lines, need no training.

AUC is that of the label of the data set, the state at a moment in the past, on series that the
classifier has not seen: by the paper's small network, but for MiniRocket by a ridge classifier, as
its authors advise. It is computed from the first 3000 series at most.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

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
from skpolyode import InterpolationTransformer, Panel, PolyODETransformer, SummaryStatsTransformer
from skpolyode.datasets import make_lorenz63
from skpolyode.panel import series_index

N_SCORED = 3000
N_TIMES = 100


class Row(NamedTuple):
    """A method: from a panel and a largest number of epochs to features and their number."""

    run: Callable[[Panel, int], tuple[np.ndarray, int]]
    auc: Callable[[np.ndarray, Bunch], float] = label_auc


def polyode(panel: Panel, n_epochs: int) -> tuple[np.ndarray, int]:
    embedder = PolyODETransformer(window=PAPER_WINDOW, max_epochs=n_epochs, random_state=0)
    return embedder.fit_transform(panel), embedder.n_epochs_


class GRUForecaster(nn.Module):
    """Forecasts each observation from those before it and the time that has passed since."""

    def __init__(self, n_channels: int, n_hidden: int = 64) -> None:
        super().__init__()
        self.gru = nn.GRU(2 * n_channels + 1, n_hidden, batch_first=True)
        self.head = nn.Sequential(
            nn.Linear(n_hidden + 1, n_hidden), nn.SiLU(), nn.Linear(n_hidden, n_channels)
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        """Mean squared error of the forecasts of all observations but the first."""
        hidden, _ = self.gru(torch.cat([x, mask, gap], dim=2))
        forecast = self.head(torch.cat([hidden[:, :-1], gap[:, 1:]], dim=2))
        return ((forecast - x[:, 1:]).square() * mask[:, 1:]).sum() / mask[:, 1:].sum()


def gru(panel: Panel, n_epochs: int, batch_size: int = 32) -> tuple[np.ndarray, int]:
    torch.manual_seed(0)
    columns = padded(panel)
    model = GRUForecaster(panel.n_channels)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(n_epochs):
        for index in torch.randperm(len(panel)).split(batch_size):
            optimizer.zero_grad()
            model(*(column[index] for column in columns)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    last, states = torch.from_numpy(panel.lengths - 1), []
    with torch.no_grad():
        for index in torch.arange(len(panel)).split(1000):
            hidden, _ = model.gru(torch.cat([column[index] for column in columns], dim=2))
            states.append(hidden[torch.arange(len(index)), last[index]])
    return torch.cat(states).double().numpy(), n_epochs


def padded(
    panel: Panel, standardise: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values, masks and gaps (B, L, ...), zero where there is nothing."""
    place = np.arange(len(panel.times)) - np.repeat(panel.offsets[:-1], panel.lengths)
    series = series_index(panel.offsets)
    values = panel.values
    if standardise:
        values = (values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)
    gaps = np.where(place > 0, np.diff(panel.times, prepend=0.0), 0.0)
    columns = np.nan_to_num(values), (~np.isnan(values)).astype(float), gaps[:, None]
    result = []
    for column in columns:
        table = np.zeros((len(panel), panel.lengths.max(), column.shape[1]), dtype=np.float32)
        table[series, place] = column
        result.append(torch.from_numpy(table))
    return tuple(result)


def minirocket(panel: Panel, _: int) -> tuple[np.ndarray, int]:
    from sktime.transformations.panel.rocket import MiniRocketMultivariate

    grid = np.empty((len(panel), panel.n_channels, N_TIMES), dtype=np.float32)
    for i, (times, values) in enumerate(panel):
        even = np.linspace(times[0], times[-1], N_TIMES)
        for j in range(panel.n_channels):
            seen = ~np.isnan(values[:, j])
            grid[i, j] = np.interp(even, times[seen], values[seen, j]) if seen.any() else 0.0
    return MiniRocketMultivariate(random_state=0, n_jobs=-1).fit_transform(grid).to_numpy(), 0


def ridge_auc(Z: np.ndarray, data: Bunch) -> float:
    test = data.split == "test"
    classifier = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-3, 3, 7)))
    classifier.fit(Z[~test], data.y[~test])
    return roc_auc_score(data.y[test], classifier.decision_function(Z[test]))


ROWS = {
    "PolyODE": Row(polyode),
    "GRU forecaster": Row(gru),
    "MiniRocketMultivariate": Row(minirocket, ridge_auc),
    "summary statistics": Row(
        lambda panel, _: (SummaryStatsTransformer().fit_transform(panel), 0),
        lambda Z, data: label_auc(StandardScaler().fit_transform(Z), data),
    ),
    "memory of straight lines": Row(
        lambda panel, _: (InterpolationTransformer(window=PAPER_WINDOW).fit_transform(panel), 0)
    ),
}


def measure(name: str, size: int, n_epochs: int) -> dict[str, float]:
    """Seconds, MiB and AUC of one row, in this process."""
    warm_up, data = (make_lorenz63(n, rate=0.3, random_state=n) for n in (20, size))
    ROWS[name].run(warm_up.panel, 1)
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts anew from here
    before = memory("VmRSS")
    start = time.perf_counter()
    Z, epochs = ROWS[name].run(data.panel, n_epochs)
    seconds = time.perf_counter() - start
    grown = memory("VmHWM") - before
    scored = Bunch(y=data.y[:N_SCORED], split=np.asarray(data.split)[:N_SCORED])
    auc = ROWS[name].auc(with_clock(Z, data.panel)[:N_SCORED], scored)
    return {
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
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        name, size, n_epochs = arguments.measure
        print(json.dumps(measure(name, int(size), int(n_epochs))))
        return
    print(f"{'series':>7s}  {'':26s}{'epochs':>6s}{'fit + transform':>17s}{'memory':>11s}", end="")
    print(f"{'features':>10s}{'AUC':>8s}")
    for size in arguments.sizes:
        n_epochs = min(40, max(4, 120_000 // size))
        for name in ROWS:
            row = in_a_process(["-m", "benchmarks.peers"], name, size, n_epochs)
            n_epochs = row["epochs"] or n_epochs
            print(
                f"{size:7d}  {name:26s}{row['epochs']:6d}{row['seconds']:15.2f} s"
                f"{row['grown']:7.0f} MiB{row['features']:10d}{row['auc']:8.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
