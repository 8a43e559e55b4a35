"""Fifty physiological models, four fifths of the cells missing: ours beside published errors.

    python -m benchmarks.physiome --data FOLDER --only LEN01 LI01              # an hour or less
    python -m benchmarks.physiome --data FOLDER --repository REPOSITORY        # all that are cheap
    python -m benchmarks.physiome --data FOLDER --rows PolyODE --figure ranks.svg
    python -m benchmarks.physiome --data FOLDER --only LEN01 --folds 0 1 2 3 4

FOLDER holds sets as `load_physiome` of `physiome_sets.py` reads them; those that it lacks are made
from REPOSITORY, a copy of the benchmark's (github.com/kloetergensc/Physiome-ODE), and kept there.
Sets of SLOW take more than a second a series to simulate and are left out unless named.

The protocol is that of the benchmark (Physiome-ODE, ICLR 2025): the first half of a series is
observed, all observed cells of the second half are asked, 70 / 20 / 10 % of the series train,
validate and test. Errors are means of squares in the units of the set, noise included (.0025).
Published errors (five folds, in physiome_published.csv) stand beside ours: they are of other draws
of noise, cells and parts.

Prints a table of the sets, those first where PolyODE loses by most, and one of ranks (1 is best,
means over the sets).
With `--out` a result is kept in a file and not computed again; with `--figure` the ranks are drawn.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from benchmarks.lines import heading, line
from benchmarks.physiome_sets import load_physiome
from benchmarks.real.forecasts import Fitted, Transformer, ahead
from benchmarks.real.part import Scores, kept, shown
from benchmarks.real.questions import Questions, after
from benchmarks.real.rivals import PANEL_RIVALS
from skpolyode import Panel
from skpolyode.siblings import LinODENetTransformer

HALF = 0.5
EDGES = (0.6, 0.75, 1.0)  # errors are also told by parts of the second half
PUBLISHED = Path(__file__).with_name("physiome_published.csv")
SLOW = {"DOK01", "INA01", "DIF01", "VAN01", "SHO01", "SHO02"}
OURS = "PolyODE"


class Fold(NamedTuple):
    train: Panel
    validation: Panel
    test: Panel


def error(questions: Questions, forecasts: np.ndarray) -> float:
    return float(np.nanmean((questions.truth - forecasts) ** 2))


def scored(questions: Questions, forecasts: np.ndarray) -> Scores:
    """Errors of all cells, and of those of parts of the second half."""
    found = {"error": error(questions, forecasts)}
    times = questions.panel.times[questions.target]
    for low, high in itertools.pairwise((HALF, *EDGES)):
        some = (times > low) & (times <= high)
        found[f"to {high:g}"] = error(questions.at(some), forecasts[some])
    return found


METHODS: dict[str, Callable[[], Any]] = {
    OURS: Transformer,
    "LinODENet (ours)": partial(Transformer, LinODENetTransformer),
    "least squares": partial(Fitted, PANEL_RIVALS["last and mean, least squares"]),
    "boosting": partial(Fitted, PANEL_RIVALS["boosting, causal features"]),
}


def measure(_: str, fold: Fold, rows: list[str]) -> dict[str, Scores]:
    ask, found = after(HALF), {}
    for row in rows:
        start = time.process_time()
        model, test = METHODS[row](), ask(fold.test)
        model.fit(fold.train, fold.validation)
        found[row] = scored(test, model.answer(ask(fold.train), test).mean)
        if isinstance(model, Transformer):
            found[row]["free run"] = error(test, ahead(model.model, test, combine=False))
        found[row]["CPU s"] = time.process_time() - start
    return found


def measured(name: str, number: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Scores of each row of a fold of a set."""
    data = load_physiome(args.data, name, repository=args.repository, fold=number)
    parts = (data.panel[data.split == part] for part in ("train", "validation", "test"))
    return kept(measure, name, number, Fold(*parts), args.rows, args.out)


def errors_of(found: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Errors by sets (rows) and methods: ours, means over the folds, then published ones."""
    ours = found.groupby(["set", "row"], sort=False)["error"].mean().unstack()
    ours = ours[[row for row in METHODS if row in ours]]
    return ours.join(published.add_suffix(" *"))


def ranks_of(errors: pd.DataFrame) -> pd.DataFrame:
    """Ranks of PolyODE, if it is there, and the published methods, a set in each row."""
    return errors[[name for name in errors if name == OURS or name.endswith("*")]].rank(axis=1)


def report(found: pd.DataFrame, published: pd.DataFrame) -> list[str]:
    errors = errors_of(found, published)
    if OURS not in errors:
        return error_table(errors, errors)
    ratio = errors[OURS] / errors[[name for name in errors if name.endswith("*")]].min(axis=1)
    errors = errors.loc[ratio.sort_values(ascending=False).index]
    own = found[found["row"] == OURS].groupby("set")
    more = {"to 0.6": "to .6", "to 0.75": "to .75", "to 1": "to 1", "free run": "free run"}
    table = errors.join(own[[*more, "CPU s"]].mean().rename(columns=more))
    if found["fold"].nunique() > 1:  # how much one fold differs from another
        table.insert(1, "std of folds", own["error"].std())
    worst, middle = ratio.idxmax(), np.exp(np.log(ratio).mean())
    return [
        *error_table(table, errors),
        "",
        *rank_table(ranks_of(errors)),
        "",
        f"{OURS} over the best published error: {middle:.2f} (geometric mean), at worst "
        f"{ratio.max():.2f} ({worst}); it loses on {int((ratio > 1).sum())} of {len(ratio)} sets.",
        "* as published.",
    ]


def error_table(table: pd.DataFrame, errors: pd.DataFrame) -> list[str]:
    """Lines of a table, a set in each row, with the least of its `errors` in bold."""
    lines = heading(["set", *table])
    for name, own in table.iterrows():
        best = own[errors.columns].min()
        cells = [
            f"{own[c]:.0f}" if c == "CPU s" else bold(own[c], c in errors and own[c] == best)
            for c in table
        ]
        lines.append(line([name, *cells]))
    return lines


def bold(value: float, is_best: bool) -> str:
    return f"**{shown(value)}**" if is_best else shown(value)


def rank_table(ranks: pd.DataFrame) -> list[str]:
    """Lines of a table, a method in each row, the best mean first."""
    lines = heading(["", "mean rank", "best of these on", "of sets"])
    for name, mean in ranks.mean().sort_values().items():
        first = int((ranks[name] == ranks.min(axis=1)).sum())
        lines.append(line([name, f"{mean:.2f}", str(first), str(len(ranks))]))
    return lines


def draw(ranks: pd.DataFrame, file: Path) -> None:
    """Ranks of each method over the sets: a bar of how often it has which, best mean first."""
    order = ranks.mean().sort_values().index[::-1]
    figure, axes = plt.subplots(figsize=(7, 0.45 * len(order) + 1.2), layout="constrained")
    places = np.arange(1, len(order) + 1)
    left = np.zeros(len(order))
    colours = plt.cm.viridis(np.linspace(0.1, 0.95, len(order)))
    for place, colour in zip(places, colours, strict=True):
        share = np.array([(ranks[name].round() == place).sum() for name in order])
        axes.barh(order.str.removesuffix(" *"), share, left=left, color=colour, label=str(place))
        left += share
    for y, name in enumerate(order):
        axes.text(len(ranks) * 1.01, y, f"{ranks[name].mean():.1f}", va="center")
    axes.set(xlabel=f"sets ({len(ranks)}), by rank; at the right the mean", xlim=(0, len(ranks)))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(title="rank", loc="outside right center")
    figure.savefig(file)


def main() -> None:
    published = pd.read_csv(PUBLISHED).pivot(index="set", columns="method", values="mse")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of sets")
    parser.add_argument("--repository", type=Path, help="a copy of the benchmark's")
    parser.add_argument("--only", nargs="+", metavar="SET", choices=published.index)
    parser.add_argument("--rows", nargs="+", metavar="ROW", choices=METHODS, default=list(METHODS))
    parser.add_argument("--folds", type=int, nargs="+", metavar="K", choices=range(5), default=[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="folder of finished results")
    parser.add_argument("--figure", type=Path, help="file for a plot of the ranks")
    args = parser.parse_args()
    names = args.only or [
        name
        for name in published.index
        if name not in SLOW and (args.repository or (args.data / f"{name}.parquet").is_file())
    ]
    if not names:
        parser.error(f"{args.data} holds no set: name --repository, from which they are made.")
    jobs = (joblib.delayed(measured)(n, f, args) for n in names for f in args.folds)
    found = pd.DataFrame(itertools.chain(*joblib.Parallel(args.jobs)(jobs)))
    print("\n".join(report(found, published)))
    if args.figure is not None:
        draw(ranks_of(errors_of(found, published)), args.figure)


if __name__ == "__main__":
    main()
