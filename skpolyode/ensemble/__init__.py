"""The ensemble around a model: its members, their weights by lead, intervals."""

__all__: list[str] = []
