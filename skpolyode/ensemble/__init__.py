"""The ensemble around a model: simple forecasts, regression, weights by lead, intervals."""

__all__: list[str] = []
