"""Tried by `make package` and `make release-check` against the installed package.

In `make package` nothing is installed but the package and what it depends on. Started with
``python -P -W error``, so that no module of the source is imported, and no import may warn.
"""

from __future__ import annotations

import pkgutil
import sys
import tempfile
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import skpolyode
from skpolyode.datasets import make_lorenz63

ROOT = Path(__file__).resolve().parents[1]

# Module: its extra, and what the extra installs.
EXTRAS = {
    "adapters": ("sktime", "sktime"),
    "forecasting": ("sktime", "sktime"),
    "parquet": ("parquet", "pyarrow"),
}


def refused(name: str) -> str | None:
    """The message of the ImportError of a module of the package; None if it is imported."""
    try:
        import_module(f"skpolyode.{name}")
    except ImportError as error:
        return str(error)
    return None


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

    for module in pkgutil.iter_modules(skpolyode.__path__):
        message = refused(module.name)
        extra, library = EXTRAS.get(module.name, ("", "skpolyode"))
        if find_spec(library):
            assert message is None, message
        else:
            assert f"pip install 'skpolyode[{extra}]'" in message
    skpolyode.show_versions()


if __name__ == "__main__":
    main()
