"""Slopes of paths of every transformer against differences of what `interpolate` answers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpolyode import Inputs, InterpolationTransformer, Panel, PolyODETransformer
from skpolyode.siblings import GRUODEBayesTransformer
from skpolyode.transformers.base import SeriesTransformer
from tests.transformers.registry import all_transformers

PATHS = {name: own for name, own in all_transformers().items() if own.has_path}
TINY, PART = 1e-6, 1 / 64  # in typical gaps: of a difference; of the part that a slope is read from


def ended(n_series: int, seed: int, n_rows: int = 12) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two channels, of which the second ends four rows before the first, which starts late."""
    rng, series = np.random.default_rng(seed), []
    for k in range(n_series):
        t = np.cumsum(0.1 + rng.exponential(0.4, n_rows)).round(3)
        x = np.stack([3 + np.sin(t + k), np.cos(1.3 * t)], axis=1)
        x[-4:, 1], x[:2, 0] = np.nan, np.nan
        series.append((t, x))
    return series


def check_slopes(model: SeriesTransformer, panel: Panel, times: np.ndarray) -> None:
    """Slopes at times (B, Q) are those to the right; where the path bends just there, in between.

    Close to the last observation of a channel they are not asked for: what is noisy is left at
    once.
    """
    unit = model.embedder_.units.time_scale
    found = model.derivative(panel, [*times]).values
    shifts = unit * np.sort(np.add.outer(PART * np.linspace(-1, 1, 17), [0.0, TINY]).ravel())
    path = model.interpolate(panel, [own.ravel() for own in times[..., None] + shifts]).values
    near = np.diff(path.reshape(len(found), 17, 2, -1), axis=2)[:, :, 0] / (TINY * unit)
    last = np.array([[t[~np.isnan(column)][-1] for column in x.T] for t, x in panel])
    since = times[..., None] - last[:, None]
    asked = ~((since >= 0) & (since < PART * unit)).reshape(found.shape)
    here, low, high = (own[asked] for own in (near[:, 8], near.min(axis=1), near.max(axis=1)))
    size, off = np.abs(here).mean(), np.abs(found[asked] - here)
    assert np.mean(off < 1e-4 * size) > 0.9
    assert (off < 1e-4 * size + 2 * (high - low)).all()


@pytest.mark.filterwarnings("ignore:only:UserWarning")
@pytest.mark.parametrize("name", PATHS)
def test_slopes_are_those_of_the_path(name):
    model, panel = PATHS[name].fit(ended(10, seed=0)), Panel.from_series(ended(3, seed=1))
    rng = np.random.default_rng(2)
    shares = np.sort(rng.uniform(0.02, 1.2, (3, 40)))
    check_slopes(model, panel, (panel.start + shares.T * (panel.end - panel.start)).T)


@pytest.mark.parametrize("kind", ["hold", "linear"])
@pytest.mark.parametrize(
    "model",
    [
        PolyODETransformer(n_coefficients=3, max_epochs=3, hidden_layer_sizes=(4,), random_state=0),
        GRUODEBayesTransformer(hidden_size=4, max_epochs=3, random_state=0),
    ],
    ids=["PolyODE", "GRU-ODE-Bayes"],
)
def test_slopes_bend_where_inputs_change(kind, model):
    """Inputs change between rows, and once after the last one."""
    series = ended(10, seed=0)
    moments = np.concatenate([np.append(t[1:] - 0.04, t[-1] + 0.5) for t, _ in series])
    values = np.random.default_rng(0).normal(size=(len(moments), 1)) * 3
    rows = Panel(moments, values, np.arange(0, len(moments) + 1, 12), channel_names=["dose"])
    panel = Panel.from_series(series, inputs=Inputs(rows, {"dose": kind}))
    model.fit(panel)
    beside = moments.reshape(10, -1, 1) + np.array([-0.03, -0.003, 0.001, 0.02])
    check_slopes(model, panel, np.sort(beside.reshape(10, -1)))


def test_inputs_that_change_at_rows_but_for_rounding_begin_no_piece():
    """3 * 0.1 is not 3 / 10: in a piece of that length, a slope would be a jump over nothing."""
    count, rng = np.arange(1, 30), np.random.default_rng(0)
    series = [(count / 10, rng.normal(size=(29, 1)).cumsum(axis=0)) for _ in range(10)]
    model, found = GRUODEBayesTransformer(hidden_size=4, max_epochs=1, random_state=0), []
    for times in (count / 10, 0.1 * count):
        rows = Panel.from_series([(times, np.cos(times)[:, None])] * 10, channel_names=["dose"])
        panel = Panel.from_series(series, inputs=Inputs(rows, "hold"))
        found.append(model.fit(panel).derivative(panel).values)
    assert_allclose(*found, rtol=1e-4, atol=1e-3)
    assert np.abs(found).max() < 1000


def test_rows_before_the_first_observation_have_no_slope():
    """A named time before it is refused; the path of a channel that starts later is level there."""
    t = np.arange(6.0)
    x = np.where(t < 2, np.nan, np.sin(t))
    panel = Panel.from_series([(t, x), (t, np.sin(t)), ([0.0, 1.0], [np.nan, 3.0])])
    model = InterpolationTransformer(kind="cubic").fit(panel)
    slopes = model.derivative(panel).values[:, 0]
    assert np.isnan(slopes).tolist() == [True] * 2 + [False] * 10 + [True, False]
    assert_allclose(slopes[2:6], model.derivative(panel[:1], t[2:]).values[:, 0])
    with pytest.raises(ValueError, match=r"series 0: .* before its first observation"):
        model.derivative(panel[:1], [1.0])
    late = [(t, np.stack([x, np.cos(t)], axis=1))]
    model = InterpolationTransformer(kind="cubic").fit(late)
    assert_allclose(model.derivative(late).values[:2, 0], 0.0, atol=1e-12)


def test_errors_of_slopes_are_unknown_there_too():
    series = [(t, np.vstack([[[np.nan] * 2], x[1:]])) for t, x in ended(12, seed=0)]
    model = PolyODETransformer(n_coefficients=3, max_epochs=1, random_state=0).fit(series)
    std = model.derivative_std(series).values.reshape(12, -1, 2)
    assert np.isnan(std[:, 0]).all()
    assert (std[:, 1:] > 0).all()
