"""Diagrams of the guides, from boxes and arrows.

python docs/diagrams.py        writes docs/_static/NAME.svg for each
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

STATIC = Path(__file__).parent / "_static"
LINE, HEIGHT = 20, 30  # of text, and what a box has around its lines
COLOURS = {"data": "#e8eef7", "model": "#fdebd3", "result": "#e3f1e1", "plain": "#ffffff"}
# A box: left, top, width, kind, lines. An arrow: from, to, words beside it.
Box = tuple[int, int, int, str, list[str]]
Arrow = tuple[tuple[int, int], tuple[int, int], str]

DIAGRAMS: dict[str, tuple[int, list[Box], list[Arrow]]] = {
    "method": (
        250,
        [
            (20, 20, 160, "data", ["observations", "t, x, m"]),
            (300, 20, 240, "model", ["dynamics: a network", "signal and state"]),
            (660, 20, 200, "result", ["forecasts", "and paths"]),
            (300, 150, 240, "model", ["memory: fixed, linear", "the past as polynomials"]),
            (660, 150, 200, "result", ["embedding", "the series, read back"]),
        ],
        [
            ((180, 55), (300, 55), "set"),
            ((540, 55), (660, 55), "go on"),
            ((340, 90), (340, 150), "the path drives"),
            ((480, 150), (480, 90), "reset"),
            ((540, 185), (660, 185), "read"),
        ],
    ),
    "saving": (
        150,
        [
            (20, 30, 220, "model", ["an estimator", "fitted or not"]),
            (340, 30, 220, "data", ["one file", "arrays, and a text"]),
            (660, 30, 220, "model", ["the same estimator", "on another machine"]),
        ],
        [((240, 65), (340, 65), "save"), ((560, 65), (660, 65), "load")],
    ),
    "big_data": (
        240,
        [
            (20, 85, 180, "data", ["files of a table", "whole series"]),
            (300, 20, 220, "data", ["a sample", "sample_dataset"]),
            (620, 20, 220, "model", ["a fitted model", "fit"]),
            (300, 150, 220, "data", ["chunk after chunk", "embed_dataset"]),
            (620, 150, 220, "result", ["files of embeddings", "one row a series"]),
        ],
        [
            ((200, 105), (300, 60), ""),
            ((200, 135), (300, 180), ""),
            ((520, 55), (620, 55), ""),
            ((620, 85), (520, 150), ""),
            ((520, 185), (620, 185), ""),
        ],
    ),
    "extending": (
        330,
        [
            (20, 20, 190, "result", ["forecasting", "intervals, sktime"]),
            (240, 20, 190, "result", ["heads, inspection", "labels, reasons"]),
            (460, 20, 190, "result", ["plotting", "displays"]),
            (680, 20, 190, "result", ["parquet, streams", "big and live data"]),
            (20, 125, 850, "model", ["transformers, siblings", "estimators of scikit-learn"]),
            (20, 230, 270, "data", ["panel", "containers of series"]),
            (310, 230, 270, "data", ["memory, embedders", "measures and paths"]),
            (600, 230, 270, "data", ["models, training", "networks in torch"]),
        ],
        [((x, 125), (x, 90), "") for x in (115, 335, 555, 775)]
        + [((x, 230), (x, 195), "") for x in (155, 445, 735)],
    ),
    "extending_models": (
        150,
        [
            (20, 30, 140, "model", ["initial", "the first state"]),
            (250, 30, 160, "model", ["observe", "takes values in"]),
            (500, 30, 140, "model", ["flow", "over a gap"]),
            (720, 30, 170, "result", ["predict, features", "for answers"]),
        ],
        [
            ((160, 65), (250, 65), ""),
            ((410, 55), (500, 55), ""),
            ((500, 80), (410, 80), "next row"),
            ((640, 65), (720, 65), ""),
        ],
    ),
}


def box(left: int, top: int, width: int, kind: str, lines: list[str]) -> str:
    """A rectangle with lines of text, the first of them bold."""
    height, middle = HEIGHT + LINE * len(lines), left + width / 2
    parts = [
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="8" '
        f'fill="{COLOURS[kind]}" stroke="#556" />'
    ]
    for k, line in enumerate(lines):
        weight = "" if k else ' font-weight="bold"'
        y = top + HEIGHT / 2 + LINE * (k + 0.75)
        parts.append(f'<text x="{middle:g}" y="{y:g}"{weight}>{escape(line)}</text>')
    return "\n".join(parts)


def arrow(start: tuple[int, int], end: tuple[int, int], words: str) -> str:
    """A line with a head, and words beside its middle."""
    (x0, y0), (x1, y1) = start, end
    line = f'<path d="M{x0} {y0} L{x1} {y1}" stroke="#556" marker-end="url(#head)" />'
    x, y = (x0 + x1) / 2, (y0 + y1) / 2 - 8
    if x0 == x1:
        x, y = x + (62 if y1 > y0 else 30), y + 12
    if y0 == y1 and x1 < x0:
        y += 28
    return line + (f'\n<text x="{x:g}" y="{y:g}">{escape(words)}</text>' if words else "")


def svg(height: int, boxes: list[Box], arrows: list[Arrow]) -> str:
    """A diagram, 900 wide."""
    head = '<path d="M0 0 L9 4.5 L0 9 z" fill="#556" />'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" '
        'font-family="sans-serif" font-size="15" text-anchor="middle">',
        f'<defs><marker id="head" markerWidth="9" markerHeight="9" refX="8" refY="4.5" '
        f'orient="auto" markerUnits="userSpaceOnUse">{head}</marker></defs>',
        f'<rect width="900" height="{height}" fill="white" />',
        *(arrow(*given) for given in arrows),
        *(box(*given) for given in boxes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Write all diagrams."""
    for name, (height, boxes, arrows) in DIAGRAMS.items():
        (STATIC / f"{name}.svg").write_text(svg(height, boxes, arrows), "utf-8")


if __name__ == "__main__":
    main()
