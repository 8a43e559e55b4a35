"""Every measure against its differential equation, integrated densely by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode.cubic import CubicPath
from skpolyode.memory import MEMORIES
from tests.memory.measures import (
    EQUATIONS,
    WINDOW,
    hermite_pieces,
    make_memory,
    random_path,
    solve,
)

GAPS = WINDOW * np.array([1e-6, 1e-3, 0.04, 0.3, 1.0, 3.1, 10.0])
N_STEPS = np.array([1, 2, 3, 5, 4, 2, 7])
START = 0.8  # time since the start of the series at the start of each gap
N_CHANNELS = 2
FAR = [0, 3, 6]  # rows that are also compared at the larger sizes


@pytest.fixture(params=MEMORIES, scope="module")
def name(request):
    assert request.param in EQUATIONS, "add the measure to tests/memory/measures.py"
    return request.param


# The solver of the 64 equations, which are stiff, needs seconds for each measure.
@pytest.fixture(params=[8, 16, 32, pytest.param(64, marks=pytest.mark.slow)], scope="module")
def size(request):
    return request.param


@pytest.fixture(scope="module")
def signals(size):
    """Random coefficients at the start and random paths, one row for each gap."""
    rng = np.random.default_rng(size)
    return rng.normal(size=(len(GAPS), N_CHANNELS, size)), random_path(
        rng, GAPS, N_STEPS, N_CHANNELS
    )


@pytest.fixture(scope="module")
def expected(name, size, signals):
    """What following, holding, forgetting and bridging should give, for the rows in `rows`."""
    start, path = signals
    rows = list(range(len(GAPS))) if size <= 8 else FAR
    ends = [all_in_one(name, start[row], path, row) for row in rows]
    keys = "follow", "hold", "propagate", "bridge"
    return rows, dict(zip(keys, np.split(np.stack(ends), 4, axis=1), strict=True))


def all_in_one(name, c, path, row):
    """The path, its first value held, nothing, and a ramp to that value, as eight channels."""
    pieces, value = hermite_pieces(path, row), path.values[0, row].numpy()
    zero, slope = 0 * value, value / GAPS[row]
    signals = []
    for k, (h, cubic) in enumerate(pieces):
        lines = np.zeros((4, 3 * N_CHANNELS))
        lines[0], lines[1] = np.r_[value, zero, k * h * slope], np.r_[zero, zero, slope]
        signals.append((h, np.concatenate([cubic, lines], axis=1)))
    return solve(name, np.concatenate([c, c, c, 0 * c]), signals, START)


def computed(name, size, signals, dtype):
    start, path = signals
    memory, gap = make_memory(name, size, dtype), torch.from_numpy(GAPS)
    c, value, elapsed = torch.from_numpy(start).to(dtype), path.values[0].to(dtype), START + gap
    path = CubicPath(path.values.to(dtype), path.slopes.to(dtype), path.step, path.n_steps)
    return {
        "follow": memory.follow(c, path, elapsed),
        "hold": memory.hold(c, value, gap, elapsed),
        "propagate": memory.propagate(c, gap, elapsed),
        "bridge": memory.bridge(value, gap[:, None].expand(value.shape), elapsed),
    }


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)], ids=["f64", "f32"]
)
def test_agrees_with_the_equation(name, size, signals, expected, dtype, tolerance):
    rows, truth = expected
    results = computed(name, size, signals, dtype)
    for key, result in results.items():
        assert result.dtype == dtype
        scale = max(1.0, abs(truth[key]).max())
        np.testing.assert_allclose(
            result.numpy()[rows], truth[key], rtol=0, atol=tolerance * scale, err_msg=key
        )
