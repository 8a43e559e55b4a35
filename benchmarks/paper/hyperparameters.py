"""The paper's table of hyper-parameters, beside what its code runs and what is default here.

    python -m benchmarks.paper.hyperparameters

The column of the code is read from `benchmarks.paper_recipe`, those of the package from the
signatures and from what the rows of `benchmarks.paper` change.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Sequence
from typing import Any

from benchmarks import paper_recipe
from benchmarks.lines import heading, line
from benchmarks.paper.mimic_cells import PARAMETERS
from benchmarks.paper.rows import POLYODE, all_rows
from benchmarks.protocol import PAPER_WINDOW

# As printed: simulated sets, then MIMIC-III.
PRINTED = {
    "coefficients a channel, N": ("32", "18"),
    "width of the network": ("32", "18"),
    "series a batch": ("128", "256"),
    "learning rate": ("0.001", "0.001"),
    "integration step": ("0.05 (Synthetic: 0.5)", "0.05"),
    "window": ("5", "10"),
    "last time": ("10", "20"),
    "observations ahead in the loss": ("1", "1"),
}
NAMES = (
    *("n_coefficients", "hidden_layer_sizes", "batch_size", "learning_rate_init", "step_size"),
    *("window", None, "horizon"),
)


def recipe() -> list[str]:
    """What the paper's code runs on the simulated sets."""
    defaults = inspect.signature(paper_recipe.Recipe).parameters
    own = [defaults["n_coefficients"].default, paper_recipe.WIDTH, paper_recipe.BATCH_SIZE]
    own += [paper_recipe.LEARNING_RATE, paper_recipe.STEP_SIZE, defaults["window"].default]
    return [*map(str, own), "9.9 (Synthetic: 9.2)", "1"]


def shown(parameters: dict[str, Any]) -> list[str]:
    """Those of the table, as a user would write them."""
    return ["" if name is None else str(parameters[name]).strip("()") for name in NAMES]


def table() -> list[str]:
    row = all_rows()[POLYODE]
    rows = [
        shown(row.estimator(0, **shared).get_params())
        for shared in ({"window": PAPER_WINDOW}, PARAMETERS)
    ]
    columns = [recipe(), *rows, shown(row.kind().get_params())]
    titles = ["", "paper, simulated", "paper, MIMIC-III", "its code, simulated"]
    titles += ["rows here, simulated", "rows here, hospital (in hours)"]
    titles += ["defaults of `PolyODETransformer`"]
    lines = heading(titles)
    for k, (name, printed) in enumerate(PRINTED.items()):
        lines.append(line([name, *printed, *(column[k] for column in columns)]))
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args(argv)
    print("\n".join(table()))


if __name__ == "__main__":
    main()
