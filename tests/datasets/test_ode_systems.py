"""Integration of many small systems at once, and the systems themselves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp

from skpolyode.datasets import make_ode_system
from skpolyode.datasets.ode_systems import SYSTEMS
from skpolyode.datasets.paper import lorenz63
from skpolyode.datasets.simulation import Trajectories


def oscillator(state, params):
    position, velocity = state
    return np.stack([velocity, -(params[0] ** 2) * position])


def exact_oscillator(frequency, times):
    return np.stack([np.cos(frequency * times), -frequency * np.sin(frequency * times)], axis=-1)


def solve_oscillator(step):
    frequency = np.array([[1.0, 2.0, 3.0]])
    initial = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    return Trajectories.integrate(oscillator, initial, frequency, step=step, span=2.0)


@pytest.mark.parametrize("offset", [0.0, 0.37])
def test_fourth_order_at_and_between_the_steps(offset):
    series, frequency = np.arange(3), np.array([1.0, 2.0, 3.0])
    errors = []
    for step in (0.05, 0.025, 0.0125):
        times = np.full(3, 1.5) + offset * step
        states = solve_oscillator(step).at(series, times)
        errors.append(np.abs(states - exact_oscillator(frequency, times)).max())
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    assert_allclose(slopes, 4.0, atol=0.3)


def test_rows_pick_their_series_and_its_parameters():
    series, times = np.array([2, 0, 2, 1]), np.array([0.0, 2.0, 1.234, 0.777])
    states = solve_oscillator(0.01).at(series, times)
    frequency = np.array([1.0, 2.0, 3.0])[series]
    assert_allclose(states, exact_oscillator(frequency, times), atol=1e-6)


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_truth_agrees_with_an_adaptive_solver(name):
    system = SYSTEMS[name]
    bunch = make_ode_system(name, 3, random_state=0)
    for params, values in zip(bunch.parameters.to_numpy(), bunch.truth.values, strict=True):
        reference = solve_ivp(
            lambda _, state, params=params: system.field(state, params),
            (0.0, system.span),
            values[0],
            method="DOP853",
            t_eval=bunch.truth.times,
            rtol=1e-11,
            atol=1e-12,
        )
        assert_allclose(values, reference.y.T, atol=1e-5)


def test_lorenz63_agrees_with_an_adaptive_solver():
    initial, params = np.array([[1.0], [2.0], [20.0]]), np.array([[10.0], [28.0], [8.0 / 3.0]])
    paths = Trajectories.integrate(lorenz63, initial, params, step=0.005, span=5.0)
    times = np.linspace(0.0, 5.0, 77)
    reference = solve_ivp(
        lambda _, state: lorenz63(state, params[:, 0]),
        (0.0, 5.0),
        initial[:, 0],
        method="DOP853",
        t_eval=times,
        rtol=1e-11,
        atol=1e-12,
    )
    assert_allclose(paths.at(np.zeros(77, dtype=int), times), reference.y.T, atol=5e-3)
    assert_allclose(paths.at(np.zeros(30, dtype=int), times[:30]), reference.y.T[:30], atol=1e-4)


def test_lotka_volterra_keeps_its_first_integral():
    bunch = make_ode_system("lotka_volterra", 50, random_state=0)
    growth, predation, efficiency, death = bunch.parameters.to_numpy().T[:, :, None]
    prey, predator = np.moveaxis(bunch.truth.values, -1, 0)
    integral = efficiency * prey - death * np.log(prey)
    integral = integral + predation * predator - growth * np.log(predator)
    assert_allclose(integral, np.repeat(integral[:, :1], integral.shape[1], axis=1), rtol=1e-7)


def test_sir_keeps_the_population():
    values = make_ode_system("sir", 50, random_state=0).truth.values
    assert_allclose(values.sum(axis=2), 1.0, rtol=1e-12)
    assert values.min() >= 0.0
    assert (np.diff(values[:, :, 0], axis=1) < 0).all()
    assert (np.diff(values[:, :, 2], axis=1) > 0).all()


def test_double_pendulum_keeps_its_energy_and_never_flips():
    bunch = make_ode_system("double_pendulum", 50, random_state=0)
    ratio, gravity = bunch.parameters.to_numpy().T[:, :, None]
    angle1, angle2, velocity1, velocity2 = np.moveaxis(bunch.truth.values, -1, 0)
    kinetic = 0.5 * (1 + ratio) * velocity1**2 + 0.5 * ratio * velocity2**2
    kinetic = kinetic + ratio * velocity1 * velocity2 * np.cos(angle1 - angle2)
    potential = -(1 + ratio) * gravity * np.cos(angle1) - ratio * gravity * np.cos(angle2)
    energy = kinetic + potential
    assert_allclose(energy, np.repeat(energy[:, :1], energy.shape[1], axis=1), rtol=1e-6)
    assert np.abs(bunch.truth.values[:, :, :2]).max() < np.pi


def test_damped_pendulum_loses_energy():
    bunch = make_ode_system("damped_pendulum", 50, random_state=0)
    _, frequency = bunch.parameters.to_numpy().T[:, :, None]
    angle, velocity = np.moveaxis(bunch.truth.values, -1, 0)
    energy = 0.5 * velocity**2 - frequency**2 * np.cos(angle)
    assert (np.diff(energy, axis=1) <= 0).all()


def test_brusselator_settles_below_its_bifurcation_and_oscillates_above():
    a, b = np.array([1.0]), np.array([1.7])
    fixed_point = np.stack([a, b / a])
    assert_allclose(SYSTEMS["brusselator"].field(fixed_point, np.stack([a, b])), 0.0, atol=1e-15)
    bunch = make_ode_system("brusselator", 300, random_state=0)
    late = np.ptp(bunch.truth.values[:, 100:, 0], axis=1)
    assert late[bunch.label_value < 1.5].max() < 0.5
    assert late[bunch.label_value > 2.5].min() > 1.0
    assert_array_equal(bunch.y, bunch.label_value > 2.0)


def test_oscillators_settle_on_their_limit_cycles():
    """Van der Pol's has the amplitude 2, to 1 % for any damping; the nerve cell never rests."""
    late = make_ode_system("van_der_pol", 50, random_state=0).truth.values[:, 60:, 0]
    assert_allclose(np.abs(late).max(axis=1), 2.0, rtol=0.02)
    voltage = make_ode_system("fitzhugh_nagumo", 50, random_state=0).truth.values[:, 50:, 0]
    assert np.ptp(voltage, axis=1).min() > 2.5


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_contract_of_every_system(name):
    system = SYSTEMS[name]
    bunch = make_ode_system(name, 400, random_state=0)
    panel, truth = bunch.panel, bunch.truth
    assert panel.channel_names == system.observed
    assert truth.channel_names == tuple(system.initial)
    assert_array_equal(panel.values, truth.at_observations[:, truth.observed])
    assert truth.times[-1] == system.span
    assert_allclose(panel.lengths.mean(), 30.0, atol=1.0)
    assert 0.4 < bunch.y.mean() < 0.6
    assert_array_equal(bunch.label_value, bunch.parameters[system.label])
    for parameter, (low, high) in system.params.items():
        assert bunch.parameters[parameter].between(low, high).all()
    again = make_ode_system(name, 400, random_state=0)
    assert_array_equal(panel.values, again.panel.values)
    assert bunch.protocol == "independent"


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_noise_is_relative_to_the_channel(name):
    clean = make_ode_system(name, 300, random_state=0)
    noisy = make_ode_system(name, 300, noise=0.2, random_state=0)
    error = noisy.panel.values - clean.panel.values
    scale = clean.truth.values[:, :, clean.truth.observed].std(axis=(0, 1))
    assert_allclose(error.std(axis=0), 0.2 * scale, rtol=0.05)


def test_unknown_system():
    with pytest.raises(
        ValueError, match=r"name must be one of \('lotka_volterra', .*got 'duffing'"
    ):
        make_ode_system("duffing")
