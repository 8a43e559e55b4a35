"""APDTFlow 0.4.0, which learns from engines laid end to end and answers for a fleet.

Settings are those of its own turbofan experiments: 32 units, three scales, the continuous decoder,
25 epochs of batches of 64, a seed of 4 for the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from apdtflow import APDTFlowForecaster, set_seed

from benchmarks.crossings import AHEAD
from benchmarks.degradation import KNOWN
from benchmarks.peers_code.rows import Run
from skpolyode.futures.continued import Window


def fleet(data: Any, run: Run) -> Window:
    """A time and a window for each engine, or none within 40 cycles.

    >>> from apdtflow import APDTFlowForecaster
    >>> model = APDTFlowForecaster(forecast_horizon=40, history_length=30, num_epochs=25,
    ...                            batch_size=64, hidden_dim=32, decoder_type="continuous",
    ...                            use_conformal=True)
    >>> model.fit(pd.concat(engines), target_col="s11", feature_cols=sensors)
    >>> schedule = model.predict_when_fleet(fleet, threshold=47.8, alpha=0.1)
    """
    set_seed(4 + run.seed)
    names = [f"x{k}" for k in range(data.series[0].shape[1])]
    frames = [pd.DataFrame(x, columns=names) for x in data.series]
    model = APDTFlowForecaster(
        forecast_horizon=AHEAD,
        history_length=KNOWN,
        num_epochs=25,
        batch_size=64,
        hidden_dim=32,
        decoder_type="continuous",
        use_conformal=True,
        verbose=False,
    )
    with run.training():
        model.fit(pd.concat(frames), target_col=names[0], feature_cols=names[1:] or None)
    known = {k: pd.DataFrame(x, columns=names) for k, x in enumerate(data.asked.known)}
    found = model.predict_when_fleet(known, threshold=data.threshold, alpha=0.1)
    found = found.set_index("asset_id").loc[list(known)]
    crosses = ~found["censored"].to_numpy()
    times = (np.where(crosses, found[name], np.inf) for name in ("earliest", "eta", "latest"))
    return Window(crosses.astype(float), *times)
