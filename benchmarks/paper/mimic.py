"""The paper's table on MIMIC-III, from your own copy of MIMIC-Extract's file.

    python -m benchmarks.paper.mimic --path all_hourly_data.h5           # 5 splits
    python -m benchmarks.paper.mimic --path all_hourly_data.h5 --quick   # 1 split, 2000 stays

Ten variables of the first 24 hours, 18 coefficients, a window of 23 hours (the paper's 10 units of
its stretched time), split by subject. The label is death in hospital. Reconstruction: at the
observations, and at a fifth of the hours of the test stays that the embedding has not seen.
Forecasts: hours 19 to 23, given hours 0 to 18. The published forecasts are of hours 0 to 18 before
any observation is seen; their error is about the variance.

Each process holds the file's tables in memory, several GB.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper.cells import FULL, QUICK, Setting
from benchmarks.paper.mimic_cells import CLASSIFIER, MIMIC, MimicCell
from benchmarks.paper.rows import all_rows
from benchmarks.paper.runner import make_table, parser
from benchmarks.paper.tables import Column, setting_table, summarise

N_QUICK = 2000

COLUMNS = (
    Column("AUC", "auc", 3),
    Column("reverse, observed", "reverse_observed_mse", 4),
    Column("reverse, hidden hours", "reverse_held_out_mse", 4),
    Column("forecast of hours 19 to 23", "forecast_mse", 4),
    Column("fit, CPU s", "fit_seconds", 0),
)
PAPER_COLUMNS = (
    Column("paper: AUC", "auc", 3),
    Column("paper: reverse", "reverse_observed_mse", 3),
    Column("paper: unconditional forecast", "forecasting_mse", 3),
)


def main(
    setting: Setting = MIMIC,
    description: str = __doc__,
    path: str = "all_hourly_data.h5",
    argv: Sequence[str] | None = None,
) -> None:
    """Compute the table of a data set, which is read from the user's own copy."""
    rows = [name for name, row in all_rows().items() if not row.sees_truth]
    rows.insert(1, CLASSIFIER)
    options = parser(description, n_jobs=1, rows=rows)
    options.add_argument("--path", type=Path, required=True, help=path)
    options.add_argument("--seeds", type=int, help="splits")
    arguments = options.parse_args(argv)
    rows = arguments.rows or rows
    size, n_stays = (QUICK, N_QUICK) if arguments.quick else (FULL, None)
    cells = [
        MimicCell(str(arguments.path), row, seed, n_stays, size.limits, setting)
        for seed in range(arguments.seeds or size.n_seeds)
        for row in rows
    ]
    make_table(
        cells,
        lambda store: setting_table(
            summarise(cells, store),
            setting,
            rows,
            COLUMNS,
            PAPER_COLUMNS if setting == MIMIC else (),
        ),
        arguments,
    )


if __name__ == "__main__":
    main()
