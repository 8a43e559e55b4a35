"""PolyODE on real wards, storms, patients and single series, beside what one would take otherwise.

    python -m benchmarks.real --data FOLDER                             # all: hours
    python -m benchmarks.real --data FOLDER --folds 1 --only storms     # a quick look
    python -m benchmarks.real --data FOLDER --rows "PolyODETransformer()" "PolyODEForecaster()"

FOLDER holds the tables `eicu_mort_long.parquet`, `storms_long.parquet`, `pbcseq_long.parquet`,
`wages_long.parquet` (columns id, time, channel, value) and, for PhysioNet 2012, its folder `set-a`
with `Outcomes-a.txt`, or both in `physionet2012_set_a.tgz`; benchmarks/NOTES.md says where to get
them. Airline, lynx and uschange come with sktime.

Prints a markdown table for each set: means over five folds of the series (or rolling origins of a
single series), squared errors in variances of the training part unless the column says otherwise,
then coverage and mean width of the forecaster's intervals, then where PolyODE loses. With `--out` a
result is kept in a file and not computed again.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import joblib
import pandas as pd

from benchmarks.real import forecasts, hidden
from benchmarks.real.part import Part, kept, losses, table_of

PARTS = {"forecasts": forecasts.PART, "hidden": hidden.PART}
SETS = list(forecasts.PART.folds)
ROWS = list(dict.fromkeys(r for part in PARTS.values() for s in part.folds for r in part.rows(s)))


def run(part: Part, name: str, args: argparse.Namespace) -> list[str]:
    """Print the table of one set; lines that say where PolyODE loses."""
    rows = [row for row in part.rows(name) if row in args.rows]
    if not rows:
        return []
    folds = enumerate(part.folds[name](args.data, args.folds))
    jobs = (joblib.delayed(kept)(part.measure, name, *fold, rows, args.out) for fold in folds)
    found = pd.DataFrame(itertools.chain(*joblib.Parallel(args.jobs)(jobs)))
    print("\n".join(table_of(part, found)), end="\n\n", flush=True)
    if set(rows) <= set(part.own):
        return []
    return [line for row in rows if row in part.own for line in losses(part, found, row)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the sets")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--only", nargs="+", metavar="SET", choices=SETS, default=SETS)
    parser.add_argument("--rows", nargs="+", metavar="ROW", choices=ROWS, default=ROWS)
    parser.add_argument("--folds", type=int, choices=range(1, 6), default=5)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="folder of finished results")
    args = parser.parse_args()
    lost = []
    for part in (PARTS[name] for name in args.parts):
        for name in part.folds:
            if name.partition(",")[0] in args.only:
                lost += run(part, name, args)
    print("\n".join(lost))


if __name__ == "__main__":
    main()
