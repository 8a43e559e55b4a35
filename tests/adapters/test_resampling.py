"""SeriesResampler: the same numbers as Resampler, in sktime's containers and pipelines."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sktime.datatypes import check_is_mtype, convert_to
from sktime.transformations.series.summarize import SummaryTransformer

import skpolyode
from skpolyode import InterpolationTransformer, Panel, Resampler
from skpolyode.adapters import SeriesResampler

LINE = InterpolationTransformer(n_coefficients=4)


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = {}
    for name in ("b", "a", "c"):
        times = np.sort(rng.choice(30, rng.integers(5, 12), replace=False))
        parts[name] = pd.DataFrame({"p": rng.normal(size=len(times)), "q": 1.0}, index=times)
        parts[name].loc[times[2], "p"] = np.nan
    return pd.concat(parts, names=["who", "day"])


def test_same_as_the_resampler(frame):
    adapter = SeriesResampler(LINE, n_points=6, relative_to="end").fit(frame)
    found = adapter.transform(frame)
    assert check_is_mtype(found, "pd-multiindex", "Panel")
    assert found.index.names == ["who", "day"]
    assert found.columns.tolist() == ["p", "q"]
    assert found.loc["a"].index.tolist() == [0, 1, 2, 3, 4, 5]
    wanted = Resampler(LINE, n_points=6, relative_to="end").fit_transform(Panel.from_sktime(frame))
    ids = list(dict.fromkeys(frame.index.get_level_values("who")))
    for k, name in enumerate(ids):
        np.testing.assert_array_equal(found.loc[name].to_numpy().T, wanted[k])
    np.testing.assert_array_equal(adapter.grid_, adapter.resampler_.grid_)
    array = convert_to(found, "numpy3D")
    assert array.shape == (3, 2, 6)


def test_hierarchies(frame):
    both = pd.concat({"x": frame, "y": frame + 1}, names=["site"])
    found = SeriesResampler(LINE, n_points=4).fit_transform(both)
    assert check_is_mtype(found, "pd_multiindex_hier", "Hierarchical")
    np.testing.assert_allclose(found.loc["y"], found.loc["x"] + 1, atol=1e-9)


def test_in_a_pipeline_of_sktime(frame):
    chain = SeriesResampler(LINE, n_points=20) * SummaryTransformer("mean", quantiles=None)
    found = chain.fit_transform(frame)
    wanted = Resampler(LINE, n_points=20).fit_transform(Panel.from_sktime(frame)).mean(axis=2)
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(wanted, axis=0))


def test_saved_and_loaded(frame, tmp_path):
    adapter = SeriesResampler(LINE, n_points=6).fit(frame)
    adapter.save(tmp_path / "adapter.safetensors")
    again = skpolyode.load(tmp_path / "adapter.safetensors")
    pd.testing.assert_frame_equal(again.transform(frame), adapter.transform(frame))
