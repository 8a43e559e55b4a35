"""Tell speakers apart from half of the data, fill in the other half, and look ahead.

JapaneseVowels (it comes with sktime) has 640 utterances of 7 to 29 frames with 12 channels. Half
of all cells are hidden at random, so that hardly any frame is complete. From what is left, this
script

- embeds every series with PolyODE and classifies the speaker, beside three baselines;
- reconstructs the hidden cells, beside linear interpolation and the mean of the channel;
- forecasts the last fifth of each series, beside the last value and the mean of the channel.

It prints three tables and writes them with three figures to a folder:

    python examples/japanese_vowels.py --output demo_output
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small models gain nothing from more

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from skpolyode import (
    InterpolationTransformer,
    Panel,
    PolyODETransformer,
    SummaryStatsTransformer,
)
from skpolyode.datasets import drop_cells, load_japanese_vowels

HIDDEN_SHARE = 0.5
SEED = 0
N_COEFFICIENTS, WINDOW = 16, 16.0  # frames: half of the series are no longer
GRID_POINTS = 15  # the median length of a series
FIGURE_SERIES, FIGURE_CHANNELS = 3, 3

Row = tuple[str, ...]


class Data(NamedTuple):
    """One part of the data set."""

    seen: Panel  # what the models get
    hidden: Panel  # the cells that were dropped
    whole: Panel  # both
    speaker: np.ndarray


def load(part: str) -> Data:
    """The training or the test part, with half of its cells hidden."""
    data = load_japanese_vowels(part)
    seen, hidden = drop_cells(data.panel, HIDDEN_SHARE, random_state=SEED)
    return Data(seen, hidden, data.panel, data.y)


def polyode(embedding: str) -> PolyODETransformer:
    """PolyODE, with settings chosen by cross-validation on the training part."""
    return PolyODETransformer(
        n_coefficients=N_COEFFICIENTS,
        window=WINDOW,
        horizon=3,
        learning_rate_init=0.01,
        max_epochs=10,
        embedding=embedding,
        random_state=SEED,
    )


# Baselines


def interpolate(panel: Panel, times: list[np.ndarray], default: np.ndarray) -> np.ndarray:
    """Linear interpolation of each channel, held at both ends: values (Q of all series, D).

    After the last observation this is the last value; a channel that was never observed gets its
    default.
    """
    answers = [np.tile(default, (len(at), 1)) for at in times]
    for (known, values), at, answer in zip(panel, times, answers, strict=True):
        for j, column in enumerate(values.T):
            seen = ~np.isnan(column)
            if seen.any():
                answer[:, j] = np.interp(at, known[seen], column[seen])
    return np.concatenate(answers)


def on_grid(panel: Panel) -> np.ndarray:
    """Features: linear interpolation at evenly spaced times of each series."""
    grids = [np.linspace(times[0], times[-1], GRID_POINTS) for times, _ in panel]
    return interpolate(panel, grids, np.zeros(panel.n_channels)).reshape(len(panel), -1)


# The three tasks


def classify(model: PolyODETransformer, train: Data, test: Data) -> list[Row]:
    """Accuracy of telling the speaker, on the test part.

    Coefficients go into the SVM as they are: they share one scale, on which the distance of two
    embeddings is the distance of two histories. One row shows what standardising each would do.
    """
    linear = InterpolationTransformer(n_coefficients=N_COEFFICIENTS, window=WINDOW)
    models: dict[str, BaseEstimator] = {
        f"PolyODE, {model.embedding} + SVM": make_pipeline(clone(model), SVC(C=10)),
        "linear path, coefficients + SVM": make_pipeline(linear, SVC(C=10)),
        "the same, each coefficient standardised": make_pipeline(
            linear, StandardScaler(), SVC(C=10)
        ),
        "linear interpolation on a grid + SVM": make_pipeline(
            FunctionTransformer(on_grid), StandardScaler(), SVC(C=10)
        ),
        "summary statistics + SVM": make_pipeline(
            SummaryStatsTransformer(), StandardScaler(), SVC(C=10)
        ),
    }
    return [
        (name, f"{own.fit(train.seen, train.speaker).score(test.seen, test.speaker):.3f}")
        for name, own in models.items()
    ]


def reconstruct(model: PolyODETransformer, test: Data) -> list[Row]:
    """Errors at the hidden cells that lie within the window of the memory."""
    ages = np.repeat(last_seen(test.seen), test.seen.lengths) - test.seen.times
    hidden = select_rows(test.hidden, (ages >= 0) & (ages <= model.window_))
    times = [series.times for series in hidden]
    mean, scale = model.scaler_.mean, model.scaler_.scale
    estimates = {
        "PolyODE": model.reconstruct(test.seen, times).values,
        "linear interpolation": interpolate(test.seen, times, mean),
        "mean of the channel": mean,
    }
    return error_rows(hidden.values, estimates, scale)


def forecast(model: PolyODETransformer, test: Data) -> list[Row]:
    """Errors at all cells of the last fifth of each series."""
    past, future = cut_last_fifth(test)
    times = [series.times for series in future]
    mean, scale = model.scaler_.mean, model.scaler_.scale
    estimates = {
        "PolyODE": model.forecast(past, times).values,
        "last value": interpolate(past, times, mean),
        "mean of the channel": mean,
    }
    return error_rows(future.values, estimates, scale)


def last_seen(panel: Panel) -> np.ndarray:
    """Time of the last observation of each series."""
    return np.array([times[~np.isnan(values).all(axis=1)][-1] for times, values in panel])


def cut_last_fifth(data: Data) -> tuple[Panel, Panel]:
    """What was seen of the first four fifths of each series, and the whole last fifth."""
    lengths = data.seen.lengths
    position = np.arange(data.seen.n_observations) - np.repeat(data.seen.offsets[:-1], lengths)
    early = position < 0.8 * np.repeat(lengths, lengths)
    return select_rows(data.seen, early), select_rows(data.whole, ~early)


def select_rows(panel: Panel, kept: np.ndarray) -> Panel:
    """The same series with some of their rows."""
    offsets = np.concatenate([[0], np.cumsum(kept)])[panel.offsets]
    return panel.like(panel.times[kept], panel.values[kept], offsets)


def error_rows(truth: np.ndarray, estimates: dict[str, np.ndarray], scale: np.ndarray) -> list[Row]:
    """Mean squared error of each estimate, in squared standard deviations of the channels."""
    return [
        (name, f"{np.nanmean(((truth - estimate) / scale) ** 2):.3f}")
        for name, estimate in estimates.items()
    ]


# Figures

TRUE = {"color": "0.75", "linewidth": 1, "zorder": 1, "label": "truth"}
SEEN = {"color": "black", "marker": "o", "markersize": 4, "linestyle": "none", "zorder": 4}
UNSEEN = SEEN | {"markerfacecolor": "white", "zorder": 3}
POLYODE = {"color": "C0", "linewidth": 2, "zorder": 2, "label": "PolyODE"}
OTHER = {"color": "C1", "linewidth": 1.2, "linestyle": "--", "zorder": 2}
SHADE = {"color": "0.95", "linewidth": 0, "zorder": 0}


def draw_reconstruction(model: PolyODETransformer, data: Data) -> Figure:
    """Some test series: what was seen, what was hidden, and what the embedding remembers."""
    data = usual_ones(data)
    end = last_seen(data.seen)
    start = np.maximum([times[0] for times, _ in data.seen], end - model.window_)
    times = [np.linspace(*span, 200) for span in zip(start, end, strict=True)]
    answer = model.reconstruct(data.seen, times)
    linear = interpolate(data.seen, times, model.scaler_.mean)
    other = answer.like(answer.times, linear, answer.offsets)
    figure = small_multiples(
        data.whole,
        {"observed": (data.seen, SEEN), "hidden": (data.hidden, UNSEEN)},
        {"PolyODE": (answer, POLYODE), "linear interpolation": (other, OTHER)},
        list(zip(start, end, strict=True)),
    )
    figure.suptitle("Reverse reconstruction from the embeddings (shaded: the window they remember)")
    return figure


def draw_forecast(model: PolyODETransformer, data: Data) -> Figure:
    """The same series: what was seen of the first four fifths, and the forecast of the rest."""
    data = usual_ones(data)
    past, future = cut_last_fifth(data)
    spans = list(zip(last_seen(past), (series.times[-1] for series in future), strict=True))
    times = [np.arange(start + 1, end + 1) for start, end in spans]  # the frames: none is between
    answer = model.forecast(past, times)
    last = interpolate(past, times, model.scaler_.mean)
    other = answer.like(answer.times, last, answer.offsets)
    answer, other = from_last(past, answer), from_last(past, other)
    figure = small_multiples(
        data.whole,
        {"observed": (past, SEEN), "to be forecast": (future, UNSEEN)},
        {"PolyODE": (answer, POLYODE), "last value": (other, OTHER)},
        spans,
    )
    figure.suptitle("Forecast of the last fifth (shaded) from half of the cells before it")
    return figure


def from_last(past: Panel, answer: Panel) -> Panel:
    """The answer, before it the last observation of each channel."""
    series = []
    for (times, values), (later, forecast) in zip(past, answer, strict=True):
        rank = np.cumsum(~np.isnan(values[::-1]), axis=0)[::-1]  # 1 from the last one on
        series.append(
            (np.append(times, later), np.vstack([np.where(rank == 1, values, np.nan), forecast]))
        )
    return Panel.from_series(series)


def usual_ones(data: Data) -> Data:
    """One series of median length of each of the first speakers: picked before any result."""
    chosen = []
    for speaker in np.unique(data.speaker)[:FIGURE_SERIES]:
        own = np.flatnonzero(data.speaker == speaker)
        chosen.append(own[np.argsort(data.seen.lengths[own], kind="stable")[len(own) // 2]])
    return Data(*(part[np.array(chosen)] for part in data))


def small_multiples(
    truth: Panel,
    points: dict[str, tuple[Panel, dict]],
    lines: dict[str, tuple[Panel, dict]],
    spans: list[tuple[float, float]],
) -> Figure:
    """One row of axes a series, one column a channel; the span of each series is shaded."""
    figure, axes = plt.subplots(
        FIGURE_SERIES, FIGURE_CHANNELS, figsize=(11, 7.5), sharex="row", layout="constrained"
    )
    for (i, j), ax in np.ndenumerate(axes):
        ax.plot(truth[i].times, truth[i].values[:, j], **TRUE)
        ax.axvspan(*spans[i], **SHADE)
        for name, (panel, style) in (points | lines).items():
            seen = ~np.isnan(panel[i].values[:, j])
            ax.plot(panel[i].times[seen], panel[i].values[seen, j], **style | {"label": name})
    for ax, name in zip(axes[0], truth.channel_names, strict=False):
        ax.set_title(name, fontsize=10)
    for i, ax in enumerate(axes[:, 0]):
        ax.set_ylabel(f"series {truth.ids[i]}")
    for ax in axes[-1]:
        ax.set_xlabel("time (frames)")
    for ax in axes.flat:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.align_ylabels(axes[:, 0])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def draw_embedding(model: PolyODETransformer, data: Data) -> Figure:
    """Test embeddings in the plane of their largest variance; no label was used to place them."""
    plane = PCA(2, random_state=SEED).fit_transform(model.transform(data.seen))
    figure, ax = plt.subplots(figsize=(6.5, 5.5), layout="constrained")
    for number, speaker in enumerate(np.unique(data.speaker)):
        ax.scatter(*plane[data.speaker == speaker].T, s=18, color=f"C{number}", label=speaker)
    ax.set(xlabel="first principal component", ylabel="second principal component")
    ax.set_title("Embeddings of the test series")
    ax.set_aspect("equal")
    ax.legend(title="speaker", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


# The report

REPORT = """# PolyODE on JapaneseVowels with {share:.0%} of the cells hidden

Written by `python examples/japanese_vowels.py`, in {seconds:.0f} seconds.
Training part: {train}.
Test part: {test}.

## Who speaks

{speakers}
The model was never told the speakers; only the classifier behind it was. With series this short and
this densely sampled, an embedding of plain interpolation is a strong rival.

![Embeddings of the test series, first two principal components](embedding.png)

## What was hidden

Errors of the test part at hidden cells in the last {window:g} frames, the window of the memory.
Errors here and below are mean squares, in squared standard deviations of each channel.

{hidden}
![Reconstructions of three test series](reconstruction.png)

## What comes next

Errors of the test part at all cells of the last fifth of each series, from the cells that were
observed before it.

{future}
![Forecasts of three test series](forecast.png)
"""


def table(head: Row, rows: list[Row]) -> str:
    """A markdown table that is also readable as it is."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |\n"
        for row in (head, tuple("-" * w for w in widths), *rows)
    )


def show(title: str, text: str) -> str:
    """Print one result as soon as it is there."""
    print(f"{title}\n\n{text}", flush=True)
    return text


def main() -> None:
    """Run the three tasks; write figures and report."""
    parser = argparse.ArgumentParser(description="PolyODE on JapaneseVowels, half observed.")
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    parser.add_argument("--embedding", choices=("coefficients", "full"), default="coefficients")
    options = parser.parse_args()
    folder = options.output
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    train, test = load("train"), load("test")
    show("Data", f"train: {train.seen}\ntest:  {test.seen}\n")
    model = polyode(options.embedding).fit(train.seen)

    for draw in (draw_reconstruction, draw_forecast, draw_embedding):
        figure = draw(model, test)
        figure.savefig(folder / f"{draw.__name__.removeprefix('draw_')}.png", dpi=120)
        plt.close(figure)
    head = ("model", "mean squared error")
    hidden = show("Hidden cells, test part", table(head, reconstruct(model, test)))
    future = show("Last fifth of each series, test part", table(head, forecast(model, test)))
    rows = classify(model, train, test)
    speakers = show("Who speaks, test part", table(("model", "accuracy"), rows))

    report = REPORT.format(
        share=HIDDEN_SHARE,
        seconds=(seconds := time.perf_counter() - start),
        train=train.seen,
        test=test.seen,
        speakers=speakers,
        window=model.window_,
        hidden=hidden,
        future=future,
    )
    (folder / "report.md").write_text(report, encoding="utf-8")
    print(f"{seconds:.0f} seconds; figures and report.md are in {folder}")


if __name__ == "__main__":
    plt.switch_backend("Agg")  # write files, open no windows
    main()
