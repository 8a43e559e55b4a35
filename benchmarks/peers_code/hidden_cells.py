"""Cells that were observed, hidden, and filled in again: PyPOTS beside `PanelImputer`.

    python -m benchmarks.peers_code.hidden_cells --data FOLDER                  # some two hours
    python -m benchmarks.peers_code.hidden_cells --data FOLDER --only eicu --rows SAITS "own mean"

FOLDER holds `eicu_mort_long.parquet` and, in its folder `physiome`, `LEN01.parquet` and
`LI01.parquet`. A fifth of the observed cells of all series is hidden, of training series too, but
none of first and last rows. A seed is one of five folds of the series. Networks take a fifth of the
training series to stop by, of which they hide a fifth of the cells more. Of Physiome sets the first
500 series are used. Errors are squares in variances of the training part, at the hidden cells of
test series.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.peers_code.rows import Adapter, Command, Run, main
from benchmarks.physiome_sets import load_physiome
from benchmarks.real.hidden import hide
from benchmarks.real.part import Scores
from benchmarks.real.sets import SETS, dealt
from benchmarks.units import Units
from skpolyode import Panel

SHARE, N_PHYSIOME = 0.2, 500


class Hidden(NamedTuple):
    """Standardised panels with hidden cells, and what was hidden of the last one."""

    train: Panel
    test: Panel
    truth: np.ndarray  # (n_obs, D) of test; NaN where nothing was hidden

    def parts(self) -> tuple[Panel, Panel, Panel]:
        """Series to learn from, those to stop by, with cells hidden once more, and these whole."""
        n = len(self.train) * 4 // 5
        whole = self.train[n:]
        return self.train[:n], hide(whole, SHARE, False)[0], whole


def load(name: str, folder: Path, seed: int) -> Hidden:
    if name == "eicu":
        panel = SETS["eicu"].load(folder)
    else:
        panel = load_physiome(folder / "physiome", name).panel[:N_PHYSIOME]
    known, truth = hide(panel, SHARE, whole_rows=False)
    hidden = known.like(known.times, truth, known.offsets)
    pairs = zip(dealt(known, 5), dealt(hidden, 5), strict=True)
    (train, test, _), (_, asked, _) = list(pairs)[seed]
    units = Units.of(train)
    return Hidden(*map(units.standardised, (train, test)), units.standardised(asked).values)


def measure(adapter: Adapter, data: Hidden, run: Run) -> Scores:
    filled = adapter(data, run)
    return {"squared error": float(np.nanmean((filled - data.truth) ** 2))}


ADAPTERS = {
    "PanelImputer(PolyODETransformer())": "ours:imputer",
    "straight lines": "ours:lines",
    "own mean": "ours:own_mean",
    "least squares, own channel": "neighbours:own_channel",
    "least squares, all channels": "neighbours:least_squares",
    "least squares, all channels and path": "neighbours:with_path",
    "SAITS": "pypots_models:saits",
    "BRITS": "pypots_models:brits",
    "GRU-D": "pypots_models:grud",
    "CSDI": "pypots_models:csdi",
}
COMMAND = Command(
    "benchmarks.peers_code.hidden_cells",
    __doc__,
    load,
    measure,
    {name: list(ADAPTERS) for name in ("eicu", "LEN01", "LI01")},
    ADAPTERS,
)

if __name__ == "__main__":
    main(COMMAND)
