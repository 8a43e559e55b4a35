"""PolyODE on real wards, storms, patients and single series, beside what one would take otherwise.

    python -m benchmarks.real --data FOLDER                             # all: hours
    python -m benchmarks.real --data FOLDER --folds 1 --only storms     # a quick look
    python -m benchmarks.real --data FOLDER --rows "PolyODETransformer()" "PolyODEForecaster()"

FOLDER holds the tables `eicu_mort_long.parquet`, `storms_long.parquet`, `pbcseq_long.parquet`,
`wages_long.parquet` (columns id, time, channel, value) and, for PhysioNet 2012, its folder `set-a`
with `Outcomes-a.txt`, or both in `physionet2012_set_a.tgz`; docs/real_data.md says where to get
them. Airline, lynx and uschange come with sktime.

Prints a markdown table for each set: means over five folds of the series (or rolling origins of a
single series), squared errors in variances of the training part unless the column says otherwise,
then coverage and mean width of the forecaster's intervals, then where PolyODE loses. With `--out` a
result is kept in a file and not computed again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import joblib
import pandas as pd

from benchmarks.real.forecasts import OWN, ROWS, losses, measure, rows_of, table_of
from benchmarks.real.sets import SETS, Fold


def kept(out: Path | None, name: str, number: int, fold: Fold, row: str) -> dict[str, object]:
    """The scores of one row on one fold, from the file where they are, if there is one."""
    file = None if out is None else out / f"{name}-{row.replace(' ', '_')}-{number}.json"
    if file is not None and file.exists():
        scores = json.loads(file.read_text())
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what windows cover, and of unused covariates
            scores = measure(name, fold, row)
        if file is not None:
            file.write_text(json.dumps(scores, indent=1))
    return {"set": name, "row": row, "fold": number, **scores}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the sets")
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS, metavar="ROW")
    parser.add_argument("--folds", type=int, choices=range(1, 6), default=5)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="folder of finished results")
    args = parser.parse_args()
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
    lost = []
    for name in args.only:
        folds = list(enumerate(SETS[name].folds(SETS[name].load(args.data), args.folds)))
        rows = [row for row in rows_of(SETS[name]) if row in args.rows]
        jobs = (joblib.delayed(kept)(args.out, name, *fold, row) for row in rows for fold in folds)
        found = pd.DataFrame(joblib.Parallel(args.jobs)(jobs))
        print("\n".join(table_of(found)), end="\n\n", flush=True)
        if set(rows) - set(OWN):
            lost += [line for row in rows if row in OWN for line in losses(found, row)]
    print("\n".join(lost))


if __name__ == "__main__":
    main()
