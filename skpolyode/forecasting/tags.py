"""What sktime knows of the forecaster: the formats that it reads, and what it can do."""

from __future__ import annotations

from typing import Any

__all__ = ["FITTED", "MTYPES", "TAGS"]

FITTED = ("embedder_", "calibration_", "decomposition_", "path_calibration_", "structural_")
"""What training leaves behind, in the order of `Trained`."""

MTYPES = ["pd.DataFrame", "pd-multiindex", "pd_multiindex_hier"]

TAGS: dict[str, Any] = {
    "authors": ["the skpolyode developers"],
    "maintainers": ["the skpolyode developers"],
    "python_dependencies": ["torch"],
    "y_inner_mtype": MTYPES,
    "X_inner_mtype": MTYPES,
    "capability:multivariate": True,
    "capability:exogenous": False,
    "capability:missing_values": True,
    "capability:unequal_length": True,
    "capability:categorical_in_X": False,
    "capability:insample": True,
    "capability:pred_int": True,
    "capability:pred_int:insample": True,
    "capability:update": True,
    "capability:pretrain": True,
    "pretrain:fitted_params": list(FITTED),
    "capability:random_state": True,
    "property:randomness": "derandomized",
    "requires-fh-in-fit": False,
    "X-y-must-have-same-index": False,
}
