"""A neural transformer of twenty lines can do all that its base promises."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import skpolyode
from tests.transformers.data import short_oscillators
from tests.transformers.toy import ToyTransformer

SERIES = short_oscillators(rate=3.0)


@pytest.fixture(scope="module")
def fitted():
    return ToyTransformer(max_epochs=30, random_state=0).fit(SERIES)


@pytest.mark.usefixtures("no_stacking")
@parametrize_with_checks([ToyTransformer(max_epochs=1, random_state=0)])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_parameters_of_training_are_its_own():
    names = list(inspect.signature(ToyTransformer).parameters)
    assert names[:3] == ["size", "horizon", "learning_rate_init"]
    assert clone(ToyTransformer(size=3, max_epochs=2)).get_params()["max_epochs"] == 2
    assert 'batch_size : int or "auto"' in ToyTransformer.__doc__
    with pytest.raises(
        TypeError, match="ToyTransformer has no parameter 'epochs'; did you mean 'max_epochs'"
    ):
        ToyTransformer(epochs=2)


def test_it_learns_to_forecast(fitted):
    errors = [entry["validation_error"] for entry in fitted.history_]
    assert fitted.validation_error_ < 0.7 * errors[0]
    assert fitted.score(short_oscillators(20, seed=2, rate=3.0)) > -0.7 * errors[0]


def test_features_are_the_state(fitted):
    assert fitted.get_feature_names_out().tolist() == ["h0", "h1", "h2", "h3"]
    assert fitted.transform(SERIES).shape == (12, 4)
    assert not hasattr(fitted, "inverse_transform")
    assert not hasattr(fitted, "reconstruct")


def test_series_do_not_depend_on_each_other(fitted):
    whole = fitted.transform(SERIES)
    np.testing.assert_allclose(fitted.transform(SERIES[3:5]), whole[3:5], atol=1e-12)
    shifted = [(t + 1e3, x) for t, x in SERIES]
    np.testing.assert_allclose(fitted.transform(shifted), whole, atol=1e-9)


def test_stream_gives_what_the_batch_gives(fitted):
    stream = fitted.stream(len(SERIES))
    for k, (times, values) in enumerate(SERIES):
        for t, x in zip(times, values, strict=True):
            stream.update(t, x, series=k)
    np.testing.assert_allclose(stream.embedding(), fitted.transform(SERIES), atol=1e-12)
    ahead = [4.5, 6.0]
    np.testing.assert_allclose(
        stream.forecast(ahead).values, fitted.forecast(SERIES, ahead).values, atol=1e-12
    )
    assert not hasattr(stream, "reconstruct")


def test_forecasts_do_not_depend_on_what_else_is_asked(fitted):
    alone = fitted.forecast(SERIES, [6.0]).values
    among = fitted.forecast(SERIES, [4.2, 6.0, 9.0]).values
    np.testing.assert_allclose(among[1::3], alone, atol=1e-12)


def test_it_comes_back_from_a_file(fitted, tmp_path):
    fitted.save(tmp_path / "toy")
    again = skpolyode.load(tmp_path / "toy")
    assert np.array_equal(again.transform(SERIES), fitted.transform(SERIES))
    stream = fitted.stream(SERIES)
    stream.save(tmp_path / "stream")
    assert np.array_equal(skpolyode.load(tmp_path / "stream").embedding(), stream.embedding())


def test_a_training_default_of_its_own():
    class Eager(ToyTransformer):
        """As its parent, in a hurry.

        Parameters
        ----------
        max_epochs : int, default=3
            Few.
        %(Parameters)s
        """

        def __init__(self, *, max_epochs: int = 3, **others) -> None:
            super().__init__(max_epochs=max_epochs, **others)

    parameters = inspect.signature(Eager).parameters
    assert list(parameters)[:3] == ["max_epochs", "size", "horizon"]
    assert parameters["max_epochs"].default == Eager().max_epochs == 3
    assert Eager(size=2).get_params() == {**ToyTransformer(size=2).get_params(), "max_epochs": 3}
    assert Eager.__doc__.count("max_epochs :") == 1
    assert "size : int, default=4" in Eager.__doc__
