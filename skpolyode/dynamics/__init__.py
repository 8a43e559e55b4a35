"""Dynamics: vector fields, Runge-Kutta methods and the one integration loop.

This layer knows no polynomials.
"""

from skpolyode.cubic import evaluate_path
from skpolyode.dynamics.field import WalledMLP
from skpolyode.dynamics.integrate import count_steps, integrate
from skpolyode.dynamics.rollout import visit
from skpolyode.dynamics.steppers import STEPPERS, Stepper
from skpolyode.dynamics.steps import NetworkSteps

__all__ = [
    "STEPPERS",
    "NetworkSteps",
    "Stepper",
    "WalledMLP",
    "count_steps",
    "evaluate_path",
    "integrate",
    "visit",
]
