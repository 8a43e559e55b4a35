"""The first table of *Benchmarks*, and its pictures, from the tables that benchmarks wrote.

PYTHONPATH=. python docs/benchmark_summary.py   writes both, pictures into _static

No figure is typed here: a `Task` names a cell of a table of a page.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import page_tables

from benchmarks.lines import heading, line

PICTURES = Path(__file__).parent / "_static"
LEVEL = 0.05  # errors that differ by less are level
COLOURS = {"better": "#1b7f4d", "level": "#777777", "worse": "#b3372f"}
# Rows and columns that are of this package, or no measurements of a method here.
OURS = "PolyODE|PanelImputer|Structural|crossing_times|learned path|channels and path|published"
NO_RIVAL = re.compile(
    f"{OURS}|default less|CPU s|^(stack|run|seed 1|run / best|stack / run|seeds)$"
)
SPELLED = {
    "least squares, all channels": "least squares",
    "boosting on causal features": "boosting",
    "boosting, causal features": "boosting",
    "last and mean, least squares": "least squares",
    "linear path at common times + SVM": "straight lines, SVM",
    "a compartment model with effects of each patient, written for the drug": "compartment model",
}


class Task(NamedTuple):
    """A cell with our figure; the best of the others is in its column, or across its row."""

    task: str
    data: str
    table: str  # its name, and the first title of the part that is meant
    row: str  # how its name begins, if a comma ends it
    column: str
    measure: str = "squared error"
    is_score: bool = False  # at most 1, and larger is better
    across: bool = False
    keys: int = 1  # columns that name a row
    chance: float = 0.01  # scores that differ by less are level


class Result(NamedTuple):
    """What the tables show for a task."""

    ours: str
    best: str
    name: str
    seconds: str
    ratio: float  # of our error and that of the best other method
    verdict: str


HIDDEN, SINGLE = "peers_hidden_cells", "peers_single"
FORECASTS, CURVES, CROSSINGS = "peers_forecasts", "peers_light_curves", "peers_crossings/s11"
IMPUTER, FORECASTER = "PanelImputer(PolyODETransformer())", "StructuralForecaster()"
OURS_HERE, CLASSIFIER, DRAWS = "PolyODETransformer()", "PolyODEClassifier()", ", three draws"
FIRST, CYCLES = "squared error, first fold", "timing error"
GAP = "default less best simple"
AHEAD = "rows_ahead/set"
TASKS = (
    Task("fill gaps", "wards (eICU)", f"{HIDDEN}/eicu", IMPUTER, FIRST),
    Task("fill gaps", "physiology, LEN01", f"{HIDDEN}/LEN01", IMPUTER, FIRST),
    Task("fill gaps", "physiology, LI01", f"{HIDDEN}/LI01", IMPUTER, FIRST),
    Task("fill gaps", "storms, 70 % of rows", "real_hidden/set", "storms, 70 % of rows", "PolyODE",
         across=True),
    Task("fill gaps", "light curves, slow", f"{CURVES}/periods 4 to 12", OURS_HERE, "three draws",
         "RMS error"),
    Task("fill gaps", "light curves, quick", f"{CURVES}/periods 1 to 5", OURS_HERE, "three draws",
         "RMS error"),
    *(
        Task("forecast half", f"physiology, {name}", f"{FORECASTS}/Physiome-ODE",
             OURS_HERE, name)
        for name in ("LEN01", "LI01", "KAR02", "MAL01")
    ),
    Task("forecast a day", "PhysioNet 2012", f"{FORECASTS}/24 to 24 h, thousandths", OURS_HERE,
         "MSE, first split", "squares in 1/1000"),
    Task("forecast 3 rows", "PhysioNet 2012", f"{FORECASTS}/36 h to 3 rows, MSE", OURS_HERE,
         "as they are, first split"),
    Task("forecast 16 rows", "engines, s11", AHEAD, "FD001, 16", "stack", across=True, keys=2),
    Task("forecast 12 h", "wards (eICU)", "real_forecasts/eICU", OURS_HERE, "12 h ahead"),
    Task("forecast 48 h", "storm tracks", "real_forecasts/storms", OURS_HERE, "48 h, km",
         "distance, km"),
    Task("one series", "airline, 4 to 12 rows", f"{SINGLE}/airline", FORECASTER + DRAWS,
         "4 to 12 rows"),
    Task("one series", "lynx, 4 to 10 rows", f"{SINGLE}/lynx", FORECASTER + DRAWS,
         "4 to 10 rows"),
    Task("one series", "uschange, 2 to 4 rows", f"{SINGLE}/uschange", FORECASTER,
         "2 to 4 rows"),
    Task("one series", "load, smooth, 48 h", f"{SINGLE}/smooth", FORECASTER, "48 h"),
    Task("one series", "load, sharp, 48 h", f"{SINGLE}/sharp", FORECASTER, "48 h"),
    Task("with inputs", "phenobarbital", "doses/forecast", "PolyODE with the doses",
         "phenobarbital", "RMS error, mg/l"),
    Task("crossing", "engines, 30 rows", CROSSINGS, "crossing_times, 30 rows", CYCLES,
         "error, cycles"),
    Task("crossing", "engines, all rows", CROSSINGS, "crossing_times, all rows before",
         CYCLES, "error, cycles"),
    *(
        Task("classify", data, "labels/set, folds", row, CLASSIFIER, measure, True, True,
             chance=chance)
        for data, row, measure, chance in (
            ("Lorenz63", "Lorenz63, ", "AUC", 0.01),
            ("storms", "storms, hurricane later, ", "AUC", 0.03),
            ("death on wards (eICU)", "eICU, death, ", "AUC", 0.03),
            ("JapaneseVowels, half", "JapaneseVowels, half, ", "accuracy", 0.01),
            ("ItalyPowerDemand, half", "ItalyPowerDemand, half, ", "AUC", 0.01),
        )
    ),
)  # fmt: skip


def cells_of(table: str, keys: int = 1) -> dict[tuple[str, str], str]:
    """Cells of a table by row and column."""
    name, _, title = table.partition("/")
    text = page_tables.read(name)
    found = re.search(rf"^\| {re.escape(title)} \|.*?(?=\n\n|\Z)", text, re.M | re.S)
    if found is None:
        raise ValueError(f"no page has a table {name!r} with a part that starts with {title!r}.")
    names, _, *rows = (
        [cell.strip(" *`") for cell in text.strip("|").split("|")] for text in found[0].split("\n")
    )
    return {
        (", ".join(row[:keys]), name): cell
        for row in rows
        for name, cell in zip(names[keys:], row[keys:], strict=False)
    }


def first_number(cell: str) -> str:
    """The first number of a cell, empty if it has none."""
    found = re.match(r"\d+(?:\.\d+)?", cell.replace(" ", ""))
    return found[0] if found else ""


def is_row(row: str, task: Task) -> bool:
    return row.startswith(task.row) if task.row.endswith(", ") else row == task.row


def result(task: Task) -> Result:
    """Our figure beside the best of the others, with the seconds of both."""
    cells = cells_of(task.table, task.keys)
    figures = {
        (column if task.across else row): first_number(cell)
        for (row, column), cell in cells.items()
        if (is_row(row, task) if task.across else column == task.column)
    }
    rivals = {name: float(x) for name, x in figures.items() if x and not NO_RIVAL.search(name)}
    name = (max if task.is_score else min)(rivals, key=rivals.__getitem__)
    ours = figures[task.column if task.across else task.row]
    x, y = (1 - float(ours), 1 - rivals[name]) if task.is_score else (float(ours), rivals[name])
    is_level = abs(x - y) < (task.chance if task.is_score else LEVEL * y)
    verdict = "level" if is_level else "better" if x < y else "worse"
    seconds = [cells.get((row, "CPU s"), "") for row in (task.row, name)]
    shown = " / ".join(seconds) if all(seconds) else ""
    return Result(ours, figures[name], SPELLED.get(name, name), shown, x / y, verdict)


def table(results: list[Result]) -> list[str]:
    """The first table of the page."""
    titles = ("task", "data", "measure", "ours", "best other", "CPU s: ours / other", "verdict")
    rows = [
        line([*task[:2], task.measure, found.ours, f"{found.best}, {found.name}", *found[3:6:2]])
        for task, found in zip(TASKS, results, strict=True)
    ]
    return [*heading(titles), *rows]


def draw(results: list[Result]) -> None:
    """Our error over that of the best other method, one line a task."""
    plt.rcParams["svg.hashsalt"] = "benchmarks"
    figure, axes = plt.subplots(figsize=(8, 0.23 * len(TASKS) + 1.2), layout="constrained")
    names = [f"{task.task}: {task.data}" for task in TASKS]
    for k, found in enumerate(results):
        axes.plot([1, found.ratio], [k, k], color=COLOURS[found.verdict], linewidth=2)
        axes.plot(found.ratio, k, "o", color=COLOURS[found.verdict])
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    ticks = (0.1, 0.2, 0.5, 1, 2)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("error of skpolyode / error of the best other method (log scale)")
    axes.set_title("Left of the line skpolyode is better, right of it worse", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURES / "benchmarks.svg", metadata={"Date": None})


def draw_labels() -> None:
    """What the default classifier scores more than the best simple baseline, one line a set."""
    cells = cells_of("labels/set, folds")
    gaps = {row: cell for (row, column), cell in cells.items() if column == GAP}
    shown = [(row.rpartition(",")[0], *map(float, re.findall(r"[-+\d.]+", cell)[:2]), cell)
             for row, cell in gaps.items()]  # fmt: skip
    shown.sort(key=lambda each: each[1])
    plt.rcParams["svg.hashsalt"] = "labels"
    figure, axes = plt.subplots(figsize=(8, 0.26 * len(shown) + 1.2), layout="constrained")
    for k, (_, gap, error, cell) in enumerate(shown):
        verdict = cell.rpartition(", ")[2].replace("LOST", "worse")
        options = {"color": COLOURS[verdict], "linewidth": 2}
        axes.errorbar(gap, k, xerr=error, fmt="o", **options)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [name for name, *_ in shown], fontsize=8)
    axes.set_xlabel("score of PolyODEClassifier() less that of the best simple baseline")
    axes.set_title("Right of the line the default is better; bars are standard errors", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURES / "labels.svg", metadata={"Date": None})


def summary() -> str:
    """Text of the table."""
    first = "`PYTHONPATH=. python docs/benchmark_summary.py` from the tables below:"
    return "\n".join([first, "", *table([result(task) for task in TASKS])]) + "\n"


if __name__ == "__main__":
    page_tables.write("summary", summary())
    draw([result(task) for task in TASKS])
    draw_labels()
