"""Readers: each turns one kind of container into the rows of a panel."""

__all__: list[str] = []
