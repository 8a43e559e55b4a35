"""Data sets: the paper's, systems of differential equations, and loaders of real series."""

from __future__ import annotations

from skpolyode.datasets.missing import drop_cells, drop_times
from skpolyode.datasets.ode_systems import make_ode_system
from skpolyode.datasets.paper import make_lorenz63, make_lorenz96, make_synthetic
from skpolyode.datasets.real import (
    load_japanese_vowels,
    load_physionet2012,
    load_plaid,
    load_storms,
)
from skpolyode.datasets.simulation import Truth

__all__ = [
    "Truth",
    "drop_cells",
    "drop_times",
    "load_japanese_vowels",
    "load_physionet2012",
    "load_plaid",
    "load_storms",
    "make_lorenz63",
    "make_lorenz96",
    "make_ode_system",
    "make_synthetic",
]
