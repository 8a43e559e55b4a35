"""`PolyODETransformer(solver=...)`: the coupled system by standard solvers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from skpolyode import load
from skpolyode.models import SOLVERS
from tests.transformers.data import oscillators, small

SERIES = oscillators(4, length=1.5)
STEP = 0.03
STUDIED = [solver for solver in SOLVERS if solver != "exact"]

every_solver = pytest.mark.parametrize("solver", STUDIED)


@pytest.fixture(scope="module")
def exact():
    return small(step_size=STEP).fit(SERIES)


@every_solver
def test_every_solver_comes_near_the_exact_one(solver, exact):
    fitted = small(solver=solver, step_size=STEP).fit(SERIES)
    errors = [[entry["validation_error"] for entry in one.history_] for one in (fitted, exact)]
    rough = solver in ("euler", "backward_euler")
    np.testing.assert_allclose(*errors, rtol=0.05 if rough else 1e-3)
    np.testing.assert_allclose(
        fitted.transform(SERIES), exact.transform(SERIES), atol=0.2 if rough else 5e-3
    )
    ahead = [one.forecast(SERIES, [1.6, 2.0]).values for one in (fitted, exact)]
    np.testing.assert_allclose(*ahead, atol=0.2 if rough else 5e-3)
    assert fitted.step_halving_error_ == pytest.approx(0.0, abs=0.05 if rough else 1e-3)
    assert np.isfinite(fitted.score(SERIES))


def test_the_solver_is_a_parameter_like_others(tmp_path):
    fitted = clone(small(solver="backward_euler", step_size=STEP, max_epochs=1)).fit(SERIES)
    fitted.save(tmp_path / "model")
    Z = load(tmp_path / "model").transform(SERIES)
    np.testing.assert_array_equal(Z, fitted.transform(SERIES))
    assert not np.array_equal(Z, fitted.set_params(solver="exact").transform(SERIES))


@pytest.mark.parametrize("hours", [1.0, 3600.0])
def test_divergence_is_told_in_the_units_of_the_user(hours):
    series = [(hours * times, values) for times, values in SERIES]
    settings = {"solver": "euler", "window": 2 * hours, "n_coefficients": 16}
    with pytest.raises(ValueError, match=rf"step_size={0.1 * hours:g}: .*window={2 * hours:g}\)"):
        small(step_size=0.1 * hours, **settings).fit(series)
    small(step_size=0.03 * hours, max_epochs=1, **settings).fit(series)


def test_only_the_sliding_window_has_solvers():
    with pytest.raises(ValueError, match="solves the equation of measure='legt' only"):
        small(solver="rk4", measure="legs").fit(SERIES)


def test_unknown_solver():
    with pytest.raises(ValueError, match="'solver' parameter"):
        small(solver="heun").fit(SERIES)
