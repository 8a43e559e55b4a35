"""What an update of a stream costs, for one series and for many, after few and many observations.

    python -m benchmarks.streaming [--series 20000] [--observations 100000]

The model is that of Lorenz63 (two observed channels, 32 coefficients, default network), new
observations come at its typical gap. Printed for each transformer:

- one update of one series: median and 95th percentile, in microseconds, of the last thousand after
  100, 1000, ... observations, which should not grow;
- updates a second, of all series in one call;
- the largest difference, after some hundred single updates, from the batch result.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from skpolyode import HiPPOTransformer, PolyODETransformer
from skpolyode.datasets import make_lorenz63

_TIMED = 1000  # updates that a figure is taken from
_COMPARED = 300


def transformers() -> dict[str, PolyODETransformer | HiPPOTransformer]:
    panel = make_lorenz63(100, rate=0.3, random_state=0).panel
    unfitted = {
        "PolyODE": PolyODETransformer(max_epochs=5, random_state=0),
        "PolyODE, legs": PolyODETransformer(measure="legs", max_epochs=5, random_state=0),
        "HiPPO": HiPPOTransformer(),
    }
    return {name: transformer.fit(panel) for name, transformer in unfitted.items()}


def observations(count: int, gap: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    times = np.cumsum(rng.exponential(gap, count))
    return times, rng.standard_normal((count, 2))


def single(transformer, count: int, gap: float) -> dict[int, np.ndarray]:
    """Seconds of the last updates before 100, 1000, ... observations of one series."""
    times, values = observations(count, gap, np.random.default_rng(0))
    stream, seconds = transformer.stream(), np.empty(count)
    for i, (t, x) in enumerate(zip(times, values, strict=True)):
        start = time.perf_counter()
        stream.update(t, x)
        seconds[i] = time.perf_counter() - start
    marks = 10 ** np.arange(2, int(np.log10(count)) + 1)
    return {int(mark): seconds[max(0, mark - _TIMED) : mark] for mark in marks}


def batched(transformer, n_series: int, gap: float, repeats: int = 5) -> float:
    """Updates a second: the median over calls that update all series."""
    rng, stream = np.random.default_rng(0), transformer.stream(n_series)
    times, rates = np.zeros(n_series), []
    for _ in range(repeats + 1):
        times = times + rng.exponential(gap, n_series)
        values = rng.standard_normal((n_series, 2))
        start = time.perf_counter()
        stream.update(times, values)
        rates.append(n_series / (time.perf_counter() - start))
    return float(np.median(rates[1:]))  # first observations have no gap to cross


def difference(transformer, gap: float) -> float:
    times, values = observations(_COMPARED, gap, np.random.default_rng(1))
    stream = transformer.stream()
    for t, x in zip(times, values, strict=True):
        stream.update(t, x)
    return float(abs(stream.embedding() - transformer.transform([(times, values)])).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=20_000)
    parser.add_argument("--observations", type=int, default=100_000)
    arguments = parser.parse_args()
    fitted = transformers()
    gap = fitted["PolyODE"].time_scale_
    print(f"{torch.get_num_threads()} threads")
    for name, transformer in fitted.items():
        print(f"\n{name}")
        for mark, seconds in single(transformer, arguments.observations, gap).items():
            median, most = 1e6 * np.quantile(seconds, [0.5, 0.95])
            print(f"  one series, {mark:7d} observations: {median:6.0f} us (95 %: {most:.0f} us)")
        rate = batched(transformer, arguments.series, gap)
        print(f"  {arguments.series} series a call: {rate:.0f} updates/s")
        print(f"  difference from the batch result: {difference(transformer, gap):.1e}")


if __name__ == "__main__":
    main()
