"""Stays as wards record them: many channels, few cells, some channels in no stay of a fold."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline, make_union

from skpolyode import (
    HiPPOTransformer,
    Panel,
    PolyODETransformer,
    StaticFeatures,
    SummaryStatsTransformer,
)

N_CHANNELS = 37
SMALL = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(8,), max_epochs=2, random_state=0)


def ward(n_stays: int, share: float = 0.16, seed: int = 0) -> tuple[Panel, np.ndarray]:
    """Stays of two days in which a cell is observed with some probability, and whether levels fall.

    The second last channel is recorded in odd stays only, the last one never.
    """
    rng, series = np.random.default_rng(seed), []
    falls = np.arange(n_stays) % 3 == 0
    for stay in range(n_stays):
        times = np.unique(rng.integers(0, 96, 30) / 2)
        level = rng.normal(size=N_CHANNELS) - np.outer(times / 24, np.full(N_CHANNELS, falls[stay]))
        values = level + 0.3 * rng.normal(size=level.shape)
        values[rng.random(values.shape) > share] = np.nan
        values[0, 0] = level[0, 0]
        if stay % 2 == 0:
            values[:, -2] = np.nan
        values[:, -1] = np.nan
        series.append((times, values))
    static = pd.DataFrame({"age": rng.normal(60, 10, n_stays)})
    static["unit"] = rng.choice(["a", "b"], n_stays)
    return Panel.from_series(series, static=static), falls.astype(int)


def test_many_channels_with_few_cells():
    panel, _ = ward(12)
    with pytest.warns(UserWarning, match=r"channels \['x36'\] were never observed"):
        model = clone(SMALL).set_params(observations="exact").fit(panel)
    assert model.validation_error_ < 1.5  # in variances: it has not run away
    assert np.isfinite(model.transform(panel)).all()
    known = panel[:3]
    ahead = model.forecast(known, [times[-1] + np.array([0.5, 12.0]) for times, _ in known])
    assert np.isfinite(ahead.values).all()
    filled = model.interpolate(panel).values
    seen = ~np.isnan(panel.values)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[seen], panel.values[seen])


@pytest.mark.parametrize(
    ("n_channels", "size"), [(4, 32), (10, 12), (16, 8), (40, 8), (200, 2), (600, 1)]
)
def test_the_state_of_the_dynamics_stays_narrow(n_channels, size):
    """128 coefficients of all channels, but eight of each, or 512; one of each at least.

    The embedding keeps all of its own.
    """
    rng, times = np.random.default_rng(0), np.arange(4.0)
    values = np.where(rng.random((6, 4, n_channels)) < 0.3, 1.0, np.nan)
    values[0] = rng.normal(size=values[0].shape)  # every channel is in some series
    panel = Panel.from_series([(times, own) for own in values])
    model = PolyODETransformer(max_epochs=1, validation_fraction=None, random_state=0)
    model.fit_stages(panel, skip=["stacking"])  # mixed models of 600 channels are not asked for
    assert model.field_.layers[0].in_features == n_channels * (1 + size) + model.hidden_size
    features = model.transform(panel)
    assert features.shape == (6, n_channels * (32 + 1 + size))
    assert np.isfinite(features).all()


@pytest.mark.parametrize(
    "memory",
    [
        SummaryStatsTransformer(),
        make_union(
            SMALL, HiPPOTransformer(n_coefficients=4), SummaryStatsTransformer(), StaticFeatures()
        ),
    ],
    ids=["statistics", "union"],
)
@pytest.mark.usefixtures("no_stacking")
def test_a_channel_that_is_in_no_stay_of_a_training_fold(memory):
    # Boosted trees of scikit-learn refuse a feature that is always NaN, with an error about the
    # shape of a window; no feature of this package is.
    panel, y = ward(40, share=0.5)
    train, test = np.arange(40) % 2 == 0, np.arange(40) % 2 == 1
    assert np.isnan(panel[train].values[:, -2]).all()
    assert not np.isnan(panel[test].values[:, -2]).all()
    model = make_pipeline(memory, HistGradientBoostingClassifier(min_samples_leaf=3, max_iter=20))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the channels .* were never observed")
        warnings.filterwarnings("ignore", ".*does not use the static covariates")
        model.fit(panel[train], y[train])
        risk = model.predict_proba(panel[test])[:, 1]
        assert np.isfinite(model[0].transform(panel[test])).all()
    assert risk[y[test] == 1].mean() > risk[y[test] == 0].mean() + 0.3
