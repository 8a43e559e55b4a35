"""The ridge regression under inputs: a linear response is found, wherever forecasts are made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import skpolyode
from skpolyode import Inputs, Panel, PolyODEForecaster, PolyODETransformer

DECAY, EFFECTS = 4.0, np.array([1.5, -0.8])  # of a dose and of a valve that opens


def response(t, doses, amounts, opens):
    """Two channels at levels of their own follow: the doses, and both inputs."""
    since = np.asarray(t)[:, None] - doses
    faded = np.where(since >= 0, np.exp(-np.maximum(since, 0) / DECAY), 0.0) @ amounts
    follows = 1 - np.exp(-np.maximum(np.asarray(t) - opens, 0.0) / DECAY)
    return np.column_stack([faded, EFFECTS[0] * faded + EFFECTS[1] * follows])


class Driven:
    """Series under doses and a valve, some of them to come; each row holds one channel or both."""

    def __init__(self, n_series: int, seed: int, spread: float = 1.0, dose: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        self.known, series, rows = [], [], []
        for _ in range(n_series):
            t = np.cumsum(rng.choice([0.5, 1.0, 1.5], 16))
            taken = np.append(np.sort(rng.uniform(-3.0, 26.0, 5)), 26.0)  # one is after the end
            doses = taken, rng.uniform(0.5, 2.0, 6)
            opens, levels = rng.uniform(2.0, 20.0), rng.standard_normal(2)
            self.known.append((*doses, opens, levels))
            x = self.truth(-1, t)
            x[np.arange(1, 13), rng.integers(0, 3, 12) % 2] = np.nan
            series.append((t * spread, x))
            when = np.concatenate([[-4.0], doses[0], [opens]])
            cells = np.full((8, 2), np.nan)
            cells[1:7, 0], cells[[0, 7], 1] = dose * doses[1], [-1.0, 1.0]
            order = np.argsort(when)
            rows.append((when[order] * spread, cells[order]))
        self.ends = np.array([t[-1] for t, _ in series]) / spread
        self.series, self.rows = series, rows
        self.panel = self.panel_of(rows)

    def truth(self, k: int, t) -> np.ndarray:
        *doses, opens, levels = self.known[k]
        return response(t, *doses, opens) + levels

    def panel_of(self, rows: list) -> Panel:
        inputs = Panel.from_series(rows, channel_names=["dose", "valve"])
        kinds = {"dose": "impulse", "valve": "hold"}
        return Panel.from_series(self.series, inputs=Inputs(inputs, kinds))


def only_ridge(model: PolyODETransformer) -> PolyODETransformer:
    """All weight on the regression."""
    own = model.embedder_.stacking
    own = getattr(own, "learned", own)
    weights = np.zeros_like(own.weights)
    weights[..., own.names.index("ridge")] = 1.0
    stacking = replace(own, weights=weights)
    model.embedder_ = replace(model.embedder_, stacking=stacking)
    return model


TRAIN, TEST = Driven(80, 0), Driven(6, 1)
AHEAD = np.array([0.7, 2.0, 5.0])


def small() -> PolyODETransformer:
    sizes = {"n_coefficients": 4, "hidden_layer_sizes": (4,), "hidden_size": 2}
    return PolyODETransformer(max_epochs=1, random_state=0, **sizes)


@pytest.fixture(scope="module")
def model():
    return only_ridge(small().fit(TRAIN.panel))


def asked(test=TEST, spread=1.0):
    return list(spread * (test.ends[:, None] + AHEAD))


def test_a_linear_response_is_found(model):
    assert model.time_scale_ == pytest.approx(1.0, rel=0.05)
    found = model.forecast(TEST.panel, asked()).values.reshape(6, 3, 2)
    truth = np.stack([TEST.truth(k, TEST.ends[k] + AHEAD) for k in range(6)])
    last = np.stack([[x[~np.isnan(x)][-1] for x in own.T] for _, own in TEST.series])[:, None]
    error, naive = (np.sqrt(np.mean((x - truth) ** 2)) for x in (found, last))
    assert error < 0.1 * naive


def test_inputs_after_a_target_say_nothing(model):
    def changed(shift):
        rows = [
            (
                np.append(t[t < end + shift], end + shift),
                np.vstack([x[t < end + shift], [3.0, 0.0]]),
            )
            for (t, x), end in zip(TEST.rows, TEST.ends, strict=True)
        ]
        found = model.forecast(TEST.panel_of(rows), asked()).values.reshape(6, 3, 2)
        return found != model.forecast(TEST.panel, asked()).values.reshape(6, 3, 2)

    assert not changed(2.5)[:, :2].any()
    assert changed(2.5)[:, 2].all()


def test_units_and_order_do_not_matter(model):
    options = {"spread": 60.0, "dose": 1e3}
    other, test = only_ridge(small().fit(Driven(80, 0, **options).panel)), Driven(6, 1, **options)
    expected = model.forecast(TEST.panel, asked()).values
    found = other.forecast(test.panel, asked(test, 60.0))
    assert np.allclose(found.values, expected, atol=1e-6)
    order = [4, 1]
    turned = model.forecast(TEST.panel[order], [asked()[k] for k in order]).values
    assert np.allclose(turned, expected.reshape(6, 3, 2)[order].reshape(-1, 2), atol=1e-12)


def test_streams_and_files_answer_as_batches_do(model, tmp_path):
    expected = model.forecast(TEST.panel, asked()).values
    model.save(tmp_path / "model")
    same = skpolyode.load(tmp_path / "model")
    assert np.array_equal(same.forecast(TEST.panel, asked()).values, expected)
    stream = same.stream(6).update(inputs=TEST.panel.inputs)
    for k, (t, x) in enumerate(TEST.series):
        stream.update(t[:9], x[:9], series=k)
    stream.save(tmp_path / "stream")
    stream = skpolyode.load(tmp_path / "stream")
    for k, (t, x) in enumerate(TEST.series):
        stream.update(t[9:], x[9:], series=k)
    assert np.allclose(stream.forecast(asked()).values, expected, atol=1e-9)
    assert np.allclose(same.stream(TEST.panel).forecast(asked()).values, expected, atol=1e-9)
    path = same.interpolate(TEST.panel, asked()).values
    assert np.allclose(path, expected, atol=1e-9)


def test_forecasters_and_their_intervals_see_them():
    forecaster = PolyODEForecaster(small(), random_state=0).pretrain(TRAIN.panel)
    only_ridge(forecaster.transformer_)
    found = forecaster.forecast(TEST.panel, asked()).values.reshape(6, 3, 2)
    truth = np.stack([TEST.truth(k, TEST.ends[k] + AHEAD) for k in range(6)])
    assert np.abs(found - truth).mean() < 0.1 * truth.std()
    lower, upper = forecaster.forecast_interval(TEST.panel, asked(), 0.9)
    middle = (lower.values + upper.values) / 2
    assert np.allclose(middle, found.reshape(-1, 2), atol=0.1 * truth.std())
