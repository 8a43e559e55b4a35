"""Adapters: the transformers of this package inside other libraries."""

from skpolyode.errors import require

require("sktime", extra="sktime", what="skpolyode.adapters")

from skpolyode.adapters.sktime import SeriesFeatures  # noqa: E402

__all__ = ["SeriesFeatures"]
