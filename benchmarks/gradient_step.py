"""What a gradient step costs whose stages are taken by the drive of the network's first layer.

    python -m benchmarks.gradient_step

"by hand" is what training runs, with a gradient that is written by hand; "by drive" is the same
with that of torch; "plain" evaluates the field at every stage, as a textbook does.
States and gaps are drawn at random (2 and 12 channels of 33 numbers, gaps with mean 1, steps of
2/3); the field has two hidden layers of 64. Milliseconds are lower quartiles of 60 steps on one
thread, of the processor; in brackets how many times as fast.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from skpolyode.dynamics import STEPPERS, WalledMLP, integrate


def milliseconds(field, z, gap, stepper) -> np.ndarray:
    """Of each way; they take turns, so that a busy moment of the machine meets all."""
    times = []
    for _ in range(65):
        for way, by_hand in ((field, False), (field, True), (field.bind(), False)):
            field.by_hand = by_hand
            start = time.process_time()
            field.zero_grad()
            end, _ = integrate(way, z, gap, step_size=2 / 3, stepper=stepper)
            end.square().mean().backward()
            times.append(time.process_time() - start)
    return 1e3 * np.quantile(np.reshape(times, (-1, 3))[5:], 0.25, axis=0)


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    print(f"{'channels':>8s}{'intervals':>11s}  {'method':10s}", end="")
    print(f"{'by drive':>10s}{'by hand':>18s}{'plain':>18s}")
    for n_channels in (2, 12):
        size = 33 * n_channels
        field = WalledMLP(size, (64, 64), generator=generator)
        for name in ("midpoint", "rk4"):
            for n_intervals in (64, 512):
                z = torch.randn(n_intervals, size, generator=generator)
                gap = torch.empty(n_intervals, dtype=torch.float64)
                gap.exponential_(generator=generator)
                own, *others = milliseconds(field, z, gap, STEPPERS[name])
                print(f"{n_channels:8d}{n_intervals:11d}  {name:10s}{own:7.1f} ms", end="")
                for other in others:
                    print(f"{other:8.1f} ms ({own / other:.2f})", end="")
                print(flush=True)


if __name__ == "__main__":
    main()
