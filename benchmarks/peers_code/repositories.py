"""Copies of public repositories that a user has, imported from without a trace."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Repository(NamedTuple):
    """A public repository, the commit that an adapter was written for, and folders of modules."""

    url: str
    commit: str
    folders: tuple[str, ...] = ("",)  # inside the copy

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    def copy_in(self, repositories: Path) -> Path:
        """The user's copy, which must be there, and at the commit if it is a clone."""
        copy = repositories / self.name
        if not all((copy / folder).is_dir() for folder in self.folders):
            raise FileNotFoundError(
                f"no copy of {self.name} in {str(repositories)!r}: git clone {self.url} "
                f"{str(copy)!r} && git -C {str(copy)!r} checkout {self.commit}"
            )
        if (copy / ".git").exists():
            command = ["git", "-C", str(copy), "rev-parse", "HEAD"]
            found = subprocess.run(command, check=True, capture_output=True, text=True)
            if found.stdout.strip() != self.commit:
                raise ValueError(
                    f"{str(copy)!r} is at commit {found.stdout.strip()}, and the adapter was "
                    f"written for another: git -C {str(copy)!r} checkout {self.commit}"
                )
        return copy

    @contextmanager
    def importable(self, repositories: Path) -> Iterator[None]:
        """Its modules can be imported inside; outside their names are free, and mean what they did.

        Several repositories have modules of one name, such as `utils`.
        """
        copy = self.copy_in(repositories)
        paths = [copy / folder for folder in self.folders]
        own = {entry.stem for path in paths for entry in path.iterdir()}
        hidden = _taken(own)
        before = sys.path[:]
        sys.path[:0] = map(str, paths)
        try:
            yield
        finally:
            sys.path[:] = before
            _taken(own)
            sys.modules.update(hidden)


def _taken(names: set[str]) -> dict[str, object]:
    """Modules of these names and below them, taken out of those that are imported."""
    return {key: sys.modules.pop(key) for key in [*sys.modules] if key.partition(".")[0] in names}
