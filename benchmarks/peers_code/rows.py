"""Rows of the tables of peers: a method on a set, each in a process of its own, kept in a file.

An adapter is a function `adapter(data, run)` in a module of this folder, named "module:function",
so that a package that is not installed is named in its row and stops no other. The lines that a
user writes are those of the example in its docstring.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.lines import heading, line
from benchmarks.real.part import Scores, shown

ASIDE = ("CPU s", "MiB", "lines", "stopped", "reason")
Adapter = Callable[[Any, "Run"], Any]


class Run:
    """Seed of a run, and minutes of the processor after which training is stopped."""

    def __init__(self, seed: int, minutes: float) -> None:
        self.seed, self.minutes, self.stopped = seed, minutes, False

    @contextmanager
    def training(self) -> Iterator[None]:
        """Stop what runs inside as Ctrl+C does, which libraries answer with their best weights."""

        def stop(*_: Any) -> None:
            self.stopped = True
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, 60 * self.minutes)
        try:
            yield
        except KeyboardInterrupt:
            if not self.stopped:
                raise
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)


class Command(NamedTuple):
    """A table: sets, and adapters by the names of their rows."""

    module: str
    doc: str
    load: Callable[[str, Path, int], Any]  # of a set, the folder and a seed
    measure: Callable[[Adapter, Any, Run], Scores]
    sets: dict[str, list[str]]  # rows of each set
    adapters: dict[str, str]  # "module:function" of each row
    larger_is_better: bool = False


def n_lines(adapter: Adapter) -> int:
    """Lines of the example in the docstring: what a user writes."""
    return len(re.findall(r"^\s*(?:>>>|\.\.\.) ", adapter.__doc__ or "", re.MULTILINE))


def measured(command: Command, name: str, row: str, seed: int, args: argparse.Namespace) -> Scores:
    """Scores of a row in this process, with its seconds and memory; or why there are none."""
    data = command.load(name, args.data, seed)
    module, function = command.adapters[row].split(":")
    try:
        adapter = getattr(importlib.import_module(f"benchmarks.peers_code.{module}"), function)
        run, start = Run(seed, args.minutes), time.process_time()
        scores = command.measure(adapter, data, run)
    except Exception as error:  # of code that is not ours: it is told in the table
        return {"reason": f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"}
    spent = time.process_time() - start
    stopped = run.minutes if run.stopped else 0.0
    aside = {"MiB": peak_mib(), "lines": n_lines(adapter), "stopped": stopped}
    return {k: float(x) for k, x in scores.items()} | {"CPU s": spent} | aside


def peak_mib() -> float:
    """Largest resident memory of this process, without that of the one that started it."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024


def in_a_process(command: Command, name: str, row: str, seed: int, args: argparse.Namespace) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scores.json"
        words = ["--measure", name, row, seed, file, "--data", args.data, "--minutes", args.minutes]
        call = [sys.executable, "-m", command.module, *map(str, words)]
        done = subprocess.run(call, capture_output=True, text=True, env=os.environ | ONE_THREAD)
        if not file.exists():
            last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
            return {"reason": last[0][:120]}
        return json.loads(file.read_text())


ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def kept(command: Command, name: str, row: str, seed: int, args: argparse.Namespace) -> Any:
    """Scores from a file, or else measured and written to it."""
    file = args.out and args.out / f"{name}-{row}-{seed}.json".replace("/", " ")
    if file and file.exists():
        return json.loads(file.read_text())
    found = in_a_process(command, name, row, seed, args)
    if file and "reason" not in found:
        args.out.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found, indent=1))
    print(f"{name}, {row}, seed {seed}: {found}", file=sys.stderr, flush=True)
    return found


def table(command: Command, name: str, found: pd.DataFrame) -> list[str]:
    """Lines of a set's table, best rows first, then what did not run and why."""
    ran = found[found["reason"].isna()] if "reason" in found else found
    scores = [column for column in ran.dropna(axis=1, how="all") if column not in (*ASIDE, "row")]
    lines = heading([name, *scores, "CPU s", "peak MiB", "lines"])
    means = ran.groupby("row", sort=False)[scores].mean() if scores else ran
    order = means.sort_values(scores, ascending=not command.larger_is_better) if scores else means
    for row in order.index:
        own = ran[ran["row"] == row]
        cells = [spread(own[score].to_numpy()) for score in scores]
        minutes = own["stopped"].max()
        note = f", stopped at {minutes:g} min" if minutes else ""
        aside = [f"{own['CPU s'].mean():.1f}", f"{own['MiB'].max():.0f}", f"{own['lines'].max():g}"]
        lines.append(line([row + note, *cells, *aside]))
    if "reason" in found:
        for row, reason in found.dropna(subset="reason").groupby("row", sort=False)["reason"]:
            lines.append(f"\nNot run: {row} ({reason.iloc[0]}).")
    return lines


def spread(values: np.ndarray) -> str:
    """Mean, and the range of several seeds."""
    mean = shown(values.mean()) if values.mean() > 0 else f"{values.mean():.3f}"
    return mean if len(values) < 2 else f"{mean} ({shown(values.min())} to {shown(values.max())})"


def main(command: Command) -> None:
    parser = argparse.ArgumentParser(
        description=command.doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every, rows = list(command.sets), list(command.adapters)
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the sets")
    parser.add_argument("--only", nargs="+", choices=every, default=every, metavar="SET")
    parser.add_argument("--rows", nargs="+", choices=rows, default=rows, metavar="ROW")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="of the processor, to train")
    parser.add_argument("--out", type=Path, help="folder of finished results")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        name, row, seed, file = args.measure
        warnings.simplefilter("ignore")  # those of peers, and of what windows cover
        Path(file).write_text(json.dumps(measured(command, name, row, int(seed), args)))
        return
    for name in args.only:
        asked = [row for row in command.sets[name] if row in args.rows]
        found = [
            {"row": row, **kept(command, name, row, seed, args)}
            for row in asked
            for seed in args.seeds
        ]
        print("\n".join(table(command, name, pd.DataFrame(found))), flush=True)
        print()
