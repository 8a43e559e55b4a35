"""Channels and series go by their labels: another order is matched by name, or refused."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator

from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    Panel,
    PanelImputer,
    PastDecoder,
    PolyODEClassifier,
    Resampler,
)
from skpolyode.forecasting import evaluate_forecasts
from skpolyode.panel import query_times
from skpolyode.panel.select import align_to_fit
from skpolyode.plotting import (
    CoefficientDisplay,
    ForecastDisplay,
    ReconstructionDisplay,
    ReliabilityDisplay,
)
from tests.transformers.data import oscillators, small

NAMES = ["a", "b"]
LABELS = np.arange(12) % 2


@pytest.fixture(scope="module")
def panel():
    """Two channels of very different values, not always observed together."""
    series = [(t, x + np.array([0.0, 10.0])) for t, x in oscillators(12)]
    return Panel.from_series(series, channel_names=NAMES)


@pytest.fixture(scope="module")
def swapped(panel):
    return panel.select_channels(NAMES[::-1])


@pytest.fixture(scope="module")
def fitted(panel):
    return InterpolationTransformer(n_coefficients=6).fit(panel)


@pytest.fixture(scope="module")
def forecasting(panel):
    return small().fit(panel)


def imputed(embedder, panel):
    return PanelImputer(embedder).fit(panel).transform(panel).select_channels(NAMES).values


def resampled(embedder, panel):
    return Resampler(embedder, n_points=5).fit(panel).transform(panel)


def decoded(embedder, panel):
    decoder = PastDecoder(embedder, max_epochs=2, random_state=0).fit(panel)
    return decoder.reconstruct(panel, [-1.0, 0.0], "end").select_channels(NAMES).values


def classified(embedder, panel):
    model = PolyODEClassifier(embedder, features="path", random_state=0).fit(panel, LABELS)
    return model.predict_proba(panel)


WRAPPERS = [imputed, resampled, decoded, classified]


@pytest.mark.parametrize("wrapped", WRAPPERS)
def test_a_frozen_embedder_gets_its_own_channels(wrapped, fitted, panel, swapped):
    frozen = FrozenEstimator(fitted)
    np.testing.assert_allclose(wrapped(frozen, swapped), wrapped(frozen, panel), rtol=1e-12)


@pytest.mark.parametrize("wrapped", WRAPPERS)
def test_a_frozen_embedder_refuses_what_it_was_not_fitted_on(wrapped, fitted, panel):
    frozen = FrozenEstimator(fitted)
    others = Panel(panel.times, panel.values, panel.offsets, channel_names=["a", "q"])
    with pytest.raises(ValueError, match=r"\['a', 'q'\].*InterpolationTransformer was fitted on"):
        wrapped(frozen, others)
    fewer = panel.select_channels(["a"])
    with pytest.raises(ValueError, match="InterpolationTransformer was fitted on"):
        wrapped(frozen, fewer)
    dated = Panel.from_series([(pd.to_datetime(t, unit="s"), x) for t, x in panel])
    with pytest.raises(ValueError, match="datetimes"):
        wrapped(frozen, dated)


def test_a_wrapper_of_unnamed_channels_knows_the_names_of_its_embedder(fitted, panel, swapped):
    bare = Panel(panel.times, panel.values, panel.offsets)
    resampler = Resampler(FrozenEstimator(fitted), n_points=5).fit(bare)
    np.testing.assert_array_equal(resampler.transform(swapped), resampler.transform(bare))


def test_forecasts_are_scored_against_their_own_channels(forecasting, panel, swapped):
    tables = [
        evaluate_forecasts(forecasting, own, metrics=["mse"]).set_index("channel")["value"]
        for own in (panel, swapped)
    ]
    pd.testing.assert_series_equal(*tables, check_like=True)


@pytest.mark.parametrize("display", [ForecastDisplay, ReconstructionDisplay])
def test_displays_draw_a_channel_beside_itself(display, forecasting, panel, swapped):
    truth = [0.5, 1.0], [[0.0, 1.0], [2.0, 3.0]]
    with mpl.rc_context({"backend": "agg"}):
        one = display.from_estimator(forecasting, panel, channel="a", truth=truth)
        mirrored = truth[0], np.asarray(truth[1])[:, ::-1]
        other = display.from_estimator(forecasting, swapped, channel="a", truth=mirrored)
    for lines in zip(one.axes_[0].lines, other.axes_[0].lines, strict=True):
        np.testing.assert_allclose(*(line.get_ydata() for line in lines))
    plt.close("all")


def test_coefficients_are_those_of_the_channel(panel, swapped):
    embedder = HiPPOTransformer(n_coefficients=4).fit(panel)
    with mpl.rc_context({"backend": "agg"}):
        shown = [
            CoefficientDisplay.from_estimator(embedder, own, channel="b").coefficients
            for own in (panel, swapped)
        ]
    np.testing.assert_allclose(*shown)
    plt.close("all")


class Bands:
    """Around 0 in channel a and around 10 in channel b, whatever came before."""

    channel_names_, has_channel_names_ = tuple(NAMES), True

    def forecast_quantiles(self, y, times, alpha):
        flat, offsets = query_times(y, times)
        known, middle = align_to_fit(y, self), np.tile([0.0, 10.0], (len(flat), 1))
        return {a: known.like(flat, middle + 4 * (a - 0.5), offsets) for a in alpha}


def test_coverage_is_that_of_the_channel(panel, swapped):
    with mpl.rc_context({"backend": "agg"}):
        shown = [
            ReliabilityDisplay.from_estimator(Bands(), own, channel="b").coverage
            for own in (panel, swapped)
        ]
    np.testing.assert_allclose(*shown)
    assert np.max(shown[0]) > 0
    plt.close("all")


def targets(ids):
    return pd.Series(np.arange(len(ids)) % 2, index=ids)


@pytest.mark.parametrize("several", [False, True])
def test_targets_whose_index_has_the_ids_in_another_order_are_refused(panel, several):
    ids = [f"p{k}" for k in range(panel.n_series)][::-1]
    named = Panel(panel.times, panel.values, panel.offsets, ids=ids)
    model = PolyODEClassifier(HiPPOTransformer(n_coefficients=4), features="coefficients")
    y = targets(sorted(ids))
    other = pd.DataFrame({"u": y, "v": y}) if several else y
    with pytest.raises(ValueError, match=r"index of y .*'p0' is at position 0, where X has 'p11'"):
        model.fit(named, other)
    expected = model.fit(named, other.loc[named.ids]).predict(named)
    np.testing.assert_array_equal(
        model.fit(named, other.loc[ids].to_numpy()).predict(named), expected
    )
    model.fit(named, y.reset_index(drop=True))  # an index that is not of ids means nothing


def test_weights_and_cutoffs_go_by_position_too(forecasting, panel):
    ids = [f"p{k}" for k in range(panel.n_series)][::-1]
    named = Panel(panel.times, panel.values, panel.offsets, ids=ids)
    sorted_ids = targets(sorted(ids)) + 1.0
    with pytest.raises(ValueError, match="index of sample_weight holds the ids"):
        small().fit(named, sample_weight=sorted_ids)
    with pytest.raises(ValueError, match="index of cutoff holds the ids"):
        evaluate_forecasts(forecasting, named, cutoff=sorted_ids)
