"""Parquet: collections of series that do not fit in memory."""

from skpolyode.errors import require

require("pyarrow", extra="parquet", what="skpolyode.parquet")

from skpolyode.parquet.tables import embed_dataset, sample_dataset  # noqa: E402

__all__ = ["embed_dataset", "sample_dataset"]
