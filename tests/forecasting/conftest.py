"""Waves of one frequency and any phase, and a forecaster that has learned them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skpolyode.forecasting import PolyODEForecaster
from skpolyode.panel import Panel
from skpolyode.transformers import PolyODETransformer
from tests import quick

START = pd.Timestamp("2024-03-01")
HOUR = pd.Timedelta(hours=1)
OWN = ("random_state", "calibration_fraction")


def waves(n_series: int, seed: int, noise: float = 0.1, fewest: int = 20) -> Panel:
    """Noisy sines and cosines in two channels; a tenth of the cells is missing."""
    rng = np.random.default_rng(seed)
    series = []
    for _ in range(n_series):
        t = np.sort(rng.uniform(0.0, 12.0, rng.integers(fewest, fewest + 10)))
        phase = t + rng.uniform(0, 2 * np.pi)
        x = np.stack([np.sin(phase), 3 + 2 * np.cos(phase)], axis=1)
        x += noise * rng.standard_normal(x.shape) * [1, 2]
        x[rng.random(x.shape) < 0.1] = np.nan
        x[0] = np.where(np.isnan(x[0]), [0.0, 3.0], x[0])
        x[-1] = np.where(np.isnan(x[-1]), [0.0, 3.0], x[-1])
        series.append((t, x))
    return Panel.from_series(series)


def frame(panel: Panel, unit: str = "h") -> pd.DataFrame:
    """Panel as sktime's pd-multiindex of irregular datetimes."""
    index = START + pd.to_timedelta(panel.times, unit=unit)
    ids = np.repeat(np.arange(panel.n_series), panel.lengths)
    index = pd.MultiIndex.from_arrays([ids, index], names=["who", "when"])
    return pd.DataFrame(panel.values, index=index, columns=["u", "v"])


def tiny(**options) -> PolyODEForecaster:
    """Options are those of the forecaster, or else of its transformer."""
    own = {"random_state": 0}
    own |= {name: options.pop(name) for name in OWN if name in options}
    small = {"n_coefficients": 2, "hidden_layer_sizes": (4,), "max_epochs": 1, **options}
    return PolyODEForecaster(PolyODETransformer(**small), **own)


@pytest.fixture(scope="session")
def y() -> pd.DataFrame:
    """Three ragged series of irregular datetimes."""
    return frame(waves(3, seed=5, fewest=12))


@pytest.fixture(scope="session")
def trained() -> PolyODEForecaster:
    """Pretrained; clone it before fitting."""
    transformer = PolyODETransformer(
        n_coefficients=6, hidden_layer_sizes=(24,), horizon=2, max_epochs=6
    )
    forecaster = PolyODEForecaster(transformer, calibration_fraction=0.4, random_state=0)
    with quick.small_fits():
        return forecaster.pretrain(frame(waves(40, seed=0)))


@pytest.fixture
def forecaster(trained) -> PolyODEForecaster:
    return trained.clone()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Some of sktime's checks train 16 forecasters or more.

    Other tests compare times of predictions, two fits, and hierarchies with inputs as well.
    """
    several = (
        "-test_fit_idempotent",
        "-test_hierarchical_with_exogenous",
        "-test_predict_time_index",
        "-test_update_predict_predicted_index",
    )
    for item in items:
        if any(name in item.name for name in several):
            item.add_marker(pytest.mark.slow)
