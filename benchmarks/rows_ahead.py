"""The run alone, the stack and rivals trained for each lead, some rows ahead on real sets.

    python -m benchmarks.rows_ahead --data FOLDER [--only storms FD001 Produc] [--out FOLDER]

FOLDER holds the tables of `benchmarks.real`, `fd001.parquet` of `benchmarks.degradation` in
turbofan/, and those of `benchmarks.longitudinal` in longitudinal/. The first of five folds of the
series is forecast from up to 8 random origins of each series, not before its second row, and the
other four train.

Prints squared errors over all observed cells, in variances of the training part, each lead in rows
a line. "run" is the model without simple forecasts, "seed 1" the same from other starting weights.
"ridge" is a regression for each channel and lead on last values, means and means that forget over
1 to 32 typical gaps of all channels, with a penalty by cross-validation; boosting that of
`benchmarks.longitudinal`. Last come the run over the best of these two, the stack over the run, and
the run of one seed over that of the other, the larger one above.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV

from benchmarks.degradation import engines
from benchmarks.lines import heading, line
from benchmarks.longitudinal import METHODS, folds_of
from benchmarks.real.forecasts import Standardised, ahead
from benchmarks.real.part import Measure, Scores, kept, shown
from benchmarks.real.questions import Questions, nth_row
from benchmarks.real.rivals import Rival
from benchmarks.real.sets import SETS, Answer, Fold, dealt, variances
from benchmarks.units import Units, gaps
from skpolyode import Panel, PolyODETransformer
from skpolyode.ensemble.member import Records
from skpolyode.panel.select import series_of_rows
from skpolyode.panel.units import Standardised as InUnits

LEADS, ORIGINS = (1, 2, 4, 8, 16), 8
FEWEST = 20  # forecasts that an error is told of
STRENGTHS = np.logspace(-2, 4, 7)
ROWS = ["stack", "run", "seed 1", "ridge", "boosting"]
REAL = ["eicu", "storms", "pbcseq", "wages"]
ENGINES: dict[str, Callable[[Path], list[np.ndarray]]] = {
    "FD001": partial(engines, channels=["s11"]),
    "FD001, mean of 5": partial(engines, channels=["s11"], smooth=5),
    "FD001, 14 sensors": partial(engines, channels=None),
}
LONGITUDINAL = "Blackmore ChickWeight Cigar Produc aneurysm autism dietox french_fries gapminder"


def first_fold(name: str, folder: Path) -> Fold:
    if name in SETS:
        return next(SETS[name].folds(folder, 1))
    if name in ENGINES:
        series = ENGINES[name](folder / "turbofan")
        panel = Panel.from_series([(np.arange(len(x), dtype=float), x) for x in series])
        return next(dealt(panel, 1))
    return next(folds_of(name, folder / "longitudinal", 1))


def some_origins(panel: Panel, n_rows: int) -> Questions:
    """Up to 8 origins of each series, of which the row `n_rows` later is asked for."""
    asked, series = nth_row(n_rows)(panel), series_of_rows(panel)
    asked = asked.at(asked.origin > panel.offsets[series[asked.origin]])
    series = series[asked.origin]
    order = np.lexsort((np.random.default_rng(0).random(len(series)), series))
    first = np.searchsorted(series[order], series[order])
    return asked.at(np.sort(order[np.arange(len(order)) - first < ORIGINS]))


def ridge(training: Questions, test: Questions) -> np.ndarray:
    """Corrections of the last value, from what is known of all channels and the lead."""
    unit = float(np.median(gaps(training.panel)))

    def features(asked: Questions) -> tuple[np.ndarray, np.ndarray]:
        panel, nothing = asked.panel, np.empty((asked.panel.n_observations, 0))
        rows = InUnits(panel.times / unit, panel.values, panel.offsets, nothing)
        known = Records.of(Records.known_at(rows, asked.origin))
        columns = [known.last, known.mean, *np.moveaxis(known.means, -1, 0)]
        return np.column_stack([*columns, asked.leads / unit]), known.last

    (x, last), (x_test, result) = features(training), features(test)
    for j, truth in enumerate(training.truth.T):
        rows = ~np.isnan(truth)
        if rows.any():
            fitted = RidgeCV(STRENGTHS).fit(x[rows], truth[rows] - last[rows, j])
            result[:, j] += fitted.predict(x_test)
    return result


def measure(_: str, fold: Fold, rows: list[str]) -> dict[str, Scores]:
    found, model = {}, None
    for row in rows:
        start = time.process_time()
        if row in RIVALS:
            answers = partial(RIVALS[row], fold.train)
        else:
            if model is None or row == "seed 1":  # one fit for the stack and the run
                model = PolyODETransformer(random_state=int(row == "seed 1")).fit(fold.train)
            answers = partial(ahead, model, combine=row == "stack")
        found[row] = errors_of(fold, answers) | {"CPU s": time.process_time() - start}
    return found


def errors_of(fold: Fold, answers: Callable[[Questions], np.ndarray]) -> Scores:
    """Errors by lead of all leads that are asked often enough."""
    units, found = Units.of(fold.train), {}
    for n_rows in LEADS:
        test = some_origins(fold.test, n_rows)
        if len(test.origin) >= FEWEST:
            answer = Answer(answers(test)).standardised(units)
            found[str(n_rows)] = variances(test.standardised(units), answer, units)
    return found


def standardised(rival: Rival) -> Callable[[Panel, Questions], np.ndarray]:
    """A rival that learns from all questions of the training part about the same lead."""

    def answers(train: Panel, test: Questions) -> np.ndarray:
        training = nth_row(int(test.target[0] - test.origin[0]))(train)
        return Standardised(rival).answer(training, test).mean

    return answers


RIVALS = {"ridge": standardised(ridge), "boosting": standardised(METHODS["boosting"])}


def table(found: pd.DataFrame) -> Iterator[str]:
    ratios = ["run / best", "stack / run", "seeds"]
    yield from heading(["set", "rows ahead", *ROWS, *ratios])
    for name, own in found.groupby("set", sort=False):
        own = own.set_index("row")
        for lead in map(str, LEADS):
            if lead not in own or own[lead].isna().any():
                continue
            error = own[lead]
            seeds = error[["run", "seed 1"]]
            last = [
                error["run"] / error[["ridge", "boosting"]].min(),
                error["stack"] / error["run"],
                seeds.max() / seeds.min(),
            ]
            cells = [f"**{shown(x)}**" if x == error.min() else shown(x) for x in error[ROWS]]
            yield line([name, lead, *cells, *(f"{x:.2f}" for x in last)])


def run(
    description: str,
    names: list[str],
    measure: Measure,
    rows: list[str],
    table: Callable[[pd.DataFrame], Iterator[str]],
) -> None:
    """Measure the first fold of sets that the command line names, and print their table."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the tables")
    parser.add_argument("--only", nargs="+", metavar="SET", default=names)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="folder of finished results")
    args = parser.parse_args()
    jobs = (
        joblib.delayed(kept)(measure, name, 0, first_fold(name, args.data), rows, args.out)
        for name in args.only
    )
    found = pd.DataFrame(itertools.chain(*joblib.Parallel(args.jobs)(jobs)))
    print("\n".join(table(found)))


def main() -> None:
    run(__doc__, [*REAL, *ENGINES, *LONGITUDINAL.split()], measure, ROWS, table)


if __name__ == "__main__":
    main()
