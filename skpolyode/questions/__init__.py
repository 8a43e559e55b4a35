"""Means and integrals of paths over windows, slopes, and their uncertainty."""

__all__: list[str] = []
