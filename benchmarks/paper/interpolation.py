"""The paper's table of interpolations: polynomial coefficients of fixed paths, and PolyODE.

    python -m benchmarks.paper.interpolation           # 5 seeds
    python -m benchmarks.paper.interpolation --quick   # 1 seed, small: half a minute

At the first rate of each data set. These cells are among those of `classification`: after it, with
the same --output, nothing is left to compute. Without --quick, docs/paper.md is written anew.
"""

from __future__ import annotations

from benchmarks.paper.cells import FULL, QUICK, cells, settings
from benchmarks.paper.rows import POLYODE, all_rows
from benchmarks.paper.runner import make_table, parser
from benchmarks.paper.tables import setting_tables, summarise


def main() -> None:
    rows = [row for row in all_rows() if row.startswith("Interpolation") or row == POLYODE]
    arguments = parser(__doc__, n_jobs=2, rows=rows).parse_args()
    size = (QUICK if arguments.quick else FULL)._replace(n_rates=1)
    chosen, rows = settings(size), arguments.rows or rows
    jobs = list(cells(size, chosen, rows))
    make_table(
        "interpolation",
        jobs,
        lambda store: setting_tables(summarise(jobs, store), chosen, rows),
        arguments,
    )


if __name__ == "__main__":
    main()
