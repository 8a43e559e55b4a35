r"""S4 with true gaps: layers of diagonal state spaces, each exact over any gap.

Each of H features of a layer drives a state of its own, ``dx/dt = lambda x + s b u`` with complex
lambda and a speed s, and is read back as ``y = 2 Re(C x) + D u``. What the features were at the
last observation either goes on until the next one ("held"), or is an impulse at the observation
("impulses")::

    held:      x(t + g) = exp(lambda g) x(t) + (exp(lambda g) - 1) / lambda s b u
    impulses:  x(t + g) = exp(lambda g) x(t),   x := x + s b u at the observation

Both are the solutions of their equations, for any gap g. The features u of the first layer are a
map of [m x, m, s, log(1 + gap)], with the mask m of an observation x and static covariates s; those
of the next layer are ``u + GLU(GELU(y))``, at the observation. Forecasts are a network of these
outputs of all layers, with the states as they are by then. (A. Gu, A. Gupta, K. Goel, C. Re, "On
the parameterization and initialization of diagonal state space models", NeurIPS 2022; with the gap
in the exponential as in J. T. H. Smith, A. Warrington, S. W. Linderman, "Simplified state space
layers for sequence modeling", ICLR 2023.)

The pass over many observations goes layer by layer: all that is not the recurrence itself, which is
linear, is computed for all of them at once (:meth:`S4.run_from`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from skpolyode.memory import Memory
from skpolyode.models.contract import Prediction, SequenceModel, State, Step, join, select
from skpolyode.models.followed import corrected
from skpolyode.models.layers import (
    AgeHead,
    Start,
    drawn,
    observed_inputs,
    where_observed,
)
from skpolyode.models.packed import Packed
from skpolyode.models.recurrence import LinearRecurrence, before_each
from skpolyode.saving.modules import register_module

__all__ = ["S4", "DiagonalStateSpace"]

_SPEEDS = (0.01, 1.0)  # between which time scales are drawn, one over units of time
_FORGOTTEN = 1e9  # units of time, after which nothing is left of a state
_SLOWLY = 0.1  # of the step of other vectors: how fast eigenvalues and time scales learn
_AT_ONCE = 2**20  # numbers in the states of the observations that a pass takes together


class DiagonalStateSpace(nn.Module):
    r"""State spaces of H features, ``dx/dt = lambda x + s b u``, ``y = 2 Re(C x) + D u``.

    ``lambda = s (-exp(a) + i w)`` with a speed s of each feature. At first ``exp(a) = 1/2`` and
    ``w = 0, pi, 2 pi, ...`` (S4D-Lin), b is one, C is random.

    Parameters
    ----------
    n_features : int
        Number H of features.
    n_pairs : int
        Number K of complex states of each feature.
    is_held : bool
        Whether a feature goes on after an observation, or is an impulse at it.
    generator : torch.Generator or None
        Source of the weights.
    """

    def __init__(
        self, n_features: int, n_pairs: int, is_held: bool, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.is_held = is_held
        low, high = (math.log(speed) / _SLOWLY for speed in _SPEEDS)
        self.log_speed = nn.Parameter(torch.empty(n_features, 1, 1))
        decay = torch.full((n_features, n_pairs), math.log(0.5))
        frequency = math.pi * torch.arange(n_pairs).expand(n_features, -1)
        self.spectrum = nn.Parameter(torch.stack([decay, frequency]) / _SLOWLY)
        # Complex numbers as two real ones, in front.
        self.b = nn.Parameter(torch.stack([torch.ones_like(decay), torch.zeros_like(decay)]))
        self.c = nn.Parameter(torch.empty(2, n_features, n_pairs))
        self.d = nn.Parameter(torch.empty(n_features))
        with torch.no_grad():
            self.log_speed.uniform_(low, high, generator=generator)
            self.c.normal_(0, 0.5**0.5, generator=generator)
            self.d.normal_(generator=generator)

    def rates(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Complex rates lambda (H, K), all of which decay, and speeds (H, 1)."""
        decay, frequency = (_SLOWLY * self.spectrum).unbind(0)
        speed = torch.exp(_SLOWLY * self.log_speed[..., 0])
        return torch.complex(-speed * torch.exp(decay), speed * frequency), speed

    def flow(self, x: torch.Tensor, u: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        """States (n, 2, H, K) after gaps (n,), exactly; `u` (n, H) goes on if it is held."""
        turn, weight = self.over(gap)
        (c, s), (real, imaginary) = turn.unbind(1), x.unbind(1)
        moved = torch.stack([c * real - s * imaginary, s * real + c * imaginary], dim=1)
        return moved if weight is None else torch.addcmul(moved, weight, u[:, None, :, None])

    def over(self, gap: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """What gaps (n,) multiply states by, and held features: complex, (n, 2, H, K)."""
        (rates, speed), (gap, row) = self.rates(), gap.unique(return_inverse=True)
        gap = gap.clamp(max=_FORGOTTEN).to(speed.dtype)[:, None, None]
        # In real numbers: complex functions of torch take several times as long.
        a, b = gap * rates.real, gap * rates.imag  # (gaps, H, K)
        cosine, sine, size = torch.cos(b), torch.sin(b), torch.exp(a)
        turn = torch.stack([size * cosine, size * sine], dim=1)[row]  # exp(lambda gap)
        if not self.is_held:
            return turn, None
        # exp(lambda gap) - 1, to rounding also of short gaps
        less = torch.expm1(a) * cosine - 2 * torch.sin(b / 2).square(), size * sine
        factor = speed * torch.complex(*self.b) / rates
        p, q = factor.real, factor.imag
        weight = torch.stack([p * less[0] - q * less[1], q * less[0] + p * less[1]], dim=1)
        return turn, weight[row]

    def scan(
        self, x: torch.Tensor, u: torch.Tensor, gap: torch.Tensor, sizes: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """States before and after many observations, in time-major order, P together.

        Parameters
        ----------
        x : Tensor of shape (n, 2, H, K)
            States before the first observations.
        u : Tensor of shape (P, H)
            Features that the observations make.
        gap : float64 Tensor of shape (P - n,)
            Gaps before the other observations.
        sizes : sequence of int
            Observations of each step, which do not increase; the first are n.

        Returns
        -------
        before, after : Tensor of shape (P, 2, H, K)
        """
        turn, weight = self.over(gap)
        if weight is not None:
            push = weight * u[before_each(sizes, u.device), None, :, None]
            before = after = LinearRecurrence.apply(x, turn, push, sizes)
        else:
            kick = self.rates()[1] * self.b * u[:, None, :, None]
            after = LinearRecurrence.apply(x + kick[: sizes[0]], turn, kick[sizes[0] :], sizes)
            before = after - kick
        return before, after

    def observe(self, x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """States (n, 2, H, K) after observations that made the features `u` (n, H)."""
        if self.is_held:
            return x
        _, speed = self.rates()
        return torch.addcmul(x, speed * self.b, u[:, None, :, None])

    def forward(self, x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """Outputs (n, H) of states and features."""
        sign = x.new_tensor([1.0, -1.0])[:, None, None]
        # The sum over states as a product with ones: short sums of torch take ten times as long.
        real = (x * (sign * self.c)).sum(dim=1) @ x.new_ones(x.shape[-1])  # Re(C x)
        return 2 * real + self.d * u


class S4(SequenceModel):
    """Layers of diagonal state spaces, over packed observations.

    With L layers of H features and K pairs of states the state has the parts `x` (n, L, 2, H, K),
    real and imaginary parts, the inputs `r` (n, L, H) of the layers at the last observation, and
    the time `since` then (n, 1). With a memory also the last values `value` (n, D) and their
    coefficients `c` (n, D, N).

    Parameters
    ----------
    n_channels : int
        Number of channels D.
    n_static : int, default=0
        Features of static covariates: they set the start, and are inputs.
    hidden_size : int, default=64
        Number H of features of a layer.
    pairs : sequence of int, default=(8, 8)
        Number K of complex states of each feature, the same one for each layer.
    inputs : {"held", "impulses"}, default="held"
        What the features of an observation are until the next one.
    memory : Memory or None, default=None
        Measure of a memory of the observations, joined by lines; its coefficients are inputs of
        the first layer.
    head_size : int, default=64
        Width of the hidden layer of the head.
    generator : torch.Generator or None, default=None
        Source of the initial weights.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.models import S4, pack
    >>> generator = torch.Generator().manual_seed(0)
    >>> model = S4(1, hidden_size=4, pairs=(3,), generator=generator).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> {name: tuple(part.shape) for name, part in model.embed(data).items()}
    {'x': (1, 1, 2, 4, 3), 'r': (1, 1, 4), 'since': (1, 1)}
    """

    def __init__(
        self,
        n_channels: int,
        n_static: int = 0,
        hidden_size: int = 64,
        *,
        pairs: Sequence[int] = (8, 8),
        inputs: str = "held",
        memory: Memory | None = None,
        head_size: int = 64,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.sizes = (n_channels, n_static, hidden_size)
        self.pairs, self.inputs, self.memory = list(pairs), inputs, memory
        n_layers = len(self.pairs)
        n_inputs = 2 * n_channels + n_static + 1
        if memory is not None:
            n_inputs += n_channels * memory.n_coefficients
        self.start = Start(n_static, n_layers * hidden_size)
        self.encoder = drawn(nn.Linear, n_inputs, hidden_size, generator=generator)
        self.layers = nn.ModuleList(
            DiagonalStateSpace(hidden_size, k, inputs == "held", generator) for k in self.pairs
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden_size) for _ in self.pairs)
        self.mixes = nn.ModuleList(
            drawn(nn.Linear, hidden_size, 2 * hidden_size, generator=generator) for _ in self.pairs
        )
        self.head = AgeHead(n_layers * hidden_size, head_size, n_channels, generator)

    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """State before the first observations: learned, with what static covariates say."""
        n, (n_channels, _, size) = len(rows), self.sizes
        x = data.x.new_zeros(n, len(self.layers), 2, size, self.pairs[0])
        r = self.start(data, rows).unflatten(1, (-1, size))
        state = {"x": x, "r": r, "since": data.x.new_zeros(n, 1)}
        if self.memory is not None:
            value = data.x.new_zeros(n, n_channels)
            state |= {"value": value, "c": self._memory(value).constant(value)}
        return state

    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps."""
        x = torch.stack(
            [
                layer.flow(state["x"][:, k], norm(state["r"][:, k]), gap)
                for k, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True))
            ],
            dim=1,
        )
        moved = {"x": x, "since": state["since"] + gap[:, None].to(x.dtype)}
        if self.memory is not None:
            moved["c"] = self._memory(x).hold(state["c"], state["value"], gap, elapsed)
        return state | moved

    def observe(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State after observations; as it was where nothing was observed."""
        new, r = self._take_in(state, data, rows)
        xs, rs = [], []
        for k, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            rs.append(r)
            xs.append(layer.observe(state["x"][:, k], norm(r)))
            r = self._output(k, xs[-1], r)
        new |= {"x": torch.stack(xs, dim=1), "r": torch.stack(rs, dim=1)}
        return where_observed(data.mask[rows], new, state)

    def _take_in(
        self, state: State, data: Packed, rows: torch.Tensor
    ) -> tuple[State, torch.Tensor]:
        """Time and memory after observations, and the features (n, H) that these make."""
        new = {"since": torch.zeros_like(state["since"])}
        parts = [observed_inputs(data, rows), torch.log1p(state["since"])]
        if self.memory is not None:
            new |= self._remember(state, data, rows)
            parts.append(new["c"].flatten(1))
        return new, self.encoder(torch.cat(parts, dim=1))

    def run_from(self, before: State, data: Packed, rows: list[torch.Tensor]) -> Iterator[Step]:
        """Run over parts of series, a layer after the other: each for many observations at once.

        See :meth:`~skpolyode.models.SequenceModel.run_from`.
        """
        if not data.mask[torch.cat(rows)].any(dim=1).all():  # some change no state
            yield from super().run_from(before, data, rows)
            return
        numbers = 2 * len(self.layers) * self.sizes[2] * self.pairs[0]
        piece = [stop * numbers // _AT_ONCE for stop in accumulate(len(now) for now in rows)]
        cuts = [0, *(k for k in range(1, len(rows)) if piece[k] > piece[k - 1]), len(rows)]
        steps: list[Step] = []
        for start, stop in pairwise(cuts):
            if start:
                going_on = select(steps[-1].state, slice(0, len(rows[start])))
                gap, elapsed = data.gap[rows[start]], data.elapsed[rows[start]]
                before = self.flow(going_on, gap, elapsed)
            steps = self._run_layers(before, data, rows[start:stop])
            yield from steps

    def _run_layers(self, start: State, data: Packed, parts: list[torch.Tensor]) -> list[Step]:
        """Steps of few observations together, from the states before the first ones."""
        sizes, rows = [len(now) for now in parts], torch.cat(parts)
        gap, earlier = data.gap[rows[sizes[0] :]], before_each(sizes, rows.device)
        since = torch.cat([start["since"], gap[:, None].to(data.x.dtype)])
        times = {"since": since}
        if self.memory is not None:
            times |= self._remembered(start, data, parts)
        after, r = self._take_in(times, data, rows)
        xs: dict[str, list[torch.Tensor]] = {"before": [], "after": []}
        rs: dict[str, list[torch.Tensor]] = {"before": [], "after": []}
        for k, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            rs["after"].append(r)
            rs["before"].append(torch.cat([start["r"][:, k], r[earlier]]))
            x_before, x_after = layer.scan(start["x"][:, k], norm(r), gap, sizes)
            xs["before"].append(x_before)
            xs["after"].append(x_after)
            r = self._output(k, x_after, r)
        pair = [
            {"x": torch.stack(xs[name], dim=1), "r": torch.stack(rs[name], dim=1)} | own
            for name, own in (("before", times), ("after", after))
        ]
        means = self.predict(pair[0]).mean.split(sizes)
        before, after = (
            [
                dict(zip(state, now, strict=True))
                for now in zip(*(x.split(sizes) for x in state.values()), strict=True)
            ]
            for state in pair
        )
        columns = zip(parts, before, map(Prediction, means), after, strict=True)
        return [Step(*column) for column in columns]

    @torch.no_grad()
    def _remembered(self, start: State, data: Packed, parts: list[torch.Tensor]) -> State:
        """Last values and memory before all observations: no weights have a part in them."""
        state, before = {name: start[name] for name in ("value", "c")}, []
        for k, now in enumerate(parts):
            if k:
                value, c = (state[name][: len(now)] for name in ("value", "c"))
                held = self._memory(value).hold(c, value, data.gap[now], data.elapsed[now])
                state = {"value": value, "c": held}
            before.append(state)
            state = self._remember(state, data, now)
        return join(before)

    def _remember(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """The last values, and the memory of lines through them."""
        value = state["value"]
        rise = torch.where(data.mask[rows], data.x[rows] - value, 0.0)
        c = state["c"] + corrected(self._memory(value), rise, data, rows)
        return {"value": value + rise, "c": c}

    def _memory(self, like: torch.Tensor) -> Memory:
        """The memory, where the model computes and in its type."""
        assert self.memory is not None
        return self.memory.to(like.device, like.dtype)

    def _output(self, k: int, x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        """Output (n, H) of layer k, from its states and its inputs at the last observation."""
        y = self.layers[k](x, self.norms[k](r))
        return r + F.glu(self.mixes[k](F.gelu(y)), dim=1)

    def outputs(self, state: State) -> list[torch.Tensor]:
        """Outputs (n, H) of all layers."""
        return [self._output(k, state["x"][:, k], state["r"][:, k]) for k in range(len(self.pairs))]

    def predict(self, state: State) -> Prediction:
        """A network of the outputs of all layers, and of the time since the last observation."""
        return Prediction(self.head(torch.cat(self.outputs(state), dim=1), state["since"]))

    def features(self, state: State) -> dict[str, torch.Tensor]:
        """Output of the last layer (n, H), and the memory of the observations (n, D, N)."""
        blocks = {"output": self.outputs(state)[-1]}
        return blocks if self.memory is None else {"coefficients": state["c"]} | blocks


def _arguments(model: S4) -> dict[str, Any]:
    names = ("n_channels", "n_static", "hidden_size")
    return dict(zip(names, model.sizes, strict=True)) | {
        "pairs": model.pairs,
        "inputs": model.inputs,
        "memory": model.memory,
        "head_size": model.head.inner.out_features,
    }


register_module(S4, _arguments)
