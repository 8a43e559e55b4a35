"""PolyODE on small longitudinal sets, beside rules and models that take a line to write.

    python -m benchmarks.longitudinal --data FOLDER                         # all: hours
    python -m benchmarks.longitudinal --data FOLDER --folds 2 --only Orthodont sleepstudy
    python -m benchmarks.longitudinal --data FOLDER --rows "last value" MixedLM

FOLDER holds a long table of each set, `SET.parquet`, with the columns `id`, `time`, `channel` and
`value`; any table of this kind will do. Ours are data sets that ship with R packages: BodyWeight,
Cefamandole, Orthodont, Ovary and Soybean (nlme), ChickWeight, Loblolly and Orange (datasets),
sleepstudy (lme4), dietox (geepack), Cigar, Crime and Produc (plm), gapminder (gapminder), autism
(HLMdiag), Blackmore (carData), Fatalities (AER), epil (MASS), french_fries (reshape2), aneurysm
(msm) and nafld (survival): growth, doses and habits, 5 to 15 666 series of 1 to 257 rows.

A row is a time at which some channel of a series was observed. The series are dealt into five folds
(as many as there are series, if fewer; three series at least), so that of five series each is
forecast once, by methods that learned from the other four. Two tasks, on the test series:

- next row: from every row but the last, the values of the next one;
- rest of the series: from one origin a series, its row number n // 2 (of n, the first at least),
  the values of all later ones.

Prints a markdown table for each task: squared errors over all observed cells, in variances of the
channel in the training part, means over the folds, the best one in bold, "-" where a method failed
on a fold. The last columns divide those of PolyODE by the error of the best rule, which is, on each
fold, the one of four rules that does best on its training part. The set with the largest ratio
comes first. Two lines sum them up. Then come the coverage of intervals of 90 % and seconds of
processor time. With `--out` a result is kept in a file and not computed again.

A method is a function of the questions about the training part and those about the test part,
which returns the forecast values: write one, and add a line to METHODS. One that is trained once
for both tasks, or has intervals, is a class like MixedLM below, which needs statsmodels; without
it there is no such row.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from scipy.stats import gmean, norm

from benchmarks.lines import heading, line
from benchmarks.real.forecasts import Forecaster, Standardised, Transformer, ahead, scored
from benchmarks.real.part import Scores, kept, shown
from benchmarks.real.questions import Questions, one_step
from benchmarks.real.rivals import PANEL_RIVALS, Rival, boosting, causal_features, drift, rule
from benchmarks.real.sets import Answer, Fold, Task, dealt, read_long, variances
from skpolyode import Panel
from skpolyode.panel.select import series_of_rows

FEWEST_SERIES = 3  # two to learn from and one to forecast
MOST_MIXED_SERIES = 1000  # that MixedLM learns from, a time for each of them; only nafld has more
# Variances near zero stop those that follow the gradient; the others are what statsmodels takes.
OPTIMISERS = ["powell", "bfgs", "lbfgs", "cg"]
BEST_RULE = "best rule"
MARGIN = 1.05  # within which an error counts as no worse


def rest(panel: Panel) -> Questions:
    """All rows after the middle one of each series, from those up to it."""
    middle = panel.offsets[:-1] + np.maximum(panel.lengths // 2, 1) - 1
    origin = middle[series_of_rows(panel)]
    target = np.flatnonzero(np.arange(panel.n_observations) > origin)
    return Questions(panel, origin[target], target)


TASKS = [
    Task(name, ask, {name: variances})
    for name, ask in (("next row", one_step), ("rest of the series", rest))
]


class Truncated(Transformer):
    """A transformer that is given each series up to the origin, for one step too."""

    def answer(self, _: Questions, test: Questions) -> Answer:
        return Answer(ahead(self.model, test))


class Alone(Transformer):
    """The model's own forecasts, without the stack."""

    def answer(self, _: Questions, test: Questions) -> Answer:
        return Answer(ahead(self.model, test, combine=False))


RULES: dict[str, Rival] = {
    "population mean": PANEL_RIVALS["population mean"],
    "last value": PANEL_RIVALS["last value"],
    "own mean": PANEL_RIVALS["own mean"],
    "drift": rule(drift),
}


def best_rule(training: Questions, test: Questions) -> np.ndarray:
    """The rule that does best on the training part."""

    def error(own: Rival) -> float:
        return variances(training, Answer(own(training, training)), None)

    return min(RULES.values(), key=error)(training, test)


def dated_features(questions: Questions) -> Callable[[int], np.ndarray]:
    """Those of `causal_features`, and the time itself: many sets share a schedule."""
    of = causal_features(questions)
    return lambda j: np.column_stack([of(j), questions.panel.times[questions.target]])


class Growth(NamedTuple):
    """A polynomial of the population, and a line of each series around it, for one channel."""

    clock: tuple[float, float]  # mean and standard deviation of the times
    curve: np.ndarray  # (degree + 1,) coefficients of the population, the constant first
    spread: np.ndarray  # (2, 2) covariance of the level and the slope of a series
    noise: float  # variance

    @classmethod
    def fitted(cls, panel: Panel, channel: int) -> Growth | None:
        """By maximum likelihood; a line or a parabola, as BIC says. None: neither converged."""
        from statsmodels.regression.mixed_linear_model import MixedLM as Model

        known = ~np.isnan(panel.values[:, channel])
        y, groups = panel.values[known, channel], series_of_rows(panel)[known]
        clock = panel.times[known].mean(), panel.times[known].std()
        line, parabola = (powers(panel.times[known], clock, n) for n in (2, 3))
        fits = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its optimisers; statsmodels turns them on itself
            for basis in (line, parabola):
                with contextlib.suppress(np.linalg.LinAlgError):
                    model = Model(y, basis, groups, exog_re=line)
                    fits.append(model.fit(reml=False, method=OPTIMISERS))
        fits = [fit for fit in fits if fit.converged and np.isfinite(fit.bic)]
        if not fits:
            return None
        best = min(fits, key=lambda fit: fit.bic)
        return cls(clock, best.fe_params, best.cov_re, best.scale)

    def forecast(self, questions: Questions, channel: int) -> tuple[np.ndarray, np.ndarray]:
        """Best linear unbiased prediction (Q,), and the standard deviation of its error (Q,)."""
        panel = questions.panel
        values, line = panel.values[:, channel], powers(panel.times, self.clock, 2)
        population = powers(panel.times, self.clock, len(self.curve)) @ self.curve
        known = ~np.isnan(values)
        seen = line * known[:, None]
        start = panel.offsets[:-1][series_of_rows(panel)[questions.origin]]

        def so_far(terms: np.ndarray) -> np.ndarray:
            sums = np.concatenate([np.zeros((1, *terms.shape[1:])), np.cumsum(terms, axis=0)])
            return sums[questions.origin + 1] - sums[start]

        squares = so_far(seen[:, :, None] * seen[:, None, :]) @ self.spread
        posterior = self.spread @ np.linalg.inv(self.noise * np.eye(2) + squares)  # over the noise
        own = so_far(seen * np.where(known, values - population, 0.0)[:, None])
        at = line[questions.target]
        mean = population[questions.target] + np.einsum("qi,qij,qj->q", at, posterior, own)
        return mean, np.sqrt(self.noise * (1 + np.einsum("qi,qij,qj->q", at, posterior, at)))


def powers(times: np.ndarray, clock: tuple[float, float], n: int) -> np.ndarray:
    return np.vander((times - clock[0]) / clock[1], n, increasing=True)


class MixedLM:
    """`Growth` of each channel by statsmodels; no forecast at all if one does not converge."""

    def fit(self, panel: Panel) -> None:
        some = np.random.default_rng(0).permutation(panel.n_series)[:MOST_MIXED_SERIES]
        channels = range(panel.n_channels)
        self.channels = [Growth.fitted(panel[np.sort(some)], j) for j in channels]

    def answer(self, _: Questions, test: Questions) -> Answer:
        if None in self.channels:
            return Answer(np.full(test.truth.shape, np.nan))
        found = [growth.forecast(test, j) for j, growth in enumerate(self.channels)]
        mean, error = (np.stack(columns, axis=1) for columns in zip(*found, strict=True))
        half = norm.ppf(0.95) * error
        return Answer(mean, mean - half, mean + half)


OWN: dict[str, Callable[[], Any]] = {
    "PolyODETransformer()": Truncated,
    "PolyODEForecaster()": Forecaster,
}
LEAST_SQUARES = "least squares"
METHODS: dict[str, Rival | Callable[[], Any]] = OWN | {
    **RULES,
    BEST_RULE: best_rule,
    "PolyODE alone": Alone,
    LEAST_SQUARES: PANEL_RIVALS["last and mean, least squares"],
    "boosting": partial(boosting, features=dated_features),
}
if find_spec("statsmodels") is not None:
    METHODS["MixedLM"] = MixedLM


def measure(_: str, fold: Fold, rows: list[str]) -> dict[str, Scores]:
    models = {
        row: METHODS[row]() if isinstance(METHODS[row], type) else Standardised(METHODS[row])
        for row in rows
    }
    return {row: scored(TASKS, model, fold) for row, model in models.items()}


def folds_of(name: str, folder: Path, n_folds: int) -> Iterator[Fold]:
    panel = read_long(folder / f"{name}.parquet")
    if panel.n_series < FEWEST_SERIES:
        raise ValueError(
            f"{name} has {panel.n_series} series: give it {FEWEST_SERIES} or more, "
            "to learn from two and forecast one, or leave it out by --only."
        )
    return dealt(panel, n_folds)


def measured(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Scores of each row and fold of a set."""
    folds = enumerate(folds_of(name, args.data, args.folds))
    jobs = (joblib.delayed(kept)(measure, name, *fold, args.rows, args.out) for fold in folds)
    return list(itertools.chain(*joblib.Parallel(args.jobs)(jobs)))


def over_folds(found: pd.DataFrame, score: str) -> pd.DataFrame:
    """Means by sets (rows) and methods (columns), in the order of METHODS; NaN if a fold has it."""
    sums = found.groupby(["set", "row"], sort=False)[score]
    table = sums.agg(lambda own: own.mean(skipna=False)).unstack()
    return table[[row for row in METHODS if row in table]]


def error_table(errors: pd.DataFrame, task: str) -> list[str]:
    """Lines of a markdown table, losses first, and what they come to."""
    methods, own = list(errors), [row for row in OWN if row in errors]
    ratios = pd.DataFrame(index=errors.index)
    if BEST_RULE in errors:
        ratios = errors[own].div(errors[BEST_RULE], axis=0)
    if not ratios.empty:
        errors = errors.loc[ratios.max(axis=1).sort_values(ascending=False).index]
    head = [*methods, *(f"{row} / {BEST_RULE}" for row in ratios)]
    lines = heading([task, *head])
    for name, own in errors.iterrows():
        cells = [f"**{cell(x)}**" if x == own.min() else cell(x) for x in own]
        lines.append(line([name, *cells, *(f"{ratio:.2f}" for ratio in ratios.loc[name])]))
    if LEAST_SQUARES in errors and len(ratios.columns):
        lines += ["", *(summary(errors, row, task) for row in ratios)]
    return lines


def summary(errors: pd.DataFrame, row: str, task: str) -> str:
    close = int((errors[row] <= MARGIN * errors[BEST_RULE]).sum())
    ratio = gmean(errors[row] / errors[LEAST_SQUARES])
    return (
        f"{row}, {task}: within {MARGIN - 1:.0%} of the {BEST_RULE} or better on {close} of "
        f"{len(errors)} sets; {ratio:.3f} times the error of {LEAST_SQUARES} (geometric mean)."
    )


def ranges(what: str, table: pd.DataFrame) -> str:
    """The least and the largest of all sets, for each method."""
    shown = (f"{row} {own.min():.2f} to {own.max():.2f}" for row, own in table.items())
    return f"{what}, from set to set: {'; '.join(shown)}."


def cell(value: float) -> str:
    return "-" if np.isnan(value) else shown(value)


def report(found: pd.DataFrame) -> Iterator[str]:
    if (found["row"] == BEST_RULE).any():  # says what is needed of the rules
        found = found[~found["row"].isin(RULES)]
    for task in (task.name for task in TASKS):
        yield from [*error_table(over_folds(found, task), task), ""]
        if f"coverage, {task}" in found:
            coverage = over_folds(found, f"coverage, {task}").dropna(axis=1, how="all")
            yield from [ranges(f"coverage, {task}", coverage), ""]
    yield ranges("CPU s", over_folds(found, "CPU s"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the tables")
    parser.add_argument("--only", nargs="+", metavar="SET", help="names of tables")
    parser.add_argument("--rows", nargs="+", metavar="ROW", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--folds", type=int, choices=range(1, 6), default=5, help="the first of them"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="folder of finished results")
    args = parser.parse_args()
    there = sorted((file.stem for file in args.data.glob("*.parquet")), key=str.lower)
    missing = sorted(set(args.only or []) - set(there))
    if missing or not there:
        parser.error(f"no {', '.join(missing) or 'tables'} in {args.data}: it has {there}.")
    found = itertools.chain.from_iterable(measured(name, args) for name in args.only or there)
    print("\n".join(report(pd.DataFrame(found))))


if __name__ == "__main__":
    main()
