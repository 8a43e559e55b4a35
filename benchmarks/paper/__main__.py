"""Every table of the paper, one after the other.

    python -m benchmarks.paper             # 3 seeds: nights
    python -m benchmarks.paper --quick     # small data and short training: some minutes
    python -m benchmarks.paper --only printed solvers
    python -m benchmarks.paper --physionet FOLDER --mimic FILE   # tables on your own copies, too

Results are kept in --output, and an interrupted run continues: cells are in cells.jsonl, and what a
command printed that has none is in a file of its name.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt

from benchmarks import training_speed, uncertainty
from benchmarks.paper import (
    classification,
    hyperparameters,
    mimic,
    physionet,
    printed,
    solvers,
    through_time,
)


class Step(NamedTuple):
    """A command, and its arguments besides those that it shares; {output} is the folder."""

    main: Callable[[Sequence[str]], None]
    full: str = ""
    quick: str = "--quick"
    has_cells: bool = False


CELLS = "--output {output} --jobs {jobs}"
STEPS = {
    "hyperparameters": Step(hyperparameters.main, quick=""),
    "printed": Step(printed.main, f"{CELLS} --seeds 3", f"{CELLS} --quick", True),
    "through_time": Step(through_time.main, f"{CELLS} --seeds 3", f"{CELLS} --quick", True),
    "classification": Step(classification.main, f"{CELLS} --seeds 3", f"{CELLS} --quick", True),
    "physionet": Step(physionet.main, f"{CELLS} --seeds 3", f"{CELLS} --quick", True),
    "mimic": Step(
        lambda argv: mimic.main(argv=argv), f"{CELLS} --seeds 3", f"{CELLS} --quick", True
    ),
    "solvers": Step(solvers.main, "--output {output}", "--output {output} --quick"),
    "uncertainty": Step(uncertainty.main, quick="--n-series 60 --seeds 0"),
    "training_speed": Step(training_speed.main, quick="--recipe-epochs 1 --seeds 1 --n-series 60"),
}
OWN_COPIES = ("physionet", "mimic")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small data, short training")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=[*STEPS], metavar="TABLE")
    parser.add_argument("--physionet", help="folder with set-a and Outcomes-a.txt")
    parser.add_argument("--mimic", help="all_hourly_data.h5")
    parser.add_argument("--jobs", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("paper_results"), metavar="DIR")
    options = parser.parse_args(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.only:
        print(f"\n## {name}\n", flush=True)
        path = getattr(options, name) if name in OWN_COPIES else ""
        if path is None:
            print(f"left out: --{name} names your own copy", flush=True)
            continue
        text, fault = printed_by(name, path, options)
        print(text, flush=True)
        failed += fault
    if failed:
        sys.exit("\n".join(failed))


def printed_by(name: str, path: str, options: argparse.Namespace) -> tuple[str, list[str]]:
    """What a command prints, and what failed in it, so that the other tables go on.

    Where it has no cells, and has been run before, that is in its file.
    """
    step, suffix = STEPS[name], "-quick" if options.quick else ""
    file = options.output / f"{name}{suffix}.md"
    if file.exists() and not step.has_cells:
        return file.read_text("utf-8"), []
    words = (step.quick if options.quick else step.full).split()
    words = [word.format(output=options.output, jobs=options.jobs) for word in words]
    with redirect_stdout(io.StringIO()) as out:
        try:
            step.main([*words, "--path", path] if path else words)
        except SystemExit as error:
            return out.getvalue(), [f"{name}: {error}"]
    file.write_text(out.getvalue(), "utf-8")
    return out.getvalue(), []


if __name__ == "__main__":
    plt.switch_backend("Agg")  # write files, open no window
    main()
