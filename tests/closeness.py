"""Results that are the same but for rounding.

Bits are equal only where one computation runs twice. In a batch of another size, with other
threads, or on another processor, kernels of linear algebra add up in another order, and vectorised
functions round the last rows of an array in another way than the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDING = 1e-12  # thousands of roundings of numbers of the size of one


def assert_same_but_for_rounding(found: Any, expected: Any, tolerance: float = ROUNDING) -> None:
    """Compare arrays or tensors, relative to the numbers and, below one, absolutely."""
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
