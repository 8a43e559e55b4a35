"""Long series cost what their rows cost, and embed as if they had been run through in order."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from skpolyode.panel import Panel
from skpolyode.transformers import PolyODETransformer
from tests.quick import no_stacking


def long_series(n_rows, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(size=n_rows))
    values = np.stack([np.sin(times / 3), np.cos(times / 5)], axis=1)
    hidden = rng.random(values.shape) < missing
    hidden[:, 0] &= ~hidden[:, 1]  # a row without any observation tests nothing
    values[hidden] = np.nan
    return times, values


@pytest.fixture(scope="module")
def embedder():
    panel = Panel.from_series([long_series(24, seed=k) for k in range(6)])
    transformer = PolyODETransformer(n_coefficients=8, window=9.0, max_epochs=2, random_state=0)
    with no_stacking():
        return transformer.fit(panel)


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_only_what_is_remembered_is_run_through(embedder, missing):
    panel = Panel.from_series([long_series(120, missing), long_series(30, missing, seed=1)])
    learned = embedder.embedder_
    with torch.no_grad():
        whole = learned.exact.embed(learned.pack(panel))
    np.testing.assert_allclose(embedder.transform(panel), learned.features_of(whole), atol=1e-9)
    torch.testing.assert_close(learned.states(panel), whole, atol=1e-9, rtol=0)


def test_a_channel_that_was_last_seen_long_ago_still_counts(embedder):
    times, values = long_series(200)
    values[50:, 1] = np.nan
    other = values.copy()
    other[49, 1] += 1
    panel = Panel.from_series([(times, values), (times, other)])
    learned = embedder.embedder_
    with torch.no_grad():
        whole = learned.exact.embed(learned.pack(panel))
    np.testing.assert_allclose(embedder.transform(panel), learned.features_of(whole), atol=1e-9)


def adding_up(embedder):
    """The same with a field that adds up, in the second channel, by how far the first exceeds 4."""
    learned = embedder.embedder_.with_own_model()
    slowly = copy.copy(embedder)
    slowly.embedder_ = learned
    first, *between, last = learned.model.field.layers
    with torch.no_grad():
        for parameter in learned.model.field.parameters():
            parameter.zero_()
        first.weight[0, 0], first.bias[0] = 14.0, -60.0
        for layer in between:
            layer.weight[0, 0] = 1.0
        last.weight[9, 0] = 0.02
    return slowly


def exceeding_at_first():
    """As a series whose first channel exceeds 4 in the first rows only."""
    times, values = long_series(200)
    values[:10, 0] = 9.0
    return times, values


def row_by_row(embedder, times, values):
    stream = embedder.stream()
    for time, row in zip(times, values, strict=True):
        stream.update(time, row)
    return stream


def test_a_channel_that_was_never_seen_carries_its_state_from_the_beginning(embedder):
    """Recent parts of any length agree with each other where nothing sets its state anew."""
    times, values = exceeding_at_first()
    values[:, 1] = np.nan
    slowly = adding_up(embedder)
    learned = slowly.embedder_
    with torch.no_grad():
        whole = learned.exact.embed(learned.pack(Panel.from_series([(times, values)])))
    assert learned.exact.predict(whole).mean[0, 1] > 0.5
    Z = slowly.transform([(times, values)])
    np.testing.assert_allclose(Z, learned.features_of(whole), atol=1e-9)
    np.testing.assert_allclose(row_by_row(slowly, times, values).embedding(), Z, atol=1e-9)


def test_of_a_channel_that_training_never_saw_nothing_is_made_up():
    """Not even by a field that moves it, nor from what is observed of it later."""
    panel = [(t, x * [1.0, np.nan]) for t, x in (long_series(24, seed=k) for k in range(6))]
    embedder = PolyODETransformer(n_coefficients=8, window=9.0, max_epochs=1, random_state=0)
    with pytest.warns(UserWarning, match=r"channels \['x1'\] were never observed"):
        slowly = adding_up(embedder.fit(panel))
    times, values = exceeding_at_first()
    X = [(times, values)]
    stream, states = (
        row_by_row(slowly, times, values),
        slowly.embedder_.states(Panel.from_series(X)),
    )
    assert slowly.embedder_.exact.predict(states).mean[0, 1] > 0.5
    torch.testing.assert_close(stream._states(np.array([0])), states, rtol=0, atol=1e-9)
    own = [name.startswith("x1") for name in slowly.get_feature_names_out()]
    assert sum(own) == 17
    for Z in (slowly.transform(X), stream.embedding()):
        assert (Z[:, own] == 0).all()
        assert (Z[:, ~np.array(own)] != 0).any()
    ahead = [times[-1] + 1.0]
    for forecast in (slowly.forecast(X, ahead), stream.forecast(ahead)):
        assert forecast.values[0, 1] == 0
        assert forecast.values[0, 0] != 0
    assert (slowly.reconstruct(X).values[:, 1] == 0).all()


@pytest.mark.usefixtures("no_stacking")
def test_one_long_series_is_trained_on_in_parts():
    panel = Panel.from_series([long_series(500)])
    embedder = PolyODETransformer(n_coefficients=8, max_epochs=2, random_state=0).fit(panel)
    assert embedder._rows_to_cut(embedder.embedder_) == 256
    # its end is held out, so that training one series stops where it no longer helps
    assert embedder.validation_error_ < 0.7 * embedder.history_[0]["validation_error"]


@pytest.fixture(scope="module")
def whole():
    """Remembers all of series much longer than what its dynamics see."""
    panel, options = Panel.from_series([long_series(200)]), {"max_epochs": 1, "random_state": 0}
    with no_stacking():
        return PolyODETransformer(n_coefficients=8, context=6.0, **options).fit(panel)


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_the_whole_history_is_put_together_from_parts(whole, missing, monkeypatch):
    panel = Panel.from_series([long_series(n, missing, seed=n) for n in (450, 30, 160)])
    learned, passes = whole.embedder_, []
    assert whole.window_ > 20 * whole.context_
    with torch.no_grad():
        expected = learned.exact.embed(learned.pack(panel))
    run = type(learned.exact).run

    def counted(model, data):
        passes.append(len(data.sizes[0]))  # the longest series of the pass, in rows
        return run(model, data)

    monkeypatch.setattr(type(learned.exact), "run", counted)
    monkeypatch.setattr("skpolyode.embedders.model._WHOLE_ROWS", 0)
    monkeypatch.setattr("skpolyode.embedders.model._PART_ROWS", 64)
    torch.testing.assert_close(learned.states(panel), expected, atol=1e-9, rtol=0)
    assert max(passes) < 300 or missing


@pytest.mark.usefixtures("no_stacking")
def test_the_dynamics_do_not_know_the_window():
    """Forecasts hang on the context; coefficients of the history cost the network nothing."""
    panel = Panel.from_series([long_series(30, seed=k) for k in range(3)])
    shared = {"max_epochs": 1, "random_state": 0, "hidden_layer_sizes": (8,), "context": 5.0}
    short = PolyODETransformer(window=15.0, n_coefficients=32, **shared).fit(panel)
    wide = PolyODETransformer(n_coefficients=50, **shared).fit(panel)
    assert [p.shape for p in wide.field_.parameters()] == [
        p.shape for p in short.field_.parameters()
    ]
    ahead = [one.forecast(panel, [100.0]).values for one in (short, wide)]
    np.testing.assert_allclose(*ahead, rtol=1e-12)
    assert wide.transform(panel).shape == (3, 2 * (50 + 33))
    assert wide.context_ == short.context_ == 5.0
    durations = panel.times[panel.offsets[1:] - 1] - panel.times[panel.offsets[:-1]]
    assert any(np.isclose(durations, wide.window_))  # the longest of those that were trained on


@pytest.mark.usefixtures("no_stacking")
def test_how_much_of_the_series_is_remembered_is_said():
    panel = Panel.from_series([(np.arange(101.0), np.sin(np.arange(101.0)))] * 3)
    with pytest.warns(UserWarning, match=r"window=25 covers 25% of the typical series, of length"):
        short = PolyODETransformer(window=25.0, n_coefficients=5, max_epochs=1).fit(panel)
    assert short.coverage_ == 0.25
    assert short.observations_per_coefficient_ == pytest.approx(101 * 0.25 / 5)
    assert PolyODETransformer(n_coefficients=5, max_epochs=1).fit(panel).coverage_ == 1.0


@pytest.mark.usefixtures("no_stacking")
def test_the_history_of_any_measure_is_cut_in_training():
    """The dynamics see the context only."""
    embedder = PolyODETransformer(n_coefficients=4, measure="legs", max_epochs=1, random_state=0)
    embedder.fit(Panel.from_series([long_series(40)]))
    assert embedder._rows_to_cut(embedder.embedder_) == 256
