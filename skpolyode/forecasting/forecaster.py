"""The forecaster: PolyODE behind sktime's interface."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sktime.datatypes import convert_to
from sktime.forecasting.base import BaseForecaster

from skpolyode.forecasting._engine import Answers, answer, fit_forecaster, retrain
from skpolyode.forecasting._frames import (
    Query,
    extended,
    merged,
    read_context,
    read_horizon,
    read_index,
)
from skpolyode.forecasting._panels import PanelForecasts, unnamed
from skpolyode.forecasting._saved import register_forecaster
from skpolyode.panel import Panel
from skpolyode.transformers import PolyODETransformer
from skpolyode.transformers._checks import check_repeatable, local_random_state

__all__ = ["PolyODEForecaster"]

_MTYPES = ["pd.DataFrame", "pd-multiindex", "pd_multiindex_hier"]


@register_forecaster
class PolyODEForecaster(PanelForecasts, BaseForecaster):
    r"""Forecast irregular series at any times, with intervals (PolyODE behind sktime's interface).

    One model of the dynamics is learned from all series: single series, panels and hierarchies,
    with missing values, series of unequal length and channels observed at different times.
    Forecasts continue each series from its own last observation, at times that need not lie on
    any grid. Prediction intervals come from the errors of forecasts of held-out data.

    Use it where series are sparse samples of some dynamics, best many of them. For one short,
    regular, seasonal series, exponential smoothing is better and faster.

    Parameters
    ----------
    n_coefficients : int, default=32
        Coefficients of the memory of each channel. Raise it if the dynamics hang on a longer past;
        lower it for speed.
    measure : {"legt", "legs"}, default="legt"
        How the past is weighted: "legt" remembers the last `window` evenly, "legs" the whole
        history.
    window : float or "auto", default="auto"
        Length of the remembered past, in the units of the index (seconds for datetimes). "auto"
        takes the length of the longest series, but no more than an observation a coefficient.
    step_size : float or "auto", default="auto"
        Longest integration step, in the units of the index. "auto" takes two thirds of the
        typical gap.
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Widths of the network's hidden layers. Raise for many channels and much data.
    horizon : int, default=4
        Observations that training looks ahead. Raise it, with `max_epochs`, if forecasts many
        observations ahead matter; 1 trains fastest and is best for the next observation only.
    learning_rate_init : float, default=0.05
        Peak of the one-cycle schedule. Lower it if training diverges.
    batch_size : int or "auto", default="auto"
        Intervals between observations in a minibatch; "auto" makes sixteen minibatches an epoch.
    max_epochs : int, default=30
        Passes over the intervals. The learning rate falls to zero over them.
    early_stopping : bool, default=True
        Hold out a share of the training series, stop when their one-step error no longer falls,
        and keep the best weights.
    validation_fraction : float, default=0.1
        That share.
    n_iter_no_change : int, default=15
        Epochs without improvement before training stops early; those of the coarse first eighth
        of `max_epochs` do not count.
    calibration_fraction : float, default=0.2
        Share of the data held out to calibrate forecasts and intervals. With ten series or more,
        it is that of the series. With fewer, it is the end of each series, and a second model,
        trained on all data, takes over the calibration. Raise it if intervals must be exact,
        lower it if data are few.
    update_epochs : int, default=2
        Epochs that `update` trains on the new context with ``update_params=True``; 0 never trains.
    checkpoint_dir : str, PathLike or None, default=None
        Folder where the state of the training is kept, as in `PolyODETransformer`: a `fit` that
        was killed goes on from there when it is called again; `random_state` must be an int.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights, minibatches and held-out series. Global generators are not
        used.
    device : str, default="cpu"
        Where torch trains and forecasts, for example "cuda".
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    embedder_ : PolyODETransformer
        The trained model.
    calibration_ : Calibration
        Damping of the forecasts and half widths of their intervals, by channel and lead.

    See Also
    --------
    skpolyode.transformers.PolyODETransformer : The embedding that the forecasts run on.
    evaluate_forecasts : Scores forecasts of irregular series, each from a cutoff of its own.

    Notes
    -----
    **Horizons.** On a DatetimeIndex without frequency, horizons are times (a DatetimeIndex) or
    durations (Timedeltas, counted from each series' own last row); integers need a frequency. On
    integers with gaps, relative horizons count in the units of the index. A time before the
    first row of a series is an error.

    **In-sample times.** At an observation of the series the answer is the forecast of that
    observation from those before it (the mean at the first one), so that residuals are honest.
    Between two observations it is the reverse reconstruction from the memory at a later one,
    which knows both sides.

    **Rows.** Instances may be unsorted and their rows scattered; rows of equal instance and time
    are averaged. Answers are sorted by instance.

    **Damping.** As the lead (the time since the channel was last observed) grows and less can be
    known, forecasts are taken towards the mean, by the factors that had the least squared error
    on held-out data. `embedder_` forecasts the free run.

    **Intervals** are split conformal: at each level, the quantile of the absolute errors of
    held-out forecasts with about the same lead. They are symmetric about the forecast, never
    narrow with the lead, and are held beyond the longest lead that was tried (two windows).
    Levels beyond the number of held-out errors get the largest error. With fewer than ten rows in
    every series there is nothing to hold out: intervals then come from training errors and are
    too narrow.

    **One model for all.** ``pretrain(panel)`` trains and calibrates; ``fit(y)`` after it only
    sets the context that is continued. Without it ``fit`` does both. Long series, and few series,
    are cut into overlapping windows for training.

    References
    ----------
    E. De Brouwer and R. G. Krishnan, "Anamnesic neural differential equations with orthogonal
    polynomial projections", ICLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skpolyode.forecasting import PolyODEForecaster
    >>> hours = np.cumsum(np.random.default_rng(0).exponential(size=40))
    >>> index = pd.Timestamp("2024-01-01") + pd.to_timedelta(hours.round(3), unit="h")
    >>> y = pd.Series(np.sin(hours), index=index)
    >>> forecaster = PolyODEForecaster(n_coefficients=8, max_epochs=3, random_state=0).fit(y)
    >>> ahead = [pd.Timedelta(minutes=20), pd.Timedelta(hours=2)]
    >>> forecaster.predict(ahead).shape
    (2,)
    >>> forecaster.predict_interval(ahead, coverage=0.9).shape
    (2, 2)
    """

    # sktime would keep a second copy of the data, and warn that it will not in future versions.
    _config: ClassVar[dict[str, Any]] = {"remember_data": False}
    _y = None
    _X = None
    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["the skpolyode developers"],
        "maintainers": ["the skpolyode developers"],
        "python_dependencies": ["torch"],
        "y_inner_mtype": _MTYPES,
        "X_inner_mtype": _MTYPES,
        "capability:multivariate": True,
        "capability:exogenous": False,
        "capability:missing_values": True,
        "capability:unequal_length": True,
        "capability:categorical_in_X": False,
        "capability:insample": True,
        "capability:pred_int": True,
        "capability:pred_int:insample": True,
        "capability:update": True,
        "capability:pretrain": True,
        "pretrain:fitted_params": ["embedder_", "calibration_"],
        "capability:random_state": True,
        "property:randomness": "derandomized",
        "requires-fh-in-fit": False,
        "X-y-must-have-same-index": False,
    }

    def __init__(
        self,
        n_coefficients: int = 32,
        measure: str = "legt",
        window: float | str = "auto",
        step_size: float | str = "auto",
        hidden_layer_sizes: Sequence[int] = (64, 64),
        horizon: int = 4,
        learning_rate_init: float = 0.05,
        batch_size: int | str = "auto",
        max_epochs: int = 30,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 15,
        calibration_fraction: float = 0.2,
        update_epochs: int = 2,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.n_coefficients = n_coefficients
        self.measure = measure
        self.window = window
        self.step_size = step_size
        self.hidden_layer_sizes = hidden_layer_sizes
        self.horizon = horizon
        self.learning_rate_init = learning_rate_init
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.calibration_fraction = calibration_fraction
        self.update_epochs = update_epochs
        self.checkpoint_dir = checkpoint_dir
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        super().__init__()

    def fit(self, y: Any, X: Any = None, fh: Any = None) -> Self:
        """Train and calibrate, unless pretrained, and set the context that `predict` continues.

        Parameters
        ----------
        y : series, panel or hierarchy in any of sktime's formats
            The past. Its index decides what horizons can be; see Notes of the class.
        X : None, default=None
            Ignored.
        fh : horizon, default=None
            Remembered for `predict`; nothing else depends on it.

        Returns
        -------
        self
        """
        index = y.index if isinstance(y, pd.Series | pd.DataFrame) else None
        times = None if index is None else index.get_level_values(-1)
        if isinstance(y, Panel) or (times is not None and pd.api.types.is_float_dtype(times)):
            raise TypeError(
                "sktime's horizons cannot count on a Panel or on an index of real numbers: use "
                "pretrain(panel) and forecast(panel, times), or index y by datetimes."
            )
        return super().fit(y, X=X, fh=fh)

    def pretrain(self, y: Any, X: Any = None, fh: Any = None) -> Self:
        """Train the one model on many series, to be fitted to others afterwards.

        Parameters
        ----------
        y : Panel, or panel or hierarchy in any of sktime's formats
            The series. A :class:`~skpolyode.panel.Panel` may have times of any kind, real
            numbers too, which sktime's formats cannot hold.
        X : None, default=None
            Ignored.
        fh : None, default=None
            Ignored.

        Returns
        -------
        self
        """
        if not isinstance(y, Panel):
            return super().pretrain(y, X=X, fh=fh)
        if self.state == "new":
            self._train(y)
        else:
            self._retrain(y, self.max_epochs)
        self._pretrained_attrs = ["embedder_", "calibration_"]
        self._state = "pretrained"
        return self

    def predict_residuals(self, y: Any = None, X: Any = None) -> Any:
        """Observations minus their predictions, each instance at its own times.

        Parameters
        ----------
        y : series, panel or hierarchy in any of sktime's formats, default=None
            What to compare with; in-sample rows are predicted from the rows before them. By
            default what the forecaster was fitted and updated with.
        X : None, default=None
            Ignored.

        Returns
        -------
        Residuals, in the format of `y`
            A DataFrame by default. NaN where `y` is not observed.
        """
        self.check_is_fitted()
        if isinstance(y, np.ndarray):
            return super().predict_residuals(y, X)
        inner = self._context_y if y is None else convert_to(y, _MTYPES)
        query = read_index(self._context, inner.index)
        predictions = self._frame(query, self._quantile(self._answer(query), 0.5), inner.columns)
        # Looked up by position in the sorted, duplicate-free answer: labels may repeat in y.
        unique = predictions[~predictions.index.duplicated()]
        values = unique.to_numpy()[unique.index.get_indexer(inner.index)]
        residuals = inner - values
        if y is None or isinstance(y, pd.DataFrame):
            return residuals
        return convert_to(residuals, self._y_metadata["mtype"])

    def _pretrain(self, y: pd.DataFrame, X: Any = None, fh: Any = None) -> Self:
        self._train(read_context(merged(y)).panel)
        return self

    def _pretrain_update(self, y: pd.DataFrame, X: Any = None, fh: Any = None) -> Self:
        self._retrain(read_context(merged(y)).panel, self.max_epochs)
        return self

    def _fit(self, y: pd.DataFrame, X: Any, fh: Any) -> Self:
        self._set_context(merged(y))
        panel = self._context.panel
        if self.state != "pretrained":
            self._train(panel)
        elif panel.n_channels != self.embedder_.n_channels_in_:
            raise ValueError(
                f"y has {panel.n_channels} channels, but the forecaster was pretrained on "
                f"{self.embedder_.n_channels_in_}: give the same ones, NaN where not observed."
            )
        return self

    def _update(self, y: pd.DataFrame, X: Any = None, update_params: bool = True) -> Self:
        self._set_context(extended(self._context_y, y))
        if update_params and self.update_epochs:
            self._retrain(self._context.panel, self.update_epochs)
        return self

    def _predict(self, fh: Any, X: Any = None) -> pd.DataFrame:
        query = read_horizon(self._context, fh)
        return self._frame(query, self._quantile(self._answer(query), 0.5), self._context_y.columns)

    def _predict_quantiles(self, fh: Any, X: Any = None, alpha: Any = None) -> pd.DataFrame:
        query = read_horizon(self._context, fh)
        answers = self._answer(query)
        quantiles = np.stack([self._quantile(answers, a) for a in alpha], axis=-1)
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        return self._frame(query, quantiles.reshape(len(quantiles), -1), columns)

    def _train(self, panel: Panel) -> None:
        self._check_parameters()
        rng = local_random_state(self.random_state)
        own = self.get_params(deep=False)
        shared = {name: own[name] for name in PolyODETransformer().get_params() if name in own}
        embedder = PolyODETransformer(**{**shared, "random_state": int(rng.randint(2**31 - 1))})
        share = self.calibration_fraction
        self.embedder_, self.calibration_ = fit_forecaster(embedder, unnamed(panel), share, rng)

    def _retrain(self, panel: Panel, n_epochs: int) -> None:
        self._check_parameters()
        self.embedder_ = retrain(self.embedder_, unnamed(panel), n_epochs)

    def _check_parameters(self) -> None:
        if not 0 < self.calibration_fraction < 1:
            raise ValueError(
                f"calibration_fraction must be between 0 and 1, got {self.calibration_fraction!r}."
            )
        if self.update_epochs < 0:
            raise ValueError(f"update_epochs must not be negative, got {self.update_epochs!r}.")
        if self.checkpoint_dir is not None:
            check_repeatable(self.random_state)

    def _set_context(self, y: pd.DataFrame) -> None:
        self._context_y = y
        self._context = read_context(y, getattr(self.cutoff, "freq", None))

    def _answer(self, query: Query) -> Answers:
        panel = self._context.panel
        return answer(self.embedder_, self.calibration_, panel, query.times, query.offsets)

    @staticmethod
    def _frame(query: Query, values: np.ndarray, columns: Any) -> pd.DataFrame:
        return pd.DataFrame(values, index=query.index, columns=columns)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Small parameters for sktime's estimator checks.

        Parameters
        ----------
        parameter_set : str, default="default"
            Ignored.

        Returns
        -------
        list of dict
        """
        # One integration step a gap and windows of eight rows: sktime's checks fit 700 times.
        small = {"n_coefficients": 2, "hidden_layer_sizes": (8,), "step_size": 1e7}
        return [
            {**small, "max_epochs": 1, "horizon": 1, "update_epochs": 0, "random_state": 0},
            {**small, "max_epochs": 2, "horizon": 2, "update_epochs": 1, "random_state": 1},
        ]
