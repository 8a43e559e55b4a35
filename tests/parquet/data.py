"""A table of series, and an estimator that shows what reached it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.base import BaseEstimator

from skpolyode import Panel

LENGTHS = [5, 1, 9, 30, 2, 7, 7, 3, 12, 4]


class Probe(BaseEstimator):
    """Features that show what reached the estimator: rows, sum of values, first static column."""

    def get_feature_names_out(self):
        return ["n_rows", "total", "static"]

    def transform(self, panel):
        totals = np.add.reduceat(panel.values[:, 0], panel.offsets[:-1])
        static = np.zeros(len(panel)) if panel.static is None else panel.static.iloc[:, 0]
        return np.column_stack([panel.lengths, totals, static])


def panel_of(table: pd.DataFrame) -> Panel:
    return Panel.from_long(table, id="id", time="time", values=["hr", "bp"])


def write(table: pd.DataFrame, path: Path, row_group_size: int = 4) -> Path:
    pq.write_table(pa.Table.from_pandas(table), path, row_group_size=row_group_size)
    return path


def parts(sink: Path) -> list[Path]:
    return sorted(sink.glob("part-*.parquet"))
