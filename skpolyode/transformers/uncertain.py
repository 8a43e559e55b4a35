"""Base of transformers that estimate the standard deviation of their path."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skpolyode.embedders.variance import path_std, std_coefficients, with_variance
from skpolyode.panel import Panel, series_index
from skpolyode.panel.select import drop_empty
from skpolyode.threads import learning
from skpolyode.transformers.embeddings import checked_embeddings, read_back
from skpolyode.transformers.input import read_panel
from skpolyode.transformers.neural import NeuralTransformer
from skpolyode.transformers.parameters import local_random_state

_LEAST_SHARE = 0.05  # floor, as a share of the RMS of standard deviations in a window


def _knows_std(transformer: UncertainTransformer) -> bool:
    embedder = getattr(transformer, "embedder_", None)
    known = transformer._learns_std if embedder is None else embedder.scale is not None
    if not known:
        raise AttributeError(
            "the standard deviation of the path has not been learned: call learn_std(X) on the "
            "fitted transformer, or fit with observations='noisy' or embedding='coefficients_std'."
        )
    return True


class UncertainTransformer(NeuralTransformer):
    """Base of transformers that learn the standard deviation of the signal around their path.

    Parameters
    ----------
    %(Parameters)s

    Attributes
    ----------
    %(Attributes)s
    """

    _learns_std: ClassVar[bool] = False
    """Whether `fit` learns it; else only `learn_std` does."""

    @property
    def noise_(self) -> np.ndarray | None:
        """Standard deviation of the noise of each channel; None if observations are exact."""
        if (gain := self.embedder_.model.gain) is None:
            return None
        return gain.level.double().cpu().numpy() * self.embedder_.units.scaler.scale

    def learn_std(self, X: Any) -> Self:
        """Learn the standard deviation of the path of a fitted model, which does not change.

        `fit` already does so with ``observations="noisy"`` or ``embedding="coefficients_std"``. It
        takes one or two seconds, for a filter about five: a small network learns the size of
        forecast errors, and of path errors at hidden observations.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            Series to learn from. Use held-out series if you can: on those of `fit` the errors are
            smaller than on new series. The first 20 000 rows are used.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If no series has two rows with observations.

        Examples
        --------
        >>> import numpy as np
        >>> from skpolyode import PolyODETransformer
        >>> t = np.linspace(0, 6, 13)
        >>> series = [(t, np.sin(2 * t + k)) for k in range(8)]
        >>> model = PolyODETransformer(n_coefficients=8, max_epochs=2, random_state=0).fit(series)
        >>> std = model.learn_std(series).interpolate_std(series, [3.0, 3.25])  # exact; between
        >>> bool((std.values[::2] == 0).all()), bool((std.values[1::2] > 0).all())
        (True, True)
        """
        panel = drop_empty(read_panel(self, X, reset=False))
        rng = local_random_state(self.random_state)
        with learning():
            self.embedder_ = with_variance(self.embedder_, panel, rng)
        return self

    @available_if(_knows_std)
    def interpolate_std(self, X: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Standard deviation of `interpolate`, at any times, also after the last observation.

        It has to be learned; see `learn_std`.
        After the last observation it is that of the model alone, ``forecast(..., combine=False)``.
        For the combined forecast use `forecast_interval`. `forecast_std` of a stream returns the
        same values.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,), list of such or None, default=None
            As in `interpolate`.
        relative_to : {"start", "end"} or None, default=None
            As in `interpolate`.

        Returns
        -------
        Panel
            Standard deviation of the signal, without noise, around the path, in the units of the
            channels; that of a new observation is ``sqrt(std**2 + noise_**2)``. It is 0 at exact
            observations. It is not calibrated.

        See Also
        --------
        interpolate_interval : Calibrated intervals.

        Examples
        --------
        >>> import numpy as np
        >>> from skpolyode import PolyODETransformer
        >>> t, noise = np.linspace(0, 6, 15), np.random.default_rng(0).normal(0, 0.3, (6, 15))
        >>> series = [(t, np.sin(t + k) + noise[k]) for k in range(6)]
        >>> model = PolyODETransformer(max_epochs=2, observations="noisy", random_state=0)
        >>> model = model.fit(series)
        >>> bool((model.interpolate_std(series, [3.0, 6.5, 8.0]).values > 0).all())
        True
        """
        check_is_fitted(self)
        return self._found(X, times, relative_to, partial(path_std, self.embedder_))

    @available_if(_knows_std)
    def reconstruct_std(self, X: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Standard deviation of `reconstruct`, read from a second memory.

        It has to be learned; see `learn_std`.
        This memory, with the polynomials, the measure and the window of the first, follows the
        standard deviation along the path: that of `interpolate_std`, combined with the error of the
        reconstruction from coefficients. Its coefficients are a fixed-length summary of the
        uncertainty of the past.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,), list of such or None, default=None
            As in `reconstruct`.
        relative_to : {"start", "end"} or None, default=None
            As in `reconstruct`.

        Returns
        -------
        Panel
            Standard deviations at these times, in the units of the channels. The polynomials smooth
            them; the least value is a twentieth of their root mean square in the window.

        Raises
        ------
        ValueError
            If a time is outside the window; the message names the series.
        """
        past = self.embedder_.past

        def read(panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
            coefficients = std_coefficients(self.embedder_, panel)
            found = past.of_differences.read_past(coefficients, panel, times, offsets)
            return np.maximum(found, self._least_std(coefficients)[series_index(offsets)])

        return self._found(X, times, relative_to, read, past.own_times)

    def _least_std(self, coefficients: np.ndarray) -> np.ndarray:
        """Floor (B, D) of standard deviations that are read from coefficients (B, D, N)."""
        # Polynomials oscillate below 0 where the deviation is small. For exact sines 1 % of all
        # values were 0 at errors of 1e-3; with the floor, errors are 0.75 to 0.9 of the std.
        return self.scaler_.inverse_std(_LEAST_SHARE * np.sqrt((coefficients**2).sum(axis=-1)))

    def inverse_transform_std(self, X: Any, times: Any = None) -> np.ndarray | Panel:
        """Read the standard deviation of `inverse_transform` from embeddings.

        Parameters
        ----------
        X : array-like of shape (n_series, n_features)
            Embeddings as `transform` returns them with ``embedding="coefficients_std"``.
        times : array-like of shape (Q,) or None, default=None
            As in `inverse_transform`.

        Returns
        -------
        ndarray of shape (n_series, Q) or (n_series, Q, n_channels), or Panel
            As in `inverse_transform`; standard deviations in the units of the channels.

        Raises
        ------
        ValueError
            If the embedding holds no such coefficients, has another number of features, or a time
            is outside the window.
        """
        check_is_fitted(self)
        if "std" not in self.embedder_.blocks:
            raise ValueError(
                "the embedding does not hold the standard deviation of the path; use "
                "embedding='coefficients_std'."
            )
        Z, past = checked_embeddings(self, X), self.embedder_.past
        blocks = Z[:, self.n_channels_in_ * past.n_coefficients :]
        found = read_back(self, X, blocks, times, past.of_differences)
        size = self.n_channels_in_, past.n_coefficients
        least = self._least_std(blocks[:, : np.prod(size)].reshape(len(Z), *size))
        if isinstance(found, Panel):
            values = np.maximum(found.values, least[series_index(found.offsets)])
            return found.like(found.times, values, found.offsets)
        return np.maximum(found, least if found.ndim == 2 else least[:, None])
