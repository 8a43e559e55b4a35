"""A few series that are far longer than all others, by another unit of time or a logger's gap."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from skpolyode import (
    HiPPORNNTransformer,
    HiPPOTransformer,
    InterpolationTransformer,
    LegendreFitTransformer,
    Panel,
    PastDecoder,
    PolyODETransformer,
)
from skpolyode.panel.query import longest_duration

LONG = 30.0 * 60  # minutes in place of hours
QUICK = {"max_epochs": 1, "random_state": 0}
TRANSFORMERS = {
    "legt": HiPPOTransformer(n_coefficients=4),
    "lagt": HiPPOTransformer(n_coefficients=4, measure="lagt"),
    "fout": HiPPOTransformer(n_coefficients=5, measure="fout"),
    "interpolation": InterpolationTransformer(n_coefficients=4),
    "least squares": LegendreFitTransformer(n_coefficients=4),
    "polyode": PolyODETransformer(
        n_coefficients=4, step_size=6.0, validation_fraction=None, **QUICK
    ),
    "hippo-rnn": HiPPORNNTransformer(n_coefficients=4, validation_fraction=None, **QUICK),
    "decoder": PastDecoder(HiPPOTransformer(window=30.0), n_coefficients=4, max_epochs=1),
}


def panel(lengths, *, dates=False, gap=0.0):
    """Series of six rows over `lengths` of hours; the last one with a gap in addition."""
    shares, series = np.linspace(0, 1, 6), []
    for k, length in enumerate(lengths):
        times = length * shares + gap * (k == len(lengths) - 1) * (shares > 0.5)
        dated = pd.Timestamp("2024") + pd.to_timedelta(times, unit="h")
        series.append((dated if dates else times, np.sin(times + k)))
    unit = {"time_unit": "h"} if dates else {}
    return Panel.from_series(series, ids=[f"p{k}" for k in range(len(series))], **unit)


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("dates", [False, True])
def test_an_outlier_does_not_set_the_window(name, dates):
    transformer = TRANSFORMERS[name]
    message = r"window='auto' is 30( h)?, but 1 .* up to 1800 \(ids: 'p11'\)\. .* window=1800"
    with pytest.warns(UserWarning, match=message):
        transformer.fit(panel([30.0] * 11 + [LONG], dates=dates))
    past = transformer.embedder_.past
    if past is not None:
        assert past.window == 30.0
    if hasattr(transformer, "coverage_"):
        assert transformer.coverage_ == pytest.approx((11 + 30 / LONG) / 12)


@pytest.mark.parametrize("dates", [False, True])
def test_neither_does_a_gap_of_twelve_days(dates):
    with pytest.warns(UserWarning, match=r"window='auto' is 30"):
        hippo = HiPPOTransformer().fit(panel([30.0] * 12, dates=dates, gap=288.0))
    assert hippo.window_ == 30.0


def test_the_window_can_be_given_and_legs_has_none():
    outlying = panel([30.0] * 11 + [LONG])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert HiPPOTransformer(window=LONG).fit(outlying).coverage_ == 1.0
        assert HiPPOTransformer(measure="legs").fit(outlying).window_ == LONG


@pytest.mark.parametrize(
    ("lengths", "longest"),
    [
        ([30.0] * 55 + [150.0] * 5, 150.0),
        ([30.0] * 11 + [240.0], 240.0),
        ([30.0] * 11 + [241.0], 30.0),
        ([30.0] * 18 + [300.0, 3e4], 30.0),
        ([30.0] * 17 + [300.0] * 3, 300.0),
        ([30.0] * 8 + [LONG], LONG),
        (np.exp(np.random.default_rng(0).normal(size=300)), None),
        ([0.0] * 50 + [10.0, 1000.0], 1000.0),
        ([0.0] * 3, 1.0),
    ],
    ids=[
        *("five times as long", "at most eight times", "more", "two", "more than a tenth", "few"),
        *("a long tail", "single rows", "nothing else"),
    ],
)
def test_who_is_an_outlier(lengths, longest):
    series = [([0.0, x], [1.0, 2.0]) if x > 0 else ([0.0], [1.0]) for x in lengths]
    found = longest_duration(Panel.from_series(series))
    assert found == (max(lengths) if longest is None else longest)
