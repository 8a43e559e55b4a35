"""What a fresh interpreter has loaded, step by step: one of them answers all tests that ask."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

STEPS = """
import json, sys, threading, warnings
import numpy as np, torch

def state():
    seeds = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()
    return torch.get_num_threads(), torch.get_default_dtype(), np.geterr(), seeds

found, before = {}, state()
import skpolyode
found["global state is kept"] = state() == before
found["threads"] = [
    t.name for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()
]
found["skpolyode"] = list(sys.modules)
from skpolyode import HiPPOTransformer
found["HiPPOTransformer"] = list(sys.modules)
HiPPOTransformer(n_coefficients=4).fit_transform([([0.0, 1.0], [1.0, 2.0])])
found["fit HiPPOTransformer"] = list(sys.modules)
from skpolyode import siblings
with torch.device("meta"):  # as a file is read
    for kind in (siblings.GRUODEBayes, siblings.LinODENet, siblings.S4):
        kind(1)
found["models to be loaded"] = list(sys.modules)
import skpolyode.datasets
found["skpolyode.datasets"] = list(sys.modules)
import skpolyode.plotting
found["skpolyode.plotting"] = list(sys.modules)
import matplotlib
matplotlib.use("agg")
from matplotlib.figure import Figure
display = skpolyode.plotting.CoefficientDisplay([1.0, 2.0])
display.plot(Figure().add_subplot())
found["plot into given axes"] = list(sys.modules)
display.plot()
found["plot"] = list(sys.modules)
with warnings.catch_warnings(action="ignore"):  # of sktime's own imports
    skpolyode.load(sys.argv[1])
found["load a forecaster"] = list(sys.modules)
print(json.dumps(found))
"""


@cache
def after_steps() -> dict[str, Any]:
    """By step: the modules that are loaded then, and what else was looked at.

    Workers of one run share the answer, which takes seven seconds.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", os.getpid())
    shared = Path(gettempdir(), f"after_steps_{run}.json")
    try:
        text = shared.read_text("utf-8")
    except FileNotFoundError:
        text, own = answer(), shared.with_suffix(f".{os.getpid()}")
        own.write_text(text, "utf-8")
        own.replace(shared)  # at once: nobody reads half of it
        atexit.register(shared.unlink, missing_ok=True)
    return json.loads(text)


def answer() -> str:
    from skpolyode.forecasting import PolyODEForecaster

    with TemporaryDirectory() as folder:
        PolyODEForecaster().save(path := Path(folder) / "forecaster.safetensors")
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", STEPS, path],
            cwd=Path(__file__).resolve().parents[1],
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout
