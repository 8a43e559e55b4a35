"""What the hand-written reverse pass brings: a gradient step with it and with autograd.

    python benchmarks/gradient_step.py

States and gaps are drawn at random (66 numbers, gaps with mean 1, steps of 2/3); the field has two
hidden layers of 64. Milliseconds are lower quartiles of 60 steps on one thread.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from skpolyode.dynamics import STEPPERS, WalledMLP, integrate
from skpolyode.dynamics.adjoint import flow

SIZE = 66


def by_hand(field, z, gap, stepper):
    return flow(field, z, gap, step_size=2 / 3, stepper=stepper)


def by_autograd(field, z, gap, stepper):
    return integrate(field.bind(), z, gap, step_size=2 / 3, stepper=stepper)[0]


def milliseconds(field, z, gap, stepper) -> list[float]:
    """Of each way; they take turns, so that a busy moment of the machine meets both."""
    times = []
    for _ in range(65):
        for way in (by_hand, by_autograd):
            start = time.perf_counter()
            field.zero_grad()
            way(field, z, gap, stepper).square().mean().backward()
            times.append(time.perf_counter() - start)
    return list(1e3 * np.quantile(np.reshape(times, (-1, 2))[5:], 0.25, axis=0))


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    field = WalledMLP(SIZE, (64, 64), generator=generator)
    print(f"{'intervals':>9s}  {'method':10s}{'by hand':>10s}{'autograd':>12s}{'ratio':>7s}")
    for name in ("midpoint", "rk4"):
        for n_intervals in (64, 256, 512):
            z = torch.randn(n_intervals, SIZE, generator=generator)
            gap = torch.empty(n_intervals, dtype=torch.float64).exponential_(generator=generator)
            own, auto = milliseconds(field, z, gap, STEPPERS[name])
            print(f"{n_intervals:9d}  {name:10s}{own:7.1f} ms{auto:9.1f} ms{auto / own:7.2f}")


if __name__ == "__main__":
    main()
