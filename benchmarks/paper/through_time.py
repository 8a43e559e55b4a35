"""The past by running dynamics backward, as the paper reads it, and forecasts over a horizon.

    python -m benchmarks.paper.through_time           # 5 seeds
    python -m benchmarks.paper.through_time --quick   # 1 seed, small: some minutes

The past of GRU-ODE-Bayes and ODE-RNN is read in two ways: by a decoder that is trained for it
(`PastDecoder`), and by integrating their dynamics backward from the state at the last observation
(`benchmarks.paper.backward`; for ODE-RNN the paper has a decoder with dynamics). "PolyODE state"
and "PolyODE decoded" are errors of a decoder of PolyODE's learned state, alone and with the
coefficients. They are medians over the test series, at times
that were not observed, for each unit of time before the end; "window" is the mean over the window.

Forecasts are of all times of the truth up to 1, 2 and 5 units after time 5, from the observations
until then: those of `forecast`, then free runs of the model alone.

All errors are squared, in units of the variance of the channel. Results are shared with
`benchmarks.paper.classification`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.lines import heading, line
from benchmarks.paper.cells import FULL, PROTOCOLS, Cell, Setting
from benchmarks.paper.classification import run
from benchmarks.paper.metrics import AGES, HORIZONS
from benchmarks.paper.rows import all_rows
from benchmarks.paper.store import Store
from benchmarks.paper.tables import Number, Summary, folded, summarise

PLACE = "<!-- forecasts -->"  # where docs/paper.md takes what is above, and what is below
DECODED = "PolyODE state", "PolyODE decoded"
ROWS = (
    *("PolyODE", *DECODED, "GRUODEBayes", "ODERNN", "LinODENet", "HiPPORNN", "S4"),
    *("NeuralRDE", "last value", "mean"),
)


def report(
    jobs: Sequence[Cell], store: Store, chosen: Sequence[Setting], rows: Sequence[str]
) -> list[str]:
    summary = summarise(jobs, store)
    lines = past(summary, chosen, rows)
    for setting in chosen:
        title = f"Forecasts from time 5: {setting.dataset}, {setting.rate}"
        lines += ["", PLACE] if PLACE not in lines else []
        lines += folded(title, ahead(summary, setting, rows))
    return lines


def past(summary: Summary, chosen: Sequence[Setting], rows: Sequence[str]) -> list[str]:
    """A row for each reading of the past, of the models that can be run backward."""
    ends = [f"_median_{end}" for end in AGES]
    titles = [f"{end - 1} to {end}" for end in AGES]
    lines = heading(["set, rate", "model", "the past by", *titles, "window"])
    for setting in chosen:
        for row in rows:
            readings = {"memory" if row == "PolyODE" else "PastDecoder": "reverse_held_out"}
            if all_rows()[row].has_field:
                readings["running backward"] = "reverse_backward"
            elif row not in DECODED:
                continue
            for reading, name in readings.items():
                means = [
                    summary.get((setting, row, name + end), Number()).mean
                    for end in [*ends, "_mse"]
                ]
                place = f"{setting.dataset}, {setting.rate}"
                if not np.isnan(means).all():
                    lines.append(line([place, row, reading, *map(short, means)]))
    return lines


def short(number: float) -> str:
    """Two digits; without the point where there are more."""
    if number < 100:
        return f"{number:.2g}"
    return f"{number:.0f}" if number < 1e5 else f"{number:.0e}"


def ahead(summary: Summary, setting: Setting, rows: Sequence[str]) -> list[str]:
    """Forecasts by horizon, then free runs."""
    names = {"forecast": "up to", "free_run": "free run, up to"}
    lines = heading(["", *(f"{title} {end}" for title in names.values() for end in HORIZONS)])
    for row in rows:
        numbers = [
            summary.get((setting, row, f"{name}_{end}_mse"), Number())
            for name in names
            for end in HORIZONS
        ]
        # The other rows of PolyODE forecast as it does.
        if row not in DECODED and any(number.text(3) for number in numbers):
            lines.append(line([row, *(number.text(3) for number in numbers)]))
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    run(__doc__, report, list(ROWS), FULL._replace(n_rates=1), PROTOCOLS[:1], argv)


if __name__ == "__main__":
    main()
