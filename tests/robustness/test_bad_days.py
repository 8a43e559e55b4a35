"""Any input gives finite results or one documented error, and stays what it was.

`make test` tries a few hundred examples, `make fuzz` ten thousand fresh ones.
"""

from __future__ import annotations

import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from skpolyode import HiPPOTransformer, InterpolationTransformer, Panel, PolyODETransformer
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.memory import MEMORIES
from skpolyode.panel import as_panel
from tests.quick import no_stacking
from tests.robustness.strategies import FORMATS, Pairs, pairs
from tests.robustness.verdict import accepted, judge
from tests.transformers.data import oscillators, small
from tests.transformers.registry import all_transformers

TRANSFORMERS = all_transformers() | {
    **{f"HiPPO {name}": HiPPOTransformer(measure=name, n_coefficients=5) for name in MEMORIES},
    "constant": InterpolationTransformer(kind="constant", n_coefficients=4),
    "pchip": InterpolationTransformer(kind="pchip", n_coefficients=4),
    "PolyODE legs": small(measure="legs", max_epochs=1),
}
N_CHANNELS = 2
# of each test; fresh ones if their number is given (`make fuzz`)
N_EXAMPLES = os.environ.get("FUZZ_EXAMPLES")
EXAMPLES = settings(max_examples=int(N_EXAMPLES or 15), derandomize=N_EXAMPLES is None)


STACKED = ("HiPPOTransformer",)


def stacking_of(name: str) -> AbstractContextManager[None]:
    """How forecasts are combined is learned in the same way for all: one does it in `make test`."""
    return nullcontext() if N_EXAMPLES or name in STACKED else no_stacking()


@cache
def fitted(name: str) -> Any:
    """Fitted to series without any fault; the longer ones are a continuation of the shorter."""
    with stacking_of(name):
        return clone(TRANSFORMERS[name]).fit(oscillators())


def offered(name: str, series: Pairs) -> Any:
    """The series in a format; examples that cannot be written down in it are left out."""
    if name == "panel":
        X = accepted(Panel.from_series, series)
        assume(X is not None)
        return X
    try:
        return FORMATS[name](series)
    except (ValueError, TypeError, IndexError):
        assume(False)


def later(series: Pairs) -> list[np.ndarray]:
    """A time as far after the end of each series as it is long; its end if it has one row."""
    assume(all(times.dtype.kind != "U" for times, _ in series))
    with np.errstate(all="ignore"):
        return [times[-1:] + (times[-1:] - times[:1]) for times, _ in series]


formats = st.sampled_from(list(FORMATS))


@pytest.mark.parametrize("name", TRANSFORMERS)
class TestTransformers:
    @EXAMPLES
    @given(formats, pairs())
    def test_fit(self, name, format_, series):
        X = offered(format_, series)
        transformer = clone(TRANSFORMERS[name])
        with stacking_of(name):
            Z = judge(transformer.fit_transform, X)
        if Z is None:
            return
        np.testing.assert_array_equal(judge(transformer.transform, X), Z)
        if hasattr(transformer, "reconstruct"):
            assert judge(transformer.reconstruct, X) is not None
            judge(transformer.inverse_transform, Z)

    @EXAMPLES
    @given(formats, pairs(N_CHANNELS))
    def test_after_fit(self, name, format_, series):
        transformer, X = fitted(name), offered(format_, series)
        Z = judge(transformer.transform, X)
        if Z is None:
            return
        if hasattr(transformer, "reconstruct"):
            judge(transformer.inverse_transform, Z)
        if hasattr(transformer, "stream"):
            scale = 1e-7 * max(1.0, np.abs(Z).max())
            embedding = row_by_row(transformer, X).embedding()
            np.testing.assert_allclose(embedding, Z, rtol=0, atol=scale)


def row_by_row(transformer: Any, X: Any) -> Any:
    """Stream that has taken in every observation by itself."""
    with warnings.catch_warnings():  # as `judge` does
        warnings.filterwarnings("ignore", r"[\s\S]*far from (all )?others")
        warnings.filterwarnings("ignore", r".* is read as \(time, channel\)")
        panel = as_panel(X)
        stream = transformer.stream(panel.n_series)
        for k, (times, values) in enumerate(panel):
            for time, row in zip(times, values, strict=True):
                stream.update(time, row, series=k)
    return stream


@EXAMPLES
@given(formats, pairs(N_CHANNELS))
def test_forecast(format_, series):
    transformer, X = fitted("PolyODETransformer"), offered(format_, series)
    judge(lambda X: transformer.forecast(X, later(series)), X)


@EXAMPLES
@given(pairs(), st.booleans())
def test_forecaster(series, one):
    """sktime's own validation comes first; it refuses much, and says so."""
    y = (as_frame if one else as_table)(series)
    embedder = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1)
    forecaster = PolyODEForecaster(embedder, random_state=0)
    if judge(lambda y: forecaster.fit(y).transformer_.step_size_, y) is not None:
        judge(lambda series: forecaster.forecast(series, later(series)), series)


def as_table(series: Pairs) -> pd.DataFrame:
    assume(all(len(times) == len(values) for times, values in series))
    frames = [pd.DataFrame(values, index=times) for times, values in series]
    assume(frames)
    return pd.concat(frames, keys=range(len(frames)), names=["series", "time"])


def as_frame(series: Pairs) -> pd.DataFrame:
    assume(series and len(series[0][0]) == len(series[0][1]))
    return pd.DataFrame(series[0][1], index=series[0][0])


class TestTooLarge:
    """Values whose products are no numbers."""

    def test_for_any_scale(self):
        X = [([0.0, 1.0], [1.0, 2.0]), ([0.0, 4.5], [np.nan, -2e304])]
        with pytest.raises(ValueError, match=r"series 1 .*'x0', time 4\.5: -2e\+304 is too large"):
            HiPPOTransformer().fit(X)

    def test_for_the_scale_of_fit(self):
        series = oscillators()
        series[3][1][2, 1] = 1e120
        with pytest.raises(ValueError, match=r"series 3 .*'x1', time .*: 1e\+120 is too"):
            fitted("HiPPOTransformer").transform(series)
        HiPPOTransformer().fit(series)

    def test_for_a_stream(self):
        stream = fitted("HiPPOTransformer").stream(oscillators())
        before = stream.embedding()
        with pytest.raises(
            ValueError, match=r"series 0 .*, time 99: .*1e\+120 .*unit.*; the stream is"
        ):
            stream.update(99.0, [[0.0, 1e120]], series=0)
        np.testing.assert_array_equal(stream.embedding(), before)
