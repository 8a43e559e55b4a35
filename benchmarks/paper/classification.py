"""The paper's tables of classification and "reconstruction" on the synthetic sets.

    python -m benchmarks.paper.classification           # 5 seeds: a night on two cores
    python -m benchmarks.paper.classification --quick   # 1 seed, small: some minutes
    python -m benchmarks.paper.classification --sibling-seeds 1   # these take most of the time
    python -m benchmarks.paper.classification --seeds 1 --rates 1 --rows PolyODE ODERNN

Three data sets at three rates each, in the protocol of the paper's code and in an independent one,
for all methods of `rows`; most of the time goes to the neural siblings. The past of those without a
memory is read by a decoder of their frozen features (`PastDecoder`). Results are kept in
DIR/cells.jsonl (DIR is --output): an interrupted run continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.paper.beside import beside_paths, beside_the_paper, compared
from benchmarks.paper.cells import (
    FULL,
    PROTOCOLS,
    QUICK,
    Cell,
    Setting,
    Size,
    cells,
    settings,
)
from benchmarks.paper.rows import POLYODE, all_rows
from benchmarks.paper.runner import make_table, parser
from benchmarks.paper.store import Store
from benchmarks.paper.tables import Summary, folded, setting_tables, summarise

PLACE = "<!-- all methods -->"  # where docs/paper.md takes what is above, and what is below
# Title, metric, decimals, and whether more is better.
TRAINED = (
    ("Trained models: error one step ahead", "forecasting_mse", 4, False),
    ("Trained models: the past at held-out times", "reverse_held_out_mse", 4, False),
    ("Trained models: AUC of the label", "auc", 3, True),
)


Report = Callable[[Sequence[Cell], Store, Sequence[Setting], Sequence[str]], list[str]]


def report(
    jobs: Sequence[Cell], store: Store, chosen: Sequence[Setting], rows: Sequence[str]
) -> list[str]:
    summary, size = summarise(jobs, store), jobs[0].size
    shared = summarise([job for job in jobs if job.seed < size.n_sibling_seeds], store)
    own = own_tables(summary, chosen, rows) if POLYODE in rows else []
    beside = trained_tables(shared, chosen, rows)
    return [*own, PLACE, *beside, *setting_tables(summary, chosen, rows)]


def trained_tables(summary: Summary, chosen: Sequence[Setting], rows: Sequence[str]) -> list[str]:
    """All models that are trained side by side, of the same seeds: a table for each question."""
    known = all_rows()
    trained = [row for row in rows if row == POLYODE or known[row].is_sibling]
    lines = []
    for title, metric, decimals, largest in TRAINED if len(trained) > 1 else ():
        lines += folded(title, compared(summary, chosen, trained, metric, decimals, largest))
    return lines


def own_tables(summary: Summary, chosen: Sequence[Setting], rows: Sequence[str]) -> list[str]:
    paper, independent = (
        [setting for setting in chosen if setting.protocol == protocol]
        for protocol in ("paper-code", "independent")
    )
    return [
        *beside_the_paper(summary, paper),
        "",
        *beside_paths(summary, independent, rows),
        "",
    ]


def main(argv: Sequence[str] | None = None) -> None:
    run(__doc__, report, list(all_rows()), FULL, PROTOCOLS, argv)


def run(
    description: str,
    write: Report,
    rows: list[str],
    full: Size,
    protocols: Sequence[str],
    argv: Sequence[str] | None,
) -> None:
    """Compute the cells that a report needs, and print it."""
    options = parser(description, n_jobs=2, rows=rows)
    options.add_argument("--seeds", type=int, default=full.n_seeds, help="(%(default)s)")
    options.add_argument(
        "--sibling-seeds", type=int, default=full.n_sibling_seeds, help="(%(default)s)"
    )
    options.add_argument(
        "--rates", type=int, default=full.n_rates, help="lowest ones (%(default)s)"
    )
    arguments = options.parse_args(argv)
    full = full._replace(
        n_seeds=arguments.seeds, n_rates=arguments.rates, n_sibling_seeds=arguments.sibling_seeds
    )
    size = QUICK if arguments.quick else full
    chosen = [setting for setting in settings(size) if setting.protocol in protocols]
    rows = arguments.rows or rows
    jobs = list(cells(size, chosen, rows))
    make_table(jobs, lambda store: write(jobs, store, chosen, rows), arguments)


if __name__ == "__main__":
    main()
