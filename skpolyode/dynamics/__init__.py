"""Dynamics: vector fields, Runge-Kutta methods and the integration loops.

Nothing here knows about polynomials or memories.
"""

from skpolyode.dynamics.field import WalledMLP
from skpolyode.dynamics.integrate import count_steps, integrate, rollout
from skpolyode.dynamics.steppers import STEPPERS, Stepper
from skpolyode.dynamics.steps import NetworkSteps

__all__ = [
    "STEPPERS",
    "NetworkSteps",
    "Stepper",
    "WalledMLP",
    "count_steps",
    "integrate",
    "rollout",
]
