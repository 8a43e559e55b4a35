"""The page on data formats shows what really happens."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "data_formats.md"
PRINT = re.compile(r"print\(.*\)(?:\n|  )# (.*)")


def test_the_examples_print_what_the_page_says(capsys):
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    promised = []
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, PAGE.name, "exec"), names)
        promised += PRINT.findall(block)
    (message,) = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    assert len(promised) >= 10
    assert capsys.readouterr().out == "\n".join([*promised, message])
