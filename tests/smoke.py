"""Tried by `make package` in an environment with nothing but the package and what it depends on."""

from __future__ import annotations

import sys
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np

import skpolyode
from skpolyode.datasets import load_japanese_vowels, make_lorenz63

ROOT = Path(__file__).resolve().parents[1]


def refused(call: str) -> str:
    """The message of the ImportError that the code ends in."""
    try:
        exec(call, {"load_japanese_vowels": load_japanese_vowels})
    except ImportError as error:
        return str(error)
    raise AssertionError(f"{call} ran without its extra")


def main() -> None:
    package = Path(skpolyode.__file__)
    assert package.parent != ROOT / "skpolyode", f"{package} is the source, not what was installed"
    assert metadata.version("skpolyode") == skpolyode.__version__
    assert package.with_name("py.typed").is_file()
    assert "sktime" not in sys.modules

    panel = make_lorenz63(20, random_state=0).panel
    model = skpolyode.PolyODETransformer(max_epochs=1, random_state=0).fit(panel)
    features = model.transform(panel)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.safetensors"))
        again = skpolyode.load(Path(folder, "model.safetensors"))
    assert np.array_equal(again.transform(panel), features)
    assert np.isfinite(skpolyode.PanelImputer(model).fit_transform(panel).values).all()

    for call in ("import skpolyode.forecasting", "import skpolyode.adapters"):
        assert "pip install 'skpolyode[sktime]'" in refused(call)
    assert "load_japanese_vowels() needs sktime" in refused("load_japanese_vowels()")
    assert "pip install 'skpolyode[parquet]'" in refused("import skpolyode.parquet")
    skpolyode.show_versions()


if __name__ == "__main__":
    main()
