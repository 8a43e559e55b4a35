"""Workers, threads and seeds: parallel runs give the same, and leave nothing behind."""

from __future__ import annotations

import random
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skpolyode import Panel, PolyODETransformer
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.models.contract import SequenceModel
from skpolyode.transformers.stages import bar_settings
from tests.transformers.registry import all_transformers

TRANSFORMERS = all_transformers()


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(0)
    times = [np.sort(rng.uniform(0, 4, 7)) for _ in range(8)]
    return Panel.from_series([(t, np.sin(t + k)) for k, t in enumerate(times)])


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def generators() -> tuple:
    """States of the global generators, comparable."""
    return random.getstate(), repr(np.random.get_state()), torch.get_rng_state().tolist()


def small_polyode(**params):
    return PolyODETransformer(
        n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1, random_state=0, **params
    )


def search(n_jobs: int) -> GridSearchCV:
    grid = {"polyodetransformer__learning_rate_init": [0.01, 0.02]}
    model = make_pipeline(small_polyode(), Ridge())
    return GridSearchCV(model, grid, cv=2, n_jobs=n_jobs)


def results(fitted: GridSearchCV) -> dict[str, list]:
    """What the search found, without the times it took."""
    return {
        key: np.asarray(value).tolist()
        for key, value in fitted.cv_results_.items()
        if "time" not in key and key != "params"
    }


@pytest.mark.usefixtures("no_stacking")
def test_a_search_with_workers_is_the_search_without(panel, monkeypatch):
    """And there is no bar in workers, though somebody waits."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    y = np.arange(8.0)
    one = search(1).fit(panel, y)
    for backend in ("loky", "threading"):
        with joblib.parallel_config(backend):
            two = search(2).fit(panel, y)
            if backend == "loky":  # with the same processes, which take seconds to start
                (bar,) = joblib.Parallel(2)([joblib.delayed(bar_settings)("auto")])
                assert bar["disable"]
        assert results(two) == results(one)
        assert two.predict(panel).tolist() == one.predict(panel).tolist()


@pytest.mark.usefixtures("no_stacking")
def test_threads_leave_the_number_of_threads(panel, two_threads):
    def embed(seed):
        return small_polyode().set_params(random_state=seed).fit_transform(panel)

    seeds = [0, 1, 2]
    together = joblib.Parallel(2, backend="threading")(joblib.delayed(embed)(s) for s in seeds)
    assert torch.get_num_threads() == 2
    for seed, embedding in zip(seeds, together, strict=True):
        assert embedding.tolist() == embed(seed).tolist()


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_global_generators_are_not_touched(panel, name):
    transformer, before = clone(TRANSFORMERS[name]), generators()
    transformer.fit(panel).transform(panel)
    for method in ("reconstruct", "forecast"):
        if hasattr(transformer, method):
            times = [panel[k].times[-1:] for k in range(len(panel))]
            getattr(transformer, method)(panel, times)
    assert generators() == before


@pytest.mark.parametrize("random_state", [None, 0])
def test_a_forecaster_does_not_touch_global_generators(random_state):
    y = pd.Series(np.sin(np.arange(30.0)), index=pd.RangeIndex(30))
    before = generators()
    embedder = PolyODETransformer(n_coefficients=3, max_epochs=1)
    forecaster = PolyODEForecaster(embedder, random_state=random_state)
    forecaster.fit(y).predict([1, 2])
    assert generators() == before


def test_global_seeds_have_no_influence(panel):
    embeddings = []
    for seed in (0, 1):
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        embeddings.append(small_polyode().fit_transform(panel))
        torch.set_rng_state(state)
    assert embeddings[0].tolist() == embeddings[1].tolist()


ANSWERS = ("transform", "interpolate", "interpolate_interval", "residuals")
AHEAD = ("forecast", "forecast_interval", "sample_paths")


@pytest.mark.parametrize("answer", ANSWERS + AHEAD)
def test_a_model_answers_on_one_thread(answer, panel, two_threads, monkeypatch):
    """On a busy machine, threads inside small operations wait for each other."""
    model, seen = small_polyode().fit(panel), []
    for name in ("run", "look_ahead"):
        method = getattr(SequenceModel, name)

        def recorded(*args, method=method, **options):
            seen.append(torch.get_num_threads())
            return method(*args, **options)

        monkeypatch.setattr(SequenceModel, name, recorded)
    ahead = {"times": [1.0], "relative_to": "end"} if answer in AHEAD else {}
    getattr(model, answer)(panel, **ahead)
    assert set(seen) == {1}
