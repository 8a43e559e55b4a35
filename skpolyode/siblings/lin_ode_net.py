r"""LinODENet: a linear latent ODE between observations, a Kalman-like filter at observations.

Between observations ``dz/dt = A z``, so that ``z(t + gap) = exp(A gap) z(t)`` without a solver.
At an observation x with mask m the latent state is decoded, corrected and encoded again::

    u = psi(z),   e = m (u_obs - x),   u' = u - F(e),   z' = phi(u'),   F(0) = 0

Forecasts are ``u_obs``, the first D entries of u. If they are right, the filter is the identity.
(R. Scholz, S. Born, N. Duong-Trung, M. N. Cruz-Bournazou, L. Schmidt-Thieme, "Latent linear ODEs
with neural Kalman filtering for irregular time series forecasting", 2022.)

A is written in its real eigenbasis: 2 x 2 blocks ``[[-d, -w], [w, -d]]``, rotations that decay. Any
diagonalisable A has this form after a change of latent coordinates, which encoder and decoder
absorb. The exponential of a block is a cosine and a sine; that of a matrix takes a dozen matrix
products for each distinct gap. On Lorenz63 with 64 latent dimensions, training to the same error
was 20 times faster. Decay rates are positive, so that forecasts stay bounded for any gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from skpolyode.dynamics.field import drawn
from skpolyode.models.contract import Packed, Prediction, Sizes, State
from skpolyode.saving.modules import register_module
from skpolyode.siblings.base import SiblingModel, SiblingTransformer, draw_normal
from skpolyode.transformers.base import COUNT
from skpolyode.transformers.neural import layer_sizes


@register_module
@dataclass(eq=False, repr=False, kw_only=True)
class LinODENet(SiblingModel):
    """A linear latent ODE and a filter.

    The state has the part `z` (n, H).

    Parameters
    ----------
    n_channels : int
        Number D of channels.
    n_static : int, default=0
        Features of static covariates, which set the initial state.
    hidden_size : int, default=64
        Length H of the latent state and of the decoded rows; even, and at least D.
    generator : torch.Generator or None, default=None
        Source of the initial weights.
    block_sizes : sequence of int, default=(64, 64)
        Widths inside the residual blocks of the decoder, and of the encoder.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.models import pack
    >>> from skpolyode.siblings import LinODENet
    >>> model = LinODENet(1, hidden_size=4, generator=torch.Generator().manual_seed(0)).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> model.embed(data)["z"].shape
    torch.Size([1, 4])
    """

    block_sizes: Sequence[int] = (64, 64)

    def _make_layers(self, generator: torch.Generator | None) -> None:
        hidden_size, n_channels = self.hidden_size, self.n_channels
        if hidden_size % 2 or hidden_size < n_channels:
            raise ValueError(
                "hidden_size must be even and at least the number of channels, got "
                f"{hidden_size} for {n_channels} channels."
            )
        self.frequency = nn.Parameter(torch.empty(hidden_size // 2, dtype=torch.float32))
        self.log_decay = nn.Parameter(torch.full((hidden_size // 2,), -4.0, dtype=torch.float32))
        # Initially A is a random skew-symmetric matrix, in the coordinates of the channels.
        random = torch.empty(hidden_size, hidden_size, dtype=torch.float32)
        draw_normal(random, 1.0, generator)
        rotation = random if random.is_meta else torch.linalg.qr(random).Q
        self.turn = nn.Parameter(rotation.contiguous())
        self.turn_back = nn.Parameter(rotation.t().contiguous())
        self.encoder = ResNet(hidden_size, self.block_sizes, generator)
        self.decoder = ResNet(hidden_size, self.block_sizes, generator)
        self.filter = ErrorFilter(n_channels, hidden_size, generator)
        with torch.no_grad():
            # Radians per unit of time: the range of a random skew-symmetric matrix.
            self.frequency.uniform_(0, 2.0, generator=generator)

    def initial(self, data: Packed, rows: Tensor) -> State:
        """Learned state before the first observations, which depends on static covariates."""
        return {"z": self.start(data, rows)}

    def flow(self, state: State, gap: Tensor, elapsed: Tensor) -> State:
        """State after gaps: each pair of entries is rotated, and decays."""
        real, imaginary = state["z"].unflatten(1, (-1, 2)).unbind(2)  # (n, H / 2) each
        gap = gap[:, None].to(real.dtype)
        angle, length = gap * self.frequency, torch.exp(-gap * self.log_decay.exp())  # (n, H / 2)
        c, s = length * torch.cos(angle), length * torch.sin(angle)
        pairs = torch.stack([c * real - s * imaginary, s * real + c * imaginary], dim=2)
        return {"z": pairs.flatten(1)}

    def observe(self, state: State, data: Packed, rows: Tensor) -> State:
        """State after observations; unchanged where nothing was observed."""
        z, mask = state["z"], data.mask[rows]
        u = self.decode(z)  # (n, H)
        seen = self.encode(self.filter(u, data.x[rows], mask.to(z.dtype)))
        return {"z": torch.where(mask.any(dim=1, keepdim=True), seen, z)}

    def predict(self, state: State) -> Prediction:
        """The observed part of the decoded state."""
        return Prediction(self.decode(state["z"])[:, : self.n_channels])

    def features(self, state: State) -> dict[str, Tensor]:
        """The latent state."""
        return state

    def decode(self, z: Tensor) -> Tensor:
        """Decode latent states (n, H) to (n, H); the channels come first."""
        return self.decoder(F.linear(z, self.turn_back))

    def encode(self, u: Tensor) -> Tensor:
        """Latent states (n, H) of decoded rows (n, H)."""
        return F.linear(self.encoder(u), self.turn)


class ResNet(nn.Module):
    """Residual blocks ``x + s (W' silu(W x + b) + b')``, which start as the identity (ReZero).

    Parameters
    ----------
    size : int
        Length of input and output.
    widths : sequence of int
        Width inside each block.
    generator : torch.Generator or None
        Source of the weights.
    """

    def __init__(self, size: int, widths: Sequence[int], generator: torch.Generator | None) -> None:
        super().__init__()
        self.inner, self.outer = (
            nn.ModuleList(drawn(nn.Linear, *shape, generator=generator) for shape in shapes)
            for shapes in ([(size, n) for n in widths], [(n, size) for n in widths])
        )
        self.strength = nn.Parameter(torch.zeros(len(widths), dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Map rows (n, size) to rows (n, size)."""
        for strength, inner, outer in zip(self.strength, self.inner, self.outer, strict=True):
            x = x + strength * outer(nn.functional.silu(inner(x)))
        return x


class ErrorFilter(nn.Module):
    """Correction ``u' = u - a [e, 0] - s g(u, m) (K e + W' relu(W K e))`` by the errors e.

    There is no bias: an error of zero corrects nothing. The gate g, between 0 and 2, reads the
    mask, as the gain of a Kalman filter does; s is zero at first (ReZero).

    Parameters
    ----------
    n_channels : int
        Number D of channels.
    size : int
        Length of u.
    generator : torch.Generator or None
        Source of the weights.
    """

    def __init__(self, n_channels: int, size: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.n_channels = n_channels
        self.strength = nn.Parameter(torch.tensor([0.5, 0.0], dtype=torch.float32))  # a and s
        self.spread = drawn(nn.Linear, n_channels, size, generator=generator, bias=False)
        self.inner, self.outer = (
            drawn(nn.Linear, size, size, generator=generator, bias=False) for _ in range(2)
        )
        self.gate = drawn(nn.Linear, size + n_channels, size, generator=generator)

    def forward(self, u: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        """Corrected rows (n, H), from values and mask (n, D)."""
        error = (u[:, : self.n_channels] - x) * mask  # (n, D)
        spread = self.spread(error)  # (n, H)
        spread = spread + self.outer(torch.relu(self.inner(spread)))
        direct = F.pad(error, (0, u.shape[1] - self.n_channels))
        gain, strength = self.strength
        gate = 2 * torch.sigmoid(self.gate(torch.cat([u, mask], dim=1)))
        return u - gain * direct - strength * gate * spread


class LinODENetTransformer(SiblingTransformer):
    """Embed irregular series by a linear latent ODE and a Kalman-like filter (LinODENet).

    Between observations a latent state follows a linear ODE, whose solution is exact for any gap
    and needs no solver; at an observation it is decoded, corrected by the error of the forecast,
    and encoded again. The embedding is the latent state after the last observation.

    Use it where gaps are of very different lengths: they cost nothing, and are exact at any length.
    The embedding mainly remembers what helps to forecast, and cannot be turned back into the
    series.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or int, default=(64, 64)
        Widths inside the residual blocks of the decoder, and of the encoder.
    hidden_size : int or "auto", default="auto"
        Length of the latent state, and number of features; even, and at least the number of
        channels. "auto" takes 32 per channel, as many features as `PolyODETransformer` has
        coefficients, but no more than 256.
    %(training)s

    Attributes
    ----------
    %(trained)s

    See Also
    --------
    PolyODETransformer : Nonlinear dynamics, and a memory that can be read back.

    Notes
    -----
    With the latent state z, the decoder psi, the encoder phi and the mask m of an observation x::

        dz/dt = A z,   u = psi(z),   z' = phi(u - F(m (u_obs - x)))

    Forecasts are u_obs, the first entries of u. ``F(0) = 0``, so that the filter changes nothing
    where the forecast was right. Decoder, encoder and F are residual networks that start as the
    identity (ReZero), and A as a skew-symmetric matrix. A is stored in its eigenbasis, with
    positive decay rates: a gap costs a cosine and a sine per pair of entries, and forecasts stay
    bounded for any gap. Static covariates set the initial state.

    Training and embedding cost one small network per observation, independent of the gaps.

    References
    ----------
    R. Scholz, S. Born, N. Duong-Trung, M. N. Cruz-Bournazou and L. Schmidt-Thieme, "Latent linear
    ODEs with neural Kalman filtering for irregular time series forecasting", 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import LinODENetTransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> transformer = LinODENetTransformer(hidden_size=8, max_epochs=2, random_state=0)
    >>> transformer.fit_transform(series).shape
    (6, 8)
    >>> transformer.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "hidden_layer_sizes": ["array-like", COUNT],
    }

    model = LinODENet

    def __init__(
        self, *, hidden_layer_sizes: Sequence[int] | int = (64, 64), **training: Any
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        super().__init__(**training)

    def _model_options(self, sizes: Sizes) -> dict[str, Any]:
        return {"block_sizes": layer_sizes(self.hidden_layer_sizes)}
