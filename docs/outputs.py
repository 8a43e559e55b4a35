"""What the code of the pages prints, kept beneath it.

    python docs/outputs.py --write                     every page
    python docs/outputs.py --write README.md docs/streaming.md

A block of Python that prints is followed by a block of text with what it printed. Pictures that the
code saves, and that the page shows from ``_static``, are kept there. Without ``--write`` pages that
are out of date are named, and the exit status is 1. Numbers with a point may differ a little, since
the last digits of a training depend on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = {"data_formats.md", "extending.md", "extending_models.md"}  # with checks of their own
CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"\n\n```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\b\d+(?:\.\d*)?(?:e[+-]?\d+)?")
WITHIN = 0.1  # of a float that is trained, and as much again beside zero


@dataclass(frozen=True)
class Block:
    """A block of code: its first line in the page, and the output that the page shows."""

    code: str
    line: int
    end: int  # of the code, in characters of the page
    shown: str
    shown_end: int


def pages() -> list[Path]:
    """Pages with code whose output is shown."""
    found = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    return [p for p in found if p.name not in ELSEWHERE and CODE.search(p.read_text("utf-8"))]


def blocks(text: str) -> Iterator[Block]:
    """Blocks of code of a page, in order."""
    for code in CODE.finditer(text):
        shown = SHOWN.match(text, code.end())
        end = shown.end() if shown else code.end()
        line = text.count("\n", 0, code.start(1))
        yield Block(code[1], line, code.end(), shown[1] if shown else "", end)


def run(page: Path, change: Callable[[str], str] = str) -> Iterator[tuple[Block, str]]:
    """Run the code of a page in the current folder, and give what each block prints."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page.read_text("utf-8")):
        # Blank lines in front, so that a traceback names the line of the page.
        code = compile("\n" * block.line + change(block.code), str(page), "exec", dont_inherit=True)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, names)
        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        yield block, "".join(f"{line}\n" for line in lines)


def rewritten(page: Path) -> str:
    """Text of a page with today's outputs."""
    text, parts, start = page.read_text("utf-8"), [], 0
    for block, printed in run(page):
        parts += [text[start : block.end], f"\n\n```text\n{printed}```" if printed else ""]
        start = block.shown_end
    return "".join([*parts, text[start:]])


def keep_pictures(text: str, folder: Path, static: Path = ROOT / "docs" / "_static") -> None:
    """Keep the pictures that a page shows, of those that its code has saved."""
    for picture in folder.glob("*.png"):
        if f"_static/{picture.name}" in text:
            shutil.copy(picture, static)


def words(text: str) -> list[str]:
    """Text without its numbers, and without spaces and lines, whose number depends on theirs."""
    return re.sub(r"[-=+\s]+", " ", NUMBER.sub("#", text)).split()


def is_near(shown: str, printed: str) -> bool:
    """Whether outputs are equal but for the last digits of floats."""
    if words(shown) != words(printed):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(_are_near(*pair) for pair in pairs)


def _are_near(shown: str, printed: str) -> bool:
    if "." not in shown + printed:
        return int(float(shown)) == int(float(printed))
    return abs(float(shown) - float(printed)) <= WITHIN * (1 + abs(float(shown)))


def main() -> int:
    """Write pages, or tell which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, help="default: all")
    parser.add_argument("--write", action="store_true", help="write today's outputs into the pages")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    is_old = False
    for page in [page.resolve() for page in options.pages] or pages():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            if options.write:
                page.write_text(text := rewritten(page), "utf-8")
                keep_pictures(text, Path(folder))
            else:
                faults = [b.line for b, printed in run(page) if not is_near(b.shown, printed)]
                is_old |= bool(faults)
                print(
                    page.name, *(f"line {line}: not today's output" for line in faults), sep="\n  "
                )
        os.chdir(ROOT)
    return int(is_old)


if __name__ == "__main__":
    sys.exit(main())
