"""What opens *The paper's tables*, and its tables as they are printed, from tables of benchmarks.

PYTHONPATH=. python docs/paper_summary.py   writes the tables of `WRITTEN` into
the page, and `PICTURES` into _static/

No figure is typed here but those that the paper prints.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import page_tables
from benchmark_summary import LEVEL, cells_of, first_number
from matplotlib.figure import Figure

from benchmarks.lines import heading, line
from benchmarks.paper import printed
from benchmarks.paper.cells import RATES, Setting
from benchmarks.paper.solvers import FULL
from benchmarks.paper.tables import COLUMNS, Number, Summary, folded, published

STATIC = Path(__file__).parent / "_static"
PAPER_EPOCHS = 250
FOLDED = re.compile(r"^<details><summary>(.*)</summary>\n\n((?:\|.*\n)+)", re.MULTILINE)
SETTINGS = [Setting(name, rates[0], "paper-code") for name, rates in RATES.items()]
INDEPENDENT = [setting._replace(protocol="independent") for setting in SETTINGS]
OBSERVED = "reverse_observed_mse"
LABEL, PAST, NEXT = "label_regression_mse", "reverse_held_out_mse", "forecasting_mse"
MODELS = ("GRUODEBayes", "ODERNN", "LinODENet", "NeuralRDE", "HiPPORNN", "S4")
PATHS = ("HiPPO legt", *(f"Interpolation {kind}" for kind in ("constant", "linear", "hermite")))
OTHERS = ("SummaryStats", "last value", "mean")
HOSPITAL = {LABEL: "AUC", PAST: "reverse, hidden hours", NEXT: "forecast of hours 19 to 23"}
NAMES = {
    "GRUODEBayes": "GRU-ODE-Bayes",
    "ODERNN": "ODE-RNN",
    "HiPPORNN": "HiPPO-RNN",
    "NeuralRDE": "Neural RDE",
    "HiPPO legt": "HiPPO-obs",
    "SummaryStats": "summary statistics",
}


def folded_tables(name: str) -> dict[str, dict[tuple[str, str], str]]:
    """Cells, by row and column, of the tables that open at a click, by their titles."""
    found = {}
    for title, table in FOLDED.findall(page_tables.read(name)):
        names, _, *rows = (
            [cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()
        )
        found[title] = {
            (row[0], name): cell for row in rows for name, cell in zip(names, row, strict=True)
        }
    return found


@cache
def summary() -> Summary:
    """All numbers of the table "paper": mean and deviation by setting, row and metric."""
    metrics = {column.title: column.metric for column in COLUMNS}
    found = {}
    for title, cells in folded_tables("paper").items():
        if ", rate " not in title:  # trained models, all settings
            continue
        dataset, rate, protocol = re.split(r", (?:rate )?", title)
        setting = Setting(dataset, float(rate), protocol)
        for (row, name), cell in cells.items():
            if name in metrics and cell:
                found[setting, row, metrics[name]] = Number(*map(float, cell.split(" ± ")))
    return found


@cache
def hospital() -> dict[tuple[str, str], float]:
    """Errors of the table on PhysioNet by row and metric; that of the label is 1 - AUC."""
    cells, found = cells_of("paper_physionet/"), {}
    for (row, column), cell in cells.items():
        for metric, name in HOSPITAL.items():
            if column == name and cell:
                number = float(first_number(cell))
                found[row, metric] = 1 - number if name == "AUC" else number
    return found


def error(setting: Setting | None, row: str, metric: str) -> float:
    """Of a row, NaN if it has none; without a setting that on PhysioNet."""
    if setting is None:
        return hospital().get((row, metric), np.nan)
    return summary().get((setting, row, metric), Number()).mean


def best(setting: Setting | None, rows: tuple[str, ...], metric: str) -> tuple[float, str]:
    """Least error of some rows, and whose it is."""
    errors = {row: error(setting, row, metric) for row in rows}
    known = {row: own for row, own in errors.items() if own == own}
    row = min(known, key=known.__getitem__)
    return known[row], NAMES.get(row, row)


def beside(metric: str, rows: tuple[str, ...]) -> tuple[str, str]:
    """PolyODE beside the best of some rows on the sets of table 1, and where it is better."""
    texts, better = [], []
    for setting in SETTINGS:
        own, (other, name) = error(setting, "PolyODE", metric), best(setting, rows, metric)
        texts.append(f"{setting.dataset} {own:.2g} ({name} {other:.2g})")
        better += [setting.dataset] if own < (1 - LEVEL) * other else []
    return "; ".join(texts), ", ".join(better) or "none of them"


def claims() -> list[str]:
    """What the paper claims, what is measured here, and where it holds."""
    lines = heading(["the paper claims", "measured here", "holds on"])

    def add(claim: str, measured: str, where: str) -> None:
        lines.append(line([claim, measured, where]))

    add("Table 1: its embedding predicts labels best", *beside(LABEL, MODELS))
    add(
        "Tables 1, 3: it holds the past best, also of interpolations", *beside(PAST, MODELS + PATHS)
    )
    add("Table 2: best past and forecasts, labels nearly as good", *on_hospital())
    add("Figure 1: it forecasts better than a neural ODE, here 5 units ahead", *ahead())
    back = cells_of("paper_through_time/set, rate", keys=3)
    runs = [
        f"{own.dataset} {back[f'{own.dataset}, {own.rate}, PolyODE, memory', '4 to 5']}"
        f" (ODE-RNN {back[f'{own.dataset}, {own.rate}, ODERNN, running backward', '4 to 5']})"
        for own in SETTINGS
    ]
    claim = "Figure 1: it reads back the past, here 4 to 5 units ago; neural ODEs diverge backward"
    add(claim, "; ".join(runs), "Synthetic, Lorenz63, Lorenz96")
    certain = cells_of("uncertainty/set, seed")
    pearson = [certain[f"lorenz63 0 PolyODE, {own}", "Pearson"] for own in ("memory", "last")]
    claim = (
        "Figure 6: recovered uncertainty correlates with errors (0.56), the last one less (0.11)"
    )
    add(claim, " and ".join(pearson) + ", from the series", "Lorenz63")
    return lines


def ahead() -> tuple[str, str]:
    """PolyODE's forecasts beside the better one of two neural ODEs, and where they are better."""
    texts, better = [], []
    for setting in SETTINGS:
        cells = folded_tables("paper_through_time")[
            f"Forecasts from time 5: {setting.dataset}, {setting.rate}"
        ]
        column = {row: cell for (row, name), cell in cells.items() if name == "up to 5"}
        errors = {row: float(first_number(cell)) for row, cell in column.items()}
        rivals = [row for row in ("GRUODEBayes", "ODERNN") if row in errors]
        other = min(rivals, key=errors.__getitem__)
        own = errors["PolyODE"]
        texts.append(f"{setting.dataset} {own:.2g} ({NAMES[other]} {errors[other]:.2g})")
        better += [setting.dataset] if own < (1 - LEVEL) * errors[other] else []
    return "; ".join(texts), ", ".join(better) or "none of them"


def on_hospital() -> tuple[str, str]:
    """PolyODE beside the best other row of the table on PhysioNet."""
    rows = (*MODELS, *PATHS, *OTHERS)
    texts, better = [], []
    for metric, name in ((PAST, "past"), (NEXT, "forecast"), (LABEL, "1 - AUC")):
        own, (other, row) = error(None, "PolyODE", metric), best(None, rows, metric)
        texts.append(f"{name} {own:.2g} ({row} {other:.2g})")
        better += [name] if own < (1 - LEVEL) * other else []
    return "; ".join(texts), ", ".join(better) or "none of them"


def ratios() -> Figure:
    """Errors of all rows in units of PolyODE's, on the sets of table 1 and on PhysioNet."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 5), sharey=True, layout="constrained")
    rows = (*MODELS, *PATHS, *OTHERS)
    titles = {LABEL: "label", PAST: "past, held out", NEXT: "next observation"}
    for ax, (metric, title) in zip(axes, titles.items(), strict=True):
        for k, setting in enumerate([*SETTINGS, None]):
            name = "PhysioNet 2012" if setting is None else setting.dataset
            shown = [setting] if setting is None else [setting, INDEPENDENT[k]]
            for own, fill in zip(shown, (f"C{k}", "none"), strict=False):
                x = [error(own, row, metric) / error(own, "PolyODE", metric) for row in rows]
                label = name if fill != "none" else None
                style = {"color": f"C{k}", "markerfacecolor": fill, "label": label}
                ax.plot(x, np.arange(len(rows)) + 0.15 * (k - 1.5), "o", markersize=4, **style)
        ax.axvline(1, color="0.3", linewidth=1)
        ax.set(xscale="log", xlabel="error / PolyODE's", title=title)
        ax.grid(axis="y", color="0.9")
    axes[0].set_yticks(range(len(rows)), [NAMES.get(row, row) for row in rows])
    axes[0].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def table_2() -> list[str]:
    """Table 2 as it is printed, on MIMIC-III."""
    columns = {"Classification": "auc", "Forecasting": NEXT, "Reconstruction": OBSERVED}
    lines = heading(["", *columns])
    for name in ("HiPPO-obs", "HiPPO-RNN", "GRU-ODE", "ODE-RNN", "PolyODE"):
        row = printed.TABLES["Table 1: trained models"][name]
        numbers = [published("MIMIC-III", None, row, metric) for metric in columns.values()]
        lines.append(line([name, *(own.text(3) or "/" for own in numbers)]))
    return lines


def as_printed() -> list[str]:
    """Tables 1 and 3."""
    lines = []
    for title, rows in printed.TABLES.items():
        lines += folded(title, printed.table(summary(), SETTINGS, rows))
    return lines


def solver_seconds() -> dict[str, tuple[float, float]]:
    """Seconds of an epoch by solver and step: ours and the paper's, 0 where there are none."""
    cells = cells_of("solvers/solver, step")
    found = {}
    for row in dict.fromkeys(row for row, _ in cells):
        own, paper = (first_number(cells[row, name]) for name in ("training", "paper"))
        found[row] = float(own or 0) / FULL.max_epochs, float(paper or 0) / PAPER_EPOCHS
    return {row: seconds for row, seconds in found.items() if any(seconds)}


def solvers() -> Figure:
    """Bars of the seconds of an epoch."""
    seconds = solver_seconds()
    figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for k, (name, color) in enumerate((("here", "C0"), ("in the paper", "0.6"))):
        places = [place + 0.4 * k for place in range(len(seconds))]
        bars = ax.barh(places, [own[k] for own in seconds.values()], 0.4, color=color, label=name)
        texts = [f"{own[k]:.2g}" if own[k] else "" for own in seconds.values()]
        ax.bar_label(bars, texts, padding=3, fontsize=8)
    ax.set_yticks([place + 0.2 for place in range(len(seconds))], list(seconds))
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel="seconds an epoch")
    ax.margins(x=0.15)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    return figure


PICTURES = {"paper_ratios": ratios, "paper_solvers": solvers}
WRITTEN = {"paper_claims": claims, "paper_printed": as_printed, "paper_mimic": table_2}


def text(name: str) -> str:
    """A table of `WRITTEN`."""
    first = "`PYTHONPATH=. python docs/paper_summary.py` from the tables below:"
    return "\n".join([first, "", *WRITTEN[name](), ""])


if __name__ == "__main__":
    for name in WRITTEN:
        page_tables.write(name, text(name))
    plt.rcParams["svg.hashsalt"] = "skpolyode"  # the same picture, the same file
    for name, draw in PICTURES.items():
        draw().savefig(STATIC / f"{name}.svg", metadata={"Date": None})
