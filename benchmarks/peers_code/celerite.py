"""Gaussian processes of each star: celerite2 0.3.3 for each band, scikit-learn for both together.

celerite2 has the terms of its documentation, whose logarithms are chosen by the likelihood (L-BFGS)
from several starts: a Matern 3/2, or a rotation, which is a mixture of two oscillators at a period
and half of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from celerite2 import GaussianProcess, terms
from scipy.optimize import minimize

from benchmarks.light_curves import BANDS, process
from benchmarks.peers_code.rows import Run

Kernel = Callable[[np.ndarray], Any]  # from logarithms of its parameters
Found = tuple[np.ndarray, np.ndarray]  # means and standard deviations (Q, 2)
BOUND = 6.0  # of logarithms


def likeliest(
    kernel: Kernel, starts: list[list[float]], t: np.ndarray, y: np.ndarray, sigma: np.ndarray
) -> GaussianProcess:
    def prepared(logs: np.ndarray) -> GaussianProcess:
        process = GaussianProcess(kernel(np.exp(logs[1:])), mean=logs[0])
        process.compute(t, yerr=sigma)
        return process

    def loss(logs: np.ndarray) -> float:
        try:
            value = -prepared(logs).log_likelihood(y)
        except Exception:  # a matrix that is not positive
            value = np.inf
        return value if np.isfinite(value) else 1e10

    bounds = [(y.min() - 1, y.max() + 1)] + [(-BOUND, BOUND)] * len(starts[0])
    found = [minimize(loss, [y.mean(), *start], bounds=bounds) for start in starts]
    return prepared(min(found, key=lambda own: own.fun).x)


def of_bands(data: Any, kernel: Kernel, starts: list[list[float]]) -> Found:
    means, deviations = [], []
    for k, at in enumerate(data.test.hidden):
        star, found = data.test.told[[k]], np.zeros((2, len(at), BANDS))
        for band in range(BANDS):
            seen = ~np.isnan(star.values[:, band])
            columns = star.times[seen], star.values[seen, band], star.errors[seen, band]
            mean, variance = likeliest(kernel, starts, *columns).predict(
                columns[1], t=at, return_var=True
            )
            found[:, :, band] = mean, np.sqrt(np.maximum(variance, 0))
        means.append(found[0])
        deviations.append(found[1])
    return np.concatenate(means), np.concatenate(deviations)


def matern(data: Any, _: Run) -> Found:
    """Rough curves.

    >>> import celerite2
    >>> from scipy.optimize import minimize
    >>> def process(x):
    ...     term = celerite2.terms.Matern32Term(sigma=np.exp(x[1]), rho=np.exp(x[2]))
    ...     gp = celerite2.GaussianProcess(term, mean=x[0])
    ...     gp.compute(t, yerr=sigma)
    ...     return gp
    >>> best = minimize(lambda x: -process(x).log_likelihood(y), [y.mean(), 0.0, 0.0])
    >>> mean, variance = process(best.x).predict(y, t=nights, return_var=True)
    """
    return of_bands(
        data,
        lambda x: terms.Matern32Term(sigma=x[0], rho=x[1]),
        [[0.0, scale] for scale in (0.0, 1.0)],
    )


def rotation(data: Any, _: Run) -> Found:
    """Curves that nearly repeat; the period is looked for from nine starts.

    >>> import celerite2
    >>> from scipy.optimize import minimize
    >>> names = "sigma", "period", "Q0", "dQ", "f"
    >>> def process(x):
    ...     term = celerite2.terms.RotationTerm(**dict(zip(names, np.exp(x[1:]))))
    ...     gp = celerite2.GaussianProcess(term, mean=x[0])
    ...     gp.compute(t, yerr=sigma)
    ...     return gp
    >>> starts = [[y.mean(), 0.0, p, 2.0, 0.0, 0.0] for p in np.log(np.geomspace(1, 14, 9))]
    >>> fits = [minimize(lambda x: -process(x).log_likelihood(y), x) for x in starts]
    >>> best = min(fits, key=lambda fit: fit.fun)
    >>> mean, variance = process(best.x).predict(y, t=nights, return_var=True)
    """
    names = ("sigma", "period", "Q0", "dQ", "f")
    starts = [[0.0, period, 2.0, 0.0, 0.0] for period in np.log(np.geomspace(1, 14, 9))]
    return of_bands(data, lambda x: terms.RotationTerm(**dict(zip(names, x, strict=True))), starts)


def both_bands(data: Any, _: Run) -> Found:
    """A Matern 5/2 in time, with a length between the bands.

    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.gaussian_process.kernels import ConstantKernel, Matern
    >>> kernel = ConstantKernel(1.0) * Matern([0.5, 2.0], nu=2.5)
    >>> gp = GaussianProcessRegressor(kernel, alpha=sigma**2, n_restarts_optimizer=1)
    >>> gp.fit(nights_and_bands, y - y.mean())
    >>> mean, std = gp.predict(asked_nights_and_bands, return_std=True)
    """
    pairs = [process(data.test.told[[k]], at) for k, at in enumerate(data.test.hidden)]
    means, deviations = zip(*pairs, strict=True)
    return np.concatenate(means), np.concatenate(deviations)
