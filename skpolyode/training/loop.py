"""The one training loop. It knows tasks, not models: settings go in, a report comes out.

Here are also the interface of a task, the optimizer, the schedule of the learning rate, the average
of the weights and the report.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn
from tqdm.auto import tqdm

_FEW = 64  # inputs of a typical hidden layer, for which the learning rate is meant


def orthogonalise(matrix: Tensor, rounds: int = 5) -> Tensor:
    """Bring all singular values of a matrix near one, keeping its singular vectors.

    A Newton-Schulz iteration: each round applies an odd polynomial of degree five to the singular
    values, with three small products and no decomposition.

    Parameters
    ----------
    matrix : Tensor of shape (n_out, n_in)
    rounds : int, default=5
        Rounds of the iteration; five suffice for singular values down to 1 % of the norm.

    Returns
    -------
    Tensor of shape (n_out, n_in)

    Examples
    --------
    >>> import torch
    >>> from skpolyode.training import orthogonalise
    >>> values = torch.linalg.svdvals(orthogonalise(torch.diag(torch.tensor([3.0, -1.0, 0.2]))))
    >>> bool((values > 0.6).all() and (values < 1.3).all())
    True
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.t() if tall else matrix  # (n, m) with n <= m
    x = x / x.norm().clamp(min=1e-12)
    a, b, c = 3.4445, -4.775, 2.0315  # map singular values in (0, 1] close to 1 in five rounds
    for _ in range(rounds):
        gram = x @ x.t()
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x


class Muon:
    """Orthogonalised momentum for matrices, Adam for vectors.

    On Lorenz63 it needs half of Adam's epochs to the same forecasting error. This is not
    :class:`torch.optim.Muon` because that one works in bfloat16, which on a CPU takes ten
    times as long for matrices of this size and would cost half of the training time; and no
    subclass of torch's optimizers because their constructor imports torch's compiler, which takes
    longer than training on a small set.

    Parameters
    ----------
    parameters : iterable of Parameter
        Matrices and vectors.
    lr : float
        Size of a step of a matrix, in its spectral norm: times the root of outputs for each input
        where there are more outputs, or more than 64 inputs, so that outputs move as much on
        average however wide the layer is. An attribute that may be set anew before each step.
    momentum : float, default=0.9
        Share of the past in the gradient of matrices.
    weight_decay : float, default=0.1
        Shrinking rate of the matrices, relative to `lr`. It makes the learned field smooth: on
        the sparsest benchmark (Synthetic) it halves the held-out error, on Lorenz63 the error of
        the integration.

    References
    ----------
    K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.training import Muon
    >>> layer = torch.nn.Linear(3, 2)
    >>> optimizer = Muon(layer.parameters(), lr=0.05)
    >>> layer(torch.ones(1, 3)).sum().backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.1,
    ) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.state: list[dict] = [{} for _ in self.parameters]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters from their gradients."""
        for parameter, state in zip(self.parameters, self.state, strict=True):
            if parameter.grad is not None:
                rule = self._step_matrix if parameter.ndim == 2 else self._step_vector
                rule(parameter, state)

    def _step_matrix(self, matrix: Tensor, state: dict) -> None:
        if not state:
            state["momentum"] = torch.zeros_like(matrix)
        momentum = state["momentum"].lerp_(matrix.grad, 1 - self.momentum)
        ahead = matrix.grad.lerp(momentum, self.momentum)  # Nesterov
        outputs, inputs = matrix.shape
        size = (max(outputs, min(inputs, _FEW)) / inputs) ** 0.5
        matrix.mul_(1 - self.lr * self.weight_decay)
        matrix.add_(orthogonalise(ahead), alpha=-self.lr * size)

    def _step_vector(self, vector: Tensor, state: dict) -> None:
        """Adam with its default constants, and 0.4 of the rate of matrices."""
        if not state:
            state.update(step=0, mean=torch.zeros_like(vector), square=torch.zeros_like(vector))
        state["step"] += 1
        state["mean"].lerp_(vector.grad, 0.1)
        state["square"].lerp_(vector.grad.square(), 0.001)
        mean = state["mean"] / (1 - 0.9 ** state["step"])
        deviation = (state["square"] / (1 - 0.999 ** state["step"])).sqrt_()
        vector.addcdiv_(mean, deviation + 1e-8, value=-0.4 * self.lr)


ALL_EPOCHS = "all epochs"
SETTLED = "errors did not fall any more"
INTERRUPTED = "interrupted"
INFINITE = "the loss became infinite"


_NEGLIGIBLE = 1e-3  # relative differences of errors below this are ignored
# If one-step errors are about equal, later weights forecast better ahead as a rule, as their rate
# is lower. On van der Pol's oscillator under noise the one-step error is least after 18 of 40
# epochs, and 0.7 % larger after all, when the error ahead is half as large. With few series, such
# a difference may be chance.
_TOLERATED, _ENOUGH_SERIES = 0.01, 10
_ERROR, _AHEAD, _LOSS = "validation_error", "error_ahead", "training_loss"
SETTLING = 4  # epochs at least after a turn
_CLIP = 0.5  # largest norm of a gradient
# Share of all steps over which weights are averaged. The average is validated and kept, and a task
# prepares its epochs with it (benchmarks/NOTES.md, "Averaged weights").
_AVERAGED = 0.05
# Share of the rate down to which it is halved where noise is being learned (there, too).
_SLOWEST = 1 / 16
_AS_GOOD = 1.02  # times the best product of errors, up to which the last weights are kept


@dataclass(frozen=True)
class TrainingReport:
    """How a training went.

    Parameters
    ----------
    history : list of dict
        For each epoch ``epoch``, ``validation_error``, ``error_ahead`` (where a task has one),
        ``training_loss``, ``n_items`` (trained on) and ``seconds`` (since the start). The errors
        are those of the weights before the epoch; the last entry, without a training loss, has
        those of the final weights.
    best_error : float
        Validation error of the weights that the module was left with; infinite if there is none.
    best_epoch : int
        Epoch before which the module had these weights.
    reason : str
        Why training stopped: "all epochs", "errors did not fall any more", "no improvement for 11
        epochs", "the loss became infinite", "interrupted" or "nothing to train on".

    Examples
    --------
    >>> from skpolyode.training import TrainingReport
    >>> history = [
    ...     {"epoch": 0, "validation_error": 1.0, "seconds": 0.1, "training_loss": 0.8},
    ...     {"epoch": 1, "validation_error": 0.5, "seconds": 0.2},
    ... ]
    >>> report = TrainingReport(history, best_error=0.5, best_epoch=1, reason="interrupted")
    >>> report.n_epochs
    1
    >>> report.message
    'training was interrupted in epoch 1; the best weights so far are kept (validation error 0.5)'
    """

    history: list[dict[str, float]]
    best_error: float
    best_epoch: int
    reason: str

    @property
    def n_epochs(self) -> int:
        """Epochs that were trained to their end."""
        return sum("training_loss" in entry for entry in self.history)

    @property
    def was_interrupted(self) -> bool:
        """Whether the user stopped it (Ctrl-C)."""
        return self.reason == INTERRUPTED

    @property
    def message(self) -> str:
        """One sentence for users."""
        where = f"in epoch {self.history[-1]['epoch']}" if self.history else "at its start"
        what = {
            INTERRUPTED: f"training was interrupted {where}",
            INFINITE: f"the training loss became infinite or NaN {where}",
        }.get(self.reason, f"training ended {where} ({self.reason})")
        if not math.isfinite(self.best_error):
            return f"{what}; nothing was learned yet"
        return f"{what}; the best weights so far are kept (validation error {self.best_error:.3g})"


class Judged(NamedTuple):
    """One-step forecasts of held-out series beside the mean of their channels."""

    error: float  # mean square, in standardised units
    error_of_mean: float
    standard_error: float  # of the difference, from how series differ
    n_series: int

    @property
    def gain(self) -> float:
        """Error of the mean less that of the forecasts."""
        return self.error_of_mean - self.error

    @property
    def is_sure(self) -> bool:
        """Whether the gain is more than chance would give."""
        return self.gain > 2 * self.standard_error

    def __str__(self) -> str:
        return (
            f"on {self.n_series} held-out series their error is {self.error:.3g}, that of the mean "
            f"{self.error_of_mean:.3g}: a difference of {self.gain:.2g} ± {self.standard_error:.2g}"
        )


def warn_if_nothing_was_learned(
    report: TrainingReport, judged: Judged | None, *, judges_untrained: bool
) -> None:
    """Warn of a model that forecasts no better than the mean, or than the untrained model.

    Where a caller of `fit_stages` judges forecasts itself, `judges_untrained` is False: the model
    is then only compared with the mean.
    """
    what = f"nothing was learned in {report.n_epochs} epochs"
    found = f"validation_error_={report.best_error:.3g}, that of the mean is 1"
    if judged is not None:
        found = str(judged)
    # Held-out series may vary more than the others; the error of the mean is then above 1, too.
    if report.best_error > 1 and (judged is None or not judged.gain > 0):
        why = "forecasts are worse than the mean of their channels"
    elif judges_untrained and report.best_epoch == 0 < report.best_error:
        why = "no weights forecast better than the untrained ones, which were kept"
    elif judges_untrained and judged is not None and not judged.is_sure and report.best_error > 0:
        what = f"it is not sure that anything was learned in {report.n_epochs} epochs"
        why = "forecasts are no better than the mean of their channels, or by chance"
    else:
        return
    warnings.warn(
        f"{what}: {why} ({found}). Train on more series, lower learning_rate_init, or use "
        "HiPPOTransformer, which needs no training: noise cannot be forecast.",
        ConvergenceWarning,
        stacklevel=5,
    )


class Task:
    """The preparation of each epoch of a training, and the loss of a minibatch.

    Attributes
    ----------
    items : Tensor of shape (n, ...)
        What minibatches are drawn from.
    is_preliminary : bool
        Whether the last validation error cannot be compared with later ones.
    item_size : float
        Mean number of intervals between observations of an item.
    scans : bool
        Whether `refresh` goes through series in order, which costs as much as the gradients.
    found : mapping of str to Tensor
        Entries of the module's `state_dict` that the last `refresh` has estimated from the data;
        gradients do not learn them.
    series_errors : Tensor of shape (2, n) or None
        Sums of the squared errors of the last validation error, by series, and their numbers; None
        if they are not known.
    error_ahead : float or None
        Error of forecasts further ahead, at the last refresh; None if there is none. The weights
        with the least product of both errors are kept. For noisy series the error of the next
        observation is least before the dynamics are any good.
    """

    items: Tensor
    series_errors: Tensor | None = None
    error_ahead: float | None = None
    is_preliminary = False
    item_size = 1.0
    scans = False
    found: Mapping[str, Tensor] = {}

    def refresh(self, progress: float = 1.0) -> float:
        """Prepare an epoch, which may change `items`; returns the present validation error.

        `progress` is the share of the epochs that is done, 1 at the end.
        """
        raise NotImplementedError

    def loss(self, index: Tensor) -> Tensor:
        """Loss of a minibatch, given by positions in `items`."""
        raise NotImplementedError

    def keeps_states(self, progress: float) -> bool:
        """Whether the next `refresh` will leave what was prepared as it is."""
        return False


class Turn(NamedTuple):
    """A decision taken during training.

    Parameters
    ----------
    epoch : int
        Epoch before which it is taken.
    decide : callable
        Returns what was decided.
    apply : callable
        Changes the module accordingly. Parameters that the module loses are not trained on.
    """

    epoch: int
    decide: Callable[[], Any]
    apply: Callable[[Any], None]


def one_cycle(step: int, total: int) -> float:
    """Share of the peak learning rate at a step: a linear warm-up of 2 %, then a cosine to zero.

    Parameters
    ----------
    step : int
        Steps done.
    total : int
        Steps of the whole cycle.

    Examples
    --------
    >>> from skpolyode.training import one_cycle
    >>> [round(one_cycle(step, 20), 2) for step in (0, 1, 2, 11, 20)]
    [0.5, 1.0, 0.99, 0.46, 0.0]
    """
    rise = max(1, round(0.02 * total))
    if step < rise:
        return (step + 1) / (rise + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise)))


@dataclass
class Cycle:
    """One cycle over the epochs of a training, which ends early once errors do not fall any more.

    The rate must fall before the end, since errors are needlessly large at high rates. So the rest
    of the cycle is passed in few epochs. If errors fall again meanwhile, it goes on at the usual
    pace: the rate was too high, and there is more to learn.

    Parameters
    ----------
    n_epochs : int
        Epochs of the whole cycle.
    watches : bool, default=True
        Whether it may end early; training errors are no reason to.
    earliest : int, default=10
        Epoch before which it does not end, and every epoch is validated.
    since, until : float, default=0.25 and 0.5
        Shares of the epochs between which this is decided. A model that still learns in the middle
        goes through all epochs; later the falling rate itself slows the fall of errors.
    plateau : float, default=0.9
        It ends early if the least error of the last epochs is more than so many times the least
        one before them. Errors fall again if one is less than so many times the least before.
    recent : int, default=4
        The last epochs, in number.
    rest : float, default=0.125
        Share of the epochs in which the rest is passed (benchmarks/NOTES.md, "Constants of
        training").
    every : int, default=2
        Epochs between two validations in the second half, where weights change little (there, too).

    Examples
    --------
    The errors of 20 epochs do not fall after the third; the rate is nothing after the tenth:

    >>> from skpolyode.training.loop import Cycle
    >>> cycle = Cycle(20)
    >>> for epoch, error in enumerate([9.0, 4.0, 2.0, 2.0, 2.1, 2.0, 2.0, 2.1]):
    ...     cycle.watch(epoch, error)
    >>> [round(cycle.place(epoch), 1) for epoch in range(6, 11)], cycle.is_over(10)
    ([6.0, 9.5, 13.0, 16.5, 20.0], True)
    """

    n_epochs: int
    watches: bool = True
    earliest: int = 10
    since: float = 0.25
    until: float = 0.5
    plateau: float = 0.9
    recent: int = 4
    rest: float = 0.125
    every: int = 2
    errors: list[float] = field(default_factory=list)
    # Epoch of the last change of pace, its place in the whole cycle, and the epoch where it ends.
    pace: tuple[int, float, int] | None = None
    least: float = 0.0  # error before it was shortened; 0 otherwise

    def watch(self, epoch: int, error: float) -> None:
        """Take note of the error of an epoch, and decide whether to end early."""
        self.errors.append(error)
        before, last = self.errors[: -self.recent], self.errors[-self.recent :]
        is_early = self.since <= epoch / self.n_epochs <= self.until
        if error < self.plateau * self.least:
            place, self.least = self.place(epoch), 0.0
            self.pace = epoch, place, epoch + math.ceil(self.n_epochs - place)
        if not self.watches or self.pace or not is_early:
            return
        # Where nothing was learned yet, the rate is too high, and it is falling.
        if not before or min(before) == before[0]:
            return
        end = max(epoch + round(self.rest * self.n_epochs), self.earliest)
        if min(last) > self.plateau * min(before) and end < self.n_epochs:
            self.pace, self.least = (epoch, epoch, end), min(self.errors)

    def place(self, epoch: float) -> float:
        """Where in the whole cycle an epoch is."""
        if self.pace is None or epoch < self.pace[0]:
            return epoch
        start, place, end = self.pace
        return place + (epoch - start) * (self.n_epochs - place) / (end - start)

    def is_due(self, epoch: int, last: int) -> bool:
        """Whether an epoch begins with a validation; `last` is the epoch of the one before."""
        place = self.place(epoch)
        is_late = place > max(self.n_epochs / 2, self.earliest) and not self.is_over(epoch)
        return not is_late or place - self.place(last) >= self.every

    def is_over(self, epoch: int) -> bool:
        """Whether no epoch is left."""
        return epoch >= (self.n_epochs if self.pace is None else self.pace[2])

    def share(self, epoch: int, step: int, n_steps: int) -> float:
        """Share of the peak learning rate at a step of an epoch."""
        done = round(self.place(epoch + step / n_steps) * n_steps)
        return one_cycle(done, self.n_epochs * n_steps)


def is_surely_larger(errors: Tensor | None, others: Tensor | None) -> bool:
    """Whether errors are larger than others by more than chance explains.

    They are if their sum is larger by more than two standard errors, from the differences between
    series, or if the geometric mean of the series' errors is not smaller; with ten series or more
    it may be larger by one percent. If few series make most of the error, as those of chaotic
    systems with a long gap do, the least sum of many epochs is mostly luck. One such series makes
    a difference of one standard error, four make two.

    Parameters
    ----------
    errors, others : Tensor of shape (2, n) or None
        Sums of squared errors of the same series, and their numbers. If they are not known, None,
        any larger error counts as surely larger.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.training.loop import is_surely_larger
    >>> others = torch.tensor([[1.0, 1.0, 2.0, 2.0, 9.0], [5.0] * 5])
    >>> luck, worse = others.clone(), others.clone()
    >>> luck[0] = torch.tensor([0.5, 0.5, 1.0, 1.0, 20.0])
    >>> worse[0] = 1.2 * others[0]
    >>> is_surely_larger(luck, others), is_surely_larger(worse, others)
    (False, True)
    """
    if errors is None or others is None or errors.shape != others.shape or errors.shape[1] < 3:
        return True
    larger, n = errors[0] - others[0], errors.shape[1]
    if larger.sum() > 2 * (n / (n - 1) * (larger - larger.mean()).square().sum()).sqrt():
        return True
    floor = _NEGLIGIBLE * others[0].sum() / others[1].sum()
    ratio = (errors[0] / errors[1] + floor) / (others[0] / others[1] + floor)
    tolerated = _TOLERATED if n >= _ENOUGH_SERIES else -_NEGLIGIBLE
    return bool(ratio.log().mean() > tolerated)


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """A copy of all weights of a module, with the names of its `state_dict`."""
    return copy.deepcopy(dict(module.state_dict()))


@contextmanager
def applied(weights: dict[str, Tensor], module: nn.Module) -> Iterator[None]:
    """Give the module these weights until the end of the block."""
    present = weights_of(module)
    module.load_state_dict(weights)
    try:
        yield
    finally:
        module.load_state_dict(present)


class WeightAverage:
    """Exponential moving average of the weights of a module.

    The weights of one step contain the noise of its gradient, the more the higher the learning
    rate; their average cancels it [1]_. The first `span` steps are averaged evenly, so that the
    weights before training are forgotten at once.

    Parameters
    ----------
    module : nn.Module
        The module that is trained. Its present weights are the average before the first step.

    Attributes
    ----------
    weights : dict of str to Tensor
        The average, with the names of the module's `state_dict`.
    n_steps : int
        Steps that were averaged.

    References
    ----------
    .. [1] B. T. Polyak and A. B. Juditsky, "Acceleration of stochastic approximation by
       averaging", SIAM Journal on Control and Optimization, 1992.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.training.loop import WeightAverage, applied
    >>> module = torch.nn.Linear(1, 1, bias=False)
    >>> average = WeightAverage(module)
    >>> for weight in (1.0, 3.0, 4.0):
    ...     _ = torch.nn.init.constant_(module.weight, weight)
    ...     average.update(span=2)
    >>> average.weights["weight"].item()  # 2 after two steps
    3.0
    >>> with applied(average.weights, module):
    ...     print(module.weight.item())
    3.0
    >>> module.weight.item()
    4.0
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.weights = weights_of(module)
        self.n_steps = 0

    @torch.no_grad()
    def update(self, span: float) -> None:
        """Take in the weights of a step; about `span` steps count."""
        self.n_steps += 1
        share = max(1 / self.n_steps, 1 / max(span, 1.0))
        for name, now in self.module.state_dict().items():
            if now.is_floating_point():
                self.weights[name].lerp_(now, share)
            else:
                self.weights[name].copy_(now)

    def keep(self, names: Collection[str]) -> None:
        """Drop weights that the module lost."""
        self.weights = {name: self.weights[name] for name in names}


@dataclass(frozen=True)
class Trainer:
    """A one-cycle schedule, gradient clipping and early stopping.

    Parameters
    ----------
    learning_rate : float
        Peak of the schedule.
    batch_size : int
        Items per minibatch.
    max_epochs : int
        Passes over the items; the schedule spans all of them, or ends early (see `Cycle`).
    patience : int or None
        Stop after this many epochs whose validation error was surely larger than the best one (see
        `is_surely_larger`), once trained weights were better than untrained ones; None never stops
        early.
    optimizer : callable, default=Muon
        Makes an optimizer of the parameters and the keyword `lr`. It must offer what
        :class:`Muon` does: `lr`, `zero_grad` and `step`.
    remedy : str, default="lower it"
        Advice at the end of the warning about an infinite loss, which names the rate.
    turn : Turn or None, default=None
        A decision during training, which may change the module.

    Examples
    --------
    A line through the origin, as a task:

    >>> import torch
    >>> from skpolyode.training import Trainer
    >>> from skpolyode.training.loop import Task
    >>> class Line(Task):
    ...     items = torch.arange(8)
    ...     module = torch.nn.Linear(1, 1, bias=False)
    ...
    ...     def refresh(self, progress):
    ...         return self.loss(self.items).item()
    ...
    ...     def loss(self, index):
    ...         x = index[:, None] / 8
    ...         return (self.module(x) - 2 * x).square().mean()
    >>> trainer = Trainer(learning_rate=0.1, batch_size=4, max_epochs=50, patience=None)
    >>> report = trainer.run(Line.module, Line(), torch.Generator().manual_seed(0))
    >>> report.best_error < 0.05, report.reason
    (True, 'all epochs')
    """

    learning_rate: float
    batch_size: int
    max_epochs: int
    patience: int | None
    optimizer: Callable[..., Any] = Muon
    remedy: str = "lower it"
    turn: Turn | None = None

    def run(
        self, module: nn.Module, task: Task, generator: torch.Generator, bar: tqdm | None = None
    ) -> TrainingReport:
        """Train the module in place; it ends with the best weights seen.

        Parameters
        ----------
        module : nn.Module
            Holds the parameters.
        task : Task
        generator : torch.Generator
            Source of the minibatches; no global generator is touched.
        bar : tqdm or None, default=None
            Progress bar that counts the epochs.

        Returns
        -------
        TrainingReport
            Also after Ctrl-C, so that the caller can store what was learned. It should then raise
            `KeyboardInterrupt` with the report's message, so that a search around it stops as well.

        Warns
        -----
        ConvergenceWarning
            If the loss became infinite or NaN: the best weights are restored.
        """
        run = _Run(self, module, task, generator)
        try:
            reason = run.train(tqdm(disable=True) if bar is None else bar)
        except KeyboardInterrupt:
            reason = INTERRUPTED
            run.settle_for_present()
        module.load_state_dict(run.best)
        report = TrainingReport(run.history, run.best_error, run.best_epoch, reason)
        if reason == INFINITE:
            rate = f"the peak learning rate is {self.learning_rate:g}: {self.remedy}"
            warnings.warn(f"{report.message}; {rate}.", ConvergenceWarning, stacklevel=2)
        return report


class _Run:
    """The changing state of one training."""

    def __init__(
        self, trainer: Trainer, module: nn.Module, task: Task, generator: torch.Generator
    ) -> None:
        self.trainer, self.module, self.task, self.generator = trainer, module, task, generator
        self.optimizer = trainer.optimizer(module.parameters(), lr=trainer.learning_rate)
        self.average = WeightAverage(module)
        self.history: list[dict[str, float]] = []
        self.best = weights_of(module)
        self.best_error, self.best_score, self.best_epoch = float("inf"), float("inf"), 0
        self.best_series: Tensor | None = None
        self.epochs_since_best = self.validated = 0
        self.share = 1.0  # of the learning rate
        self.cycle = Cycle(trainer.max_epochs, watches=trainer.patience is not None)
        if trainer.turn is not None:
            self.cycle.earliest = max(self.cycle.earliest, trainer.turn.epoch + SETTLING)

    def train(self, bar: tqdm) -> str:
        """Train until there is a reason to stop, which is returned."""
        start, turn = time.perf_counter(), self.trainer.turn
        for epoch in count():
            if turn is not None and epoch == turn.epoch:
                self._turn(turn)
            self._validate(epoch, start)
            error = f"{self.history[-1][_ERROR]:.4g}"
            bar.set_postfix(validation_error=error, refresh=False)
            if reason := self._reason_to_stop(epoch):
                if reason in (ALL_EPOCHS, SETTLED) and self._are_last_kept():
                    self._keep(epoch)
                return reason
            loss = self._train_epoch(epoch)
            trained = {_LOSS: loss, "n_items": len(self.task.items)}
            self.history[-1] |= trained | {"learning_rate": self.optimizer.lr}  # of its last step
            if not math.isfinite(loss):
                return INFINITE
            bar.update()

    def _turn(self, turn: Turn) -> None:
        """Take the decision. The best weights so far are validated anew if the module changes."""
        before = len(self.module.state_dict())
        with applied(self.average.weights, self.module):
            decided = turn.decide()
        turn.apply(decided)
        names = self.module.state_dict().keys()
        if len(names) == before:
            return
        self.average.keep(names)
        self.best = {name: self.best[name] for name in names}
        with applied(self.best, self.module):
            self.best_error = self.task.refresh()  # as at the end: not from states of before
        self.best_series, self.best_score = self.task.series_errors, self._score(self.best_error)

    def _validate(self, epoch: int, start: float) -> None:
        """Prepare the epoch, and validate the average of the weights before it.

        Epochs that are not due go on with the states and the error of the one before.
        """
        if epoch and not self.cycle.is_due(epoch, self.validated):
            kept = {name: x for name, x in self.history[-1].items() if name in (_ERROR, _AHEAD)}
            seconds = time.perf_counter() - start
            self.history.append({"epoch": epoch} | kept | {"seconds": seconds})
            return
        last, self.validated = self.validated, epoch
        with applied(self.average.weights, self.module):
            error = self.task.refresh(self.cycle.place(epoch) / self.trainer.max_epochs)
        for weights in (self.module.state_dict(), self.average.weights):
            for name, value in self.task.found.items():
                weights[name].copy_(value)
        seconds = time.perf_counter() - start
        self.history.append({"epoch": epoch, _ERROR: error, "seconds": seconds})
        if self.task.error_ahead is not None:
            self.history[-1][_AHEAD] = self.task.error_ahead
        if self.task.is_preliminary:
            return
        score = self._score(error)
        self.cycle.watch(epoch, score)
        if score < self.best_score:
            self._keep(epoch)
        elif is_surely_larger(self.task.series_errors, self.best_series):
            self.epochs_since_best += epoch - last
            # Noise is being learned if the training loss falls while the validation error surely
            # rises: go on from the best weights at half of the rate.
            loss, best = self.history[-2].get(_LOSS), self.history[self.best_epoch].get(_LOSS)
            if self.best_epoch and loss < best and self.share > _SLOWEST:
                self.share /= 2
                self.module.load_state_dict(self.best)

    def _score(self, error: float) -> float:
        """The validation error and the error further ahead in one number."""
        return error if self.task.error_ahead is None else error * self.task.error_ahead

    def _keep(self, epoch: int) -> None:
        """Take the average of the weights as the best."""
        self.best_error, self.best_epoch = self.history[-1][_ERROR], epoch
        self.best_score = self._score(self.best_error)
        self.best_series, self.epochs_since_best = self.task.series_errors, 0
        self.best = copy.deepcopy(self.average.weights)

    def _are_last_kept(self) -> bool:
        """Whether the last weights are as good as the best, at the end of the cycle.

        At high rates a low error may be luck, and most is gained while the rate falls.
        """
        error = self.history[-1][_ERROR]
        has_learned = self.best_epoch > 0 and error < self.history[0][_ERROR]
        as_good = not is_surely_larger(self.task.series_errors, self.best_series)
        return has_learned and as_good and self._score(error) <= _AS_GOOD * self.best_score

    def _reason_to_stop(self, epoch: int) -> str | None:
        if not len(self.task.items):
            return "nothing to train on"
        if self.cycle.is_over(epoch):
            is_short = self.cycle.pace is not None and self.cycle.least > 0
            return SETTLED if is_short else ALL_EPOCHS
        patience = self.trainer.patience
        # Where no weights beat the untrained ones yet, the rate is too high, and it is falling.
        has_learned = self.best_epoch > 0
        if patience is not None and has_learned and self.epochs_since_best > patience:
            return f"no improvement for {self.epochs_since_best} epochs"
        return None

    def settle_for_present(self) -> None:
        """Take the present weights as the best if errors were preliminary so far.

        Otherwise the untrained weights would be the best, and all that was learned would be lost.
        """
        if len(self.history) > 1 and self.best_epoch == 0 and self.task.is_preliminary:
            last = self.history[-1]
            if math.isfinite(last[_ERROR]):
                self._keep(last["epoch"])

    def _train_epoch(self, epoch: int) -> float:
        """One pass over the items in random order; returns the mean loss."""
        trainer, total, n_items = self.trainer, 0.0, len(self.task.items)
        n_batches = -(-n_items // trainer.batch_size)
        order = torch.randperm(n_items, generator=self.generator)
        for i, index in enumerate(order.tensor_split(n_batches)):
            self.optimizer.zero_grad()
            share = self.share * self.cycle.share(epoch, i, n_batches)
            self.optimizer.lr = trainer.learning_rate * share
            loss = self.task.loss(index)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.module.parameters(), _CLIP)
            if not torch.isfinite(norm):
                return float("nan")
            self.optimizer.step()
            self.average.update(_AVERAGED * trainer.max_epochs * n_batches)
            total += loss.item() / n_batches
        return total
