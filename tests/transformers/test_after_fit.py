"""What is fitted stays what it is: parameters that are set later, fits that fail or are stopped."""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from skpolyode import HiPPOTransformer
from skpolyode.training import loop
from skpolyode.transformers import stages
from tests.transformers.data import short_oscillators, small
from tests.transformers.registry import all_transformers

TRANSFORMERS = all_transformers()
QUICK = pytest.mark.usefixtures("no_stacking")
SERIES = short_oscillators(6)
CHANGES = {
    "n_coefficients": 9,
    "measure": "legs",
    "hold": "previous",
    "kind": "cubic",
    "causal": False,
    "alpha": 1.0,
    "window": 0.3,
    "embedding": "coefficients",
    "hidden_layer_sizes": (3,),
    "step_size": 0.01,
}


def answers(transformer):
    """All that a fitted transformer says of some series."""
    found = [transformer.transform(SERIES), transformer.get_feature_names_out().tolist()]
    if transformer.has_coefficients:
        past = [[t[-1] - 0.1] for t, _ in SERIES]
        found += [
            transformer.inverse_transform(found[0], [-0.1, 0.0]).values,
            transformer.reconstruct(SERIES, past).values,
        ]
    if hasattr(transformer, "stream"):
        found.append(transformer.stream(SERIES).embedding())
    if hasattr(transformer, "forecast"):
        found += [transformer.forecast(SERIES, [9.0]).values, transformer.score(SERIES)]
    return found


@cache
def _fitted(name):
    return clone(TRANSFORMERS[name]).fit(SERIES)


def fitted(name):
    """A copy, which may be changed."""
    return deepcopy(_fitted(name))


@cache
def _answers(name):
    return answers(_fitted(name))


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@QUICK
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_parameters_count_at_the_next_fit_only(name):
    transformer, before = fitted(name), _answers(name)
    changed = {k: value for k, value in CHANGES.items() if k in transformer.get_params()}
    assert_same(answers(transformer.set_params(**changed)), before)


def fitted_state(transformer):
    return {name: value for name, value in vars(transformer).items() if name.endswith("_")}


def other_series():
    """Of other channels and time points."""
    return pd.DataFrame(np.random.default_rng(0).normal(size=(7, 9)))


@QUICK
@pytest.mark.parametrize(
    ("name", "error"),
    # Which error it is makes no difference to the kind of transformer.
    [(name, ZeroDivisionError) for name in TRANSFORMERS]
    + [(name, KeyboardInterrupt) for name in ("HiPPOTransformer", "PolyODETransformer")],
)
def test_a_fit_that_fails_leaves_the_one_before(name, error, monkeypatch):
    transformer, before = fitted(name), _answers(name)
    state, fit = fitted_state(transformer), type(transformer)._fit

    def failing(self, panel):
        fit(self, panel)
        raise error

    monkeypatch.setattr(type(transformer), "_fit", failing)
    with pytest.raises(error):
        transformer.fit(other_series())
    assert fitted_state(transformer) == state
    assert_same(answers(transformer), before)
    with pytest.raises(ValueError, match="infinit"):
        transformer.fit([([0.0, 1.0], [np.inf, 1.0])])
    assert_same(answers(transformer), before)


def test_an_error_in_the_middle_of_training_leaves_the_fit_before(monkeypatch):
    transformer = small(max_epochs=4).fit(SERIES)
    before, state = answers(transformer), fitted_state(transformer)
    weights = [p.detach().clone() for p in transformer.field_.parameters()]
    train_epoch = loop._Run._train_epoch

    def failing(run, epoch):
        if epoch == 2:
            raise MemoryError
        return train_epoch(run, epoch)

    monkeypatch.setattr(loop._Run, "_train_epoch", failing)
    with pytest.raises(MemoryError):
        transformer.fit([(2 * t, 3 * x) for t, x in SERIES])
    assert fitted_state(transformer) == state
    assert_same([p.detach() for p in transformer.field_.parameters()], weights)
    assert_same(answers(transformer), before)


@QUICK
def test_ctrl_c_while_the_trained_model_is_looked_at_leaves_the_fit_before(monkeypatch):
    transformer = small().fit(SERIES)
    before = answers(transformer)

    def interrupted(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages.CheckStepSize, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        transformer.fit(SERIES)
    assert_same(answers(transformer), before)


@contextmanager
def strange_torch():
    """Defaults of torch that a caller may have set: each of them has failed, or changed results."""
    with torch.inference_mode(), torch.no_grad():
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        try:
            yield
        finally:
            torch.set_default_device(None)
            torch.set_default_dtype(torch.float32)


@QUICK
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_fits_and_answers_do_not_depend_on_defaults_of_torch(name):
    usual = clone(TRANSFORMERS[name]).fit(SERIES)
    with strange_torch():
        same = clone(usual).fit(SERIES)
        assert (torch.get_default_dtype(), torch.get_default_device().type) == (
            torch.float64,
            "meta",
        )
        assert not torch.is_grad_enabled()
        found = answers(usual)
    expected = answers(usual)
    assert_same(found, expected)
    assert_same(answers(same), expected)


def test_standard_deviations_do_not_depend_on_defaults_of_torch():
    usual, noisy = small(max_epochs=1).fit(SERIES), small(observations="noisy", max_epochs=1)
    same, alike = deepcopy(usual), clone(noisy)
    stds = [one.interpolate_std(SERIES) for one in (usual, noisy.fit(SERIES))]
    with strange_torch():
        for one in (same, alike.fit(SERIES)):
            assert one.embedder_.path_errors.learned  # it is learned now
    for one, std in zip((same, alike), stds, strict=True):
        np.testing.assert_array_equal(one.interpolate_std(SERIES).values, std.values)


def test_a_first_fit_that_fails_leaves_nothing():
    transformer = HiPPOTransformer()
    with pytest.raises(ValueError, match="infinit"):
        transformer.fit([([0.0, 1.0], [np.inf, 1.0])])
    assert fitted_state(transformer) == {}


@pytest.mark.parametrize("device", ["meta", "cuda:99", "xla", "hpu", "nope", ""])
def test_a_device_that_cannot_compute_here(device):
    wanted = rf"^device='{device}' cannot be used here \(.*\); device='cpu' always can\.$"
    with pytest.raises(ValueError, match=wanted):
        small(device=device).fit(SERIES)


DATES = np.array([["2020-01-01", "2020-01-02"]] * 3, dtype="datetime64[D]")
NOT_NUMBERS = {
    "text": np.array([["1", "2"], ["3", "4"], ["5", "6"]]),
    "texts": np.array([["1", "2"], ["3", "4"], ["5", "6"]], dtype=object),
    "words": [["a", "b"], ["c", "d"], ["e", "f"]],
    "datetimes": DATES,
    "timedeltas": DATES - DATES[0, 0],
    "list of datetimes": DATES.astype(object).tolist(),
    "frame of text": pd.DataFrame([["1", "2"], ["3", "4"], ["5", "6"]]),
    "frame of datetimes": pd.DataFrame(DATES),
}


NO_NUMBER = "number|float|string|columns of times"


@cache
def fitted_to_a_table(name):
    return clone(TRANSFORMERS[name]).fit(np.arange(6.0).reshape(3, 2))


@QUICK
@pytest.mark.parametrize("kind", NOT_NUMBERS)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_what_is_not_a_number_is_refused_in_tables(name, kind):
    with pytest.raises((ValueError, TypeError), match=NO_NUMBER):
        clone(TRANSFORMERS[name]).fit(NOT_NUMBERS[kind])
    with pytest.raises((ValueError, TypeError), match=NO_NUMBER):
        fitted_to_a_table(name).transform(NOT_NUMBERS[kind])


@pytest.mark.parametrize("form", [pd.DataFrame, np.array, list])
def test_missing_cells_of_any_kind_are_not_observed(form):
    rows = [[1.0, pd.NA, 2.0], [3.0, None, 1.0], [0.5, np.nan, 4.0]]
    table = form(rows) if form is not np.array else np.array(rows, dtype=object)
    transformer = HiPPOTransformer(n_coefficients=3)
    gaps = np.array([[1.0, np.nan, 2.0], [3.0, np.nan, 1.0], [0.5, np.nan, 4.0]])
    np.testing.assert_array_equal(transformer.fit_transform(table), transformer.fit_transform(gaps))
