"""Ragged container of irregular time series, and the readers of every accepted input format."""

from __future__ import annotations

from skpolyode.panel.calendar import calendar_inputs
from skpolyode.panel.convert import as_panel, is_ragged
from skpolyode.panel.inputs import Inputs
from skpolyode.panel.panel import Panel, Series
from skpolyode.panel.query import query_times
from skpolyode.panel.rows import offsets_from, series_index

__all__ = [
    "Inputs",
    "Panel",
    "Series",
    "as_panel",
    "calendar_inputs",
    "is_ragged",
    "offsets_from",
    "query_times",
    "series_index",
]
