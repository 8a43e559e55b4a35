"""The table that the tests of Parquet share."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.parquet.data import LENGTHS


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    ids = np.repeat([f"p{n}" for n in range(len(LENGTHS))], LENGTHS)
    times = np.concatenate([rng.exponential(size=n).cumsum() for n in LENGTHS])
    values = rng.normal(size=(len(ids), 2))
    values[rng.uniform(size=values.shape) < 0.2] = np.nan
    values[np.cumsum([0, *LENGTHS[:-1]])] = 1.0
    return pd.DataFrame({"id": ids, "time": times, "hr": values[:, 0], "bp": values[:, 1]})
