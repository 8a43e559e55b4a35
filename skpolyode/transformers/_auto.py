"""Settings that are derived from the training data when the user gives none."""

from __future__ import annotations

import numpy as np

from skpolyode.transformers._input import Rows

__all__ = ["auto_batch_size", "auto_step_size", "auto_window", "typical_gap"]


def typical_gap(rows: Rows) -> float:
    """Mean gap, with the longest gaps counted as four times the third quartile.

    The unit of time of the model. The mean bounds the number of integration steps by the number
    of observations; the cap keeps a few enormous gaps from setting the scale.
    """
    gaps = rows.gaps
    if not len(gaps):
        return 1.0
    return float(np.minimum(gaps, 4 * np.quantile(gaps, 0.75)).mean())


def auto_window(rows: Rows, n_coefficients: int) -> float:
    """Nearly all of the longest histories, but no more than the coefficients can resolve.

    That is two coefficients an observation. Measured on Lorenz63 (32 coefficients, gap 0.3):
    held-out reconstruction error 0.008 at a window of 5, 0.08 at 9.
    """
    durations = rows.end - rows.start
    if not durations.any():
        return 1.0
    return float(
        min(np.quantile(durations[durations > 0], 0.9), n_coefficients * typical_gap(rows))
    )


def auto_step_size(rows: Rows) -> float:
    """Two thirds of the typical gap: mostly one or two Runge-Kutta steps an interval.

    Measured on Lorenz63 (gap 0.3): steps of 0.2 and 0.1 give the same held-out error.
    """
    return 2 / 3 * typical_gap(rows)


def auto_batch_size(n_items: int) -> int:
    """Sixteen minibatches an epoch, of 32 to 512 items."""
    return int(np.clip(n_items // 16, 32, 512))
