"""Parquet: collections of series that do not fit in memory."""

try:
    import pyarrow  # noqa: F401 (optional: said here once, with the way to get it)
except ImportError as error:
    raise ImportError(
        "skpolyode.parquet needs pyarrow: pip install 'skpolyode[parquet]'."
    ) from error

from skpolyode.parquet.embed import embed_dataset
from skpolyode.parquet.sample import sample_dataset

__all__ = ["embed_dataset", "sample_dataset"]
