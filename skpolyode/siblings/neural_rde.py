"""Neural RDE: a state driven by log-signatures of the observations; with depth 1, a Neural CDE.

The observations are a path X of 1 + 2 D dimensions: time, and the last value and the number of
observations of each channel. It is causal: between observations only time advances, and values and
counts step at observations. From each observation to the next its log-signature l drives the state
along a learned field that is linear in l::

    dz/ds = F(z) l for s in [0, 1],   F(z) l = W (f(z) * P l),   f a network that ends in tanh

At any time the state is that at the last observation, moved by the log-signature since then:
forecasts need no interpolation, and use no later data. (J. Morrill, C. Salvi, P. Kidger,
J. Foster, T. Lyons, "Neural rough differential equations for long time series", ICML 2021; P.
Kidger and others, "Neural controlled differential equations for irregular time series", NeurIPS
2020.)

A field with a matrix for each of the b entries of l would have H times b outputs; b is 285 for four
channels at depth 3. Products with `P l` are a tensor of lower rank.

The signature of a path X in v dimensions is, to depth n, the tensors of its iterated integrals,
``S_k = int_{t1 < .. < tk} dX(t1) x .. x dX(tk)``, k = 1..n. For a straight piece with increment d
it is ``d^k / k!``, and the signature of a continued path is the product with that of the new piece
(Chen's identity). The logarithm of the signature contains the same in fewer numbers: increments,
areas between pairs of dimensions, and so on. Here these are its entries at the Lyndon words; all
others are combinations of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval
from torch import Tensor, nn

from skpolyode.dynamics.field import drawn
from skpolyode.models.contract import Packed, Prediction, Sizes, State
from skpolyode.saving.modules import register_module
from skpolyode.siblings.base import (
    SiblingModel,
    SiblingTransformer,
    hidden_layer,
    observed_inputs,
    where_observed,
)

Signature = list[Tensor]
"""Levels of n signatures: (n, v), (n, v, v), (n, v, v, v), ..."""


def trivial(n: int, n_dims: int, depth: int, like: Tensor) -> Signature:
    """Signatures of n paths of length zero."""
    return [like.new_zeros(n, *[n_dims] * k) for k in range(1, depth + 1)]


def continued(signature: Signature, increment: Tensor) -> Signature:
    """Signatures of paths, continued by linear increments (n, v).

    Examples
    --------
    A step to the right and one upwards enclose an area of 1/2:

    >>> import torch
    >>> from skpolyode.siblings.neural_rde import continued, log_signature, trivial
    >>> right, up = torch.eye(2)[:, None]
    >>> signature = trivial(1, 2, 2, like=right)
    >>> log_signature(continued(continued(signature, right), up))
    tensor([[1.0000, 1.0000, 0.5000]])
    """
    result = []
    for k in range(1, len(signature) + 1):
        # Horner: (((d / k + S_1) d / (k - 1) + S_2) d / (k - 2) + ..) + S_k
        level = increment / k
        for j in range(1, k):
            level = _outer(signature[j - 1] + level, increment / (k - j))
        result.append(signature[k - 1] + level)
    return result


def log_signature(signature: Signature) -> Tensor:
    """Entries (n, b) of the logarithms at the Lyndon words, by their lengths."""
    depth, n_dims = len(signature), signature[0].shape[1]
    total, power = list(signature), list(signature)
    for order in range(2, depth + 1):  # log(1 + S) = S - S^2 / 2 + S^3 / 3 ..
        power = _product(power, signature)
        total = [x + (-1) ** (order + 1) / order * p for x, p in zip(total, power, strict=True)]
    entries = [level.flatten(1)[:, _places(n_dims, k)] for k, level in enumerate(total, start=1)]
    return torch.cat(entries, dim=1)


def n_words(n_dims: int, depth: int) -> int:
    """Number of words that :func:`lyndon_words` returns, up to a length of three.

    Examples
    --------
    >>> from skpolyode.siblings.neural_rde import n_words
    >>> n_words(2, 3)
    5
    """
    if depth not in (1, 2, 3):
        raise ValueError(f"depth must be 1, 2 or 3, got {depth}.")
    # Lyndon words of a prime length k are the words of unequal letters, up to rotation.
    return n_dims + sum((n_dims**k - n_dims) // k for k in range(2, depth + 1))


def lyndon_words(n_dims: int, depth: int) -> list[tuple[int, ...]]:
    """Lyndon words up to length `depth`, by length, then in lexicographic order (Duval).

    Examples
    --------
    >>> from skpolyode.siblings.neural_rde import lyndon_words
    >>> lyndon_words(2, 3)
    [(0,), (1,), (0, 1), (0, 0, 1), (0, 1, 1)]
    """
    words, word = [], [-1]
    while word:
        word[-1] += 1
        words.append(tuple(word))
        word = [word[k % len(word)] for k in range(depth)]
        while word and word[-1] == n_dims - 1:
            word.pop()
    return sorted(words, key=lambda word: (len(word), word))


@lru_cache(maxsize=64)
def _places(n_dims: int, length: int) -> list[int]:
    """Positions of the Lyndon words of a length in a flat level."""
    words = [word for word in lyndon_words(n_dims, length) if len(word) == length]
    return [sum(d * n_dims ** (length - 1 - k) for k, d in enumerate(word)) for word in words]


def _outer(x: Tensor, y: Tensor) -> Tensor:
    """Tensor products, row by row."""
    flat = x.flatten(1)[:, :, None] * y.flatten(1)[:, None, :]
    return flat.reshape(len(x), *x.shape[1:], *y.shape[1:])


def _product(x: Signature, y: Signature) -> Signature:
    """Products of tensor series without constant parts."""
    levels = []
    for k in range(len(x)):
        level = torch.zeros_like(x[k])
        for j in range(k):
            level = level + _outer(x[j], y[k - 1 - j])
        levels.append(level)
    return levels


@register_module
@dataclass(eq=False, repr=False, kw_only=True)
class NeuralRDE(SiblingModel):
    """A state driven by log-signatures of the observed path.

    The state has the parts `z` (n, H) at the last observation, the signature of the path since then
    as `s1` (n, V), `s2` (n, V, V), .. with V = 1 + 2 D, the last values `value` (n, D), and the
    time `since` the last observation (n, 1).

    Parameters
    ----------
    n_channels : int
        Number D of channels.
    n_static : int, default=0
        Features of static covariates, which set the initial state.
    hidden_size : int, default=64
        Length H of the state.
    generator : torch.Generator or None, default=None
        Source of the initial weights.
    depth : int, default=2
        Depth of the log-signatures.
    rank : int, default=128
        Number of products in the field.
    head_size : int, default=64
        Width of the hidden layer of the head.
    max_gap : float, default=16.0
        Time without observations after which the path is constant.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.models import pack
    >>> from skpolyode.siblings import NeuralRDE
    >>> model = NeuralRDE(1, hidden_size=4, generator=torch.Generator().manual_seed(0)).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> model.features(model.embed(data))["state"].shape
    torch.Size([1, 4])
    """

    depth: int = 2
    rank: int = 128
    head_size: int = 64
    max_gap: float = 16.0

    def _make_layers(self, generator: torch.Generator | None) -> None:
        hidden_size, rank, n_channels = self.hidden_size, self.rank, self.n_channels
        n_entries = n_words(1 + 2 * n_channels, self.depth)
        n_seen = 2 * n_channels + self.n_static
        self.enter = drawn(nn.Linear, n_seen, hidden_size, generator=generator)
        self.field = hidden_layer(hidden_size, rank, rank, nn.SiLU, generator).append(nn.Tanh())
        self.project = drawn(nn.Linear, n_entries, rank, generator=generator, bias=False)
        self.collect = drawn(nn.Linear, rank, hidden_size, generator=generator, bias=False)
        nn.init.zeros_(self.collect.weight)  # initially the field is 0
        self.head = hidden_layer(hidden_size, self.head_size, n_channels, nn.SiLU, generator)

    def initial(self, data: Packed, rows: Tensor) -> State:
        """Learned state before the first observations, which depends on static covariates."""
        n, zeros = len(rows), data.x.new_zeros
        state = {"value": zeros(n, self.n_channels), "since": zeros(n, 1)}
        levels = trivial(n, 1 + 2 * self.n_channels, self.depth, like=data.x)
        signature = {f"s{k}": level for k, level in enumerate(levels, start=1)}
        return {"z": self.start(data, rows)} | state | signature

    def flow(self, state: State, gap: Tensor, elapsed: Tensor) -> State:
        """State after gaps: time advances."""
        before = state["since"]  # (n, 1)
        since = before + gap[:, None].to(before.dtype)
        passed = since.clamp(max=self.max_gap) - before.clamp(max=self.max_gap)
        still = passed.new_zeros(len(passed), 2 * self.n_channels)  # values and counts
        return state | self._continued(state, torch.cat([passed, still], dim=1)) | {"since": since}

    def observe(self, state: State, data: Packed, rows: Tensor) -> State:
        """State after observations; unchanged where nothing was observed."""
        x, mask = data.x[rows], data.mask[rows]
        seen = mask.to(x.dtype)
        step = torch.where(mask, x - state["value"], 0.0)
        # The path begins at the first observations.
        first = (data.elapsed[rows] == 0)[:, None]
        begun = self.start(data, rows) + self.enter(observed_inputs(data, rows))
        jump = torch.cat([torch.zeros_like(step[:, :1]), step, seen], dim=1)  # (n, V)
        new = state | self._continued(state, torch.where(first, 0.0, jump))
        new["z"] = torch.where(first, begun, state["z"])
        new["value"], new["since"] = state["value"] + step, torch.zeros_like(state["since"])
        if (later := ~first[:, 0]).any():  # the signature of the next piece begins here
            at, ended = (later.nonzero()[:, 0],), {name: part[later] for name, part in new.items()}
            names = [f"s{k}" for k in range(1, self.depth + 1)]
            begun = {name: torch.zeros_like(ended[name]) for name in names} | {"z": self.now(ended)}
            new |= {name: new[name].index_put(at, part) for name, part in begun.items()}
        return where_observed(mask, new, state)

    def _continued(self, state: State, increment: Tensor) -> State:
        """Signatures of paths, continued by linear increments (n, V)."""
        levels = continued([state[f"s{k}"] for k in range(1, self.depth + 1)], increment)
        return {f"s{k}": level for k, level in enumerate(levels, start=1)}

    def now(self, state: State) -> Tensor:
        """Current states (n, H): one Runge-Kutta step along the log-signature."""
        signature = [state[f"s{k}"] for k in range(1, self.depth + 1)]
        z, drive = state["z"], self.project(log_signature(signature))  # (n, H), (n, rank)

        def slope(z: Tensor) -> Tensor:
            return self.collect(self.field(z) * drive)

        k1 = slope(z)
        k2 = slope(z + k1 / 2)
        k3 = slope(z + k2 / 2)
        k4 = slope(z + k3)
        return z + (k1 + 2 * k2 + 2 * k3 + k4) / 6

    def predict(self, state: State) -> Prediction:
        """A network of the current state."""
        return Prediction(self.head(self.now(state)))

    def features(self, state: State) -> dict[str, Tensor]:
        """The current state."""
        return {"state": self.now(state)}


class NeuralRDETransformer(SiblingTransformer):
    """Embed irregular series by a state that log-signatures of the path drive (Neural RDE).

    The observations form a path of time, last values and counts. The log-signature of the path
    since the last observation (its increments, areas and so on) moves a learned state. The
    embedding is the state after the last observation. With ``depth=1`` this is a Neural CDE.

    Use it where the order of events in different channels matters. For sparse samples of smooth
    dynamics the other models forecast better.

    Parameters
    ----------
    depth : int, default=2
        Depth of the log-signatures, 1 to 3. A state holds ``(1 + 2 D)**depth`` numbers for D
        channels: use 1 for more than about ten.
    hidden_size : int or "auto", default="auto"
        Length of the state, and number of features. "auto" takes 32 per channel, as many features
        as `PolyODETransformer` has coefficients, but no more than 256.
    %(training)s

    Attributes
    ----------
    %(trained)s

    See Also
    --------
    ODERNNTransformer : Reads values instead of their changes.

    Notes
    -----
    With the log-signature l of the path from the last observation until now::

        dz/ds = W (f(z) * P l) for s in [0, 1],   forecast = network(z(1))

    f is a network that ends in tanh, W and P are matrices. The path is causal: between observations
    time advances, up to 16 typical gaps, and values and counts are constant until they step.
    The first observation, and static covariates, set the initial state.

    Each observation costs four evaluations of the network, for any gap.

    References
    ----------
    J. Morrill, C. Salvi, P. Kidger, J. Foster and T. Lyons, "Neural rough differential equations
    for long time series", ICML 2021; P. Kidger, J. Morrill, J. Foster and T. Lyons, "Neural
    controlled differential equations for irregular time series", NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import NeuralRDETransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> transformer = NeuralRDETransformer(hidden_size=8, max_epochs=2, random_state=0)
    >>> transformer.fit_transform(series).shape
    (6, 8)
    >>> transformer.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "depth": [Interval(Integral, 1, 3, closed="both")]
    }

    model = NeuralRDE

    def __init__(self, *, depth: int = 2, **training: Any) -> None:
        self.depth = depth
        super().__init__(**training)

    def _model_options(self, sizes: Sizes) -> dict[str, Any]:
        return {"depth": self.depth}
