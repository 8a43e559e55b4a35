"""How long wards take: many stays, 37 channels, 16 % of the cells observed.

    python -m benchmarks.wards [--stays 1500] [--coefficients 32]

Made series of the size of PhysioNet 2012: 75 rows in 48 hours on average, each channel at a rate of
its own, levels of each stay that wander. Prints the seconds of the processor that `fit` and
`transform` of a `PolyODETransformer` took in one thread, and its one-step error beside that of the
last value, in variances, on stays that it has not seen.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from skpolyode import Panel, PolyODETransformer

N_CHANNELS = 37


def make_ward(n_stays: int, rng: np.random.Generator) -> Panel:
    """Levels of a stay, that wander, and noise of the measurement."""
    rates = rng.gamma(1.0, size=N_CHANNELS)
    rates = (rates * 0.16 / rates.mean()).clip(0.01, 0.95)
    series = []
    for _ in range(n_stays):
        times = np.sort(rng.uniform(0, 48, max(8, rng.poisson(75))))
        spread = np.sqrt(np.diff(times, prepend=0.0) / 48)[:, None]
        steps = spread * rng.normal(size=(len(times), N_CHANNELS))
        values = rng.normal(size=N_CHANNELS) + steps.cumsum(axis=0)
        values += 0.3 * rng.normal(size=values.shape)
        values[rng.random(values.shape) > rates] = np.nan
        values[0, 0] = 0.0  # nobody leaves without a measurement
        series.append((times, values))
    return Panel.from_series(series)


def last_value_error(panel: Panel, mean: np.ndarray, scale: np.ndarray) -> float:
    """Of all values after the first row of a stay; a channel is at `mean` before its first one."""
    squares = []
    for _, values in panel:
        for column, own_mean, own_scale in zip(values.T, mean, scale, strict=True):
            known = np.flatnonzero(~np.isnan(column))
            before = np.append(own_mean, column[known[:-1]])[: len(known)]
            errors = ((column[known] - before) / own_scale) ** 2
            squares.append(errors[known > 0])
    return float(np.concatenate(squares).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stays", type=int, default=1500)
    parser.add_argument("--coefficients", type=int, default=32)
    args = parser.parse_args()
    torch.set_num_threads(1)
    panel = make_ward(args.stays + 200, np.random.default_rng(0))
    train, test = panel[: args.stays], panel[args.stays :]
    model = PolyODETransformer(n_coefficients=args.coefficients, random_state=0)
    start = time.process_time()
    model.fit(train)
    fitted = time.process_time()
    model.transform(test)
    print(f"{train}: fit {fitted - start:.0f} s, {model.n_epochs_} epochs")
    print(f"transform of {len(test)}: {time.process_time() - fitted:.1f} s")
    last = last_value_error(test, *(own(train.values, axis=0) for own in (np.nanmean, np.nanstd)))
    print(f"one-step error {-model.score(test):.3f}, of the last value {last:.3f}")


if __name__ == "__main__":
    main()
