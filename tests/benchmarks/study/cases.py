"""Small models of the study."""

from __future__ import annotations

from benchmarks.paper.study import CoupledPolyODE, PaperPolyODE
from skpolyode.models import PolyODE
from tests.models import cases


def make_model(n_channels: int = 2, **options: object) -> PolyODE:
    """A model of signal and memory only, as the paper's."""
    return cases.make_model(n_channels, n_hidden=0, **options)


def make_paper(
    n_channels: int = 2, *, update: str = "jump", origin: str = "constant", **options: object
) -> PaperPolyODE:
    """A model with random weights that are large enough to matter."""
    parts = make_model(n_channels, **options).arguments
    del parts["history"], parts["gain"], parts["cell"], parts["inputs"]
    return PaperPolyODE(**parts, update=update, origin=origin)


def make_coupled(
    solver: str,
    *,
    strength: float = 1.5,
    update: str = "bridge",
    origin: str = "constant",
    **options: object,
) -> CoupledPolyODE:
    """The same, with a standard solver for dynamics and memory together."""
    parts = make_model(strength=strength, **options).arguments
    for name in ("stepper", "history", "gain", "cell", "inputs"):
        del parts[name]
    return CoupledPolyODE(**parts, solver=solver, update=update, origin=origin)
