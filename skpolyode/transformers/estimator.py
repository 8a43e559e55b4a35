"""What all estimators of series share: they are saved without code, and take gaps."""

from __future__ import annotations

import os

from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from skpolyode.saving.objects import save


class SeriesEstimator(BaseEstimator):
    """Base of estimators of series; mixins of scikit-learn stand before it."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save everything, parameters and what was fitted, in one file without any code.

        Parameters
        ----------
        path : str or PathLike
            The file, a safetensors file whatever its name; one that exists is replaced.

        Raises
        ------
        TypeError
            If a parameter or an attribute is of a type that files cannot hold.

        See Also
        --------
        skpolyode.load : The way back.
        """
        save(self, path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags
