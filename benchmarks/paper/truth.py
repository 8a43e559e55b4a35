"""What the protocol allows at best: series of which everything is known but the label."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from benchmarks.protocol import held_out_truth
from skpolyode.panel import Panel


def with_truth(data: Bunch) -> Bunch:
    """The same series, observed at all times of the truth from their first to their last."""
    panel, unseen = data.panel, held_out_truth(data, np.arange(len(data.panel)))
    start, end = panel.times[panel.offsets[:-1]], panel.times[panel.offsets[1:] - 1]
    inside = (unseen.times > start.repeat(unseen.lengths)) & (
        unseen.times < end.repeat(unseen.lengths)
    )
    table = pd.concat([panel.to_long(), unseen.to_long()[inside]])
    return Bunch(**{**data, "panel": Panel.from_long(table, id="id", time="time", sort=True)})
