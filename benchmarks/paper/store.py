"""Results on disk: a line of JSON for each, which an interruption leaves whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import skpolyode


class Store:
    """Results by the settings that they were computed with, and the version of the package.

    Results of other settings or versions stay in the file and are not found. The version does not
    change with every edit: after one that changes results, start with another folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[str, dict[str, float]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        for line in path.read_text("utf-8").splitlines():
            self._take(line)

    def get(self, settings: dict[str, Any]) -> dict[str, float] | None:
        return self.results.get(_key(_with_version(settings)))

    def add(self, settings: dict[str, Any], results: dict[str, float]) -> None:
        settings = _with_version(settings)
        self.results[_key(settings)] = results
        line = json.dumps({"settings": settings, "results": results})
        with self.path.open("a", encoding="utf-8") as file:
            # A line break first: it ends what an interrupted process may have left.
            file.write("\n" + line)
            file.flush()
            os.fsync(file.fileno())

    def _take(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:  # empty, or cut short by an interruption
            return
        self.results[_key(entry["settings"])] = entry["results"]


def _with_version(settings: dict[str, Any]) -> dict[str, Any]:
    return {**settings, "version": skpolyode.__version__}


def _key(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)
