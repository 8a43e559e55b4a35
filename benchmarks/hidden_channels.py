"""Channels that a series never observes, filled from the others.

    python -m benchmarks.hidden_channels --data FOLDER [--only storms pbcseq] [--out FOLDER]

FOLDER holds the tables of `benchmarks.rows_ahead`. A default `PanelImputer` learns from four fifths
of the series with all channels. In the rest each channel is hidden in turn as a whole. Root mean
squared errors of all hidden cells, in standard deviations of the training part. "path" is the
imputer without regressions. "boosting" (HistGradientBoosting) and "iterative" (IterativeImputer)
read the other channels of the row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from benchmarks.lines import heading, line
from benchmarks.real.part import Scores, shown
from benchmarks.real.sets import Fold
from benchmarks.rows_ahead import run
from benchmarks.units import Units
from skpolyode import Panel, PanelImputer, PolyODETransformer

SETS = ["storms", "eicu", "pbcseq", "dietox", "Produc", "Cigar", "gapminder", "french_fries"]
ROWS = ["mean", "path", "PanelImputer", "boosting", "iterative"]


def measure(_: str, fold: Fold, rows: list[str]) -> dict[str, Scores]:
    train, units, imputers, seconds = fold.train, Units.of(fold.train), {}, {}
    for row, refine in (("PanelImputer", "auto"), ("path", False)):
        start = time.process_time()
        transformer = PolyODETransformer(random_state=0)
        imputers[row] = PanelImputer(transformer, refine=refine).fit(train)
        seconds[row] = time.process_time() - start
    x = units.standardised(train).values
    iterative, errors = IterativeImputer(random_state=0).fit(x), {row: [] for row in rows}
    for j in range(train.n_channels):
        test, truth = hide_channel(units.standardised(fold.test), j)
        panel, others = (
            test.like(test.times, test.values * units.scale + units.mean, test.offsets),
            np.delete(x, j, axis=1),
        )
        known = ~np.isnan(x[:, j])
        boosting = HistGradientBoostingRegressor(random_state=0).fit(others[known], x[known, j])
        found = {
            "mean": np.zeros(len(truth)),
            "boosting": boosting.predict(np.delete(test.values, j, axis=1)),
            "iterative": iterative.transform(test.values)[:, j],
        }
        for row, imputer in imputers.items():
            filled = imputer.transform(panel).values[:, j]
            found[row] = (filled - units.mean[j]) / units.scale[j]
        for row in rows:
            missed = found[row] - truth
            errors[row].append(missed[~np.isnan(missed)] ** 2)
    return {
        row: {"error": float(np.sqrt(np.mean(np.concatenate(errors[row]))))}
        | ({"CPU s": seconds[row]} if row in seconds else {})
        for row in rows
    }


def hide_channel(panel: Panel, channel: int) -> tuple[Panel, np.ndarray]:
    """Series that observe another channel, without this one, and what was hidden."""
    values = panel.values.copy()
    values[:, channel] = np.nan
    kept = np.logical_or.reduceat(~np.isnan(values).all(axis=1), panel.offsets[:-1])
    hidden = panel.like(panel.times, values, panel.offsets)[kept]
    return hidden, panel[kept].values[:, channel]


def table(found: pd.DataFrame) -> Iterator[str]:
    yield from heading(["set", *ROWS, "fit, CPU s"])
    for name, own in found.groupby("set", sort=False):
        own = own.set_index("row")
        error = own.loc[ROWS, "error"]
        cells = [f"**{shown(x)}**" if x == error.min() else shown(x) for x in error]
        yield line([name, *cells, f"{own.loc['PanelImputer', 'CPU s']:.0f}"])


def main() -> None:
    run(__doc__, SETS, measure, ROWS, table)


if __name__ == "__main__":
    main()
