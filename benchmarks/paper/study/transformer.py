"""PolyODE with the choices of the paper, as a transformer."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import StrOptions

from benchmarks.paper.study.coupled import SOLVERS, CoupledPolyODE, CoupledTask
from benchmarks.paper.study.paper import ORIGINS, UPDATES, PaperPolyODE
from benchmarks.paper.study.series_task import SeriesTask
from skpolyode.embedders import ModelEmbedder
from skpolyode.models import Packed, PolyODE, SequenceModel
from skpolyode.panel import Panel
from skpolyode.panel.query import choose_window
from skpolyode.saving.objects import register_estimator
from skpolyode.training.loop import Task
from skpolyode.training.tasks import PolyODETask
from skpolyode.transformers import PolyODETransformer
from skpolyode.transformers.polyode import choose_context
from skpolyode.transformers.stages import TrainFilter

__all__ = ["GRADIENTS", "PaperPolyODETransformer"]

GRADIENTS = ("series", "interval")


class PaperPolyODETransformer(PolyODETransformer):
    """Embed irregular series by PolyODE with the choices of the paper. For study.

    :class:`~skpolyode.PolyODETransformer` departs from the paper in four places. Here each of them
    is a parameter, and by default three are as the paper has them: what an observation does to the
    memory, where a series starts from, and what gradients pass through. The fourth, the solver, is
    "exact" by default: those of the paper learn the same, slower, and diverge with long steps.

    Use it to compare; it is slower, and what it remembers rings at its jumps.

    Parameters
    ----------
    solver : {"exact", "euler", "rk4", "dopri5", "backward_euler", "adams_moulton"}, default="exact"
        "exact" integrates the dynamics by Runge-Kutta steps and the memory exactly. The others
        integrate both together, as in the paper, with steps of `step_size` (which "dopri5"
        chooses itself). A step size with which the memory would
        diverge, as "auto" often is, is an error. The paper's is "adams_moulton".
    gradient : {"series", "interval"}, default="series"
        Back-propagate through whole series as in the paper, or train on single intervals between
        observations. "series" looks one observation ahead only (so does "auto" then); its
        minibatches are of series.
    update : {"jump", "bridge"}, default="jump"
        At an observation, "jump" leaves a step in the remembered path, as in the paper; "bridge"
        ramps the path to it, so that the memory holds a continuous path through all observations.
    origin : {"zero", "constant"}, default="zero"
        What is remembered from before the first observation of a channel: "zero", as in the
        paper, so that the memory holds a step from zero to the first value; or "constant", its
        first value.
    %(Parameters)s

    Attributes
    ----------
    %(Attributes)s

    See Also
    --------
    skpolyode.PolyODETransformer : The same with this package's choices; faster and closer.

    Notes
    -----
    A series starts with its first observation; the paper integrates up to there from the zero of
    its time axis, which series with times of their own do not share. Network, optimiser and
    schedule are those of this package.

    With all four parameters as in ``PaperPolyODETransformer(gradient="interval", update="bridge",
    origin="constant")`` it is `PolyODETransformer` with ``hidden_size=0``, which is not used here.

    References
    ----------
    E. De Brouwer and R. G. Krishnan, "Anamnesic neural differential equations with orthogonal
    polynomial projections", ICLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.paper.study import PaperPolyODETransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> embedder = PaperPolyODETransformer(
    ...     solver="adams_moulton", step_size=0.05, n_coefficients=8, max_epochs=2, random_state=0
    ... )
    >>> embedder.fit_transform(series).shape
    (6, 17)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "measure": [StrOptions({"legt"})],
        "observations": [StrOptions({"auto", "exact"})],
        "solver": [StrOptions(set(SOLVERS))],
        "gradient": [StrOptions(set(GRADIENTS))],
        "update": [StrOptions(set(UPDATES))],
        "origin": [StrOptions(set(ORIGINS))],
    }

    uses_inputs = False
    stages = tuple(
        TrainFilter(tested_after=0.0) if isinstance(stage, TrainFilter) else stage
        for stage in PolyODETransformer.stages
    )

    def __init__(
        self,
        *,
        solver: str = "exact",
        gradient: str = "series",
        update: str = "jump",
        origin: str = "zero",
        **others: Any,
    ) -> None:
        self.solver = solver
        self.gradient = gradient
        self.update = update
        self.origin = origin
        super().__init__(**others)

    def _assemble(self, unit: float, **parts: Any) -> PolyODE:
        parts |= {"update": self.update, "origin": self.origin}
        parts = {
            name: part
            for name, part in parts.items()
            if name not in ("history", "gain", "cell", "inputs")
        }
        if self.solver == "exact":
            return PaperPolyODE(**parts)
        return CoupledPolyODE(**parts, solver=self.solver, unit=unit)

    @property
    def _state_size(self) -> int:
        return 0  # the paper has signal and memory only

    def _context_size(self, n_channels: int) -> int:
        return self.n_coefficients

    def _lengths(self, panel: Panel, size: int) -> tuple[float, float]:
        # The paper has one memory: what is embedded is what the dynamics see.
        window = choose_context(self.window, choose_window("auto", panel), panel, size)
        return window, window

    def _rows_to_cut(self, embedder: ModelEmbedder) -> int | None:
        # Whole series are whole, and where each part starts from zero, parts are not like them.
        if self.gradient == "series" or self.origin == "zero":
            return None
        return super()._rows_to_cut(embedder)

    def _new_task(self, model: SequenceModel, data: Packed, held_out: torch.Tensor) -> Task:
        if self.gradient == "interval":
            ahead, task = self._looks_ahead(data, held_out), PolyODETask
            task = task if self.solver == "exact" else CoupledTask
            return task(model, data, held_out, length=task.usual_length, **ahead)
        if self.horizon not in (1, "auto"):
            raise ValueError(
                f"gradient='series' looks one observation ahead, got horizon={self.horizon}; "
                "use gradient='interval' for a longer one."
            )
        return SeriesTask(model, data, held_out)


register_estimator(PaperPolyODETransformer)
