"""Compute the cells of a table that are not in the store yet, and print the table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from joblib import Parallel, delayed, parallel_config
from tqdm import tqdm

from benchmarks.paper.store import Store
from benchmarks.paper.tables import Job
from skpolyode.threads import one_thread


def parser(description: str, n_jobs: int, rows: list[str]) -> argparse.ArgumentParser:
    """Arguments that every table has."""
    arguments = argparse.ArgumentParser(description=description.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="small data, short training")
    arguments.add_argument("--jobs", type=int, default=n_jobs, help="processes (%(default)s)")
    arguments.add_argument("--rows", nargs="+", choices=rows, help="only these")
    arguments.add_argument("--output", type=Path, default=Path("paper_results"), metavar="DIR")
    return arguments


def make_table(
    jobs: Sequence[Job], report: Callable[[Store], list[str]], arguments: argparse.Namespace
) -> None:
    """Compute what is missing, and print."""
    store = Store(arguments.output / "cells.jsonl")
    failures = run(jobs, store, arguments.jobs)
    print("\n".join(report(store)))
    if failures:
        sys.exit("\n".join(["these cells failed, and will be tried again:", *failures]))


def run(jobs: Sequence[Job], store: Store, n_jobs: int) -> list[str]:
    """Run what is missing; returns what went wrong. A cell that fails does not stop the others."""
    missing = [job for job in jobs if store.get(job.settings()) is None]
    failures = []
    with parallel_config("loky", inner_max_num_threads=1):
        runs = Parallel(n_jobs, return_as="generator_unordered")(map(delayed(_run), missing))
        for job, results, error in tqdm(runs, total=len(missing), unit="cell", smoothing=0):
            if error is None:
                store.add(job.settings(), results)
            else:
                failures.append(f"{job}: {error}")
    return failures


def _run(job: Job) -> tuple[Job, dict[str, float], str | None]:
    try:
        with one_thread():
            return job, job.run(), None
    except Exception as error:
        return job, {}, f"{type(error).__name__}: {error}"
