"""Models under known inputs: closed forms, causality and invariances."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from skpolyode.dynamics import STEPPERS, WalledMLP, integrate
from skpolyode.dynamics.field import drawn
from skpolyode.embedders.encoders import BEFORE, InputEncoder
from skpolyode.embedders.model import ModelEmbedder
from skpolyode.memory import LegSMemory, LegTMemory
from skpolyode.models import PolyODE
from skpolyode.models.contract import InputSizes
from skpolyode.panel import Inputs, Panel
from skpolyode.panel.units import ChannelScaler, Units
from skpolyode.siblings import ODERNN, GRUODEBayes
from skpolyode.streams import ModelStream

A = np.array([[-0.3, 1.1], [-0.9, -0.2]])  # of the two channels
BU = np.array([[0.5, -0.4], [0.2, 0.8]])  # of what holds, and of what is linear
KINDS = {"valve": "hold", "heat": "linear", "dose": "impulse"}


def linear_field(step_pull=1.0):
    """``dx/dt = A x + B u + 0.1``, without hidden layers; a wall far away."""
    field = WalledMLP(2 + 2, (), wall=1e6, n_levels=2, n_linear=1).double()
    with torch.no_grad():
        weight = torch.zeros(4, 6, dtype=torch.float64)
        # Coordinates: x0, its coefficient, x1, its coefficient, valve, heat.
        for i in range(2):
            for j in range(2):
                weight[2 * i, 2 * j] = A[i, j]
                weight[2 * i, 4 + j] = BU[i, j]
        field.layers[0].weight.copy_(weight)
        field.layers[0].bias.copy_(torch.tensor([0.1, 0.0, 0.1, 0.0]))
    return field


def course(t):
    """Valve and heat (2,) at a time, as of `ROWS`."""
    valve = 0.0 if t < 0.4 else (1.5 if t < 2.3 else -0.7)
    heat = np.interp(t, [0.1, 1.7, 3.0], [0.3, -1.0, 0.6]) if t >= 0.1 else 0.0
    return np.array([valve, heat])


ROWS = (
    [0.1, 0.4, 1.7, 2.3, 3.0],
    [[np.nan, 0.3], [1.5, np.nan], [np.nan, -1.0], [-0.7, np.nan], [np.nan, 0.6]],
)


def solved(x, start, end):
    """The linear system by matrix exponentials, piece by piece; inputs are lines in each."""
    knots = [t for t in (0.1, 0.4, 1.7, 2.3, 3.0) if start < t < end]
    for a, b in zip([start, *knots], [*knots, end], strict=True):
        u0, u1 = course(a), course(np.nextafter(b, a))
        # State, inputs, their slopes, and one.
        m = np.zeros((7, 7))
        m[:2, :2], m[:2, 2:4], m[2:4, 4:6], m[:2, 6] = A, BU, np.eye(2), 0.1
        z = np.concatenate([x, u0, (u1 - u0) / (b - a), [1.0]])
        x = (expm(m * (b - a)) @ z)[:2]
    return x


def embedder_of(model, kinds, n_channels=2):
    """Embedder whose units, of values and inputs, are those of the user."""
    units = Units(ChannelScaler(np.zeros(n_channels), np.ones(n_channels)), 1.0)
    names = [
        name for kind in ("hold", "linear", "impulse") for name in kinds if kinds[name] == kind
    ]
    scaler = ChannelScaler(np.zeros(len(names)), np.ones(len(names)))
    inputs = InputEncoder(names, [kinds[name] for name in names], scaler, ())
    return ModelEmbedder(model.eval(), units, inputs=inputs)


def panel_of(times, values, rows, kinds):
    inputs = Panel.from_series([rows], channel_names=list(kinds), empty="keep")
    return Panel.from_series([(times, values)], inputs=Inputs(inputs, kinds))


def test_a_linear_system_under_inputs_is_that_of_matrix_exponentials():
    two = {name: KINDS[name] for name in ("valve", "heat")}
    settings = {"step_size": 0.01, "max_gap": 100.0, "inputs": InputSizes(1, 1, 0)}
    model = PolyODE(linear_field(), LegTMemory(1, window=2.0), **settings).double()
    embedder = embedder_of(model, two)
    x0, x2 = np.array([0.5, -0.2]), np.array([0.9, 0.4])
    panel = panel_of([0.0, 2.0], [x0, x2], ROWS, two)
    # One step ahead, over four knots; and free, beyond the last knot.
    error, _ = embedder.residuals(panel)
    assert np.allclose(error[1], x2 - solved(x0, 0.0, 2.0), atol=1e-8)
    asked = np.array([2.1, 2.3, 2.7, 3.0, 4.5])
    found = embedder.forecast_values(panel, asked, np.array([0, 5]))
    assert np.allclose(found, [solved(x2, 2.0, t) for t in asked], atol=1e-8)
    # Between the observations the path is that solution, bent to end in the second one.
    inner = np.array([0.05, 0.1, 0.4, 1.2, 1.9])
    bent = [solved(x0, 0.0, t) + (x2 - solved(x0, 0.0, 2.0)) * t / 2 for t in inner]
    assert np.allclose(embedder.path_values(panel, inner, np.array([0, 5])), bent, atol=1e-8)


def test_steps_of_a_network_under_inputs_are_those_of_its_field():
    generator = torch.Generator().manual_seed(0)
    field = WalledMLP(3, (8, 8), n_levels=2, n_linear=1, generator=generator).double()
    z = 4 * torch.randn(5, 6, generator=generator, dtype=torch.float64)
    gap = torch.linspace(0.1, 1.0, 5, dtype=torch.float64)
    settings = {"step_size": 0.2, "stepper": STEPPERS["rk4"]}
    # Inside the box, where both are the same method.
    z[:, :3] = z[:, :3].clamp(-1, 1)
    one, _ = integrate(field, z, gap, **settings)
    other, _ = integrate(field.bind(), z, gap, **settings)
    assert torch.allclose(one, other, atol=1e-12)
    assert torch.equal(one[:, 3], z[:, 3])  # what holds
    assert torch.allclose(one[:, 4], z[:, 4] + gap * z[:, 5])  # what is linear


@pytest.mark.parametrize("n_linear", [0, 1])
def test_gradients_of_steps_under_inputs(n_linear):
    generator = torch.Generator().manual_seed(0)
    field = WalledMLP(2, (6,), n_levels=2, n_linear=n_linear, generator=generator).double()
    z = torch.randn(3, 4 + n_linear, generator=generator, dtype=torch.float64)
    gap = torch.tensor([0.3, 0.9, 0.5], dtype=torch.float64)
    weights, found = list(field.parameters()), []
    for steps in (field, field.bind()):
        end, _ = integrate(steps, z, gap, step_size=0.3, stepper=STEPPERS["rk4"])
        found.append(torch.autograd.grad(end[:, :2].square().sum(), weights))
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(*found, strict=True))


def polyode(memory=LegTMemory):
    sizes = InputSizes(1, 1, 1)
    generator = torch.Generator().manual_seed(1)
    memory = memory(4, window=3.0) if memory is LegTMemory else memory(4)
    levels = {"n_levels": sizes.n_levels, "n_linear": sizes.n_linear}
    field = WalledMLP(2 * 5 + 6, (16,), **levels, generator=generator)
    cell = drawn(torch.nn.GRUCell, 6 + sizes.n_impulse, 6, generator=generator)
    return PolyODE(field, memory, step_size=0.25, max_gap=50.0, cell=cell, inputs=sizes)


def siblings():
    settings = {"inputs": InputSizes(1, 1, 1), "generator": torch.Generator().manual_seed(1)}
    rnn = ODERNN(2, hidden_size=6, **settings)
    torch.nn.init.normal_(rnn.field.layers[-1].weight, std=0.3, generator=settings["generator"])
    return [polyode(), rnn, GRUODEBayes(2, hidden_size=6, **settings)]


MODELS = [pytest.param(model.double(), id=type(model).__name__) for model in siblings()]
TIMES = np.array([0.0, 0.8, 2.0, 2.9])
VALUES = np.array([[0.2, 0.5], [0.1, np.nan], [np.nan, -0.4], [0.6, 0.3]])
# Before, between and after the observations; one at the time of an observation.
FULL = (
    np.array([-1.2, -0.5, 0.3, 0.8, 1.1, 1.5, 2.5, 3.5, 4.4]),
    np.array(
        [
            [np.nan, np.nan, 1.0],
            [1.0, np.nan, np.nan],
            [np.nan, -0.5, np.nan],
            [np.nan, np.nan, 0.7],
            [-1.0, 0.5, np.nan],
            [np.nan, np.nan, -0.4],
            [0.3, np.nan, 0.9],
            [2.0, -1.0, 1.0],
            [np.nan, 0.0, np.nan],
        ]
    ),
)
ASKED = np.linspace(0.0, 6.0, 25)


def answers(model, rows=FULL, times=TIMES, asked=ASKED, kinds=KINDS):
    """Path and forecasts, one-step errors, forecasts from the end, and features."""
    embedder, panel = embedder_of(model, kinds), panel_of(times, VALUES, rows, kinds)
    offsets, ahead = np.array([0, len(asked)]), asked[asked >= times[-1]]
    return (
        embedder.path_values(panel, asked, offsets),
        embedder.residuals(panel)[0],
        embedder.forecast_values(panel, ahead, np.array([0, len(ahead)])),
        embedder.features_of(embedder.states(panel)),
    )


def close(one, other, atol=1e-12):
    return all(
        np.allclose(a, b, atol=atol, equal_nan=True) for a, b in zip(one, other, strict=True)
    )


ABSORBED, ELIMINATED, SMALL = 1.2, 0.25, 1e-4


def compartment():
    """``gut' = -1.2 gut``, ``x' = 1.2 gut - 0.25 x``; doses, in units of 1e-4, add to the gut."""
    field = WalledMLP(3, (), wall=1e6).double()  # of x, its coefficient, and the gut
    # The cell reads observations, which say nothing, and the dose: tanh(gut + 1e-4 dose).
    cell = torch.nn.GRUCell(3 + 1, 1).double()
    with torch.no_grad():
        for parameter in [*field.parameters(), *cell.parameters()]:
            parameter.zero_()
        weight = [[-ELIMINATED, 0, ABSORBED / SMALL], [0] * 3, [0, 0, -ABSORBED]]
        field.layers[0].weight.copy_(torch.tensor(weight))
        cell.bias_ih.copy_(torch.tensor([60.0, -60.0, 0.0]))  # gates: of reset, open; of update
        cell.weight_ih[2, 3], cell.weight_hh[2, 0] = SMALL, 1.0
    settings = {"step_size": 0.02, "max_gap": 100.0, "inputs": InputSizes(0, 0, 1)}
    return PolyODE(field, LegTMemory(1, window=2.0), cell=cell, **settings).double()


def concentration(t, doses, amounts):
    """Of the compartment, each dose by its closed form."""
    since = np.maximum(np.asarray(t)[:, None] - doses, 0.0)
    curves = np.exp(-ELIMINATED * since) - np.exp(-ABSORBED * since)
    return curves @ amounts * ABSORBED / (ABSORBED - ELIMINATED)


def test_a_compartment_under_doses_is_its_closed_form():
    # Before, between and after the observations, two in a row, and one at an observation.
    doses = np.array([-3.0, 0.4, 0.9, 2.0, 3.1, 5.0]), np.array([1.0, 0.7, 1.6, 1.1, 0.5, 2.0])
    t, kinds = np.array([0.0, 2.0, 2.5, 4.0]), {"dose": "impulse"}
    embedder = embedder_of(compartment(), kinds, n_channels=1)
    panel = panel_of(t, concentration(t, *doses), (doses[0], doses[1][:, None]), kinds)
    assert np.allclose(embedder.residuals(panel)[0][1:], 0.0, atol=1e-6)
    asked = np.array([0.2, 0.9, 1.7, 2.2, 3.5, 4.5, 5.0, 5.5, 9.0])
    expected = concentration(asked, *doses)[:, None]
    assert np.allclose(embedder.path_values(panel, asked, np.array([0, 9])), expected, atol=1e-6)
    ahead = embedder.forecast_values(panel, asked[5:], np.array([0, 4]))
    assert np.allclose(ahead, expected[5:], atol=1e-6)
    stream = ModelStream(embedder, panel.without_rows())
    for when, x in zip(t, panel.values, strict=True):
        stream.update(when, x)
    assert np.allclose(stream.forecast(asked[5:]).values, expected[5:], atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", list(KINDS))
def test_an_input_changes_what_comes_after_it_and_nothing_before(model, name):
    place = list(KINDS).index(name)
    times, values = FULL
    # A further row at 3.2, in the free run; and at 1.7, between observations.
    for moment in (3.2, 1.7):
        changed = np.full(3, np.nan)
        changed[place] = 5.0
        at = np.searchsorted(times, moment)
        rows = np.insert(times, at, moment), np.insert(values, at, changed, axis=0)
        before, after = answers(model), answers(model, rows)
        # A line leads to the new point from the one before.
        since = moment if KINDS[name] != "linear" else 1.1
        ahead = ASKED[TIMES[-1] <= ASKED]
        assert np.allclose(before[2][ahead < since], after[2][ahead < since], atol=1e-14)
        assert not np.allclose(before[2][ahead > moment + 0.2], after[2][ahead > moment + 0.2])
        # Steps between observations end at the new row.
        assert np.allclose(before[1][since >= TIMES], after[1][since >= TIMES], equal_nan=True)
        if since < TIMES[-1]:
            assert not np.allclose(before[3], after[3])
            assert not np.allclose(before[1][3], after[1][3])
        else:
            assert np.array_equal(before[3], after[3])


@pytest.mark.parametrize("model", MODELS)
def test_what_came_long_before_the_first_observation_counts_as_far_as_it_still_holds(model):
    times, values = FULL

    def found(moment, row):
        return answers(model, (np.insert(times, 0, moment), np.insert(values, 0, row, axis=0)))

    dose, valve = [np.nan, np.nan, 3.0], [2.0, np.nan, np.nan]
    values = values.copy()
    values[1, 0] = np.nan  # until the valve is turned at 1.1, what came first holds
    nothing = answers(model, (times, values))
    assert close(found(-BEFORE - 0.1, dose), nothing)
    assert not close(found(0.1 - BEFORE, dose), nothing, atol=1e-9)
    held = found(-BEFORE - 0.1, valve)
    assert not close(held, nothing, atol=1e-3)
    assert close(held, found(-BEFORE - 9.0, valve))


@pytest.mark.parametrize("model", MODELS)
def test_invariances(model):
    times, values = FULL
    found = answers(model)
    # What holds is said again; a line is cut in two; an impulse of nothing.
    at = np.searchsorted(times, 1.3)
    heat = np.interp(1.3, [1.1, 3.5], [0.5, -1.0])
    rows = np.insert(times, at, 1.3), np.insert(values, at, [-1.0, np.nan, 0.0], axis=0)
    pairs = zip(found, answers(model, rows), strict=True)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)
    rows = np.insert(times, at, 1.3), np.insert(values, at, [np.nan, heat, np.nan], axis=0)
    assert close(found, answers(model, rows), atol=1e-3)  # integration has one more step
    # Clocks that begin elsewhere, and the order of channels.
    shifted = answers(model, (times + 64.0, values), TIMES + 64.0, ASKED + 64.0)
    assert close(found, shifted, atol=1e-9)
    names = ["dose", "valve", "heat"]
    rows = times, values[:, [2, 0, 1]]
    assert close(found, answers(model, rows, kinds={name: KINDS[name] for name in names}))


@pytest.mark.parametrize("memory", [LegTMemory, LegSMemory])
def test_memories_begin_with_the_first_observation(memory):
    model = polyode(memory).double()
    embedder = embedder_of(model, KINDS)
    one = panel_of([0.0], [[0.7, -0.3]], (np.array([-2.0, -0.5]), [[1.0, 0.2, 1.0]] * 2), KINDS)
    state = embedder.states(one)
    assert torch.allclose(state["c"][0, :, 0], torch.tensor([0.7, -0.3], dtype=torch.float64))
    assert state["c"][0, :, 1:].abs().max() < 1e-12
    assert state["z"][0, 10:16].abs().max() > 1e-3  # which the dose before has moved
    several = panel_of(TIMES, VALUES, FULL, KINDS)
    assert np.isfinite(embedder.features_of(embedder.states(several))).all()


def test_an_impulse_never_moves_the_signal():
    model = polyode().double()
    embedder = embedder_of(model, KINDS)
    rows = np.array([1.0]), [[np.nan, np.nan, 3.0]]
    panel = panel_of([0.0], [[0.7, -0.3]], rows, KINDS)
    found = embedder.forecast_values(
        panel, np.array([1.0 - 1e-9, 1.0, 1.0 + 1e-9]), np.array([0, 3])
    )
    assert np.allclose(found[0], found[1], atol=1e-4)
    assert np.allclose(found[1], found[2], atol=1e-7)


@pytest.mark.parametrize("model", MODELS)
def test_series_do_not_depend_on_those_beside_them(model):
    embedder = embedder_of(model, KINDS)
    inputs = Panel.from_series(
        [FULL, ([], np.empty((0, 3))), ([0.1, 9.0], [[1.0, 0.0, 2.0], [0.5, np.nan, 1.0]])],
        channel_names=list(KINDS),
        empty="keep",
    )
    series = [(TIMES, VALUES), (TIMES, VALUES), (TIMES[:2] + 0.5, VALUES[:2])]
    panel = Panel.from_series(series, inputs=Inputs(inputs, KINDS))
    asked, counts = np.array([3.0, 4.0, 9.0] * 3), np.array([0, 3, 6, 9])
    together = embedder.forecast_values(panel, asked, counts)
    path = embedder.path_values(panel, asked - 2.5, counts)
    for k in range(3):
        own = panel[[k]], asked[:3], np.array([0, 3])
        assert np.allclose(embedder.forecast_values(*own), together[3 * k : 3 * k + 3], atol=1e-12)
        own = panel[[k]], asked[:3] - 2.5, np.array([0, 3])
        assert np.allclose(embedder.path_values(*own), path[3 * k : 3 * k + 3], atol=1e-12)
