"""From results to Markdown: mean and standard deviation over the seeds, beside the paper's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from benchmarks.lines import heading, line
from benchmarks.paper.cells import Setting
from benchmarks.paper.rows import PUBLISHED
from benchmarks.paper.store import Store


class Column(NamedTuple):
    title: str
    metric: str
    decimals: int


COLUMNS = (
    Column("AUC", "auc", 3),
    Column("label regression", "label_regression_mse", 4),
    Column("reverse, held out", "reverse_held_out_mse", 4),
    Column("forecasting", "forecasting_mse", 4),
)
PAPER_COLUMNS = (Column("paper: AUC", "auc", 3), Column("paper: label", "label_regression_mse", 3))


class Number(NamedTuple):
    """A mean over seeds; NaN where a method has no such number, or one seed no deviation."""

    mean: float = float("nan")
    std: float = float("nan")

    def text(self, decimals: int) -> str:
        shown = [f"{part:.{decimals}f}" for part in self if not pd.isna(part)]
        return " ± ".join(shown)


def folded(title: str, table: Sequence[str]) -> list[str]:
    """A table that opens at a click on its title."""
    return [f"<details><summary>{title}</summary>", "", *table, "", "</details>", ""]


Summary = dict[tuple[Setting, str, str], Number]  # of setting, row and metric


class Job(Protocol):
    """A cell: a method and a seed on some data, what the result depends on, and how it is made."""

    setting: Setting
    row: str

    def settings(self) -> dict[str, Any]: ...

    def run(self) -> dict[str, float]: ...


def summarise(jobs: Iterable[Job], store: Store) -> Summary:
    """Mean and standard deviation over the seeds that there are."""
    values = defaultdict(list)
    for job in jobs:
        for metric, value in (store.get(job.settings()) or {}).items():
            values[job.setting, job.row, metric].append(value)
    return {
        key: Number(np.mean(own), np.std(own, ddof=1) if len(own) > 1 else np.nan)
        for key, own in values.items()
    }


def setting_tables(summary: Summary, settings: Iterable[Setting], rows: Sequence[str]) -> list[str]:
    """A table for each setting, beside the paper's numbers where they are of the same protocol."""
    lines = []
    for setting in settings:
        of_paper = PAPER_COLUMNS if setting.protocol == "paper-code" else ()
        title = f"{setting.dataset}, rate {setting.rate}, {setting.protocol}"
        lines += folded(title, setting_table(summary, setting, rows, COLUMNS, of_paper))
    return lines


def setting_table(
    summary: Summary,
    setting: Setting,
    rows: Sequence[str],
    columns: Sequence[Column],
    of_paper: Sequence[Column],
) -> list[str]:
    lines = heading(["", *(column.title for column in (*columns, *of_paper))])
    for row in rows:
        ours = [
            summary.get((setting, row, column.metric), Number()).text(column.decimals)
            for column in columns
        ]
        papers = [
            published(setting.dataset, setting.rate, row, column.metric).text(column.decimals)
            for column in of_paper
        ]
        lines.append(line([row, *ours, *papers]))
    return lines


def published(dataset: str, rate: float | None, row: str, metric: str) -> Number:
    """What the paper prints, NaN where it has no such number."""
    return _published().get((dataset, rate, _spelled(PUBLISHED.get(row, row)), metric), Number())


@cache
def _published() -> dict[tuple[str, float | None, str, str], Number]:
    table = pd.read_csv(Path(__file__).with_name("published.csv"), comment="#")
    return {
        (own.dataset, None if pd.isna(own.rate) else own.rate, _spelled(own.model), own.metric): (
            Number(own.mean, own.std)
        )
        for own in table.itertuples()
    }


def _spelled(model: str) -> str:
    """Name of a model as both the paper and a class would have it."""
    return model.replace("-", "").lower()
