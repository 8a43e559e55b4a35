"""Lines of Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence


def heading(titles: Sequence[str]) -> list[str]:
    return [line(titles), line(["---"] * len(titles))]


def line(entries: Sequence[str]) -> str:
    return "| " + " | ".join(entries) + " |"
