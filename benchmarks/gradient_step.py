"""What a gradient step costs whose stages are taken by the drive of the network's first layer.

    python benchmarks/gradient_step.py

"by drive" is what training runs; "plain" evaluates the field at every stage, as a textbook does.
States and gaps are drawn at random (2 and 12 channels of 33 numbers, gaps with mean 1, steps of
2/3); the field has two hidden layers of 64. Milliseconds are lower quartiles of 60 steps on one
thread.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from skpolyode.dynamics import STEPPERS, WalledMLP, integrate


def milliseconds(field, z, gap, stepper) -> list[float]:
    """Of each way; they take turns, so that a busy moment of the machine meets both."""
    times = []
    for _ in range(65):
        for way in (field, field.bind()):
            start = time.perf_counter()
            field.zero_grad()
            end, _ = integrate(way, z, gap, step_size=2 / 3, stepper=stepper)
            end.square().mean().backward()
            times.append(time.perf_counter() - start)
    return list(1e3 * np.quantile(np.reshape(times, (-1, 2))[5:], 0.25, axis=0))


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    print(f"{'channels':>8s}{'intervals':>11s}  {'method':10s}", end="")
    print(f"{'by drive':>10s}{'plain':>12s}{'ratio':>7s}")
    for n_channels in (2, 12):
        size = 33 * n_channels
        field = WalledMLP(size, (64, 64), generator=generator)
        for name in ("midpoint", "rk4"):
            for n_intervals in (64, 512):
                z = torch.randn(n_intervals, size, generator=generator)
                gap = torch.empty(n_intervals, dtype=torch.float64)
                gap.exponential_(generator=generator)
                own, plain = milliseconds(field, z, gap, STEPPERS[name])
                print(f"{n_channels:8d}{n_intervals:11d}  {name:10s}", end="")
                print(f"{own:7.1f} ms{plain:9.1f} ms{plain / own:7.2f}", flush=True)


if __name__ == "__main__":
    main()
