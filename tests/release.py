"""Tried by `make release-check` on the archives in dist/: what they hold, and what they are called.

    python tests/release.py dist

Reads the source as text, so that it runs where nothing is installed.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

LARGEST_WHEEL = 700_000
"""Bytes. That of 0.1.0 takes 490 000: a data set or a model that slips in would show."""

IN_SDIST = ("LICENSE", "README.md", "pyproject.toml", "PKG-INFO", "skpolyode/py.typed")


def source_version(root: Path = ROOT) -> str:
    """The one place where the version is written."""
    text = (root / "skpolyode" / "__init__.py").read_text("utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return version


def changelog_faults(version: str, root: Path = ROOT) -> Iterator[str]:
    """A version in development is unreleased, any other has its date, and citations have it too."""
    text = (root / "CHANGELOG.md").read_text("utf-8")
    name, given = re.findall(r"^## (\S+) \((.+)\)$", text, re.MULTILINE)[0]
    released, _, development = version.partition(".dev")
    if name != released:
        yield f"the newest version of CHANGELOG.md is {name}, not {released}"
    if development and given != "unreleased":
        yield f"CHANGELOG.md dates {name} ({given}), but the version is {version}"
    if development:
        return
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", given):
        yield f"CHANGELOG.md says {name} ({given}): put the date there, as 2025-01-31"
    elif f"\ndate-released: {given}\n" not in (root / "CITATION.cff").read_text("utf-8"):
        yield f"CITATION.cff lacks the line date-released: {given}"


def metadata_faults(text: bytes, version: str) -> Iterator[str]:
    """Names, licence and a description that a package index can show."""
    found = message_from_bytes(text)
    wanted = {
        "Name": "skpolyode",
        "Version": version,
        "License-Expression": "BSD-3-Clause",
        "License-File": "LICENSE",
        "Description-Content-Type": "text/markdown",
    }
    for key, value in wanted.items():
        if found[key] != value:
            yield f"its metadata has {key}: {found[key]}, not {value}"


def wheel_faults(path: Path, version: str, root: Path = ROOT) -> Iterator[str]:
    """It holds the package, all of it and nothing else, its licence and its type information."""
    size = path.stat().st_size
    if size > LARGEST_WHEEL:
        yield f"{size} bytes, of at most {LARGEST_WHEEL}: look at what takes them"
    info = f"skpolyode-{version}.dist-info"
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        text = archive.read(f"{info}/METADATA") if f"{info}/METADATA" in names else b""
    yield from metadata_faults(text, version)
    package = {p.relative_to(root).as_posix() for p in (root / "skpolyode").rglob("*.py")}
    needed = {"skpolyode/py.typed", f"{info}/licenses/LICENSE"} | package
    yield from (f"lacks {name}" for name in sorted(needed - names))
    others = {name for name in names - needed if not name.startswith(f"{info}/")}
    yield from (f"holds {name}, which is not of the package" for name in sorted(others))


def sdist_faults(path: Path, version: str) -> Iterator[str]:
    """It holds what a build needs."""
    with tarfile.open(path) as archive:
        folder = f"skpolyode-{version}/"
        names = {name.removeprefix(folder) for name in archive.getnames()}
        info = archive.extractfile(f"{folder}PKG-INFO") if "PKG-INFO" in names else None
        text = info.read() if info else b""
    yield from metadata_faults(text, version)
    yield from (f"lacks {name}" for name in IN_SDIST if name not in names)


def faults_of(dist: Path, root: Path = ROOT) -> Iterator[str]:
    """All that stands against a release of these archives."""
    version = source_version(root)
    yield from changelog_faults(version, root)
    wheel = dist / f"skpolyode-{version}-py3-none-any.whl"
    sdist = dist / f"skpolyode-{version}.tar.gz"
    expected, found = {wheel, sdist}, {*dist.glob("*.whl"), *dist.glob("*.tar.gz")}
    if found != expected:
        names = (sorted(path.name for path in paths) for paths in (expected, found))
        yield "expected {}, found {}".format(*names)
        return
    yield from (f"{wheel.name}: {fault}" for fault in wheel_faults(wheel, version, root))
    yield from (f"{sdist.name}: {fault}" for fault in sdist_faults(sdist, version))


def main() -> None:
    dist = Path(sys.argv[1])
    for path in sorted(dist.iterdir()):
        print(f"{path.name:45} {path.stat().st_size:9} bytes")
    if faults := list(faults_of(dist)):
        sys.exit("\n".join(faults))
    print(f"version {source_version()}: both archives hold what they should")


if __name__ == "__main__":
    main()
