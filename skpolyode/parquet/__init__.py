"""Parquet: collections of series that do not fit in memory."""

from skpolyode.errors import require

require("pyarrow", extra="parquet", what="skpolyode.parquet")

from skpolyode.parquet.embed import embed_dataset  # noqa: E402
from skpolyode.parquet.sample import sample_dataset  # noqa: E402

__all__ = ["embed_dataset", "sample_dataset"]
