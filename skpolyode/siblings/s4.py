r"""S4 with true gaps: layers of diagonal state spaces, each exact over any gap.

Each of the H features of a layer drives a separate state, ``dx/dt = lambda x + s b u`` with complex
lambda and a speed s, which is read as ``y = 2 Re(C x) + D u``. The features at an observation are
either held until the next one, or are an impulse at the observation::

    held:      x(t + g) = exp(lambda g) x(t) + (exp(lambda g) - 1) / lambda s b u
    impulses:  x(t + g) = exp(lambda g) x(t),   x := x + s b u at the observation

Both are the solutions of their equations, for any gap g. The features u of the first layer are a
map of [m x, m, s, log(1 + gap)], with the mask m of an observation x and static covariates s; those
of the next layer are ``u + GLU(GELU(y))``, at the observation. Forecasts are a network of these
outputs of all layers, with the states at the forecast time. (A. Gu, A. Gupta, K. Goel, C. Re, "On
the parameterization and initialization of diagonal state space models", NeurIPS 2022; with the gap
in the exponential as in J. T. H. Smith, A. Warrington, S. W. Linderman, "Simplified state space
layers for sequence modeling", ICLR 2023.)

A pass over many observations goes layer by layer. Each computes everything except its recurrence,
which is linear, for all observations at once (:meth:`S4.run_from`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import StrOptions
from torch import nn
from torch.nn import functional as F

from skpolyode.dynamics.field import drawn
from skpolyode.memory import LegTMemory, Memory
from skpolyode.models.contract import Packed, Prediction, Sizes, State, Step, join, select
from skpolyode.saving.modules import register_module
from skpolyode.siblings.base import SiblingModel, SiblingTransformer
from skpolyode.siblings.layers import AgeHead, observed_inputs, where_observed
from skpolyode.siblings.segment import SegmentTask
from skpolyode.siblings.state_space import DiagonalStateSpace, before_each
from skpolyode.transformers.base import COUNT, DURATION, Duration

_AT_ONCE = 2**20  # most numbers in the states of the observations of one pass


@register_module
@dataclass(eq=False, repr=False, kw_only=True)
class S4(SiblingModel):
    """Layers of diagonal state spaces.

    With L layers of H features and K pairs of states the state has the parts `x` (n, L, 2, H, K),
    real and imaginary parts, the inputs `r` (n, L, H) of the layers at the last observation, and
    the time `since` then (n, 1). With a memory also the last values `value` (n, D) and their
    coefficients `c` (n, D, N).

    Parameters
    ----------
    n_channels : int
        Number D of channels.
    n_static : int, default=0
        Features of static covariates: they set the start, and are inputs.
    hidden_size : int, default=64
        Number H of features of a layer.
    generator : torch.Generator or None, default=None
        Source of the initial weights.
    pairs : sequence of int, default=(8, 8)
        Number K of complex states of each feature, the same for each layer.
    inputs : {"held", "impulses"}, default="held"
        Whether features are held until the next observation, or are impulses.
    memory : Memory or None, default=None
        Measure of a memory of the observations, joined by lines; its coefficients are inputs of
        the first layer.
    head_size : int, default=64
        Width of the hidden layer of the head.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.models import pack
    >>> from skpolyode.siblings import S4
    >>> generator = torch.Generator().manual_seed(0)
    >>> model = S4(1, hidden_size=4, pairs=(3,), generator=generator).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> {name: tuple(part.shape) for name, part in model.embed(data).items()}
    {'x': (1, 1, 2, 4, 3), 'r': (1, 1, 4), 'since': (1, 1)}
    """

    pairs: Sequence[int] = (8, 8)
    inputs: str = "held"
    memory: Memory | None = None
    head_size: int = 64

    @property
    def start_size(self) -> int:
        """Length of the learned inputs of all layers before the first observations."""
        return len(self.pairs) * self.hidden_size

    def _make_layers(self, generator: torch.Generator | None) -> None:
        hidden_size, n_channels, held = self.hidden_size, self.n_channels, self.inputs == "held"
        n_inputs = 2 * n_channels + self.n_static + 1
        if self.memory is not None:
            n_inputs += n_channels * self.memory.n_coefficients
        self.encoder = drawn(nn.Linear, n_inputs, hidden_size, generator=generator)
        self.layers = nn.ModuleList(
            DiagonalStateSpace(hidden_size, k, held, generator) for k in self.pairs
        )
        self.norms = nn.ModuleList(
            nn.LayerNorm(hidden_size, dtype=torch.float32) for _ in self.pairs
        )
        self.mixes = nn.ModuleList(
            drawn(nn.Linear, hidden_size, 2 * hidden_size, generator=generator) for _ in self.pairs
        )
        self.head = AgeHead(self.start_size, self.head_size, n_channels, generator)

    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """Learned state before the first observations, which depends on static covariates."""
        n, zeros = len(rows), data.x.new_zeros
        r = self.start(data, rows).unflatten(1, (-1, self.hidden_size))  # (n, L, H)
        x = zeros(n, len(self.pairs), 2, self.hidden_size, self.pairs[0])
        state = {"x": x, "r": r, "since": zeros(n, 1)}
        if self.memory is not None:
            value = zeros(n, self.n_channels)
            state |= {"value": value, "c": self.memory.constant(value)}
        return state

    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps (n,)."""
        parts = state["x"].unbind(1), state["r"].unbind(1)
        columns = zip(self.layers, self.norms, *parts, strict=True)
        x = torch.stack([layer.flow(x, norm(r), gap) for layer, norm, x, r in columns], dim=1)
        moved = {"x": x, "since": state["since"] + gap[:, None].to(x.dtype)}
        if self.memory is not None:
            moved["c"] = self.memory.hold(state["c"], state["value"], gap, elapsed)
        return state | moved

    def observe(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State after observations; unchanged where nothing was observed."""
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
        """Time and memory after observations, and the features (n, H) of the first layer."""
        new = {"since": torch.zeros_like(state["since"])}
        parts = [observed_inputs(data, rows), torch.log1p(state["since"])]
        if self.memory is not None:
            new |= self._remember(state, data, rows)
            parts.append(new["c"].flatten(1))
        return new, self.encoder(torch.cat(parts, dim=1))

    def run_from(self, before: State, data: Packed, rows: list[torch.Tensor]) -> Iterator[Step]:
        """Run over segments of series, layer by layer, each for many observations at once.

        See :meth:`~skpolyode.models.SequenceModel.run_from`.
        """
        if not data.mask[torch.cat(rows)].any(dim=1).all():  # rows without values change no state
            yield from super().run_from(before, data, rows)
            return
        numbers = 2 * len(self.layers) * self.hidden_size * self.pairs[0]  # in one state
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
        """Steps of a few observations together, from the states before the first ones."""
        sizes, rows = [len(now) for now in parts], torch.cat(parts)
        gap, earlier = data.gap[rows[sizes[0] :]], before_each(sizes, rows.device)
        since = torch.cat([start["since"], gap[:, None].to(data.x.dtype)])  # (P, 1)
        times = {"since": since}
        if self.memory is not None:
            times |= self._remembered(start, data, parts)
        after, r = self._take_in(times, data, rows)  # r (P, H)
        columns = []  # of each layer: states and inputs before the observations, and after them
        for k, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            r_before = torch.cat([start["r"][:, k], r[earlier]])  # (P, H)
            x_before, x_after = layer.scan(start["x"][:, k], norm(r), gap, sizes)  # (P, 2, H, K)
            columns.append((x_before, r_before, x_after, r))
            r = self._output(k, x_after, r)
        x_before, r_before, x_after, r_after = (
            torch.stack(parts, dim=1) for parts in zip(*columns, strict=True)
        )
        before = {"x": x_before, "r": r_before} | times
        after = {"x": x_after, "r": r_after} | after

        def split(state: State) -> list[State]:
            steps = zip(*(part.split(sizes) for part in state.values()), strict=True)
            return [dict(zip(state, now, strict=True)) for now in steps]

        predictions = map(Prediction, self.predict(before).mean.split(sizes))
        columns = zip(parts, split(before), predictions, split(after), strict=True)
        return [Step(*column) for column in columns]

    @torch.no_grad()
    def _remembered(self, start: State, data: Packed, parts: list[torch.Tensor]) -> State:
        """Last values and memory before all observations; they do not depend on weights."""
        state, before = {name: start[name] for name in ("value", "c")}, []
        for k, now in enumerate(parts):
            if k:
                value, c = (state[name][: len(now)] for name in ("value", "c"))
                held = self.memory.hold(c, value, data.gap[now], data.elapsed[now])
                state = {"value": value, "c": held}
            before.append(state)
            state = self._remember(state, data, now)
        return join(before)

    def _remember(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """The last values, and the memory of lines through them."""
        value = state["value"]
        rise = torch.where(data.mask[rows], data.x[rows] - value, 0.0)
        last = data.seen[rows], data.channel_gap[rows], data.elapsed[rows]
        return {"value": value + rise, "c": state["c"] + self.memory.take_in(rise, *last)}

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


class S4Transformer(SiblingTransformer):
    """Embed irregular series by layers of diagonal state spaces, exact over true gaps (S4).

    In each layer features drive linear states, by the exact solution over every gap, and outputs of
    the states are mixed. The embedding is the output of the last layer at the last observation.

    Use it for long series in which more than the recent past helps to forecast: its states decay at
    different speeds, within one to a hundred observations. Layers are computed for many
    observations at once, and training goes through segments of up to 64 of them: `batch_size`
    counts their intervals, and "auto" makes 32 minibatches per epoch; ``n_items`` of `history_`
    counts segments.

    Parameters
    ----------
    n_layers : int, default=2
        Number of layers.
    state_size : int, default=8
        Length of the state of each feature, in real numbers; even. Raise it for long series.
    inputs : {"impulses", "held"}, default="impulses"
        How features drive the states: as "impulses" at observations, or "held" until the next one.
        Choose "held" where the signal moves in steps.
    memory : bool, default=False
        Whether a polynomial memory of the observations, joined by lines, is an input of the first
        layer and a part of the embedding: that of `HiPPOTransformer`, with 32 coefficients per
        channel. This is our reading of the "Extended-S4" of the PolyODE paper, which only gives the
        name.
    window : float, timedelta, str or "auto", default="auto"
        Length of the past in that memory, in the units of `times`. "auto" takes the length of the
        longest series of `fit`.
    hidden_size : int or "auto", default="auto"
        Number of features of each layer, and of the embedding. "auto" takes 32 per channel, as many
        as `PolyODETransformer` has coefficients, but no more than 256.
    %(training)s

    Attributes
    ----------
    %(trained)s

    See Also
    --------
    HiPPORNNTransformer : A gated cell with a memory of polynomials.

    Notes
    -----
    For each feature u of a layer, with the gap g to the next observation::

        dx/dt = lambda x + s b u,   y = 2 Re(C x) + D u,   next u = u + GLU(W GELU(y))

    ``lambda`` has negative real parts, s is a learned speed; layers are normalised first. The first
    features are a map of values, mask, static covariates and gap. Forecasts are a network of the
    outputs of all layers, with the states at the forecast time.

    The cost is two complex products per state, layer and observation, for any gap. Static
    covariates also set the initial features.

    References
    ----------
    A. Gu, K. Goel and C. Re, "Efficiently modeling long sequences with structured state spaces",
    ICLR 2022; A. Gu, A. Gupta, K. Goel and C. Re, "On the parameterization and initialization of
    diagonal state space models", NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import S4Transformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> transformer = S4Transformer(hidden_size=8, state_size=4, max_epochs=2, random_state=0)
    >>> transformer.fit_transform(series).shape
    (6, 8)
    >>> transformer.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **SiblingTransformer._parameter_constraints,
        "n_layers": [COUNT],
        "state_size": [COUNT],
        "inputs": [StrOptions({"held", "impulses"})],
        "memory": ["boolean"],
        "window": DURATION,
    }

    task = SegmentTask
    model = S4

    def __init__(
        self,
        *,
        n_layers: int = 2,
        state_size: int = 8,
        inputs: str = "impulses",
        memory: bool = False,
        window: Duration = "auto",
        **training: Any,
    ) -> None:
        self.n_layers = n_layers
        self.state_size = state_size
        self.inputs = inputs
        self.memory = memory
        self.window = window
        super().__init__(**training)

    def _model_options(self, sizes: Sizes) -> dict[str, Any]:
        if self.state_size % 2:
            raise ValueError(f"state_size must be even, got {self.state_size}.")
        return {
            "pairs": [self.state_size // 2] * self.n_layers,
            "inputs": self.inputs,
            "memory": LegTMemory(32, sizes.window(self.window)) if self.memory else None,
        }
