"""What `fit` decided: one entry for each decision, as a printed table and as data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from skpolyode.saving.codec import saved

__all__ = ["Decision", "FitReport"]


@saved
@dataclass
class Decision:
    """One decision of `fit`, or one that its parameters made.

    Parameters
    ----------
    stage : str
        Part of the fit, such as "training".
    outcome : str
        What was decided.
    figures : dict of str to float, int, str or None
        What the decision rests on.
    n_series : int or None, default=None
        Number of series that the decision rests on.
    seconds : float or None, default=None
        How long the stage took.

    Examples
    --------
    >>> from skpolyode.fit_report import Decision
    >>> Decision("training", "stopped: all epochs", {"epochs": 40}).why
    'epochs 40'
    """

    stage: str
    outcome: str
    figures: dict[str, Any]
    n_series: int | None = None
    seconds: float | None = None

    @property
    def why(self) -> str:
        """The figures as text."""
        return ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in self.figures.items()
        )


@saved
@dataclass
class FitReport:
    """Decisions of one `fit`, in the order in which they were taken.

    Printed, it is a table. Estimators hold it as ``fit_report_``, and show it in notebooks.

    Parameters
    ----------
    decisions : list of Decision
        In the order of the fit.

    Examples
    --------
    >>> from skpolyode import HiPPOTransformer, Panel
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> report = HiPPOTransformer(n_coefficients=4).fit(panel).fit_report_
    >>> report["window"].outcome
    'window 2, covers 100% of the series'
    >>> print(report)
    stage   decision                                     figures  series  seconds
    data    2 series, 1 channel, 5 observations                                              2
    window  window 2, covers 100% of the series  observations_per_coefficient 0.625  2
    """

    decisions: list[Decision]

    def add(self, stage: str, outcome: str, n_series: int | None = None, **figures: Any) -> None:
        """Note a decision.

        Parameters
        ----------
        stage : str
            Part of the fit.
        outcome : str
            What was decided.
        n_series : int or None, default=None
            Number of series that the decision rests on.
        **figures : float, int, str or None
            What the decision rests on, by name.
        """
        self.decisions.append(Decision(stage, outcome, figures, n_series))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time a stage: what it takes is noted with its first decision, unless that comes later.

        Returns
        -------
        context manager
        """
        first, start = len(self.decisions), time.perf_counter()
        yield
        for decision in self.decisions[first:][:1]:
            if isinstance(decision, Decision):
                decision.seconds = time.perf_counter() - start

    def __getitem__(self, stage: str) -> Decision:
        for decision in self.decisions:
            if decision.stage == stage:
                return decision
        raise KeyError(f"{stage!r}; the stages are {[d.stage for d in self.decisions]}")

    def to_frame(self) -> pd.DataFrame:
        """One row for each decision, with the columns of the printed table.

        Returns
        -------
        DataFrame
        """
        rows = [
            (
                decision.stage,
                decision.outcome,
                decision.why,
                "" if decision.n_series is None else str(decision.n_series),
                "" if decision.seconds is None else f"{decision.seconds:.2f}",
            )
            for decision in self.decisions
        ]
        return pd.DataFrame(rows, columns=["stage", "decision", "figures", "series", "seconds"])

    def __str__(self) -> str:
        frame = self.to_frame()
        lines = [list(frame.columns), *frame.to_numpy().tolist()]
        widths = [max(len(line[k]) for line in lines) for k in range(len(frame.columns))]
        padded = (
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            for line in lines
        )
        return "\n".join(line.rstrip() for line in padded)

    def _so_far(self) -> list[Decision]:
        """Decisions without those that would have to be computed first."""
        return [decision for decision in self.decisions if getattr(decision, "is_learned", True)]

    def __repr__(self) -> str:
        return f"FitReport({[decision.stage for decision in self._so_far()]})"

    def to_html(self) -> str:
        """The table for notebooks, without decisions that would have to be computed first.

        Returns
        -------
        str
        """
        frame = FitReport(self._so_far()).to_frame()
        lines = [("th", frame.columns), *(("td", row) for row in frame.to_numpy().tolist())]
        rows = ("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) for tag, cells in lines)
        table = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<details open><summary>What fit decided</summary><table>{table}</table></details>"

    _repr_html_ = to_html
