"""Commands whose tables the documentation shows.

    PYTHONPATH=. python docs/table_commands.py --quick   small runs: does every command work?
    PYTHONPATH=. python docs/table_commands.py   the tables, into the pages or --output
    PYTHONPATH=. python docs/table_commands.py --only noise path   some of them

With ``--quick`` nothing is written. Otherwise what a command printed goes between the markers of a
page, below a line with the command, the commit and the date. Where no page has them it goes into
the folder ``--output``, to be looked at. Commands that need real
data sets are left out unless ``--data`` names their folder.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import page_tables

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"--data", "--out", "--output", "--repositories"}  # whose folders are anybody's


@dataclass(frozen=True)
class Table:
    """A script of `benchmarks/`, its arguments for the tables, and those for a small run."""

    script: str
    full: str = ""
    quick: str = ""
    needs_data: bool = False
    subfolder: str = ""  # of the data

    def command(self, *, quick: bool, data: Path | None, folder: str) -> list[str]:
        """What is run; {folder} in arguments is a folder for results."""
        words = (self.quick if quick else self.full).replace("{folder}", folder)
        with_data = ["--data", str(data / self.subfolder)] if self.needs_data else []
        return [sys.executable, "-m", f"benchmarks.{self.script}", *with_data, *shlex.split(words)]


TABLES = {
    "embeddings": Table("baselines", quick="--seeds 1 --only vowels --rows linear"),
    "learning_curve": Table("learning_curve", quick="--sizes 40 --most 2"),
    "coverage": Table("forecast_coverage", quick="--sets sines --noise 0.3 --seeds 0"),
    "peers": Table(
        "peers",
        full="--draws 3",
        quick="--sizes 40 --rows PolyODE 'GRU forecaster' 'summary statistics'",
    ),
    # Without the packages of `make peers`, rows of peers say that they are not installed.
    "peers_hidden_cells": Table(
        "peers_code.hidden_cells", quick="--only eicu --rows 'own mean'", needs_data=True
    ),
    "peers_labels": Table(
        "peers_code.labels", quick="--only storms --rows 'summary, boosting'", needs_data=True
    ),
    "peers_single": Table(
        "peers_code.single", quick="--only daily --rows 'StructuralForecaster()'"
    ),
    "peers_light_curves": Table(
        "peers_code.light_curves",
        full="--seeds 0 1 2",
        quick="--only 'periods 4 to 12' --rows 'celerite2, Matern'",
    ),
    "peers_crossings": Table(
        "peers_code.crossings",
        full="--only s11",
        quick="--only s11 --rows 'line through the window'",
        needs_data=True,
        subfolder="turbofan",
    ),
    "peers_forecasts": Table(  # of repositories that are there
        "peers_code.forecasts",
        full="--repositories repositories --out {folder}",
        quick="--repositories {folder} --out {folder} --protocols '24 to 24 h' --sets --splits 0 "
        "--stays 200 --rows 'least squares'",
        needs_data=True,
    ),
    "paper": Table(
        "paper.classification",
        full="--jobs 2",
        quick="--quick --rows PolyODE --output {folder}",
    ),
    "paper_through_time": Table(
        "paper.through_time",
        full="--jobs 1 --seeds 3",
        quick="--quick --rows 'last value' --output {folder}",
    ),
    "paper_hyperparameters": Table("paper.hyperparameters"),
    "solvers": Table("paper.solvers", quick="--quick --output {folder}"),
    "forecasts": Table("forecasting", quick="--sets lynx --seeds 0"),
    "horizons": Table(
        "horizons",
        full="--seeds 0 1",
        quick="--sets lotka_volterra --horizons 1 --seeds 0 --n-series 40",
    ),
    "intervals": Table(
        "intervals", full="--seeds 0", quick="--sets lotka_volterra --seeds 0 --n-series 60"
    ),
    "intervals_between": Table(
        "intervals",
        full="--between 30 --seeds 0 1 --epochs 8",
        quick="--between 12 --seeds 0 --epochs 1",
    ),
    "interval_processes": Table(
        "intervals",
        full="--processes 12 40 5 3 1 --seeds 11 12 --epochs 10",
        quick="--processes 12 --seeds 0 --epochs 1",
    ),
    "sample_paths": Table("paths", quick="--epochs 1"),
    "crossings": Table(
        "crossings",
        quick="--only 's11, cells hidden' --epochs 1",
        needs_data=True,
        subfolder="turbofan",
    ),
    "crossing_sets": Table("crossing_sets", quick="--only bilirubin", needs_data=True),
    "single": Table("single_series", quick="--only nile --folds 1"),
    "longitudinal": Table(
        "longitudinal",
        full="--folds 2",
        quick="--folds 1 --only sleepstudy",
        needs_data=True,
        subfolder="longitudinal",
    ),
    "risk_along_time": Table(
        "risk_along_time",
        full="--out {folder}",
        quick="--quick --only vowels --out {folder}",
        needs_data=True,
    ),
    "hidden_channels": Table("hidden_channels", quick="--only french_fries", needs_data=True),
    "rows_ahead": Table("rows_ahead", quick="--only ChickWeight", needs_data=True),
    "physiome": Table(
        "physiome",
        full="--rows PolyODE 'least squares' --folds 0",
        quick="--only PUL01 --rows 'least squares'",
        needs_data=True,
        subfolder="physiome",
    ),
    "degradation": Table(
        "degradation", quick="--only battery", needs_data=True, subfolder="turbofan"
    ),
    "seasons": Table("seasons", full="--seeds 10", quick="--seeds 10 --epochs 1"),
    "physionet_forecasts": Table(
        "physionet_forecasts",
        full="--rows PolyODE 'least squares' boosting",
        quick="--splits 1 --stays 200 --rows PolyODE",
        needs_data=True,
    ),
    **{
        f"real_{part}": Table(
            "real", f"--parts {part}", f"--parts {part} --folds 1 --only pbcseq", needs_data=True
        )
        for part in ("forecasts", "hidden")
    },
    "noise": Table(
        "noise",
        full="--n-series 200 --models auto --noise 0.1 0.3",
        quick="--systems van_der_pol --noise 0.1 --seeds 0 --n-series 40",
    ),
    "known_errors": Table(
        "noise",
        full="--noise 0.3 --spread 10 --seeds 0 --n-series 150 --models auto noisy told",
        quick="--systems van_der_pol --noise 0.3 --spread 10 --seeds 0 --n-series 40",
    ),
    "light_curves": Table(
        "light_curves", full="--seeds 0", quick="--n-train 30 --n-test 5 --seeds 0"
    ),
    "inputs": Table("inputs", quick="--n-train 12 --n-test 4 --seeds 0"),
    "doses": Table("doses", quick="--only Phenobarb --seeds 0", needs_data=True, subfolder="nlme"),
    "uncertainty": Table("uncertainty", quick="--n-series 60 --seeds 0"),
    "path": Table("path", quick="--n-series 60"),
    "path_questions": Table("path_questions", full="--seeds 0", quick="--quick"),
    "path_labels": Table("path_labels", quick="--series 60"),
    "class_differences": Table("class_differences", quick="--series 40 --seeds 0"),
    "labels": Table(
        "labels",
        full="--out {folder}",
        quick="--only pbcseq --folds 1 --out {folder}",
        needs_data=True,
    ),
    "siblings": Table("siblings", quick="--epochs 1 --n-series 60 --model PolyODE --model S4"),
    "streaming": Table("streaming", quick="--series 100 --observations 500"),
    "scaling": Table("scaling", quick="--quick"),
    "channels": Table("channels", quick="--channels 2 --series 20 --epochs 1"),
    "parallel": Table("parallel", quick="--series 20 --epochs 1"),
    "out_of_core": Table("out_of_core", quick="--observations 20000"),
    "wards": Table("wards", quick="--stays 40 --coefficients 4"),
    "default_fits": Table(  # needs the history of the repository
        "default_fits",
        full="--against 7086d52 --seeds 2",
        quick="--against HEAD --only '20 x 30' --seeds 1",
    ),
    "training_speed": Table("training_speed", quick="--recipe-epochs 1 --seeds 1 --n-series 60"),
    "structure": Table("structure", quick="--static"),
}


def main() -> int:
    """Run the commands, and tell which of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small runs; keep nothing")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--data", type=Path, help="folder of the real data sets")
    parser.add_argument("--output", type=Path, default=Path("docs_tables"), help="(%(default)s)")
    options = parser.parse_args()
    failed = []
    for name in options.only:
        table = TABLES[name]
        if table.needs_data and options.data is None:
            print(f"{name}: left out, as it needs --data", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = table.command(quick=options.quick, data=options.data, folder=folder)
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        is_table = done.returncode == 0 and done.stdout.strip()
        print(f"{name}: {'works' if is_table else 'FAILED'}", flush=True)
        if not is_table:
            failed.append(name)
            print(done.stderr[-2000:], file=sys.stderr, flush=True)
        elif not options.quick:
            text = header(command) + done.stdout
            if page_tables.read(name):
                page_tables.write(name, text)
            else:
                options.output.mkdir(parents=True, exist_ok=True)
                (options.output / f"{name}.md").write_text(text, "utf-8")
    return int(bool(failed))


def header(command: list[str]) -> str:
    """The command, the commit and the date."""
    commit = ["git", "describe", "--always", "--dirty"]
    known = subprocess.run(commit, cwd=ROOT, capture_output=True, text=True, check=False)
    pairs, today = itertools.pairwise(command), datetime.date.today().isoformat()
    words = ["FOLDER" if option in FOLDERS else word for option, word in pairs]
    return f"`{shlex.join(['python', *words])}` at {known.stdout.strip()}, {today}:\n\n"


if __name__ == "__main__":
    sys.exit(main())
