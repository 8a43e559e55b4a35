"""Small packed series and models for the tests of models."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from torch import nn

from skpolyode.dynamics import WalledMLP
from skpolyode.dynamics.field import drawn
from skpolyode.memory import MEMORIES
from skpolyode.models import Packed, PolyODE, pack
from skpolyode.models.gain import Gain

Flat = tuple[np.ndarray, np.ndarray, np.ndarray]  # times, values, offsets

SIZE, WINDOW = 5, 1.5


def flat_series(lengths, n_channels=2, seed=0, missing=0.4, max_gap=1.0) -> Flat:
    """Random series; every row has an observation."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    times = np.concatenate(
        [rng.uniform(-5, 5) + np.cumsum(rng.uniform(0.01, max_gap, n)) for n in lengths]
    )
    values = rng.normal(size=(offsets[-1], n_channels))
    hidden = rng.random(values.shape) < missing
    hidden[np.arange(len(values)), rng.integers(0, n_channels, len(values))] = False
    values[hidden] = np.nan
    return times, values, offsets


@st.composite
def series(draw: st.DrawFn) -> Flat:
    lengths = draw(st.lists(st.integers(1, 7), min_size=1, max_size=6))
    return flat_series(lengths, draw(st.integers(1, 3)), draw(st.integers(0, 2**20)))


def part(flat: Flat, i: int) -> tuple[np.ndarray, np.ndarray]:
    times, values, offsets = flat
    rows = slice(offsets[i], offsets[i + 1])
    return times[rows], values[rows]


def join(parts) -> Flat:
    times, values = zip(*parts, strict=True)
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in times])]).astype(np.int64)
    return np.concatenate(times), np.concatenate(values), offsets


def make_model(
    n_channels=2,
    *,
    measure="legt",
    size=SIZE,
    seed=0,
    strength=2.0,
    n_hidden=3,
    n_static=0,
    **options,
) -> PolyODE:
    """A model with random weights that are large enough to matter."""
    generator = torch.Generator().manual_seed(seed)
    length = n_channels * (1 + size) + n_hidden
    field = WalledMLP(length, (7,), generator=generator)
    if n_static:
        options["start"] = drawn(nn.Linear, n_static, length, generator=generator).double()
    if n_hidden:
        read = 3 * n_channels + n_static
        options["cell"] = drawn(nn.GRUCell, read, n_hidden, generator=generator).double()
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.mul_(strength)
    settings = {"step_size": 0.3, "max_gap": 20 * WINDOW} | options
    return PolyODE(field.double(), MEMORIES[measure](size, WINDOW), **settings)


def some_gain(n_channels=2, seed=0, told="equal") -> Gain:
    """A gain that is another one in each channel."""
    gain = Gain(n_channels, told).double()
    generator = torch.Generator().manual_seed(seed)
    for part in (gain.known, gain.added, gain.start):
        part.normal_(generator=generator)
    for part in (gain.noise, gain.spread):
        part.uniform_(0.3, 1.0, generator=generator)
    return gain


def gain_of(share: torch.Tensor) -> Gain:
    """Gain that is `share` (D,) after one unit of time, when half of v is p."""
    gain = Gain(len(share)).to(share)
    gain.known.copy_(torch.logit(share) - np.log(2.0))
    gain.added.copy_(gain.known)
    return gain


def embed(model: PolyODE, flat: Flat) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        state = model.embed(pack(*flat))
    return state["z"], state["c"]


def assert_same(one: Packed, other: Packed) -> None:
    assert one.sizes == other.sizes
    for name in ("x", "mask", "seen", "gap", "channel_gap", "elapsed", "next", "series"):
        a, b = getattr(one, name), getattr(other, name)
        assert torch.equal(a, b), name
