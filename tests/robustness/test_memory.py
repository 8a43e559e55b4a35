"""A million observations need little more memory than they take themselves.

(PolyODE on many short series takes a minute for that: `benchmarks/scaling.py` measures it.)
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, sys
import numpy as np
from skpolyode import HiPPOTransformer, Panel, PolyODETransformer, SummaryStatsTransformer

def panel(n_series, length):
    rng = np.random.default_rng(0)
    times = rng.exponential(size=(n_series, length)).cumsum(axis=1)
    values = np.sin(times + np.arange(n_series)[:, None])
    return Panel(times.ravel(), values.reshape(-1, 1), np.arange(n_series + 1) * length)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

few = panel(20, 30)
network = dict(n_coefficients=4, hidden_layer_sizes=(4,), max_epochs=1, random_state=0)
estimators = [SummaryStatsTransformer(), HiPPOTransformer(n_coefficients=8, window=16.0)]
if int(sys.argv[1]) < 10:
    estimators.append(PolyODETransformer(window=2.0, **network))
for estimator in estimators:
    estimator.fit(few).transform(few)
many = panel(*map(int, sys.argv[1:]))
before = peak()
for estimator in estimators:
    assert np.isfinite(estimator.transform(many)).all()
print(json.dumps(peak() - before))
"""


@pytest.mark.parametrize(("n_series", "length"), [(20_000, 50), (5, 200_000)])
@pytest.mark.slow
def test_a_million_observations(n_series, length):
    command = [sys.executable, "-c", SCRIPT, str(n_series), str(length)]
    grown = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert grown < 500, f"{grown:.0f} MiB for 16 MiB of data"
