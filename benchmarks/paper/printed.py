"""Tables 1 and 3 of the paper as they are printed: the same rows, columns and order.

    python -m benchmarks.paper.printed           # 5 seeds
    python -m benchmarks.paper.printed --quick   # 1 seed, small: some minutes

Each entry is ours, then the paper's in brackets. "Reconstruction" is what the paper's columns of
that name contain, the squared error of the label before its threshold. Results are shared with
`benchmarks.paper.classification`.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lines import heading, line
from benchmarks.paper.cells import FULL, PROTOCOLS, Cell, Setting
from benchmarks.paper.classification import run
from benchmarks.paper.rows import POLYODE
from benchmarks.paper.store import Store
from benchmarks.paper.tables import Number, Summary, folded, published, summarise

TABLES = {
    "Table 1: trained models": {
        "GRU-ODE": "GRUODEBayes",
        "ODE-RNN": "ODERNN",
        "Neural-RDE": "NeuralRDE",
        "HiPPO-obs": "HiPPO legt",
        "HiPPO-RNN": "HiPPORNN",
        "S4": "S4",
        "PolyODE": POLYODE,
    },
    "Table 3: interpolations": {
        "Constant": "Interpolation constant",
        "Linear": "Interpolation linear",
        "Hermite Spline": "Interpolation hermite",
        "PolyODE": POLYODE,
    },
}
COLUMNS = {"AUC": "auc", "Reconstruction": "label_regression_mse"}
ROWS = tuple(dict.fromkeys(row for rows in TABLES.values() for row in rows.values()))


def report(
    jobs: Sequence[Cell], store: Store, chosen: Sequence[Setting], rows: Sequence[str]
) -> list[str]:
    summary = summarise(jobs, store)
    lines = []
    for title, printed in TABLES.items():
        lines += folded(title, table(summary, chosen, printed))
    return lines


def table(summary: Summary, chosen: Sequence[Setting], printed: dict[str, str]) -> list[str]:
    """Rows by their name in the paper."""
    columns = [(title, setting) for title in COLUMNS for setting in chosen]
    lines = heading(["", *(f"{title}, {own.dataset} {own.rate}" for title, own in columns)])
    for name, row in printed.items():
        entries = []
        for title, setting in columns:
            metric = COLUMNS[title]
            ours = summary.get((setting, row, metric), Number()).text(3)
            theirs = published(setting.dataset, setting.rate, row, metric).text(3)
            entries.append(f"{ours} ({theirs})".strip())
        lines.append(line([name, *entries]))
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    run(__doc__, report, list(ROWS), FULL._replace(n_rates=1), PROTOCOLS[:1], argv)


if __name__ == "__main__":
    main()
