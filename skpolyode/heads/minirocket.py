"""MiniRocket features of regular series."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skpolyode.threads import one_thread


def has_minirocket() -> bool:
    """Whether MiniRocket can run here."""
    return all(find_spec(package) is not None for package in ("numba", "sktime"))


class MiniRocket(TransformerMixin, BaseEstimator):
    """Features of the shapes of regular series: sktime's MiniRocket, for scikit-learn's pipelines.

    It wraps `MiniRocketMultivariate`: newer pipelines of scikit-learn set an attribute of their
    steps, which sktime's estimators lose when they are fitted.

    Use it after a `Resampler`, with a linear head. It needs numba, which takes about 20 seconds to
    compile on first use.

    Parameters
    ----------
    num_kernels : int, default=10000
        Approximate number of features. Lower it for many series.
    random_state : int or None, default=None
        Seed of the biases, and of the channels of each kernel.

    Attributes
    ----------
    rocket_ : sktime.transformations.panel.rocket.MiniRocketMultivariate
        The fitted transformer of sktime.

    References
    ----------
    A. Dempster, D. F. Schmidt and G. I. Webb, "MiniRocket: a very fast (almost) deterministic
    transform for time series classification", KDD 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.heads import MiniRocket
    >>> X = np.random.default_rng(0).normal(size=(4, 2, 32))  # series, channel, time
    >>> MiniRocket(num_kernels=168, random_state=0).fit_transform(X).shape
    (4, 168)
    """

    def __init__(self, *, num_kernels: int = 10_000, random_state: int | None = None) -> None:
        self.num_kernels = num_kernels
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: Any = None) -> Self:
        """Choose kernels.

        Parameters
        ----------
        X : ndarray of shape (n_series, n_channels, n_times)
            Series of nine times or more.
        y : None, default=None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ModuleNotFoundError
            If numba or sktime is not installed.
        """
        # Imported here: `import skpolyode` does not load sktime.
        from sktime.transformations.panel.rocket import MiniRocketMultivariate

        rocket = MiniRocketMultivariate(self.num_kernels, random_state=self.random_state)
        with one_thread():  # numba resets the number of torch threads when it starts
            self.rocket_ = rocket.fit(X)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Share of the times at which each kernel responds.

        Parameters
        ----------
        X : ndarray of shape (n_series, n_channels, n_times)
            Series, as long as those of `fit`.

        Returns
        -------
        float64 ndarray of shape (n_series, n_features)
        """
        check_is_fitted(self)
        with one_thread():
            return self.rocket_.transform(X).to_numpy(dtype=np.float64)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore with writable arrays: compiled code rejects the read-only ones of joblib."""
        super().__setstate__(state)
        if hasattr(self, "rocket_"):
            self.rocket_.parameters = tuple(map(np.array, self.rocket_.parameters))
