"""S4 with true gaps: layers of diagonal state spaces, each exact over any gap.

Each of the H features of a layer drives a separate state, ``dx/dt = lambda x + s b u`` with complex
lambda and a speed s, which is read as ``y = 2 Re(C x) + D u``. The features are impulses at the
observations::

    x(t + g) = exp(lambda g) x(t),   x := x + s b u at the observation

This is the solution of the equation, for any gap g. The features u of the first layer are a map of
[m x, m, s, log(1 + gap)], with the mask m of an observation x and static covariates s; those of the
next layer are ``u + GLU(GELU(y))``, at the observation. Forecasts are a network of these
outputs of all layers, with the states at the forecast time. (A. Gu, A. Gupta, K. Goel, C. Re, "On
the parameterization and initialization of diagonal state space models", NeurIPS 2022; with the gap
in the exponential as in J. T. H. Smith, A. Warrington, S. W. Linderman, "Simplified state space
layers for sequence modeling", ICLR 2023.)

A pass over many observations goes layer by layer. Each computes everything except its recurrence,
which is linear, for all observations at once (:meth:`S4.run_from`).

The recurrence is then one complex product per step, in place, with an explicit gradient. Training
is on segments of series, since the model processes many observations at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from skpolyode.dynamics.field import drawn
from skpolyode.memory import LegTMemory, Memory
from skpolyode.models.contract import Packed, Prediction, Sizes, State, Step, join, select
from skpolyode.saving.modules import register_module
from skpolyode.siblings.base import (
    LONGEST,
    AgeHead,
    SiblingModel,
    SiblingTransformer,
    draw_normal,
    observed_inputs,
    where_observed,
)
from skpolyode.training.tasks import IntervalTask, Minibatches
from skpolyode.transformers.base import COUNT, DURATION, Duration

_SLOWLY = 0.1  # learning rate of eigenvalues and time scales, relative to that of other vectors


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
    generator : torch.Generator or None
        Source of the weights.
    """

    def __init__(self, n_features: int, n_pairs: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.log_speed = nn.Parameter(torch.empty(n_features, 1, 1, dtype=torch.float32))
        spectrum = torch.full((2, n_features, n_pairs), math.log(0.5), dtype=torch.float32)
        if not spectrum.is_meta:  # there arithmetic is slow, as in `draw_normal`
            spectrum[1] = math.pi * torch.arange(n_pairs)
            spectrum /= _SLOWLY
        self.spectrum = nn.Parameter(spectrum)
        # Complex numbers as two real ones, in the first dimension.
        self.b = nn.Parameter(torch.zeros(2, n_features, n_pairs, dtype=torch.float32))
        self.c = nn.Parameter(torch.empty(2, n_features, n_pairs, dtype=torch.float32))
        self.d = nn.Parameter(torch.empty(n_features, dtype=torch.float32))
        with torch.no_grad():
            self.b[0] = 1.0
            # Time scales of 1 to 100 units of time.
            low, high = math.log(0.01) / _SLOWLY, math.log(1.0) / _SLOWLY
            self.log_speed.uniform_(low, high, generator=generator)
            draw_normal(self.c, 0.5**0.5, generator)
            draw_normal(self.d, 1.0, generator)

    def rates(self) -> tuple[Tensor, Tensor]:
        """Complex rates lambda (H, K) with negative real parts, and speeds (H, 1)."""
        decay, frequency = (_SLOWLY * self.spectrum).unbind(0)
        speed = torch.exp(_SLOWLY * self.log_speed[..., 0])
        return torch.complex(-speed * torch.exp(decay), speed * frequency), speed

    def flow(self, x: Tensor, gap: Tensor) -> Tensor:
        """Exact states (n, 2, H, K) after gaps (n,)."""
        (c, s), (real, imaginary) = self.over(gap).unbind(1), x.unbind(1)
        return torch.stack([c * real - s * imaginary, s * real + c * imaginary], dim=1)

    def over(self, gap: Tensor) -> Tensor:
        """Complex factors ``exp(lambda gap)`` (n, 2, H, K) of states over gaps (n,)."""
        (rates, speed), (gap, row) = self.rates(), gap.unique(return_inverse=True)
        gap = gap.clamp(max=LONGEST).to(speed.dtype)[:, None, None]
        # Real arithmetic: complex functions of torch are several times slower.
        a, b = gap * rates.real, gap * rates.imag  # (gaps, H, K)
        cosine, sine, size = torch.cos(b), torch.sin(b), torch.exp(a)
        return torch.stack([size * cosine, size * sine], dim=1)[row]

    def scan(
        self, x: Tensor, u: Tensor, gap: Tensor, sizes: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """States before and after many observations, in time-major order, P together.

        Parameters
        ----------
        x : Tensor of shape (n, 2, H, K)
            States before the first observations.
        u : Tensor of shape (P, H)
            Features at the observations.
        gap : float64 Tensor of shape (P - n,)
            Gaps before the other observations.
        sizes : sequence of int
            Observations of each step, not increasing; the first is n.

        Returns
        -------
        before, after : Tensor of shape (P, 2, H, K)
        """
        turn = self.over(gap)
        kick = self.rates()[1] * self.b * u[:, None, :, None]  # (P, 2, H, K)
        after = LinearRecurrence.apply(x + kick[: sizes[0]], turn, kick[sizes[0] :], sizes)
        return after - kick, after

    def observe(self, x: Tensor, u: Tensor) -> Tensor:
        """States (n, 2, H, K) after observations with features `u` (n, H)."""
        _, speed = self.rates()
        return torch.addcmul(x, speed * self.b, u[:, None, :, None])

    def forward(self, x: Tensor, u: Tensor) -> Tensor:
        """Outputs (n, H) of states and features."""
        sign = x.new_tensor([1.0, -1.0])[:, None, None]
        # The sum over states is a product with ones: short sums of torch are ten times slower.
        real = (x * (sign * self.c)).sum(dim=1) @ x.new_ones(x.shape[-1])  # Re(C x)
        return 2 * real + self.d * u


def before_each(sizes: Sequence[int], device: torch.device) -> Tensor:
    """Positions (P - n,) of the predecessors of all rows after the first step of n rows.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each step, not increasing: series that continue come first.
    device : torch.device

    Examples
    --------
    >>> import torch
    >>> from skpolyode.siblings.s4 import before_each
    >>> before_each([3, 2, 2], torch.device("cpu")).tolist()
    [0, 1, 3, 4]
    """
    starts = np.cumsum([0, *sizes])
    later = [torch.arange(n, device=device) for n in sizes[1:]]
    parts = [int(start) + rows for start, rows in zip(starts, later, strict=False)]
    return torch.cat([torch.empty(0, dtype=torch.int64, device=device), *parts])


class LinearRecurrence(torch.autograd.Function):
    """Complex states ``y_0 = x``, ``y_k = turn_k y_{k-1} + push_k`` of series, all P rows at once.

    Complex numbers are pairs of real ones, in the second dimension. ``apply(x, turn, push, sizes)``
    takes `x` (n, 2, ...), `turn` and `push` (P - n, 2, ...) of the later rows, and the number of
    rows of each step, not increasing; it returns (P, 2, ...). The gradient is the backward
    recurrence with the conjugate of `turn`.

    Examples
    --------
    Two series, the second of which has one row less:

    >>> import torch
    >>> from skpolyode.siblings.s4 import LinearRecurrence
    >>> x, turn = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[0.0, 1.0]]).repeat(3, 1)
    >>> LinearRecurrence.apply(x, turn, torch.zeros(3, 2), [2, 2, 1]).tolist()
    [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 2.0], [-1.0, 0.0]]
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, turn: Tensor, push: Tensor, sizes: Sequence[int]) -> Tensor:
        """All states."""
        y = torch.cat([x, push])
        for before, now, moved in _steps(sizes):
            _add_product(y[now], turn[moved], y[before])
        ctx.save_for_backward(turn, y)
        ctx.sizes = sizes
        return y

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor, ...]:
        """Gradients of start, factors and additions."""
        turn, y = ctx.saved_tensors
        n, back, of_y = ctx.sizes[0], turn.clone(), given.clone()
        back[:, 1].neg_()
        for before, now, moved in reversed(_steps(ctx.sizes)):
            _add_product(of_y[before], back[moved], of_y[now])
        previous = y[before_each(ctx.sizes, y.device)]
        previous[:, 1].neg_()
        of_turn = torch.zeros_like(turn)
        _add_product(of_turn, previous, of_y[n:])
        return of_y[:n], of_turn, of_y[n:], None


def _steps(sizes: Sequence[int]) -> list[tuple[slice, slice, slice]]:
    """For each step but the first: the previous rows, its rows, and these without the first n."""
    starts, steps = np.cumsum([0, *sizes]).tolist(), []
    for earlier, (start, stop) in zip(starts, pairwise(starts[1:]), strict=False):
        moved = slice(start - sizes[0], stop - sizes[0])
        steps.append((slice(earlier, earlier + stop - start), slice(start, stop), moved))
    return steps


def _add_product(y: Tensor, a: Tensor, b: Tensor) -> None:
    """Add the complex products a b to y, in place."""
    (ar, ai), (br, bi) = a.unbind(1), b.unbind(1)
    y[:, 0].addcmul_(ar, br).addcmul_(ai, bi, value=-1)
    y[:, 1].addcmul_(ar, bi).addcmul_(ai, br)


class SegmentTask(IntervalTask):
    """Train on segments of series, with all updates in them, from their stored first states.

    An :class:`IntervalTask` runs over a few observations from each one. Here each observation is
    processed once, and its gradient reaches back to the start of its segment. That costs less if a
    model computes a segment at once.

    Parameters
    ----------
    model : SequenceModel
    data : Packed
        Training and validation series together.
    held_out : bool Tensor of shape (n_series,)
        Mask of series that only validate. If there are none, the training error is used.
    horizon : int, default=1
        Observations forecast from each one without updates in between.
    length : int, default=1
        Intervals of a segment.
    furthest : int, default=1
        As in :class:`IntervalTask`.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.models import pack
    >>> from skpolyode.siblings import S4
    >>> from skpolyode.siblings.s4 import SegmentTask
    >>> model = S4(1, hidden_size=4, generator=torch.Generator().manual_seed(0)).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> task = SegmentTask(model, data, torch.tensor([False]), length=64)
    >>> error = task.refresh()  # stores the states, before each epoch
    >>> abs(task.loss(torch.tensor([0])).item() - error) < 1e-12
    True
    """

    minibatches = Minibatches(32, smallest=8, n_most=1024)
    """Each observation is processed once, not four times, and stays in memory."""

    usual_length = 64

    forgotten_share = 0.0
    """Segments begin at their stored states."""

    def take(self, data: Packed, held_out: Tensor) -> None:
        """Continue with other series, whose states are not known yet."""
        super().take(data, held_out)
        starts = self.items[data.steps()[self.items] % self.length == 0]
        self.item_size = len(self.items) / len(starts) if len(starts) else 1.0
        self.items, self.n_stored = starts, len(starts)
        self.place = torch.full_like(data.series, -1)  # (P,), index of a row in the stored states
        self.place[starts] = torch.arange(len(starts), device=starts.device)

    def _store(self, rows: Tensor, states: State) -> None:
        """Store the states at the starts of segments."""
        place = self.place[rows]
        super()._store(place[place >= 0], select(states, place >= 0))

    def _stored(self, rows: Tensor) -> State:
        """States just before the first rows of segments, from the last refresh."""
        return select(self.states, self.place[rows])

    def loss(self, index: Tensor) -> Tensor:
        """Mean loss over all intervals of a minibatch of segments."""
        steps = [self.items[index]]
        for _ in range(self.length):
            steps.append(torch.where(steps[-1] >= 0, self.data.next[steps[-1]], -1))
        following = torch.stack(steps)  # (length + 1, n), -1 after the end of a series
        lengths = (following >= 0).sum(dim=0)
        following = following[:, lengths.argsort(descending=True, stable=True)]
        parts = [step for now in following if len(step := now[now >= 0])]
        steps = list(self.model.run_from(self._before(parts[0]), self.data, parts))
        updates = [self._update_loss(step.state, step.rows) for step in steps[:-1]]
        state, rows = join([step.before for step in steps[1:]]), torch.cat(parts[1:])
        columns = zip(*(step.prediction for step in steps[1:]), strict=True)
        prediction = Prediction(*(None if x[0] is None else torch.cat(x) for x in columns))
        loss = self._mean_loss(prediction, rows) + torch.stack(updates).mean()
        return self._with_leads(loss, 1.0, state, rows)


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
    memory: Memory | None = None
    head_size: int = 64

    @property
    def start_size(self) -> int:
        """Length of the learned inputs of all layers before the first observations."""
        return len(self.pairs) * self.hidden_size

    def _make_layers(self, generator: torch.Generator | None) -> None:
        hidden_size, n_channels = self.hidden_size, self.n_channels
        n_inputs = 2 * n_channels + self.n_static + 1
        if self.memory is not None:
            n_inputs += n_channels * self.memory.n_coefficients
        self.encoder = drawn(nn.Linear, n_inputs, hidden_size, generator=generator)
        self.layers = nn.ModuleList(
            DiagonalStateSpace(hidden_size, k, generator) for k in self.pairs
        )
        self.norms = nn.ModuleList(
            nn.LayerNorm(hidden_size, dtype=torch.float32) for _ in self.pairs
        )
        self.mixes = nn.ModuleList(
            drawn(nn.Linear, hidden_size, 2 * hidden_size, generator=generator) for _ in self.pairs
        )
        self.head = AgeHead(self.start_size, self.head_size, n_channels, generator)

    def initial(self, data: Packed, rows: Tensor) -> State:
        """Learned state before the first observations, which depends on static covariates."""
        n, zeros = len(rows), data.x.new_zeros
        r = self.start(data, rows).unflatten(1, (-1, self.hidden_size))  # (n, L, H)
        x = zeros(n, len(self.pairs), 2, self.hidden_size, self.pairs[0])
        state = {"x": x, "r": r, "since": zeros(n, 1)}
        if self.memory is not None:
            value = zeros(n, self.n_channels)
            state |= {"value": value, "c": self.memory.constant(value)}
        return state

    def flow(self, state: State, gap: Tensor, elapsed: Tensor) -> State:
        """State after gaps (n,)."""
        parts = zip(self.layers, state["x"].unbind(1), strict=True)
        x = torch.stack([layer.flow(x, gap) for layer, x in parts], dim=1)
        moved = {"x": x, "since": state["since"] + gap[:, None].to(x.dtype)}
        if self.memory is not None:
            moved["c"] = self.memory.hold(state["c"], state["value"], gap, elapsed)
        return state | moved

    def observe(self, state: State, data: Packed, rows: Tensor) -> State:
        """State after observations; unchanged where nothing was observed."""
        new, r = self._take_in(state, data, rows)
        xs, rs = [], []
        for k, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            rs.append(r)
            xs.append(layer.observe(state["x"][:, k], norm(r)))
            r = self._output(k, xs[-1], r)
        new |= {"x": torch.stack(xs, dim=1), "r": torch.stack(rs, dim=1)}
        return where_observed(data.mask[rows], new, state)

    def _take_in(self, state: State, data: Packed, rows: Tensor) -> tuple[State, Tensor]:
        """Time and memory after observations, and the features (n, H) of the first layer."""
        new = {"since": torch.zeros_like(state["since"])}
        parts = [observed_inputs(data, rows), torch.log1p(state["since"])]
        if self.memory is not None:
            new |= self._remember(state, data, rows)
            parts.append(new["c"].flatten(1))
        return new, self.encoder(torch.cat(parts, dim=1))

    def run_from(self, before: State, data: Packed, rows: list[Tensor]) -> Iterator[Step]:
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

    def _run_layers(self, start: State, data: Packed, parts: list[Tensor]) -> list[Step]:
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
    def _remembered(self, start: State, data: Packed, parts: list[Tensor]) -> State:
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

    def _remember(self, state: State, data: Packed, rows: Tensor) -> State:
        """The last values, and the memory of lines through them."""
        value = state["value"]
        rise = torch.where(data.mask[rows], data.x[rows] - value, 0.0)
        last = data.seen[rows], data.channel_gap[rows], data.elapsed[rows]
        return {"value": value + rise, "c": state["c"] + self.memory.take_in(rise, *last)}

    def _output(self, k: int, x: Tensor, r: Tensor) -> Tensor:
        """Output (n, H) of layer k, from its states and its inputs at the last observation."""
        y = self.layers[k](x, self.norms[k](r))
        return r + F.glu(self.mixes[k](F.gelu(y)), dim=1)

    def outputs(self, state: State) -> list[Tensor]:
        """Outputs (n, H) of all layers."""
        return [self._output(k, state["x"][:, k], state["r"][:, k]) for k in range(len(self.pairs))]

    def predict(self, state: State) -> Prediction:
        """A network of the outputs of all layers, and of the time since the last observation."""
        return Prediction(self.head(torch.cat(self.outputs(state), dim=1), state["since"]))

    def features(self, state: State) -> dict[str, Tensor]:
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
    memory : bool, default=False
        Whether a polynomial memory of the observations, joined by lines, is an input of the first
        layer and a part of the embedding: that of `HiPPOTransformer`, with 32 coefficients per
        channel. This is our reading of the "Extended-S4" of the PolyODE paper, which only gives the
        name.
    window : float, timedelta, str or "auto", default="auto"
        Length of the past in that memory, in the units of `times`. "auto" takes the length of the
        longest series of `fit` that is no outlier.
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
        "n_layers": [COUNT],
        "state_size": [COUNT],
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
        memory: bool = False,
        window: Duration = "auto",
        **training: Any,
    ) -> None:
        self.n_layers = n_layers
        self.state_size = state_size
        self.memory = memory
        self.window = window
        super().__init__(**training)

    def _model_options(self, sizes: Sizes) -> dict[str, Any]:
        if self.state_size % 2:
            raise ValueError(f"state_size must be even, got {self.state_size}.")
        return {
            "pairs": [self.state_size // 2] * self.n_layers,
            "memory": LegTMemory(32, sizes.window(self.window)) if self.memory else None,
        }
