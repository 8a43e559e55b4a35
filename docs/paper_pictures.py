"""Pictures of *The paper's tables*, from the tables that benchmarks wrote.

PYTHONPATH=. python docs/paper_pictures.py   writes _static/paper_solvers.svg
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from benchmark_summary import cells_of, first_number
from matplotlib.figure import Figure

from benchmarks.paper.solvers import FULL

STATIC = Path(__file__).parent / "_static"
PAPER_EPOCHS = 250


def solver_seconds() -> dict[str, tuple[float, float]]:
    """Seconds of an epoch by solver and step: ours and the paper's, 0 where there are none."""
    cells = cells_of("solvers/solver, step")
    found = {}
    for row in dict.fromkeys(row for row, _ in cells):
        own, paper = (first_number(cells[row, name]) for name in ("training", "paper"))
        found[row] = float(own or 0) / FULL.max_epochs, float(paper or 0) / PAPER_EPOCHS
    return {row: seconds for row, seconds in found.items() if any(seconds)}


def solvers() -> Figure:
    """Bars of the seconds of an epoch."""
    seconds = solver_seconds()
    figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for k, (name, color) in enumerate((("here", "C0"), ("in the paper", "0.6"))):
        places = [place + 0.4 * k for place in range(len(seconds))]
        bars = ax.barh(places, [own[k] for own in seconds.values()], 0.4, color=color, label=name)
        texts = [f"{own[k]:.2g}" if own[k] else "" for own in seconds.values()]
        ax.bar_label(bars, texts, padding=3, fontsize=8)
    ax.set_yticks([place + 0.2 for place in range(len(seconds))], list(seconds))
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel="seconds an epoch")
    ax.margins(x=0.15)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    return figure


PICTURES = {"paper_solvers": solvers}

if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "skpolyode"  # the same picture, the same file
    for name, draw in PICTURES.items():
        draw().savefig(STATIC / f"{name}.svg", metadata={"Date": None})
