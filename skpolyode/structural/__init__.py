"""Structural time series models at irregular times, filtered and averaged."""
