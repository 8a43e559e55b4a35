"""A page of the documentation, with parts between marks that the benchmarks write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "paper.md"


def folded(title: str, table: Sequence[str]) -> list[str]:
    """A table that opens at a click on its title."""
    return [f":::{{dropdown}} {title}", "", *table, ":::", ""]


def fill(page: Path, part: str, lines: Sequence[str]) -> None:
    """Replace what is between the two marks of a part."""
    fill_between(page, (f"<!-- begin {part} -->", f"<!-- end {part} -->"), lines)


def fill_between(page: Path, marks: tuple[str, str], lines: Sequence[str]) -> None:
    """Replace what is between two marks; the first has a line of its own."""
    begin, end = marks[0] + "\n", marks[1]
    before, found, rest = page.read_text("utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} lacks the marks {begin.strip()!r} and {end!r}.")
    page.write_text(before + begin + "\n".join(["", *lines, ""]) + end + after, "utf-8")
