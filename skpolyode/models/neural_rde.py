r"""Neural RDE: a state driven by log-signatures of what was observed; of depth 1, a Neural CDE.

The observations are a path X of 1 + 2 D dimensions: time, the last value of each channel, and how
often it was observed. It is causal: between observations only time goes on, and values and counts
step at the observations. Over each stretch of some observations its log-signature l drives the
state along a learned field that is linear in l::

    dz/ds = F(z) l for s in [0, 1],   F(z) l = W (f(z) * P l),   f a network that ends in tanh

At any moment the state is that at the start of the stretch, moved by the log-signature since then:
forecasts need no interpolation, and see nothing that comes later. (J. Morrill, C. Salvi, P. Kidger,
J. Foster, T. Lyons, "Neural rough differential equations for long time series", ICML 2021; P.
Kidger and others, "Neural controlled differential equations for irregular time series", NeurIPS
2020.)

A field with a matrix for each entry of l would have H times b outputs for b entries, 285 of them
for four channels at depth 3; products with `P l` are a tensor of lower rank.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from skpolyode.models.contract import Prediction, SequenceModel, State
from skpolyode.models.layers import Start, drawn, observed_inputs, where_observed
from skpolyode.models.log_signature import Signature, continued, log_signature, lyndon_words
from skpolyode.models.packed import Packed
from skpolyode.saving.modules import register_module

__all__ = ["NeuralRDE"]


class NeuralRDE(SequenceModel):
    """A state driven by log-signatures of the observed path, over packed observations.

    The state has the parts `z` (n, H) at the start of a stretch, the signature of the path since
    then as `s1` (n, V), `s2` (n, V, V), .. with V = 1 + 2 D, the number `count` (n, 1) of its
    observations, the last values `value` (n, D), and the time `since` the last observation (n, 1).

    Parameters
    ----------
    n_channels : int
        Number of channels D.
    n_static : int, default=0
        Features of static covariates, which set the state that series start from.
    hidden_size : int, default=64
        Length H of the state.
    depth : int, default=2
        Depth of the log-signatures.
    stretch : int, default=1
        Observations of a stretch.
    rank : int, default=128
        Number of products in the field.
    head_size : int, default=64
        Width of the hidden layer of the head.
    max_gap : float, default=16.0
        Time without observations after which time stands still.
    generator : torch.Generator or None, default=None
        Source of the initial weights.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.models import NeuralRDE, pack
    >>> model = NeuralRDE(1, hidden_size=4, generator=torch.Generator().manual_seed(0)).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> model.features(model.embed(data))["state"].shape
    torch.Size([1, 4])
    """

    def __init__(
        self,
        n_channels: int,
        n_static: int = 0,
        hidden_size: int = 64,
        *,
        depth: int = 2,
        stretch: int = 1,
        rank: int = 128,
        head_size: int = 64,
        max_gap: float = 16.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.sizes = (n_channels, n_static, hidden_size)
        self.depth, self.stretch, self.max_gap = depth, stretch, max_gap
        n_entries = len(lyndon_words(1 + 2 * n_channels, depth))
        self.start = Start(n_static, hidden_size)
        n_inputs = 2 * n_channels + n_static
        self.enter = drawn(nn.Linear, n_inputs, hidden_size, generator=generator)
        self.field = nn.Sequential(
            drawn(nn.Linear, hidden_size, rank, generator=generator),
            nn.SiLU(),
            drawn(nn.Linear, rank, rank, generator=generator),
            nn.Tanh(),
        )
        self.project = drawn(nn.Linear, n_entries, rank, generator=generator, bias=False)
        self.collect = drawn(nn.Linear, rank, hidden_size, generator=generator, bias=False)
        nn.init.zeros_(self.collect.weight)  # the state stands still at first
        self.head = nn.Sequential(
            drawn(nn.Linear, hidden_size, head_size, generator=generator),
            nn.SiLU(),
            drawn(nn.Linear, head_size, n_channels, generator=generator),
        )

    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """State before the first observations: learned, with what static covariates say."""
        n, n_channels = len(rows), self.sizes[0]
        nothing = {"count": (1,), "value": (n_channels,), "since": (1,)}
        nothing |= {f"s{k}": (1 + 2 * n_channels,) * k for k in range(1, self.depth + 1)}
        state = {name: data.x.new_zeros(n, *shape) for name, shape in nothing.items()}
        return {"z": self.start(data, rows)} | state

    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps: time goes on."""
        before = state["since"]
        since = before + gap[:, None].to(before.dtype)
        passed = since.clamp(max=self.max_gap) - before.clamp(max=self.max_gap)
        still = passed.new_zeros(len(passed), 2 * self.sizes[0])
        return self._continued(state, torch.cat([passed, still], dim=1)) | {"since": since}

    def observe(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State after observations; as it was where nothing was observed."""
        x, mask = data.x[rows], data.mask[rows]
        seen = mask.to(x.dtype)
        step = torch.where(mask, x - state["value"], 0.0)
        # The first observations are where the path begins.
        first = (data.elapsed[rows] == 0)[:, None]
        begun = self.start(data, rows) + self.enter(observed_inputs(data, rows))
        jump = torch.cat([torch.zeros_like(step[:, :1]), step, seen], dim=1)
        moved = self._continued(state, torch.where(first, 0.0, jump))
        moved["z"] = torch.where(first, begun, state["z"])
        moved["count"] = state["count"] + (~first).to(x.dtype)
        new = {"value": state["value"] + step, "since": torch.zeros_like(state["since"])}
        return where_observed(mask, self._settled(moved) | new, state)

    def _continued(self, state: State, increment: torch.Tensor) -> State:
        """States whose path has gone on straight."""
        levels = continued(self._signature(state), increment)
        return state | {f"s{k}": level for k, level in enumerate(levels, start=1)}

    def _signature(self, state: State) -> Signature:
        return [state[f"s{k}"] for k in range(1, self.depth + 1)]

    def _settled(self, state: State) -> State:
        """States of stretches that are full, at the start of the next one."""
        full = (state["count"] >= self.stretch)[:, 0]
        if not full.any():
            return state
        names = ["z", "count", *(f"s{k}" for k in range(1, self.depth + 1))]
        at = (full.nonzero()[:, 0],)
        ended = {name: part[full] for name, part in state.items()}
        begun = {name: torch.zeros_like(ended[name]) for name in names} | {"z": self.now(ended)}
        return state | {name: state[name].index_put(at, begun[name]) for name in names}

    def now(self, state: State) -> torch.Tensor:
        """States (n, H) at the present moment: one Runge-Kutta step along the log-signature."""
        z, drive = state["z"], self.project(log_signature(self._signature(state)))

        def slope(z: torch.Tensor) -> torch.Tensor:
            return self.collect(self.field(z) * drive)

        k1 = slope(z)
        k2 = slope(z + k1 / 2)
        k3 = slope(z + k2 / 2)
        k4 = slope(z + k3)
        return z + (k1 + 2 * k2 + 2 * k3 + k4) / 6

    def predict(self, state: State) -> Prediction:
        """A network of the state at the present moment."""
        return Prediction(self.head(self.now(state)))

    def features(self, state: State) -> dict[str, torch.Tensor]:
        """The state at the present moment."""
        return {"state": self.now(state)}


def _arguments(model: NeuralRDE) -> dict[str, Any]:
    names = ("n_channels", "n_static", "hidden_size")
    return dict(zip(names, model.sizes, strict=True)) | {
        "depth": model.depth,
        "stretch": model.stretch,
        "rank": model.project.out_features,
        "head_size": model.head[0].out_features,
        "max_gap": model.max_gap,
    }


register_module(NeuralRDE, _arguments)
