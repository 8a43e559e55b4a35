"""Base of all estimators of series: saving without code, and tags that allow gaps."""

from __future__ import annotations

import os

from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from skpolyode.saving.objects import save


class SeriesEstimator(BaseEstimator):
    """Base of estimators of series; list mixins of scikit-learn before it."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save parameters and fitted attributes in one file without any code.

        Parameters
        ----------
        path : str or PathLike
            Name of the safetensors file, which should end in ``.safetensors``; an existing file is
            replaced.

        Raises
        ------
        TypeError
            If a parameter or an attribute is of a type that files cannot hold.

        See Also
        --------
        skpolyode.load : Load the file.
        """
        save(self, path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags
