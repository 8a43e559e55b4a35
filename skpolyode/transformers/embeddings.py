"""Embeddings that users pass back: checks, and conversion to series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_array

from skpolyode.embedders import MemoryReadout
from skpolyode.panel import Panel
from skpolyode.panel.query import read_leads
from skpolyode.panel.readers.kinds import column_names


def checked_embeddings(transformer: Any, X: Any) -> np.ndarray:
    """Embeddings (n_series, n_features), with the columns in the order of `transform`."""
    Z = check_array(X, dtype=np.float64, input_name="X")
    found, wanted = column_names(X), list(transformer.get_feature_names_out())
    if Z.shape[1] != len(wanted):
        raise ValueError(
            f"X has {Z.shape[1]} features, but {type(transformer).__name__} embeds in "
            f"{len(wanted)}: pass what transform returned."
        )
    if found == wanted or not all(isinstance(name, str) for name in found) or not found:
        return Z
    if missing := [name for name in wanted if name not in found]:
        unknown = [name for name in found if name not in wanted]
        raise ValueError(
            f"X lacks the features {missing[:3]} ({len(missing)} such features), and has "
            f"{unknown[:3]}: the feature names should match those of get_feature_names_out(); "
            "pass what transform returned, or an array."
        )
    return Z[:, [found.index(name) for name in wanted]]


def read_back(
    transformer: Any, X: Any, Z: np.ndarray, times: Any, past: MemoryReadout
) -> np.ndarray | Panel:
    """Series from features `Z`, which start with the coefficients; see `inverse_transform`.

    The index of the frame `X` becomes their ids, if it is unique.
    """
    times = None if times is None else read_leads(times, transformer.time_unit_).counts
    ages = past.ages_at(times, transformer.array_shape_)
    values = past.read_features(Z, transformer.n_channels_in_, ages)
    if transformer.array_shape_ is None:
        order, names = np.argsort(-ages, kind="stable"), transformer.channel_names_
        ids = X.index if isinstance(X, pd.DataFrame) and X.index.is_unique else None
        cells = {"array": values[:, order], "times": -ages[order]}
        return Panel.from_array(**cells, channel_names=names, ids=ids)
    return values[:, :, 0] if len(transformer.array_shape_) == 1 else values
