"""A path as an object: it answers as the methods of its transformer, and keeps what it knew."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.interpolate import CubicSpline, PchipInterpolator

from skpolyode import HiPPOTransformer, InterpolationTransformer, Panel, PolyODETransformer
from skpolyode.embedders import ChannelScaler, Embedder, Units, smoother
from skpolyode.models import SequenceModel
from skpolyode.questions import Path
from skpolyode.transformers.base import SeriesTransformer
from tests.questions.test_slopes import PATHS, ended

SERIES = ended(12, seed=0)
START = pd.Timestamp("2024-03-01", tz="Europe/Berlin")
DATED = [(START + pd.to_timedelta(t, unit="h"), x) for t, x in SERIES]
ASKED = [-1.0, -0.3, 0.0, 0.4]


@pytest.mark.filterwarnings("ignore:only:UserWarning")
@pytest.mark.parametrize("name", ["PolyODETransformer", "LinODENetTransformer", "HiPPOTransformer"])
@pytest.mark.parametrize("dated", [False, True], ids=["numbers", "dates"])
def test_a_path_answers_as_its_transformer(name, dated):
    panel = Panel.from_series(DATED, time_unit="h") if dated else Panel.from_series(SERIES)
    model, rel = PATHS[name].fit(panel), {"relative_to": "end"}
    path, asked = model.path(panel), pd.to_timedelta(ASKED, unit="h") if dated else ASKED
    assert path.value(asked, "end").equals(model.interpolate(panel, asked, "end"))
    assert path.value().equals(model.interpolate(panel))
    assert path.slope(asked, **rel).equals(model.derivative(panel, asked, **rel))
    window = ("-1h", "2h", "end") if dated else (-1.0, 2.0, "end")
    for mean, ask in ((False, model.integral), (True, model.average)):
        pd.testing.assert_frame_equal(path.integral(*window, mean=mean), ask(panel, *window))
    if name != "HiPPOTransformer":
        assert path.slope_std(asked, "end").equals(model.derivative_std(panel, asked, "end"))
        ends = model.interpolate_interval(panel, asked, 0.5, "end")
        for own, other in zip(path.interval(asked, 0.5, "end"), ends, strict=True):
            assert own.equals(other)


def test_a_path_keeps_what_its_transformer_had_learned():
    model = PolyODETransformer(n_coefficients=3, max_epochs=1, random_state=0).fit(SERIES)
    path, other = model.path(SERIES), [(t, 5 + 3 * x) for t, x in SERIES]
    asks = (
        lambda: path.value(ASKED, "end").values,
        lambda: path.slope_std(ASKED, "end").values,  # ahead, of sampled futures
        lambda: path.integral(0.0, 1.0, "end").to_numpy(),
    )
    before = [ask() for ask in asks]
    model.fit(other)
    for ask, expected in zip(asks, before, strict=True):
        assert_array_equal(ask(), expected)
    assert np.abs(model.path(SERIES).value(ASKED, "end").values - before[0]).max() > 0.01


def test_intervals_may_be_around_other_values():
    model = PolyODETransformer(n_coefficients=3, max_epochs=1, random_state=0).fit(SERIES)
    path = model.path(SERIES)
    lower, upper = path.interval(ASKED, 0.9, "end")
    middle = path.value(ASKED, "end", limited=False)
    moved = middle.like(middle.times, middle.values + 0.5, middle.offsets)
    found = path.interval(ASKED, 0.9, "end", around=moved)
    for own, before in zip(found, (lower, upper), strict=True):
        assert_allclose(own.values, before.values + 0.5)


def test_what_a_path_does_not_know_is_named():
    path = HiPPOTransformer().fit(SERIES).path(SERIES)
    with pytest.raises(ValueError, match="errors of paths are not known"):
        path.slope_std()
    other = SineTransformer().fit(SERIES).path(SERIES)
    for ask in (other.interval, other.slope_std, other.std):
        with pytest.raises(ValueError, match="errors of paths are not known"):
            ask()
    with pytest.raises(ValueError, match="order must be an int"):
        path.slope(order=0)
    with pytest.raises(ValueError, match=r"coverage"):
        path.integral(coverage=1.0)


def test_a_path_knows_where_its_series_begin_and_end():
    series = [([0.0, 1.0, 2.0], [np.nan, 3.0, 4.0]), ([0.0, 1.0], [np.nan, np.nan])]
    path = InterpolationTransformer().fit(series[:1]).path(Panel.from_series(series, empty="keep"))
    assert isinstance(path, Path)
    assert_array_equal(path.start, [1.0, np.nan])
    assert_array_equal(path.end, [2.0, np.nan])


@pytest.mark.parametrize(("kind", "rival"), [("pchip", PchipInterpolator), ("cubic", CubicSpline)])
@pytest.mark.parametrize("origin", [0.0, 1e6])
def test_slopes_of_curves_are_exact_in_gaps_of_any_length(kind, rival, origin):
    """A fit to ten values of a short piece has errors of 1e-2 and more in second derivatives."""
    t = np.array([0.0, 1.0, 1.0 + 2**-20, 3.0, 4.0, 6.0])
    x = np.cumsum([0.0, 1.0, 2**-20, 1.0, -2.0, 0.5])
    curve = rival(t, x, **({"bc_type": "natural"} if kind == "cubic" else {}))
    series = [(origin + t, x)]
    model = InterpolationTransformer(kind=kind).fit(series)
    at = np.sort(np.concatenate([t[:-1], 1.0 + 2**-21 + np.zeros(1), [0.5, 2.0, 3.5, 5.9]]))
    for order in (1, 2):
        found = model.derivative(series, origin + at, order).values[:, 0]
        assert_allclose(found, curve.derivative(order)(at), rtol=1e-7, atol=1e-7)
    ends = model.derivative(series, [origin + 6.0, origin + 1e4]).values[:, 0]
    assert_allclose(ends, [curve.derivative()(6.0), 0.0], rtol=1e-7, atol=1e-12)


def test_models_say_where_their_paths_have_kinks():
    """In the contract, not by a guess: a model that says nothing has a smooth path in each gap."""
    assert (SequenceModel.step_size, SequenceModel.max_gap) == (np.inf, np.inf)
    for name in ("PolyODETransformer", "GRUODEBayesTransformer", "LinODENetTransformer"):
        model = PATHS[name].fit(SERIES).embedder_.model
        assert (model.step_size < np.inf) == (name != "LinODENetTransformer")
        assert model.steps_share_gaps == (name == "PolyODETransformer")


@dataclass(frozen=True, eq=False)
class SineEmbedder(Embedder):
    """A path that follows no model, from another package: the sine of the time."""

    units: Units
    past = None

    def features(self, panel: Panel) -> np.ndarray:
        return panel.end[:, None]

    def path_values(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return np.sin(times)[:, None] * np.ones(panel.n_channels)


class SineTransformer(SeriesTransformer):
    has_path = True

    def _fit(self, panel: Panel) -> None:
        self.embedder_ = SineEmbedder(Units(ChannelScaler.of(panel.values), 0.5))


def test_a_path_of_another_package_has_slopes_and_integrals():
    """Also close to its last observation, where no step of a model is known."""
    t = np.linspace(0, 6, 20)
    path = SineTransformer().fit([(t, np.sin(t))]).path([(t, np.sin(t))])
    at = [0.1, 3.0, 5.9, 6.0, 6.0 + 1e-3, 7.0]
    slopes = path.slope(at).values[:, 0]
    assert_allclose(slopes[[0, 1, 2, 5]], np.cos([0.1, 3.0, 5.9, 7.0]), atol=1e-7)
    assert_allclose(slopes[3:5], np.cos(6.0), atol=0.01)  # of the cubic over the next half
    value = path.integral(0.5, 2.5)["value"].iloc[0]
    assert_allclose(value, np.cos(0.5) - np.cos(2.5), atol=1e-12)


def values(answer: Panel | tuple[Panel, Panel]) -> np.ndarray:
    return np.array([own.values for own in (answer if isinstance(answer, tuple) else [answer])])


@pytest.mark.parametrize("observations", ["exact", "noisy"])
def test_a_path_runs_its_model_once_and_fits_its_waves_once(observations, monkeypatch):
    """Whatever is asked first, answers are those of a new path."""
    options = {"n_coefficients": 3, "max_epochs": 1, "random_state": 0}
    model, counts = PolyODETransformer(**options, observations=observations).fit(SERIES), []
    model.embedder_ = replace(model.embedder_, waves=np.full(2, 0.3))
    model.path(SERIES).std()  # learns errors
    for name in ("_run_through", "_wave"):
        work = getattr(smoother, name)
        monkeypatch.setattr(
            smoother, name, lambda *x, name=name, work=work: counts.append(name) or work(*x)
        )
    series = [*SERIES[:3], ([0.0, 1.0], np.full((2, 2), np.nan))]
    path = model.path(Panel.from_series(series, empty="keep"))
    names = ["slope_std", "std", "value", "interval", "slope"]
    found = [values(getattr(path, name)([3.0, 3.1])) for name in names]
    assert sorted(counts) == ["_run_through"] + ["_wave"] * 3
    for name, own in zip(names, found, strict=True):
        assert_array_equal(values(getattr(model.path(path.panel), name)([3.0, 3.1])), own)
    path = pickle.loads(pickle.dumps(path))
    assert_array_equal(path.value([3.0, 3.1]).values, found[2][0])
    nothing = model.path(Panel.from_series(series[3:], empty="keep"))
    assert np.isnan(nothing.value([3.0]).values).all()
    assert nothing.integral().isna().all(axis=None)
