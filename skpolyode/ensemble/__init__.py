"""The ensemble around a model: naive forecasts, ridge, stacking, decomposition, intervals."""
