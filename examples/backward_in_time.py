"""
Backward in time
================

Why PolyODE remembers the past instead of integrating backward: a neural ODE, run backward,
diverges. A classical one learns the Lorenz (1963) attractor from its full state, all three
variables on a fine grid without noise. It is then integrated from true states, forward and
backward in time. PolyODE sees two of the variables at some thirty random moments, and
reconstructs the past from the embedding at the last one. (Needs torchdiffeq.)
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.utils import Bunch
from torch import nn
from torchdiffeq import odeint

from skpolyode import PolyODETransformer
from skpolyode.datasets import make_lorenz63

N_TRAIN, N_TEST, N_EPOCHS = 100, 30, 8
WINDOW = 5.0
STEPS_AN_EPOCH, BATCH, SEGMENT = 40, 128, 6
AGES = 0.5, 1.0, 2.0, 4.5  # at which errors are printed
KEPT = 100.0  # standard deviations, at which errors are cut off


class Field(nn.Module):
    """A network for the time derivative of all three states."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(3, 64), (64, 64), (64, 3)]
        one, two, three = (nn.Linear(*size) for size in sizes)
        self.layers = nn.Sequential(one, nn.Tanh(), two, nn.Tanh(), three)

    def forward(self, t: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return self.layers(z)


def fit_field(times: np.ndarray, states: np.ndarray) -> Field:
    """Fit to short segments (series, times, 3), from the true state at the start of each."""
    torch.manual_seed(0)
    rng, field = np.random.default_rng(0), Field()
    n_steps = STEPS_AN_EPOCH * N_EPOCHS
    optimizer = torch.optim.Adam(field.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    grid = torch.tensor(times[:SEGMENT] - times[0], dtype=torch.float32)
    for _ in range(n_steps):
        series = rng.integers(0, len(states), BATCH)
        first = rng.integers(0, len(times) - SEGMENT, BATCH)
        target = states[series[:, None], first[:, None] + np.arange(SEGMENT)]
        target = torch.tensor(target, dtype=torch.float32).transpose(0, 1)
        loss = (odeint(field, target[0], grid, method="rk4") - target).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return field.double()


def integrate(field: Field, start: np.ndarray, ages: np.ndarray) -> np.ndarray:
    """States (n, len(ages), 3) after (or, where ages fall, before) the start; cut off."""
    with torch.no_grad():
        path = odeint(field, torch.from_numpy(start), torch.from_numpy(ages), method="rk4")
    return np.clip(path.transpose(0, 1).numpy(), -KEPT, KEPT)


def compare(data: Bunch) -> dict[str, np.ndarray]:
    """Paths of the test series over a window: forward, backward, and remembered."""
    times, states, observed = data.truth.times, data.truth.values, data.truth.observed
    field = fit_field(times, states[:N_TRAIN])
    model = PolyODETransformer(window=WINDOW, max_epochs=N_EPOCHS, random_state=0)
    model.fit(data.panel[:N_TRAIN])

    test, panel = states[N_TRAIN:], data.panel[N_TRAIN:]
    # The window ends at the last point of the grid up to the last observation.
    n = int(np.searchsorted(times, times[0] + WINDOW)) - 2
    last = np.array([np.searchsorted(times, own[-1], side="right") - 1 for own, _ in panel])
    window = last[:, None] + np.arange(-n, 1)
    ages = times[: n + 1] - times[0]
    truth = np.stack([own[rows] for own, rows in zip(test, window, strict=True)])
    past = model.reconstruct(panel, list(times[window])).values
    return {
        "ages": ages,
        "truth": truth[..., observed],
        "forward": integrate(field, truth[:, 0].copy(), ages)[..., observed],
        "backward": integrate(field, truth[:, -1].copy(), -ages)[:, ::-1][..., observed],
        "remembered": past.reshape(*truth.shape[:2], -1),
    }


def errors(paths: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Root mean square over the channels, the median of all series, by the time integrated."""
    of = {
        name: np.sqrt(((paths[name] - paths["truth"]) ** 2).mean(axis=2))
        for name in ("forward", "backward", "remembered")
    }
    # Backward and remembered: by how long before the end.
    return {
        "neural ODE, forward": np.median(of["forward"], axis=0),
        "neural ODE, backward": np.median(of["backward"], axis=0)[::-1],
        "PolyODE, remembered": np.median(of["remembered"], axis=0)[::-1],
    }


def draw(paths: dict[str, np.ndarray], error: dict[str, np.ndarray], series: int) -> None:
    _, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    ages = paths["ages"]
    x = {name: path[series, :, 0] for name, path in paths.items() if name != "ages"}
    left.plot(ages - ages[-1], x["truth"], color="0.8", linewidth=6, label="truth")
    left.plot(ages - ages[-1], x["backward"], "C3", label="neural ODE, backward from the end")
    left.plot(ages - ages[-1], x["remembered"], "C0", label="PolyODE, read out of its embedding")
    left.set(xlabel="time before the last observation", ylabel="x (standard deviations)")
    left.set_ylim(1.5 * x["truth"].min() - 1, 1.5 * x["truth"].max() + 1)
    left.legend(frameon=False, fontsize=8)
    for (name, values), color in zip(error.items(), ("C1", "C3", "C0"), strict=True):
        right.semilogy(ages, np.maximum(values, 1e-4), color, label=name)
    right.set(xlabel="time away from the known state", ylabel="error (median of all series)")
    right.legend(frameon=False, fontsize=8)


# %%
# Errors of x and y in standard deviations, the median of all test series:

paths = compare(make_lorenz63(N_TRAIN + N_TEST, random_state=0))
error = errors(paths)
for name, values in error.items():
    at = [int(np.searchsorted(paths["ages"], age - 1e-9)) for age in AGES]
    print(f"{name}, after {AGES}:", *(f"{values[k]:.3g}" for k in at))

# %%

draw(paths, error, series=0)
plt.show()

# %%
# What happened here: forward, errors grow with the largest Lyapunov exponent of the attractor, 0.9
# per unit of time of the system (here two units of ``times``). Backward all exponents change sign:
# the attraction of 14.6, which forward forgives every error, becomes the rate at which they grow.
# However well a model has learned the dynamics, the past cannot be integrated; it has to be
# remembered.
