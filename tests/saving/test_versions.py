"""Files of version 0.1, one of each kind, which later versions load with the same answers.

`python -m tests.saving.test_versions` writes them anew, which only a change of the format excuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import skpolyode
from skpolyode import Inputs, Panel
from tests.transformers.data import oscillators

FILES = Path(__file__).with_name("version_0_1")
SMALL = {"max_epochs": 2, "random_state": 0}
NARROW = SMALL | {"n_coefficients": 3, "hidden_layer_sizes": (3,), "hidden_size": 2}


def series(*, dates: bool = False, driven: bool = False) -> Panel:
    """Oscillators with a covariate, at hours of a day in 1960 or with doses."""
    found = [(times.round(3), values.round(3)) for times, values in oscillators(12, seed=3)]
    static = pd.DataFrame({"mass": np.arange(12.0), "kind": list("ab") * 6})
    inputs = None
    if driven:
        inputs = Inputs([(times[::3], np.ones(len(times[::3]))) for times, _ in found], "impulse")
    if dates:
        origin = np.datetime64("1960-02-28T20:00", "ns")
        hours = ((times * 3600).round().astype("timedelta64[s]") for times, _ in found)
        found = [(origin + h, x) for h, (_, x) in zip(hours, found, strict=True)]
    return Panel.from_series(found, static=static, inputs=inputs)


def polyode(**parameters: Any) -> Any:
    return skpolyode.PolyODETransformer(**NARROW | parameters)


def waves() -> pd.DataFrame:
    return pd.DataFrame({"wave": np.sin(np.arange(60) / 3).round(3)})


def stream(model: Any) -> Any:
    panel = series()
    return model.fit(panel).stream(panel)


KINDS: dict[str, Callable[[], Any]] = {
    "polyode": lambda: polyode().fit(series()),
    "polyode, noisy": lambda: polyode(observations="noisy").fit(series()),
    "polyode, dates": lambda: polyode().fit(series(dates=True)),
    "hippo": lambda: skpolyode.HiPPOTransformer(n_coefficients=3).fit(series()),
    "hippo, lagt": lambda: skpolyode.HiPPOTransformer(n_coefficients=3, measure="lagt").fit(
        series()
    ),
    "interpolation": lambda: skpolyode.InterpolationTransformer().fit(series()),
    "least squares": lambda: skpolyode.LegendreFitTransformer(n_coefficients=3).fit(series()),
    "summary": lambda: skpolyode.SummaryStatsTransformer().fit(series()),
    "covariates": lambda: skpolyode.StaticFeatures().fit(series()),
    **{
        name: lambda name=name: getattr(skpolyode, name)(hidden_size=4, **SMALL).fit(series())
        for name in (
            "GRUODEBayesTransformer",
            "HiPPORNNTransformer",
            "LinODENetTransformer",
            "NeuralRDETransformer",
            "ODERNNTransformer",
            "S4Transformer",
        )
    },
    "past decoder": lambda: skpolyode.PastDecoder(
        skpolyode.ODERNNTransformer(hidden_size=4, **SMALL), hidden_size=4, **SMALL
    ).fit(series()),
    "resampler": lambda: skpolyode.Resampler(skpolyode.InterpolationTransformer(), n_points=5).fit(
        series()
    ),
    "imputer": lambda: skpolyode.PanelImputer(polyode()).fit(series()),
    "forecaster": lambda: skpolyode.PolyODEForecaster(polyode(), random_state=0).fit(waves()),
    "classifier, not fitted": lambda: skpolyode.PolyODEClassifier(polyode(), n_cuts=2),
    "stream of polyode": lambda: stream(polyode()),
    "stream of hippo": lambda: stream(skpolyode.HiPPOTransformer(n_coefficients=3)),
}


def answers(name: str, model: Any) -> dict[str, list]:
    """Numbers that a loaded object gives, by the method."""
    panel = series(dates="dates" in name)
    if name.startswith("classifier"):
        return {"repr": [repr(model)]}
    if name.startswith("stream"):
        return {"embedding": np.asarray(model.embedding()).tolist()}
    if name == "forecaster":
        return {"predicted": model.fit(waves()).predict(fh=[1, 2, 3]).to_numpy().tolist()}
    if name == "imputer":
        return {"filled": model.transform(panel).values.tolist()}
    found = {"features": np.asarray(model.transform(panel), dtype=float).tolist()}
    for method in ("interpolate", "forecast"):
        if hasattr(model, method):
            asked = {"interpolate": np.array([0.5, 1.5]), "forecast": np.array([0.25])}[method]
            origin = {"interpolate": "start", "forecast": "end"}[method]
            if "dates" in name:
                asked = pd.to_timedelta(asked, unit="h")
            found[method] = getattr(model, method)(panel, asked, relative_to=origin).values.tolist()
    return found


@pytest.mark.parametrize("name", KINDS)
def test_files_of_version_0_1_are_read(name):
    model = skpolyode.load(FILES / f"{name}.safetensors")
    expected = json.loads((FILES / "answers.json").read_text())[name]
    found = answers(name, model)
    assert found.keys() == expected.keys()
    for method, values in expected.items():
        if method == "repr":
            assert found[method] == values
        else:
            np.testing.assert_allclose(found[method], values, rtol=1e-3, atol=1e-4, err_msg=method)


def test_there_is_a_file_of_each_transformer():
    exported = {
        kind
        for kind in (getattr(skpolyode, name) for name in skpolyode.__all__)
        if isinstance(kind, type) and hasattr(kind, "fit") and hasattr(kind, "save")
    }
    loaded = {type(skpolyode.load(FILES / f"{name}.safetensors")) for name in KINDS}
    assert exported - loaded == {skpolyode.PolyODERegressor}


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    collected = {}
    for name, make in KINDS.items():
        make().save(FILES / f"{name}.safetensors")
        collected[name] = answers(name, skpolyode.load(FILES / f"{name}.safetensors"))
    rounded = json.loads(json.dumps(collected), parse_float=lambda x: round(float(x), 6))
    (FILES / "answers.json").write_text(json.dumps(rounded))
