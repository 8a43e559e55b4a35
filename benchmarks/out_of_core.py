"""Embedding from disk beside embedding in memory, and a fit from disk: speed and peak memory.

    python -m benchmarks.out_of_core [--observations 10000000] [--length 100] [--jobs 1]

Writes a long table of two channels at continuous random times, a tenth of the values missing, to a
temporary folder. Then, each in a process of its own: `embed_dataset`, and the same in memory
(read the file, make a Panel, transform, write one file). "peak" is the largest resident memory of
the process, workers not counted; "grown" is without what imports and fitting took. Last, a
`PolyODETransformer` with its defaults is fitted to what `sample_dataset` draws.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.processes import in_a_process, peak_mib
from skpolyode import HiPPOTransformer, Panel, PolyODETransformer
from skpolyode.parquet import embed_dataset, sample_dataset

_SERIES_AT_ONCE = 5000


def make_table(first: int, n_series: int, length: int) -> pd.DataFrame:
    rng = np.random.default_rng(first)
    times = rng.exponential(size=(n_series, length)).cumsum(axis=1)
    phases = rng.uniform(0, 2 * np.pi, (n_series, 1))
    values = {name: np.sin(speed * times + phases) for name, speed in (("a", 0.3), ("b", 0.9))}
    for array in values.values():
        array[rng.uniform(size=array.shape) < 0.1] = np.nan
    ids = np.repeat(np.arange(first, first + n_series), length)
    columns = {name: array.ravel() for name, array in values.items()}
    return pd.DataFrame({"id": ids, "time": times.ravel(), **columns})


def write_source(path: Path, n_series: int, length: int) -> None:
    writer = None
    for first in range(0, n_series, _SERIES_AT_ONCE):
        n_now = min(_SERIES_AT_ONCE, n_series - first)
        table = pa.Table.from_pandas(make_table(first, n_now, length))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def in_memory(embedder: HiPPOTransformer, source: Path, sink: Path) -> None:
    panel = Panel.from_long(pd.read_parquet(source), id="id", time="time")
    names = embedder.get_feature_names_out()
    table = pd.DataFrame(embedder.transform(panel), columns=names)
    table.insert(0, "id", panel.ids)
    table.to_parquet(sink)


def measure(how: str, source: Path, sink: Path, length: int, n_jobs: int) -> dict[str, float]:
    """Seconds and MiB, in this process."""
    embedder = HiPPOTransformer(window=length / 2)
    embedder.fit(Panel.from_long(make_table(0, 1000, length), id="id", time="time"))
    before, start, cpu = peak_mib(), time.perf_counter(), time.process_time()
    if how == "disk":
        embed_dataset(embedder, source, sink, n_jobs=n_jobs)
    elif how == "fit":
        PolyODETransformer(random_state=0).fit(sample_dataset(source, random_state=0))
    else:
        in_memory(embedder, source, sink)
    seconds, cpu, peak = time.perf_counter() - start, time.process_time() - cpu, peak_mib()
    return {"seconds": seconds, "cpu": cpu, "peak": peak, "grown": peak - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--observations", type=int, default=10_000_000)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        how, source, sink, length, n_jobs = arguments.measure
        print(json.dumps(measure(how, Path(source), Path(sink), int(length), int(n_jobs))))
        return
    n_series = arguments.observations // arguments.length
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source.parquet"
        write_source(source, n_series, arguments.length)
        results = {
            how: in_a_process(
                "benchmarks.out_of_core",
                how,
                source,
                source.with_name(how),
                arguments.length,
                arguments.jobs,
            )
            for how in ("disk", "memory", "fit")
        }
    for how, result in results.items():
        rate = n_series * arguments.length / result["seconds"]
        print(
            f"{how:<7s}{rate:>12,.0f} observations/s   peak {result['peak']:>6.0f} MiB   "
            f"grown {result['grown']:>6.0f} MiB   {result['cpu']:>7.1f} s of processor time"
        )
    wall, cpu = (results["memory"][k] / results["disk"][k] for k in ("seconds", "cpu"))
    print(f"speed from disk / in memory: {wall:.2f}; by processor time: {cpu:.2f}")


if __name__ == "__main__":
    main()
