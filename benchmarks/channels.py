"""What many channels cost: seconds and peak memory of a fit and of an embedding, and the error.

    python -m benchmarks.channels                   # 8, 64 and 500 channels, ten minutes
    python -m benchmarks.channels --channels 8 64   # some of them

1000 series of 30 rows, whose channels are mixtures of six oscillators; up to 64 channels all cells
are observed, beyond that 5 %. Each line is a process of its own, of one thread and with default
settings, so that its peak memory is its own. Errors are one step ahead on 200 other series, in
variances, beside those of the last value.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from benchmarks.processes import in_a_process, peak_mib

N_ROWS, N_SERIES, N_TESTED = 30, 1000, 200
DENSE = 64  # channels, up to which all cells are observed
SHARE = 0.05  # of the cells, beyond that


def make_panel(n_series: int, n_channels: int, rng: np.random.Generator):
    """Oscillators that all series and channels share, at a phase of each series."""
    from skpolyode import Panel

    speeds = np.linspace(0.3, 0.9, 6)
    loads = np.random.default_rng(0).normal(size=(6, n_channels))
    times = rng.exponential(size=(n_series, N_ROWS)).cumsum(axis=1)
    phases = rng.uniform(0, 2 * np.pi, (n_series, 1, 6))
    values = np.sin(times[:, :, None] * speeds + phases) @ loads
    if n_channels > DENSE:
        values[rng.random(values.shape) > SHARE] = np.nan
    offsets = np.arange(n_series + 1) * N_ROWS
    return Panel(times.ravel(), values.reshape(-1, n_channels), offsets)


def measure(n_channels: int, n_series: int, n_epochs: int) -> dict[str, float]:
    """Seconds, MiB and errors of one size, in this process; no epochs are the default, "auto"."""
    import torch

    from benchmarks.wards import last_value_error
    from skpolyode import PolyODETransformer

    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    train, test = (make_panel(n, n_channels, rng) for n in (n_series, N_TESTED))
    before = peak_mib()
    model = PolyODETransformer(max_epochs=n_epochs or "auto", random_state=0)
    start = time.process_time()
    model.fit(train)
    fitted = time.process_time()
    grown = peak_mib() - before
    model.transform(test)
    embedded = time.process_time()
    moments = (own(train.values, axis=0) for own in (np.nanmean, np.nanstd))
    return {
        "fit": fitted - start,
        "epochs": model.n_epochs_,
        "transform": embedded - fitted,
        "MiB": peak_mib(),
        "grown": grown,
        "error": -model.score(test),
        "last": last_value_error(test, *moments),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--channels", nargs="+", type=int, default=[8, 64, 500])
    parser.add_argument("--series", type=int, default=N_SERIES)
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--measure", nargs=3, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(*args.measure)))
        return
    print(f"{args.series} series of {N_ROWS} rows")
    print(
        f"{'channels':>10s}{'fit, s':>9s}{'epochs':>8s}{'embed 200, s':>14s}{'MiB':>8s}"
        f"{'of that for fit':>17s}{'error':>9s}{'last value':>12s}"
    )
    for n_channels in args.channels:
        now = in_a_process("benchmarks.channels", n_channels, args.series, args.epochs)
        print(
            f"{n_channels:>10d}{now['fit']:>9.1f}{now['epochs']:>8.0f}{now['transform']:>14.1f}"
            f"{now['MiB']:>8.0f}{now['grown']:>17.0f}{now['error']:>9.3f}{now['last']:>12.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
