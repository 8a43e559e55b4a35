"""Readers: each turns one kind of container into the rows of a panel."""
