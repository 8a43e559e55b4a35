"""Dynamics: vector fields, Runge-Kutta methods and the one integration loop.

This layer knows no polynomials.
"""

from skpolyode.dynamics.adjoint import flow
from skpolyode.dynamics.field import WalledMLP
from skpolyode.dynamics.integrate import count_steps, evaluate_path, integrate
from skpolyode.dynamics.steppers import STEPPERS, Stepper

__all__ = ["STEPPERS", "Stepper", "WalledMLP", "count_steps", "evaluate_path", "flow", "integrate"]
