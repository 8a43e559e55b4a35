"""Checked by `make release-check` with ``mypy --strict`` against the installed package, never run.

What a user writes with annotations has the types that the reference says. The lines marked
``type: ignore`` are mistakes: strict checks want each of them to be refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np

import skpolyode
from skpolyode import Panel, PolyODEClassifier, PolyODEForecaster, PolyODETransformer, load
from skpolyode.fit_report import FitReport
from skpolyode.plotting import ReconstructionDisplay


def embed(panel: Panel) -> np.ndarray:
    """Parameters, fitted attributes and results."""
    embedder = PolyODETransformer(n_coefficients=16, window="90min", random_state=0)
    assert_type(embedder.fit(panel), PolyODETransformer)
    assert_type(embedder.fit_report_, FitReport)
    assert_type(embedder.forecast(panel, [1.0, 2.0]), Panel)
    assert_type(embedder.transform(panel), np.ndarray)
    return embedder.transform([([0.0, 1.0], [1.0, 2.0])])


def read() -> Panel:
    """Panels from what is at hand."""
    panel = Panel.from_series([([0, 1, 4], [1.0, 2.0, 6.0])], channel_names=["x"])
    assert_type(panel, Panel)
    assert_type(panel[:3], Panel)
    assert_type(panel.n_series, int)
    assert_type(panel.times, np.ndarray)
    simulated: Panel = skpolyode.datasets.make_lorenz63(20, random_state=0).panel
    return Panel.concat([panel, simulated])


def classify(panel: Panel, labels: np.ndarray) -> PolyODEClassifier:
    """Heads are estimators of their own kind after `fit`."""
    assert_type(PolyODEForecaster().pretrain(panel), PolyODEForecaster)
    return PolyODEClassifier().fit(panel, labels)


def draw(model: PolyODETransformer, panel: Panel) -> ReconstructionDisplay:
    """Displays, and what is written to a file and read again."""
    model.save(Path("model.safetensors"))
    load("model.safetensors")
    return ReconstructionDisplay.from_estimator(model, panel, series=3)


def mistakes(panel: Panel, model: PolyODETransformer) -> None:
    """Wrong types, a missing argument, and names that are not there."""
    PolyODETransformer(n_coefficients="16")  # type: ignore[arg-type]
    Panel.from_series([], chanel_names=["x"])  # type: ignore[call-arg]
    panel.select_ids()  # type: ignore[call-arg]
    model.save(3)  # type: ignore[arg-type]
    skpolyode.PolyODETransfomer  # type: ignore[attr-defined] # noqa: B018
