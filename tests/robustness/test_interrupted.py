"""Ctrl-C: what encloses the training goes on with its best weights, until a second one."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from skpolyode import (
    PanelImputer,
    PastDecoder,
    PolyODEClassifier,
    PolyODERegressor,
    Resampler,
)
from skpolyode.adapters import SeriesFeatures
from skpolyode.ensemble import paths, stacking
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.training import loop
from skpolyode.transformers import input as fits
from tests.transformers.data import short_oscillators, small

SERIES, LABELS = short_oscillators(), np.arange(12) % 2
HOURS = pd.MultiIndex.from_product([range(3), pd.date_range("2024", periods=20, freq="h")])
FRAME = pd.DataFrame({"u": np.sin(np.arange(60.0))}, index=HOURS)
GOES_ON = r"interrupted in epoch 1; the best weights .*: the fit goes on, until a second Ctrl-C"


def trained(**parameters):
    return small(max_epochs=4, validation_fraction=None, **parameters)


@pytest.fixture
def ctrl_c(monkeypatch):
    """In the second epoch of the first training."""
    train_epoch, left = loop._Run._train_epoch, [None]

    def interrupted(run, epoch):
        if epoch == 1 and left:
            raise KeyboardInterrupt(left.pop())
        return train_epoch(run, epoch)

    monkeypatch.setattr(loop._Run, "_train_epoch", interrupted)


def later(frame):
    return frame.set_index(
        pd.MultiIndex.from_arrays(
            [frame.index.get_level_values(0), frame.index.get_level_values(1) + pd.Timedelta("20h")]
        )
    )


FITS = {
    "classifier": (
        lambda: PolyODEClassifier(trained(), features="coefficients", n_cuts=2),
        lambda e: e.fit(SERIES, LABELS),
        lambda e: e.predict_proba_path(SERIES).values,
    ),
    "regressor": (
        lambda: PolyODERegressor(trained(), features="summary"),
        lambda e: e.fit(SERIES, LABELS),
        lambda e: e.predict(SERIES),
    ),
    "imputer": (
        lambda: PanelImputer(trained()),
        lambda e: e.fit(SERIES),
        lambda e: e.transform(SERIES).values,
    ),
    "resampler": (
        lambda: Resampler(trained()),
        lambda e: e.fit(SERIES),
        lambda e: e.transform(SERIES),
    ),
    "decoder": (
        lambda: PastDecoder(trained(), max_epochs=1),
        lambda e: e.fit(SERIES),
        lambda e: e.transform(SERIES),
    ),
    "classifier on a decoder": (
        lambda: PolyODEClassifier(PastDecoder(trained(), max_epochs=1), features="coefficients"),
        lambda e: e.fit(SERIES, LABELS),
        lambda e: e.predict(SERIES),
    ),
    "forecaster": (
        lambda: PolyODEForecaster(trained()),
        lambda e: e.fit(FRAME),
        lambda e: e.predict([1]),
    ),
    "pretrained on frames": (
        lambda: PolyODEForecaster(trained()),
        lambda e: e.pretrain(FRAME),
        lambda e: e.fit(FRAME).predict([1]),
    ),
    "pretrained on a panel": (
        lambda: PolyODEForecaster(trained()),
        lambda e: e.pretrain(SERIES),
        lambda e: e.forecast(SERIES, [1.0], "end").values,
    ),
    "features of sktime": (
        lambda: SeriesFeatures(trained()),
        lambda e: e.fit(FRAME),
        lambda e: e.transform(FRAME),
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_the_fit_around_an_interrupted_training_is_completed(name, ctrl_c):
    make, fit, use = FITS[name]
    estimator = make()
    with (
        pytest.warns(UserWarning, match=GOES_ON),
        pytest.raises(KeyboardInterrupt, match="interrupted in epoch 1; the best weights so far"),
    ):
        fit(estimator)
    inner = getattr(estimator.transformer_, "transformer_", estimator.transformer_)
    assert (inner.n_epochs_, inner.stop_reason_) == (1, "interrupted")
    assert np.isfinite(np.asarray(use(estimator))).all()
    assert fits._stopped.get() is None


class Stopped(LogisticRegression):
    def fit(self, *_, **__):
        raise KeyboardInterrupt("second")


def test_a_second_one_leaves_the_fit_before(ctrl_c):
    classifier = PolyODEClassifier(small(max_epochs=1), features="coefficients")
    before = classifier.fit(SERIES, LABELS).predict_proba(SERIES)
    classifier.set_params(transformer=trained(), head=Stopped())
    with pytest.warns(UserWarning, match=GOES_ON), pytest.raises(KeyboardInterrupt, match="second"):
        classifier.fit(SERIES, LABELS)
    np.testing.assert_array_equal(classifier.predict_proba(SERIES), before)
    assert fits._stopped.get() is None


@pytest.mark.parametrize(
    ("module", "name"), [(stacking, "learn_stacking"), (paths.PathErrors, "learn")]
)
def test_what_is_learned_late_begins_anew_after_ctrl_c(module, name, monkeypatch):
    """With the same random numbers, so that answers are those of a first forecast."""
    learn, drawn = getattr(module, name), []

    def interrupted(*args, **options):
        rng = [each for each in args if isinstance(each, np.random.RandomState)]
        drawn.append([each.random_sample() for each in rng])
        if len(drawn) == 1:
            raise KeyboardInterrupt
        return learn(*args, **options)

    monkeypatch.setattr(module, name, interrupted)
    transformer = small().fit(SERIES)
    for interval in (transformer.forecast_interval, transformer.interpolate_interval):
        with suppress(KeyboardInterrupt):
            interval(SERIES, [1.0], relative_to="end")
        lower, upper = interval(SERIES, [1.0], relative_to="end")
        assert (lower.values <= upper.values).all()
    assert drawn[0] == drawn[1]
