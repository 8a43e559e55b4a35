"""`PaperPolyODETransformer`: the choices of the paper one by one."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from benchmarks.paper.study import SOLVERS, PaperPolyODETransformer
from skpolyode import Panel, PolyODETransformer, load
from tests.streams.cases import assert_same_answers, mixed
from tests.transformers.data import oscillators, small
from tests.transformers.test_polyode_long import long_series
from tests.transformers.test_polyode_measures import drifting

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("whole_fits")]

SERIES = oscillators(4, length=1.5)
STEP = 0.03
OURS = {"solver": "exact", "gradient": "interval", "update": "bridge", "origin": "constant"}

every_solver = pytest.mark.parametrize("solver", SOLVERS[1:])


def paper(**parameters):
    """As `small`, with the choices of the paper."""
    cheap = small().get_params()
    return PaperPolyODETransformer(**cheap | parameters)


def ours(**parameters):
    """As `small`, as an instance of the class of the study."""
    return paper(**OURS | parameters)


@pytest.fixture(scope="module")
def exact():
    """With one memory, as in the paper."""
    length = ours(max_epochs=1).fit(SERIES).window_
    sizes = {"window": length, "context": length, "hidden_size": 0}
    return small(step_size=STEP, **sizes).fit(SERIES)


@parametrize_with_checks(
    [
        PaperPolyODETransformer(
            n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1, random_state=0
        )
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_with_our_choices_it_is_the_transformer_of_the_package(exact):
    same = ours(step_size=STEP).fit(SERIES)
    assert same.history_[-1]["validation_error"] == exact.history_[-1]["validation_error"]
    close = {"rtol": 0, "atol": 1e-12}  # one runs few series in numpy, the other in torch
    np.testing.assert_allclose(same.transform(SERIES), exact.transform(SERIES), **close)
    assert same.step_halving_error_ == pytest.approx(exact.step_halving_error_, abs=1e-12)
    ahead = [one.forecast(SERIES, [1.6, 2.0]).values for one in (same, exact)]
    np.testing.assert_allclose(*ahead, **close)


@pytest.mark.parametrize("choice", ["gradient", "update", "origin"])
def test_every_choice_of_the_paper_makes_a_difference(choice, exact):
    default = inspect.signature(PaperPolyODETransformer).parameters[choice].default
    other = ours(step_size=STEP, **{choice: default}).fit(SERIES)
    assert not np.allclose(other.transform(SERIES), exact.transform(SERIES), atol=1e-6)


def test_parameters_are_its_own_and_those_of_its_parent():
    names = list(inspect.signature(PaperPolyODETransformer).parameters)
    assert names == [*OURS, *inspect.signature(PolyODETransformer).parameters]
    for entry in ("n_coefficients : int", "validation_fraction : float or None", "field_ : torch"):
        assert entry in PaperPolyODETransformer.__doc__
    assert clone(paper(solver="rk4", window=2.0)).get_params()["window"] == 2.0


@every_solver
def test_every_solver_comes_near_the_exact_one(solver, exact):
    fitted = ours(solver=solver, step_size=STEP).fit(SERIES)
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


@pytest.mark.parametrize("origin", ["zero", "constant"])
@pytest.mark.parametrize("gradient", ["interval", "series"])
@pytest.mark.parametrize("update", ["bridge", "jump"])
def test_every_way_of_training_learns(gradient, update, origin):
    choices = {"gradient": gradient, "update": update, "origin": origin}
    transformer = paper(**choices, max_epochs=6, validation_fraction=None).fit(
        oscillators(rate=3.0)
    )
    errors = [entry["validation_error"] for entry in transformer.history_]
    assert min(errors) < 0.8 * errors[0]


def test_gradients_through_series_reach_the_map_of_the_covariates():
    embedder = paper(gradient="series", max_epochs=12).fit(drifting())
    static = pd.DataFrame({"trend": ["up", "down"], "age": [0.0, 0.0]})
    start = Panel.from_series([([0.0], [1.0])] * 2, static=static)
    rise, fall = embedder.forecast(start, [1.0], combine=False).values[:, 0]
    assert rise > 1.1
    assert fall < 0.9


@pytest.mark.parametrize("choices", [{"gradient": "series"}, {"origin": "zero"}, {}], ids=str)
def test_series_are_cut_only_where_parts_are_like_them(choices):
    embedder = ours(**choices, max_epochs=1).fit(Panel.from_series([long_series(40)]))
    assert (embedder._rows_to_cut(embedder.embedder_) is None) == bool(choices)


CHOICES = [
    {},
    {"update": "bridge"},
    {"origin": "constant"},
    *(
        pytest.param(
            {"solver": solver, "step_size": 0.05},
            marks=[pytest.mark.slow] if solver == "dopri5" else [],  # shares its steps with no one
        )
        for solver in SOLVERS[1:]
    ),
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_a_stream_gives_what_the_batch_gives(choices):
    transformer = paper(**choices, max_epochs=1).fit(SERIES)
    series = [(t[:5], x[:5]) for t, x in oscillators(2, seed=5)]
    stream = transformer.stream(2)
    for owner, time, row in zip(*mixed(series, np.random.default_rng(0)), strict=True):
        stream.update(time, row, owner)
    assert_same_answers(stream, transformer, series, atol=1e-9)


@pytest.mark.parametrize("choices", [{}, {"solver": "rk4", "step_size": 0.05}], ids=str)
def test_it_comes_back_from_a_file(choices, tmp_path):
    fitted = paper(**choices, max_epochs=1).fit(SERIES)
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params() == fitted.get_params()
    assert np.array_equal(again.transform(SERIES), fitted.transform(SERIES))
    stream = fitted.stream(SERIES)
    stream.save(tmp_path / "stream")
    ahead = [one.forecast([1.6, 2.0]).values for one in (stream, load(tmp_path / "stream"))]
    assert np.array_equal(*ahead)
    assert np.array_equal(again.fit(SERIES).transform(SERIES), fitted.fit(SERIES).transform(SERIES))


@pytest.mark.parametrize("hours", [1.0, 3600.0])
def test_divergence_is_told_in_the_units_of_the_user(hours):
    series = [(hours * times, values) for times, values in SERIES]
    settings = {"solver": "euler", "window": 2 * hours, "n_coefficients": 16}
    with pytest.raises(ValueError, match=rf"step_size={0.1 * hours:g}: .*window={2 * hours:g}\)"):
        paper(step_size=0.1 * hours, **settings).fit(series)
    paper(step_size=0.03 * hours, max_epochs=1, **settings).fit(series)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"measure": "legs"}, "'measure' parameter"),
        ({"solver": "heun"}, "'solver' parameter"),
        ({"update": "leap"}, "'update' parameter"),
        ({"origin": "one"}, "'origin' parameter"),
        ({"gradient": "none"}, "'gradient' parameter"),
        ({"horizon": 2}, "gradient='series' looks one observation ahead, got horizon=2"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        paper(**parameters).fit(SERIES)
