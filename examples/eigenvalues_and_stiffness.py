"""
How stiff is the memory?
========================

The memory of a sliding window follows dc/dt = A c + B f. Here the eigenvalues of A are computed
with 60 digits, because with 32 coefficients double precision gets them wrong: the eigenvectors are
almost parallel, and rounding is magnified by their condition number. Then: how long may a step of
Euler's method and of the classical Runge-Kutta method be

- by the eigenvalues, which say when a numerical solution dies out in the end;
- by what it does before that: the largest norm of the powers of a step's matrix. The exact
  solution never grows.

Rates and steps are in units of the window.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import mpmath
import numpy as np
from matplotlib.axes import Axes
from scipy.linalg import expm
from scipy.optimize import brentq

from skpolyode.memory import legt_matrices

SIZES = (4, 8, 16, 32)
SHOWN = {8: "s", 16: "^", 32: "o"}
DIGITS = 60
# What one step multiplies an eigenvector by, as a polynomial of step times eigenvalue.
METHODS = {"Euler": (1.0, 1.0), "Runge-Kutta 4": (1.0, 1.0, 1 / 2, 1 / 6, 1 / 24)}
HEAD = ("smallest |λ|", "largest |λ|", "stiffness", "double is off", *METHODS)
DASHES = {"Euler": "--", "Runge-Kutta 4": "-", "exact": ":"}


def exact_eigenvalues(n: int) -> np.ndarray:
    """Eigenvalues of the LegT matrix, with its roots taken in `DIGITS` digits as well."""
    with mpmath.workdps(DIGITS):
        norm = [mpmath.sqrt(2 * k + 1) for k in range(n)]
        rows = [
            [-norm[i] * norm[j] * (1 if j <= i else (-1) ** (j - i)) for j in range(n)]
            for i in range(n)
        ]
        values = mpmath.eig(mpmath.matrix(rows), left=False, right=False)
        return np.array([complex(value) for value in values])


def stiffness(values: np.ndarray) -> float:
    """The fastest decay over the slowest."""
    return values.real.min() / values.real.max()


def step_limit(method: str, values: np.ndarray) -> float:
    """The longest step with which no eigenvector grows."""

    def growth(step: float) -> float:
        factors = np.polynomial.polynomial.polyval(step * values, METHODS[method])
        return np.abs(factors).max() - 1.0

    # Short steps always decay; the bracket ends beyond the real axis' limit of both methods.
    return brentq(growth, 1e-3 / np.abs(values).max(), 4 / np.abs(values).min())


def largest_norms(method: str, n: int, steps: np.ndarray) -> np.ndarray:
    """The largest norm of the powers of a step's matrix, over one window of time."""
    A, _ = legt_matrices(n)
    return np.array([_largest_norm(_step_matrix(method, step * A), step) for step in steps])


def _step_matrix(method: str, hA: np.ndarray) -> np.ndarray:
    if method == "exact":
        return expm(hA)
    powers = (np.linalg.matrix_power(hA, k) for k in range(len(METHODS[method])))
    return sum(weight * power for weight, power in zip(METHODS[method], powers, strict=True))


def _largest_norm(matrix: np.ndarray, step: float) -> float:
    power, largest = np.eye(len(matrix)), 1.0
    for _ in range(int(1 / step)):
        power = matrix @ power
        largest = max(largest, np.linalg.norm(power, 2))
        if largest > 1e6:  # it will not come back
            break
    return largest


def draw_spectra(ax: Axes, spectra: dict[int, np.ndarray]) -> None:
    for n, marker in SHOWN.items():
        values, label = spectra[n], f"N = {n}"
        ax.plot(values.real, values.imag, marker, ms=5, mfc="none", label=label)
    wrong = np.linalg.eigvals(legt_matrices(32)[0])
    ax.plot(wrong.real, wrong.imag, "kx", ms=5, label="N = 32, double precision")
    ax.set(xlabel="real part × window", ylabel="imaginary part × window", ylim=(-65, 100))
    ax.set_title("Eigenvalues, computed with 60 digits")
    ax.legend(loc="upper center", ncols=2, frameon=False)


def draw_stiffness(ax: Axes, spectra: dict[int, np.ndarray]) -> None:
    double = [stiffness(np.linalg.eigvals(legt_matrices(n)[0])) for n in spectra]
    ax.plot(list(spectra), [stiffness(v) for v in spectra.values()], "o-", label="60 digits")
    ax.plot(list(spectra), double, "kx--", label="double precision")
    ax.set(xlabel="coefficients N", ylabel="fastest / slowest decay", title="Stiffness ratio")
    ax.legend(loc="upper left", frameon=False)


def draw_limits(ax: Axes, spectra: dict[int, np.ndarray]) -> None:
    for method in METHODS:
        limits = [step_limit(method, values) for values in spectra.values()]
        ax.plot(list(spectra), limits, "o", ls=DASHES[method], label=method)
    ax.set(xlabel="coefficients N", ylabel="step / window", yscale="log")
    ax.set_title("Longest stable step, by the eigenvalues")
    ax.legend(loc="upper right", frameon=False)


def draw_growth(ax: Axes, spectra: dict[int, np.ndarray], n: int = 32) -> None:
    steps = np.geomspace(1e-3, 0.1, 60)
    for k, (method, dashes) in enumerate(DASHES.items()):
        style = {"color": "k" if method == "exact" else f"C{k}", "ls": dashes}
        ax.plot(steps, largest_norms(method, n, steps), label=method, **style)
        if method in METHODS:
            ax.axvline(step_limit(method, spectra[n]), **style | {"ls": "-", "lw": 4, "alpha": 0.3})
    ax.set(xlabel="step / window", ylabel="largest growth within a window", ylim=(0.5, 1e6))
    ax.set(xscale="log", yscale="log")
    ax.set_title(f"Growth before decay, N = {n} (bars: limits by the eigenvalues)")
    ax.legend(loc="upper left", frameon=False)


def report(n: int, values: np.ndarray) -> str:
    """One line: the spectrum, how wrong double precision is, and the step limits."""
    double = np.linalg.eigvals(legt_matrices(n)[0])
    wrong = np.abs(double[:, None] - values).min(axis=1).max()
    numbers = [np.abs(values).min(), np.abs(values).max(), stiffness(values)]
    limits = [step_limit(method, values) for method in METHODS]
    return f"{n:3d}" + "".join(f"{x:14.5g}" for x in (*numbers, wrong, *limits))


# %%
# Spectrum, how far off double precision is, and step limits:

print("  N" + "".join(f"{name:>14}" for name in HEAD))
spectra = {}
for n in SIZES:
    spectra[n] = exact_eigenvalues(n)
    print(report(n, spectra[n]))

# %%

figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
draw_spectra(axes[0, 0], spectra)
draw_stiffness(axes[0, 1], spectra)
draw_limits(axes[1, 0], spectra)
draw_growth(axes[1, 1], spectra)
for ax in axes.flat:
    ax.title.set_fontsize(10)
plt.show()

# %%
# What happened here: the memory is not stiff, whatever N: its rates lie close together. But its
# eigenvectors are nearly parallel. That is why double precision misplaces the eigenvalues of 32
# coefficients, and why a step that the eigenvalues allow can blow up an error a million times
# before it dies out, while the exact solution never grows. skpolyode never diagonalises, and by
# default it takes no steps either: the memory is linear, and moved over any gap by the matrix
# exponential.
