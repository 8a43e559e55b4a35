"""Constructor parameters that all models share, their documentation, and checks."""

from __future__ import annotations

import datetime
import inspect
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import wraps
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

POSITIVE = Interval(Real, 0, None, closed="neither")
COUNT = Interval(Integral, 1, None, closed="left")
COUNT_OR_AUTO = [COUNT, StrOptions({"auto"})]
# As `read_duration` reads it. A timedelta64 comes first: numpy takes it for a whole number.
Duration = float | str | datetime.timedelta | np.timedelta64
DURATION = [np.timedelta64, datetime.timedelta, str, POSITIVE]


_ENTRY = re.compile(r"^((\w+) : .*\n(?:^    .*\n)*)", re.MULTILINE)


def check_names(init: Callable[..., None]) -> Callable[..., None]:
    """Decorate `__init__`: errors for unknown parameters name the class and the closest match."""

    @wraps(init)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        if type(self).__init__ is checked:  # not when a subclass calls it
            known = list(inspect.signature(checked).parameters)[1:]
            for name in [name for name in given if name not in known]:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"its parameters are {known}."
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}; {hint}")
        init(self, *args, **given)

    return checked


class Training:
    """Parameters and attributes of every neural transformer.

    Parameters
    ----------
    horizon : int or "auto", default="auto"
        Number of observations that the loss looks ahead. "auto" looks one observation ahead. Every
        second minibatch also looks further: up to half of the rows of the median series, 48 at
        most. Far leads count no more than near ones, so that the model learns to forecast both. 1
        trains up to a tenth faster, for one-step forecasts and embeddings only. A larger number
        trains slower, and gives near leads more weight.
    learning_rate_init : float, default=0.05
        Peak of the one-cycle schedule. Lower it if training diverges.
    batch_size : int or "auto", default="auto"
        Intervals between observations per minibatch; "auto" makes sixteen minibatches an epoch, of
        64 to 512 intervals.
    max_epochs : int or "auto", default="auto"
        Number of epochs, over which the learning rate falls to zero. "auto" makes twenty-four for
        PolyODE and forty for its siblings. There are fewer if errors of held-out series stop
        falling before half of this number: the rate then falls to zero within an eighth of it.
        With more than 32 000 intervals each epoch of "auto" draws a random sample of the series,
        and a fixed sample of the held-out series validates, so that larger sets cost no more. An
        int is the maximum number of epochs, each of which goes through all series. Raise it for
        large sets if you can wait.
    validation_fraction : float or None, default=0.1
        Share of the series held out for validation: `fit` learns nothing from them, not even
        scales. Training stops when their forecasting error has not fallen for half of `max_epochs`,
        but for at least ten epochs, and not before it is below that of the untrained model. The
        model keeps the weights with the lowest error. From twenty held-out series on, one half of
        them stops training and the other half evaluates forecasts and sets the weights of the
        stacking. With fewer than five series, the last rows of each series with at least 384 rows
        are held out instead; without such a series, the training error is used. None trains on all
        series for all epochs; the stacking then gives the model too much weight. Ignored if `fit`
        gets `validation`.
    warm_start : bool, default=False
        Continue from the weights, scales and other settings of the last fit, on series with the
        channels, units and covariates of that fit.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, minibatches and held-out series. Global generators are not used.
    device : str, default="cpu"
        Where torch trains and embeds, for example "cuda". A model has the same forecasts there, up
        to rounding. Its many small steps were slower on a GPU with up to a thousand series.
    verbose : int or "auto", default="auto"
        1 shows a progress bar over all stages of the fit, in epochs, and 0 none. "auto" shows it
        after two seconds in a terminal or a notebook, but not in the workers of a search.

    Attributes
    ----------
    embedder_ : ModelEmbedder
        The trained model with its units, which does not depend on scikit-learn.
    scaler_ : ChannelScaler
        Mean and standard deviation of each channel in the training series.
    time_scale_ : float
        Typical gap between observations of the training series, in the units of `times`; the
        model's unit of time.
    history_ : list of dict
        For each epoch ``epoch``, ``validation_error``, ``error_ahead`` (of forecasts further ahead,
        if training looks there), ``training_loss``, ``n_items`` (intervals in it),
        ``learning_rate`` and ``seconds``; ``pandas.DataFrame(history_)`` is a table of them.
    n_epochs_ : int
        Epochs run.
    best_epoch_ : int
        Epochs after which the model had the weights that were kept.
    stop_reason_ : str
        Why training stopped: "all epochs", "errors did not fall any more", "no improvement for 21
        epochs", "the loss became infinite", "interrupted" or "nothing to train on".
    validation_error_ : float
        Best one-step forecasting MSE on the held-out series, in standardised units. From
        twenty held-out series on, it is of the half that stops training.
    validation_error_se_ : float
        Its standard error, from how the error differs between the held-out series; NaN if none is
        held out. With twenty held-out series or more, it is that of the half that does not stop
        training; `fit_report_` has the error of that half. With few series, chance decides small
        differences: call one model better only if the errors differ by more than two standard
        errors.
    fit_report_ : FitReport
        What `fit` decided, by which figures, from how many series and in how many seconds; print
        it.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "horizon": COUNT_OR_AUTO,
        "learning_rate_init": [POSITIVE],
        "batch_size": COUNT_OR_AUTO,
        "max_epochs": COUNT_OR_AUTO,
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "device": [str],
        "verbose": ["verbose", StrOptions({"auto"})],
    }

    @check_names
    def __init__(
        self,
        *,
        horizon: int | str = "auto",
        learning_rate_init: float = 0.05,
        batch_size: int | str = "auto",
        max_epochs: int | str = "auto",
        validation_fraction: float | None = 0.1,
        warm_start: bool = False,
        random_state: Any = None,
        device: str = "cpu",
        verbose: int | str = "auto",
    ) -> None:
        self.horizon = horizon
        self.learning_rate_init = learning_rate_init
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __init_subclass__(cls, **options: Any) -> None:
        """Complete the signature and the docstring of a subclass from those of its parent.

        ``%(training)s`` and ``%(trained)s`` stand for the parameters and attributes above,
        ``%(Parameters)s`` and ``%(Attributes)s`` for those of the parent.

        Parameters that the subclass defines, such as one with another default, are not replaced.
        """
        super().__init_subclass__(**options)
        init, parent = vars(cls).get("__init__"), cls.__mro__[1]
        defined = [] if init is None else [*inspect.signature(init).parameters.values()]
        takes_more = bool(defined) and defined[-1].kind is inspect.Parameter.VAR_KEYWORD
        defined = defined[:-1] if takes_more else []
        names = {p.name for p in defined}
        if cls.__doc__:
            shared = {
                "training": _section(Training, "Parameters"),
                "Parameters": _section(parent, "Parameters"),
            }
            parts = {
                key: "".join(entry for entry, name in _ENTRY.findall(text) if name not in names)
                for key, text in shared.items()
            }
            parts["trained"] = _section(Training, "Attributes")
            parts["Attributes"] = _section(parent, "Attributes")
            doc = inspect.cleandoc(cls.__doc__) + "\n"  # Python 3.13 has cleaned it already
            for name, text in parts.items():
                doc = doc.replace(f"%({name})s\n", text)
            cls.__doc__ = doc
        if takes_more:
            base = inspect.signature(parent.__init__).parameters.values()
            init.__signature__ = inspect.Signature(
                [*defined, *(p for p in base if p.name not in names)]
            )


def layer_sizes(hidden: Sequence[Any] | int) -> list[int]:
    """Widths of hidden layers as plain integers; a ValueError if they are not positive ones."""
    sizes = [hidden] if isinstance(hidden, Integral) else list(hidden)
    if not all(isinstance(n, Integral) and n > 0 for n in sizes):
        raise ValueError(
            f"hidden_layer_sizes must be positive integers, one a layer, got {hidden!r}."
        )
    return [int(n) for n in sizes]


def check_parameters(estimator: BaseEstimator) -> None:
    """Check parameters by their constraints, with a clearer error for a `torch.device`."""
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, torch.device):
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(estimator).__name__} is a "
                f"{type(value).__name__}; pass its name, {name}={str(value)!r}."
            )
    estimator._validate_params()


def check_device(device: str) -> None:
    """Raise a ValueError if torch cannot compute on the device here."""
    try:
        # Devices may exist but not allocate tensors, or not support float64, which fit needs.
        torch.ones(1, dtype=torch.float64, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={device!r} cannot be used here ({reason}); device='cpu' always can."
        ) from None


def local_random_state(seed: Any) -> np.random.RandomState:
    """As `check_random_state`, but None does not use numpy's global generator."""
    return np.random.RandomState() if seed is None else check_random_state(seed)


def _section(cls: type, name: str) -> str:
    """Entries of a section of the docstring of a class."""
    _, _, rest = inspect.cleandoc(cls.__doc__ or "").partition(f"{name}\n{'-' * len(name)}\n")
    return rest.partition("\n\n")[0] + "\n"
