"""Standard solvers of the coupled system against the exact memory.

    python -m benchmarks.paper.solvers [--quick] [--only table | memory | spectrum] [--output DIR]

Three parts. *Table*: training and forecasting on Lorenz63 (the paper's protocol at rate 0.3) with
every solver, beside the numbers of the paper; as long as the paper's 250 epochs would take hours,
all rows train for the same few epochs. Times are CPU seconds of one thread. *Memory*: the error of
the memory alone while it follows a cosine for two windows. *Spectrum*: eigenvalues of the memory's
matrix with 60 digits beside those of double precision, stiffness ratio, and the longest steps.

Writes solvers.json and solvers_spectrum.png to the output folder and prints Markdown tables. The
whole takes about 15 minutes, --quick (8 series, one epoch, at most 16 coefficients) half a one.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from math import factorial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import mpmath
import numpy as np
import torch
from matplotlib.axes import Axes
from scipy.optimize import brentq

from benchmarks.lines import heading, line
from benchmarks.paper.study import SOLVERS, CoupledPolyODE, PaperPolyODETransformer
from benchmarks.paper.study.implicit import MULTISTEPS
from benchmarks.protocol import PAPER_WINDOW
from skpolyode.datasets import make_lorenz63
from skpolyode.dynamics import WalledMLP
from skpolyode.memory import LegTMemory, legt_matrices
from skpolyode.models import PolyODE

Rows = list[dict[str, Any]]

# Solver and step size. 0.05 is the paper's for all sets; the 0.5 that it names for one of them,
# and Euler's 0.05, diverge.
RUNS = [
    ("exact", "auto"),
    ("exact", 0.05),
    ("euler", 0.05),
    ("euler", 0.0125),
    ("rk4", 0.5),
    ("rk4", 0.05),
    ("dopri5", 0.05),
    ("backward_euler", 0.05),
    ("adams_moulton", 0.5),
    ("adams_moulton", 0.05),
]
# Seconds of 250 epochs and lowest forecasting MSE, as published (appendix of the paper).
PUBLISHED = {
    ("euler", 0.05): ("816 ± 16", "1519 ± 633"),
    ("dopri5", 0.05): ("23286 ± 2419", "0.093 ± 0.012"),
    ("adams_moulton", 0.05): ("1911 ± 92", "0.099 ± 0.016"),
}
STEPS = (0.025, 0.05, 0.1, 0.2, 0.5)
SIZE = 32
# All but the solver is as in PolyODETransformer: the rows differ in nothing else.
OURS = {"gradient": "interval", "update": "bridge", "origin": "constant"}


class Scale(NamedTuple):
    """How much is computed."""

    n_training: int
    n_validation: int
    max_epochs: int
    sizes: tuple[int, ...]


FULL = Scale(500, 250, 6, (4, 8, 16, 24, 32, 48, 64))
QUICK = Scale(8, 4, 1, (4, 8, 16))


def table(scale: Scale) -> Rows:
    """Time and forecasting error of every solver, with published numbers."""
    data = make_lorenz63(1000, rate=0.3, protocol="paper-code", random_state=0)
    split = np.asarray(data.split)
    training = data.panel[split == "train"][: scale.n_training]
    validation = data.panel[split == "validation"][: scale.n_validation]
    rows: Rows = []
    for solver, step_size in RUNS:
        estimator = PaperPolyODETransformer(
            solver=solver,
            **OURS,
            window=PAPER_WINDOW,
            step_size=step_size,
            max_epochs=scale.max_epochs,
            random_state=0,
        )
        row = {"solver": solver, "step size": step_size} | run(estimator, training, validation)
        seconds, error = PUBLISHED.get((solver, step_size), ("", ""))
        rows.append(row | {"published s (250 epochs)": seconds, "published MSE": error})
        print(
            f"  {solver} {step_size}: {row['training s']} s, {row['forecasting MSE']}", flush=True
        )
    return rows


def run(estimator: PaperPolyODETransformer, training, validation) -> dict[str, Any]:
    """CPU seconds of a fit and of forecasting, and the error on series that it has not seen."""
    start = time.process_time()
    try:
        estimator.fit(training)
    except ValueError as error:
        if "diverge" not in str(error):
            raise
        return {"training s": "–", "forecasting s": "–", "forecasting MSE": "diverges"}
    fitted = time.process_time()
    mse = -estimator.score(validation)
    return {
        "training s": round(fitted - start, 1),
        "forecasting s": round(time.process_time() - fitted, 2),
        "forecasting MSE": round(mse, 4),
    }


def rotation(size: int) -> WalledMLP:
    """A field without hidden layers whose signal is a cosine: h0' = h_1, h_1' = -h0."""
    field = WalledMLP(1 + size, ()).double()
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.zero_()
        field.layers[0].weight[0, 1], field.layers[0].weight[1, 0] = 1.0, -1.0
    return field


def memory(steps: tuple[float, ...] = STEPS, n_gaps: int = 20) -> Rows:
    """Norm of the memory's error after `n_gaps` tenths of a window, and the largest at a tenth."""
    gaps = torch.arange(1, n_gaps + 1, dtype=torch.float64) * PAPER_WINDOW / 10
    field, legt = rotation(SIZE), LegTMemory(SIZE, window=PAPER_WINDOW)
    z = torch.zeros(len(gaps), 1 + SIZE, dtype=torch.float64)
    z[:, 0] = 1.0  # as in the paper, the past before the start is zero
    state = {"z": z, "c": torch.zeros(len(gaps), 1, SIZE, dtype=torch.float64)}
    with torch.no_grad():
        exact = PolyODE(field, legt, step_size=0.005, max_gap=100.0)
        truth = exact.flow(state, gaps, gaps)["c"]
        rows: Rows = []
        for solver in SOLVERS[1:]:
            model = CoupledPolyODE(field, legt, solver=solver, step_size=0.01, max_gap=100.0)
            row: dict[str, Any] = {"solver": solver}
            for model.step_size in steps:  # set afterwards, so that none is refused
                errors = (model.flow(state, gaps, gaps)["c"] - truth).norm(dim=(1, 2))
                row[f"h = {model.step_size}"] = f"{errors[-1]:.0e} / {errors.max():.0e}"
            rows.append(row)
    return rows


def eigenvalues(size: int) -> np.ndarray:
    """Of the memory's matrix, in units of the window, right to double precision.

    They are the poles of the Pade approximant of degrees (size - 1, size) of exp(-s), which the
    memory is of the delay by a window.
    """
    with mpmath.workdps(60):
        coefficients = [
            mpmath.mpf(factorial(2 * size - 1 - j) * factorial(size))
            / (factorial(2 * size - 1) * factorial(j) * factorial(size - j))
            for j in range(size, -1, -1)
        ]
        roots = mpmath.polyroots(coefficients, maxsteps=500, extraprec=300)
        return np.array([complex(root) for root in roots])


def stiffness(values: np.ndarray) -> float:
    """The fastest decay over the slowest."""
    return values.real.min() / values.real.max()


def growth(method: str, hz: complex) -> float:
    """Largest factor by which a step multiplies a solution of z' = lambda z."""
    if method == "euler":
        return abs(1 + hz)
    if method == "rk4":
        return abs(1 + hz + hz**2 / 2 + hz**3 / 6 + hz**4 / 24)
    weights = np.array(MULTISTEPS[method].weights)
    polynomial = -weights * hz + np.eye(len(weights))[0] - np.eye(len(weights))[1]
    return abs(np.roots(polynomial)).max()


def limit(method: str, values: np.ndarray) -> float:
    """Longest step, in windows, with which no eigenvector grows."""

    def excess(step: float) -> float:
        return max(growth(method, step * value) for value in values) - 1

    return brentq(excess, 1e-3 / abs(values).max(), 4 / abs(values).min())


def spectrum(scale: Scale) -> tuple[Rows, dict[int, np.ndarray]]:
    """Stiffness ratios and step limits by exact eigenvalues and by those of double precision."""
    rows: Rows = []
    spectra = {size: eigenvalues(size) for size in scale.sizes}
    for size, exact in spectra.items():
        double = np.linalg.eigvals(legt_matrices(size)[0])
        off = abs(double[:, None] - exact).min(axis=1).max()
        row = {
            "N": size,
            "smallest magnitude": abs(exact).min(),
            "largest magnitude": abs(exact).max(),
        }
        row |= {"double is off by": off, "stiffness": stiffness(exact)}
        row |= {"in double": stiffness(double)}
        row |= {f"{name} limit": limit(name, exact) for name in ("euler", "rk4", "adams_moulton")}
        rows.append(
            {key: value if key == "N" else float(f"{value:.4g}") for key, value in row.items()}
        )
    return rows, spectra


def draw(spectra: dict[int, np.ndarray], rows: Rows, path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    draw_rates(axes[0], spectra)
    sizes = [row["N"] for row in rows]
    axes[1].plot(sizes, [row["stiffness"] for row in rows], "o-", label="exact")
    axes[1].plot(sizes, [row["in double"] for row in rows], "kx--", label="double precision")
    axes[1].set(xlabel="coefficients N", ylabel="fastest / slowest decay", title="Stiffness ratio")
    for name in ("rk4", "adams_moulton", "euler"):
        axes[2].plot(sizes, [row[f"{name} limit"] for row in rows], "o-", label=name)
    axes[2].set(xlabel="coefficients N", ylabel="step / window", yscale="log")
    axes[2].set_title("Longest step by the eigenvalues")
    for ax in axes:
        ax.legend(frameon=False)
    figure.savefig(path, dpi=90)


def draw_rates(ax: Axes, spectra: dict[int, np.ndarray]) -> None:
    """Rates of decay in ascending order: exact as lines, in double precision as crosses."""
    for size in (8, 16, 32, 64):
        if size in spectra:
            place = np.arange(1, size + 1)
            (line,) = ax.plot(place, np.sort(-spectra[size].real), "-", label=f"N = {size}")
            double = np.sort(-np.linalg.eigvals(legt_matrices(size)[0]).real)
            ax.plot(place, double, "x", color=line.get_color(), ms=4)
    ax.set(xlabel="place", ylabel="rate of decay × window", yscale="log")
    ax.set_title("Real parts (crosses: in double precision)")


def markdown(rows: Rows) -> str:
    return "\n".join([*heading([*rows[0]]), *(line([*map(str, row.values())]) for row in rows)])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["table", "memory", "spectrum"])
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    arguments = parser.parse_args(argv)
    arguments.output.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    scale = QUICK if arguments.quick else FULL
    wanted = [arguments.only] if arguments.only else ["memory", "spectrum", "table"]
    results: dict[str, Any] = {"scale": scale._asdict()}
    if "memory" in wanted:
        results["memory"] = memory()
        print("\nError of the memory after two windows / at worst on the way\n")
        print(markdown(results["memory"]), flush=True)
    if "spectrum" in wanted:
        results["spectrum"], spectra = spectrum(scale)
        draw(spectra, results["spectrum"], arguments.output / "solvers_spectrum.png")
        print("\nEigenvalues times window, and longest steps in windows\n")
        print(markdown(results["spectrum"]), flush=True)
    if "table" in wanted:
        print(f"\n{scale.n_training} training series, {scale.max_epochs} epochs", flush=True)
        results["table"] = table(scale)
        print("\n" + markdown(results["table"]))
    text = json.dumps(results, indent=1, ensure_ascii=False)
    (arguments.output / "solvers.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    plt.switch_backend("Agg")  # write a file, open no window
    main()
