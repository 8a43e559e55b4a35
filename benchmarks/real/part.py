"""What the parts of the benchmark have in common: folds, rows, and tables of what was found."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from benchmarks.lines import heading, line

Scores = dict[str, float]
Measure = Callable[[str, Any, list[str]], dict[str, Scores]]
ASIDE = ("coverage", "width")  # of intervals, told below the tables


class Part(NamedTuple):
    """Sets, methods (rows of a table), and how one fold of a set is measured."""

    folds: dict[str, Callable[[Path, int], Iterable[Any]]]  # from the data and a number of folds
    rows: Callable[[str], list[str]]  # of a set
    own: list[str]  # rows that are PolyODE
    measure: Measure
    larger_is_better: bool = False


def kept(
    measure: Measure, name: str, number: int, fold: Any, rows: list[str], out: Path | None
) -> list[dict[str, Any]]:
    """The scores of one fold, read from files where there are some, and else written to such."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    files = {row: None if out is None else out / f"{name}-{row}-{number}.json" for row in rows}
    found: dict[str, Scores] = {
        row: json.loads(file.read_text()) for row, file in files.items() if file and file.exists()
    }
    torch.set_num_threads(1)
    missing = [row for row in rows if row not in found]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what windows cover, and of unused covariates
        found |= measure(name, fold, missing)
    for row in missing:
        if files[row] is not None:
            files[row].write_text(json.dumps(found[row], indent=1))
    return [{"set": name, "row": row, "fold": number, **found[row]} for row in rows]


def means(found: pd.DataFrame) -> pd.DataFrame:
    return found.drop(columns=["set", "fold"]).groupby("row", sort=False).mean()


def table_of(part: Part, found: pd.DataFrame) -> list[str]:
    """Lines of a markdown table: means over the folds, the best one of each score in bold."""
    table = means(found)
    columns = [c for c in table if not c.startswith(ASIDE)]
    lines = heading([found["set"].iloc[0], *columns])
    best = table[columns].max() if part.larger_is_better else table[columns].min()
    for row, values in table.iterrows():
        cells = [f"{values[c]:.1f}" if c == "CPU s" else shown(values[c]) for c in columns]
        for k, column in enumerate(columns):
            if column != "CPU s" and values[column] == best[column]:
                cells[k] = f"**{cells[k]}**"
        lines.append(line([row, *cells]))
    for row, values in table.iterrows():
        own = {c: values[c] for c in table if c not in columns and not np.isnan(values[c])}
        if own:
            parts = ", ".join(f"{column} {value:.3f}" for column, value in own.items())
            lines.append(f"\nIntervals of 90 %, {row}: {parts}.")
    return lines


def shown(value: float) -> str:
    """Three significant digits, without exponents."""
    if not np.isfinite(value) or value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.{max(0, 2 - int(np.floor(np.log10(abs(value)))))}f}"


def losses(part: Part, found: pd.DataFrame, own: str) -> list[str]:
    """Scores of which a rival has a better mean, and in how many folds it has."""
    table = means(found).drop(columns="CPU s")
    rivals = table.index.difference(part.own, sort=False)
    lines = []
    for column in table.columns[~table.columns.str.startswith(ASIDE)]:
        sign = -1.0 if part.larger_is_better else 1.0
        best = (sign * table.loc[rivals, column]).idxmin()
        mine, other = table.loc[own, column], table.loc[best, column]
        if sign * other < sign * mine:
            folds = [found.loc[found["row"] == row, column].to_numpy() for row in (own, best)]
            often = int((sign * folds[1] < sign * folds[0]).sum())
            pair = f"{shown(mine)} against {shown(other)}, {mine / other:.2f} times"
            where = f"{found['set'].iloc[0]}, {column}"
            lines.append(
                f"{where}: {own} loses to {best} ({pair}; in {often} of {len(folds[0])} folds)"
            )
    return lines
