"""Settings of the whole test run."""

from __future__ import annotations

import os

# Set before anything imports numpy or torch: the workers of a parallel run share the cores,
# and sums that are split over threads differ in the last digits from machine to machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

from hypothesis import settings

# A deadline would make a verdict depend on the load of the machine, fresh random examples
# would make it depend on the run.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
