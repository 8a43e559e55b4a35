"""When turbofan engines will cross a line: APDTFlow by its public calls beside sampled paths.

    python -m benchmarks.peers_code.crossings --data FOLDER                     # half an hour
    python -m benchmarks.peers_code.crossings --data FOLDER --rows "least squares and paths"

FOLDER holds `fd001.parquet`. The protocol is that of `benchmarks.crossings`, which is APDTFlow's
own: engines 1 to 60 train; of the others every window of 30 cycles below the line is asked whether
and when it reaches it within 40 cycles. In "s11" that sensor (mean of five cycles) is all that is
known, in "14 sensors" the others are, too. Scores are those of `evaluate_crossings`, in cycles. The
coverage is of windows of 90 %, over all engines that cross; APDTFlow itself counts those that it
catches, "coverage, caught". An epoch of APDTFlow on 60 engines takes minutes: in "s11, 6 engines"
all learn from the first six.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.crossing_scores import scores
from benchmarks.crossings import AHEAD, BEFORE_END, N_TRAIN, Windows, windows
from benchmarks.degradation import engines
from benchmarks.peers_code.rows import Adapter, Command, Run, main
from benchmarks.real.part import Scores
from skpolyode.futures.continued import Window

N_FEW = 6


class Fleet(NamedTuple):
    """Engines (L, D) to learn from, of which the first channel is s11, and what is asked."""

    series: list[np.ndarray]
    asked: Windows
    threshold: float


def load(name: str, folder: Path, _: int) -> Fleet:
    smooth = engines(folder, ["s11"], smooth=5)
    threshold = float(np.median([x[-1 - BEFORE_END, 0] for x in smooth[:N_TRAIN]]))
    series = smooth
    if name == "14 sensors":
        series = [np.hstack(x) for x in zip(smooth, engines(folder, None), strict=True)]
    heights = [x[:, 0] for x in smooth[N_TRAIN:]]
    n_train = N_FEW if name == "s11, 6 engines" else N_TRAIN
    return Fleet(series[:n_train], windows(series[N_TRAIN:], heights, threshold), threshold)


def measure(adapter: Adapter, data: Fleet, run: Run) -> Scores:
    window: Window = adapter(data, run)
    times = [np.minimum(np.ceil(x), AHEAD) for x in window[1:]]
    actual = data.asked.crossing
    found = scores(window.probability, *times, actual, horizon=AHEAD).set_index("metric")["value"]
    caught = np.isfinite(actual) & (window.probability > 0.5)
    inside = (times[0] <= actual) & (actual <= times[2])
    names = {"timing_error": "timing error", "caught": "caught", "false_alarms": "false alarms"}
    own = {title: found[name] for name, title in names.items()}
    return own | {"coverage": found["coverage"], "coverage, caught": inside[caught].mean()}


ADAPTERS = {
    "crossing_times, 30 rows": "ours:crossings",
    "crossing_times, all rows before": "ours:crossings_of_histories",
    "APDTFlow": "apdtflow_model:fleet",
    "least squares and paths": "ours:residual_paths",
    "line through the window": "ours:window_lines",
}
COMMAND = Command(
    "benchmarks.peers_code.crossings",
    __doc__,
    load,
    measure,
    {
        "s11": list(ADAPTERS),
        "s11, 6 engines": list(ADAPTERS)[:3],
        "14 sensors": list(ADAPTERS)[:3],
    },
    ADAPTERS,
)

if __name__ == "__main__":
    main(COMMAND)
