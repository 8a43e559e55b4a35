"""How time and memory grow: with series, with the length of one series, with channels, with N.

    python -m benchmarks.scaling            # a quarter of an hour on two cores
    python -m benchmarks.scaling --quick    # does it work? small sizes, a minute
    python -m benchmarks.scaling --budget   # only fits with default epochs, to a million series

Each line is a process of its own, so that its peak memory is its own. Gaps are continuous and
never repeat. "epoch" is one pass of training, refresh included, "fit" all of a fit of two epochs;
"exponent" is that of the growth in time since the line before. Then fits on little data, a grid
search of 36 fits, and the time to import.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np

from benchmarks.processes import in_a_process, peak_mib

LENGTH = 30


class Sizes(NamedTuple):
    """What the tables go through, and the series of those for the last two."""

    series: tuple[int, ...]
    lengths: tuple[int, ...]
    channels: tuple[int, ...]
    coefficients: tuple[int, ...]
    n_series: int


FULL = Sizes(
    series=(1000, 10_000, 100_000),
    lengths=(1000, 10_000, 100_000, 300_000),
    channels=(1, 4, 16, 64),
    coefficients=(8, 16, 32, 64, 128),
    n_series=1000,
)
QUICK = Sizes((20, 80), (100, 400), (1, 4), (8, 32), n_series=20)


def make_panel(n_series: int, length: int, n_channels: int):
    from skpolyode import Panel

    rng = np.random.default_rng(0)
    times = rng.exponential(size=(n_series, length)).cumsum(axis=1)
    phases = rng.uniform(0, 2 * np.pi, (n_series, 1, n_channels))
    speeds = rng.uniform(0.3, 0.9, n_channels)
    values = np.sin(times[:, :, None] * speeds + phases)
    offsets = np.arange(n_series + 1) * length
    return Panel(times.ravel(), values.reshape(-1, n_channels), offsets)


def measure(
    n_series: int, length: int, n_channels: int, n_coefficients: int, n_epochs: int
) -> dict[str, float]:
    """Seconds and MiB of one size, in this process; no epochs are the default, "auto"."""
    from skpolyode import PolyODETransformer

    panel = make_panel(n_series, length, n_channels)
    settings = {"n_coefficients": n_coefficients, "window": 16.0, "random_state": 0}
    PolyODETransformer(max_epochs=1, **settings).fit(make_panel(4, LENGTH, n_channels))  # tables
    before = peak_mib()
    embedder = PolyODETransformer(max_epochs=n_epochs or "auto", **settings)
    start, cpu = time.perf_counter(), time.process_time()
    embedder.fit(panel)
    fit, cpu = time.perf_counter() - start, time.process_time() - cpu
    if not n_epochs:
        return {"fit": fit, "cpu": cpu, "grown": peak_mib() - before}
    start = time.perf_counter()
    embedder.transform(panel)
    transform = time.perf_counter() - start
    first, second = (entry["seconds"] for entry in embedder.history_[:2])
    peak = peak_mib()
    return {
        "epoch": second - first,
        "fit": fit,
        "transform": transform,
        "peak": peak,
        "grown": peak - before,
    }


def run_table(title: str, sizes: list[tuple[int, ...]], changing: int) -> None:
    print(f"\n{title}")
    print(f"{'':>10s}{'epoch, s':>10s}{'exponent':>10s}{'fit, s':>9s}{'transform, s':>14s}", end="")
    print(f"{'exponent':>10s}{'MiB':>7s}{'of that for data and work':>27s}")
    before = None
    for size in sizes:
        now = in_a_process("benchmarks.scaling", *size, 2)
        growth = dict.fromkeys(("epoch", "transform"), "")
        if before is not None:
            ratio = math.log(size[changing] / before[0][changing])
            growth = {k: f"{math.log(now[k] / before[1][k]) / ratio:.2f}" for k in growth}
        print(
            f"{size[changing]:>10d}{now['epoch']:>10.2f}{growth['epoch']:>10s}{now['fit']:>9.2f}"
            f"{now['transform']:>14.2f}{growth['transform']:>10s}{now['peak']:>7.0f}"
            f"{now['grown']:>27.0f}",
            flush=True,
        )
        before = size, now


def run_budget(sizes: list[int]) -> None:
    print(f"\nfits with default epochs\n{'':>10s}{'fit, s':>9s}{'of processor':>14s}", end="")
    print(f"{'MiB for work':>14s}")
    for n in sizes:
        now = in_a_process("benchmarks.scaling", n, LENGTH, 2, 32, 0)
        print(f"{n:>10d}{now['fit']:>9.1f}{now['cpu']:>14.1f}{now['grown']:>14.0f}", flush=True)


def run_small(*, quick: bool = False) -> None:
    """Fits of few series, and a search with many fits, with the defaults otherwise.

    With `quick` a single epoch, of a few series.
    """
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    from skpolyode import PolyODETransformer
    from skpolyode.datasets import load_japanese_vowels, make_lorenz63

    vowels, epochs = load_japanese_vowels("train"), 1 if quick else "auto"
    searched = slice(None, None, 9 if quick else 1)
    lorenz = make_lorenz63(20, rate=0.3, random_state=0).panel
    print()
    for name, panel in (("JapaneseVowels", vowels.panel[::14]), ("Lorenz63", lorenz)):
        start = time.perf_counter()
        embedder = PolyODETransformer(max_epochs=epochs, random_state=0).fit(panel)
        seconds = time.perf_counter() - start
        print(f"fit on {len(panel)} series of {name}: {seconds:.2f} s, {embedder.n_epochs_} epochs")
    grid = {
        "polyodetransformer__n_coefficients": [8] if quick else [8, 12],
        "polyodetransformer__learning_rate_init": [0.01, 0.05],
        "svc__C": [1] if quick else [1, 10, 100],
    }
    embedder = PolyODETransformer(embedding="coefficients", max_epochs=epochs, random_state=0)
    search = GridSearchCV(make_pipeline(embedder, SVC()), grid, cv=3, n_jobs=1 if quick else 2)
    start = time.perf_counter()
    search.fit(vowels.panel[searched], vowels.y[searched])
    seconds, n_fits = time.perf_counter() - start, 3 * len(search.cv_results_["params"])
    print(
        f"search with {n_fits} fits on JapaneseVowels, {search.n_jobs} jobs: {seconds:.0f} s",
        end="",
    )
    print(f" ({search.best_score_:.3f} with {search.best_params_})")


def run_imports(n_rounds: int) -> None:
    """Least times of some; the statements take turns, so that a busy moment meets both."""
    seconds: dict[str, list[float]] = {"import torch, sklearn.base": [], "import skpolyode": []}
    for _ in range(n_rounds):
        for statement, times in seconds.items():
            code = (
                f"import time; s = time.perf_counter(); {statement}; print(time.perf_counter() - s)"
            )
            output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
            times.append(float(output.stdout))
    print()
    for statement, times in seconds.items():
        print(f"{statement}: {min(times):.2f} s")
    alone, ours = map(min, seconds.values())
    print(f"ratio: {ours / alone:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--budget", action="store_true")
    parser.add_argument("--measure", nargs=5, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure)))
        return
    if arguments.budget:
        run_budget([1000, 10_000, 100_000, 1_000_000])
        return
    run_sizes(QUICK if arguments.quick else FULL)
    run_small(quick=arguments.quick)
    run_imports(1 if arguments.quick else 6)


def run_sizes(sizes: Sizes) -> None:
    """The tables: each changes one of the sizes."""
    n = sizes.n_series
    many = [(count, LENGTH, 2, 32) for count in sizes.series]
    run_table(f"series of {LENGTH} observations of 2 channels", many, changing=0)
    long = [(1, length, 2, 32) for length in sizes.lengths]
    run_table("observations of one series", long, changing=1)
    wide = [(n, LENGTH, channels, 32) for channels in sizes.channels]
    run_table(f"channels ({n} series)", wide, changing=2)
    fine = [(n, LENGTH, 2, coefficients) for coefficients in sizes.coefficients]
    run_table(f"coefficients a channel ({n} series)", fine, changing=3)


if __name__ == "__main__":
    main()
