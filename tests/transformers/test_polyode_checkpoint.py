"""A fit that was killed goes on when it is called again."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from skpolyode.embedders.fitting import find_checkpoint
from skpolyode.embedders.holdout import FitOptions
from skpolyode.panel import Panel
from skpolyode.transformers import PolyODETransformer

SCRIPT = """
import json, os, random, signal, sys, time
import torch
torch.set_num_threads(1)
from skpolyode.training import checkpoint
from tests.transformers.test_polyode_checkpoint import SETTINGS, make_panel
from skpolyode.transformers import PolyODETransformer

checkpoint.Checkpoint.__init__.__defaults__ = (0.0,)  # after every epoch
panel, folder = make_panel(), sys.argv[1]
make = lambda: PolyODETransformer(checkpoint_dir=folder, **SETTINGS)
start = time.perf_counter()
PolyODETransformer(**SETTINGS).fit(panel)
whole, killed, found = time.perf_counter() - start, 0, 0
luck = random.Random(0)
while killed < 6:
    child = os.fork()
    if not child:
        make().fit(panel)
        os._exit(0)
    time.sleep(luck.uniform(0.1, 0.7) * whole)
    os.kill(child, signal.SIGKILL)
    killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    found += any(name.endswith(".safetensors") for name in os.listdir(folder))
embedder = make().fit(panel)
print(json.dumps([found, os.listdir(folder), embedder.transform(panel).tolist()]))
"""

SETTINGS = {"n_coefficients": 6, "max_epochs": 30, "random_state": 0, "validation_fraction": None}


def make_panel():
    rng = np.random.default_rng(0)
    times = [np.sort(rng.uniform(0, 6, 15)) for _ in range(12)]
    return Panel.from_series([(t, np.sin(2 * t + k)) for k, t in enumerate(times)])


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found, left, embedding = json.loads(done.stdout)
    assert found > 0, "no fit was killed after its first epoch"
    assert left == []
    panel = make_panel()
    uninterrupted = PolyODETransformer(**SETTINGS).fit(panel)
    np.testing.assert_array_equal(embedding, uninterrupted.transform(panel))


def key(embedder, panel):
    """Name of the checkpoint of a fit that goes on from the last one, if there was any."""
    settings = embedder.get_params(deep=False)
    folder, start = embedder.checkpoint_dir, embedder.embedder_
    return find_checkpoint(folder, panel, FitOptions(), settings, start).path.name


def test_all_that_training_depends_on_is_in_the_key(tmp_path):
    """With one key, a fit would go on from the file of another one."""
    static = pd.DataFrame({"age": np.arange(12.0), "sex": list("fm") * 6})
    panel = make_panel()
    aged = Panel.from_series([(s.times, s.values) for s in panel], static=static)
    static.loc[3, "age"] = 50.0
    older = Panel.from_series([(s.times, s.values) for s in panel], static=static)
    embedder = PolyODETransformer(checkpoint_dir=tmp_path, **SETTINGS | {"max_epochs": 1})
    embedder.fit(aged)
    first = key(embedder, aged)
    assert key(embedder, aged) == first
    for other in (older, panel, aged[1:]):
        assert key(embedder, other) != first
    changes = {"max_epochs": 2, "validation_fraction": 0.1, "random_state": 1, "horizon": 2}
    for name, value in changes.items():
        before = embedder.get_params()[name]
        assert key(embedder.set_params(**{name: value}), aged) != first, name
        embedder.set_params(**{name: before})
    assert key(embedder.set_params(verbose=1), aged) == first
    # What a warm start goes on from.
    with torch.no_grad():
        embedder.start_.bias[0] += 1e-6
        assert key(embedder, aged) != first
        embedder.start_.bias[0] -= 1e-6
        embedder.field_.layers[0].weight[0, 0] += 1e-6
    assert key(embedder, aged) != first
    embedder.fit(aged)
    assert key(embedder, aged) == first
    embedder.set_params(window=2 * embedder.window_).fit(aged)
    assert key(embedder.set_params(window="auto"), aged) != first


def test_it_takes_an_int_to_draw_the_same_numbers(tmp_path):
    embedder = PolyODETransformer(checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match="checkpoint_dir needs an int as random_state, got None"):
        embedder.fit(make_panel())
