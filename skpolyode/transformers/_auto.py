"""Settings that are derived from the training data when the user gives none."""

from __future__ import annotations

import numpy as np

from skpolyode.transformers._input import Observed

__all__ = ["auto_batch_size", "auto_step_size", "auto_window", "choose_window", "typical_gap"]


def typical_gap(rows: Observed) -> float:
    """Mean gap, with the longest gaps counted as four times the third quartile.

    The unit of time of the model. The mean bounds the number of integration steps by the number
    of observations; the cap keeps a few enormous gaps from setting the scale.
    """
    gaps = rows.gaps
    if not len(gaps):
        return 1.0
    return float(np.minimum(gaps, 4 * np.quantile(gaps, 0.75)).mean())


def auto_window(rows: Observed, n_coefficients: int) -> float:
    """Nearly all of the longest histories, but no more than the coefficients can resolve.

    That is two coefficients an observation. Measured on Lorenz63 (32 coefficients, gap 0.3):
    held-out reconstruction error 0.008 at a window of 5, 0.08 at 9.
    """
    durations = rows.end - rows.start
    if not durations.any():
        return 1.0
    longest = np.quantile(durations[durations > 0], 0.9)
    return float(min(longest, max(n_coefficients, 2) / 2 * typical_gap(rows)))


def choose_window(window: float | str, measure: str, rows: Observed, n_coefficients: int) -> float:
    """Length of the past that is remembered; of the whole history, that of the longest series."""
    if measure == "legs":
        return float((rows.end - rows.start).max()) or 1.0
    return auto_window(rows, n_coefficients) if window == "auto" else float(window)


def auto_step_size(rows: Observed, window: float, n_coefficients: int) -> float:
    """Two thirds of the typical gap, but no more than 1.25 windows over the coefficients.

    The second keeps paths as fine as the memory can resolve where gaps are long. Measured on
    Synthetic (gap 1.2): held-out error 0.04 with steps of 0.16, 0.42 with steps of 0.8.
    """
    return min(2 / 3 * typical_gap(rows), 1.25 * window / n_coefficients)


def auto_batch_size(n_items: int, gradient: str) -> int:
    """Sixteen minibatches an epoch, of 64 to 512 intervals or 32 to 512 series.

    The cost of fewer intervals is that of their sequential depth, and with more of them little data
    give too few steps.
    """
    return int(np.clip(n_items // 16, 64 if gradient == "interval" else 32, 512))
