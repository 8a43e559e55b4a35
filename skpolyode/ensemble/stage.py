"""What a fit does to combine the forecasts of its model with simple ones."""

from __future__ import annotations

from dataclasses import replace

from skpolyode.ensemble.members import BASE
from skpolyode.ensemble.stacking import calibrate, learn_stacking
from skpolyode.transformers.stages import FitState


def stack_forecasts(state: FitState) -> None:
    """Learn weights by channel and lead, and whole paths of the errors that are left."""
    parts = state.trained, state.judging, state.random_state
    stacking, backtest = learn_stacking(state.embedder, *parts)
    calibration = calibrate(backtest, state.embedder.units.time_scale)
    state.embedder = replace(state.embedder, stacking=stacking, calibration=calibration)
    judged = state.trained if state.judging is None else state.judging
    weights = {name: w for name, w in stacking.mean_weights.items() if w >= 0.005}
    outcome = f"forecasts combine {', '.join(weights)}"
    if periods := stacking.each[BASE].periods:
        lengths = [f"{period * state.embedder.units.time_scale:.4g}" for period in periods]
        outcome += f"; seasons of {' and '.join(lengths)}"
    state.report.add("stacking", outcome, len(judged), **weights)
