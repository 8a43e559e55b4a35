"""Dynamics: vector fields, Runge-Kutta methods and the integration loops.

Nothing here knows about polynomials or memories.
"""

from skpolyode.dynamics.field import WalledMLP
from skpolyode.dynamics.integrate import (
    STEPPERS,
    NetworkSteps,
    Stepper,
    count_steps,
    integrate,
    rollout,
)

__all__ = [
    "STEPPERS",
    "NetworkSteps",
    "Stepper",
    "WalledMLP",
    "count_steps",
    "integrate",
    "rollout",
]
