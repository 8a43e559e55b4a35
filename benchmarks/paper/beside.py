"""PolyODE on all settings with one configuration: beside the paper, paths and other models."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lines import heading, line
from benchmarks.paper.cells import Setting
from benchmarks.paper.rows import CEILING, POLYODE
from benchmarks.paper.tables import Number, Summary, published

METRICS = ("auc", "label_regression_mse", "fit_seconds")


def beside_the_paper(summary: Summary, settings: Sequence[Setting]) -> list[str]:
    """AUC and label error beside the published ones and those of the truth, and training time."""
    of_auc, of_label = (
        ("AUC, paper", "AUC", "AUC, truth"),
        ("label, paper", "label", "label, truth"),
    )
    lines = heading(["", *of_auc, *of_label, "ratio to paper", "fit, CPU s"])
    for setting in settings:
        known = {
            row: [summary.get((setting, row, metric), Number()) for metric in METRICS]
            for row in (POLYODE, CEILING)
        }
        paper = [published(setting.dataset, setting.rate, POLYODE, name) for name in METRICS[:2]]
        auc, label, seconds = known[POLYODE]
        entries = [f"{setting.dataset}, {setting.rate}"]
        entries += [own.text(3) for own in (paper[0], auc, known[CEILING][0])]
        entries += [own.text(4) for own in (paper[1], label, known[CEILING][1])]
        entries += [f"{label.mean / paper[1].mean:.2f}", seconds.text(0)]
        lines.append(line(entries))
    return lines


def compared(
    summary: Summary,
    settings: Sequence[Setting],
    rows: Sequence[str],
    metric: str,
    decimals: int,
    largest: bool,
) -> list[str]:
    """Means of some methods on all settings, the best of each bold."""
    lines = heading(["", *rows])
    for setting in settings:
        means = [summary.get((setting, row, metric), Number()).mean for row in rows]
        shown = [f"{mean:.{decimals}f}" if mean == mean else "" for mean in means]
        known = [text for text in shown if text]
        best = (max if largest else min)(known, key=float, default="")
        bold = [f"**{text}**" if text and text == best else text for text in shown]
        protocol = "" if setting.protocol == "paper-code" else ", independent"
        lines.append(line([f"{setting.dataset}, {setting.rate}{protocol}", *bold]))
    return lines


def beside_paths(summary: Summary, settings: Sequence[Setting], rows: Sequence[str]) -> list[str]:
    """Held-out reverse reconstruction against the best interpolation."""
    lines = heading(["", "best interpolation", "its error", "PolyODE", "times better"])
    for setting in settings:
        held_out = {
            row: summary.get((setting, row, "reverse_held_out_mse"), Number()) for row in rows
        }
        known = {row: own for row, own in held_out.items() if own.mean == own.mean}
        paths = [row for row in known if row.startswith("Interpolation")]
        if not paths or POLYODE not in known:
            continue
        best = min(paths, key=lambda row: known[row].mean)
        gain = known[best].mean / known[POLYODE].mean
        entries = [f"{setting.dataset}, {setting.rate}", best.removeprefix("Interpolation ")]
        entries += [known[best].text(4), known[POLYODE].text(4), f"{gain:.1f}"]
        lines.append(line(entries))
    return lines
