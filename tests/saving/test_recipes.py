"""Recipes of the page on saving that need packages which no extra installs: run by hand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "saving.md"


def test_skops_and_mlflow(tmp_path, monkeypatch):
    for package in ("mlflow", "skops"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    before = PAGE.read_text("utf-8").partition("## On another device")[0]
    blocks = re.findall(r"^```py(?:thon)?\n(.*?)^```$", before, re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {"__name__": "recipes"}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
    assert len(blocks) == 4
    series, transformer = names["series"], names["transformer"]
    expected = names["head"].predict(transformer.transform(series))
    np.testing.assert_array_equal(names["served"].predict(series), expected)
    ahead = transformer.forecast(series, [0.5, 1.0], "end")
    np.testing.assert_array_equal(names["forecast"]["x0"], ahead.values.ravel())
