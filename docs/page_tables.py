"""Tables of measurements in pages: each stands between two markers, where its command writes it.

A command may print several parts, with a comment such as ``<!-- forecasts -->`` between two of
them. The block of that part is called "NAME, forecasts", and may stand elsewhere on the page.
"""

from __future__ import annotations

import re
from pathlib import Path

PAGES = Path(__file__).parent
BLOCK = re.compile(r"^<!-- table: ([^\n]*) -->\n(.*?)\n<!-- end of table -->$", re.S | re.M)
PART = re.compile(r"^<!-- (.*) -->\n", re.MULTILINE)


def blocks() -> dict[str, str]:
    """Text of every table of every page, by its name; a part is a table of its name."""
    texts = [page.read_text("utf-8") for page in sorted(PAGES.glob("*.md"))]
    return {name: text for page in texts for name, text in BLOCK.findall(page)}


def read(name: str) -> str:
    """Text of a table with all of its parts; empty if no page shows it."""
    parts = [text for own, text in blocks().items() if own.partition(", ")[0] == name]
    return "\n".join(parts)


def write(name: str, text: str) -> None:
    """Write what a command printed between the markers of the pages that show it."""
    first, *rest = PART.split(text)
    parts = {name: first}
    parts |= {f"{name}, {part}": own for part, own in zip(rest[::2], rest[1::2], strict=True)}

    def rewritten(block: re.Match[str]) -> str:
        own = parts.get(block[1])
        return block[0] if own is None else block[0].replace(block[2], f"{own.strip()}\n")

    for page in PAGES.glob("*.md"):
        old = page.read_text("utf-8")
        if (new := BLOCK.sub(rewritten, old)) != old:
            page.write_text(new, "utf-8")


def without_tables(text: str) -> str:
    """A page without its tables of measurements."""
    return BLOCK.sub("", text)
