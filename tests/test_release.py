"""The check of the archives notices what would spoil a release."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import release

VERSION = "0.1.0"
METADATA = """\
Metadata-Version: 2.4
Name: skpolyode
Version: {}
License-Expression: BSD-3-Clause
License-File: LICENSE
Description-Content-Type: text/markdown
"""
Change = Callable[[dict[str, str]], object]


def source(root: Path, version: str, heading: str, citation: str) -> None:
    (root / "skpolyode").mkdir()
    (root / "skpolyode" / "__init__.py").write_text(f'"""Doc."""\n__version__ = "{version}"\n')
    (root / "skpolyode" / "panel.py").touch()
    (root / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n\n## 0.0.9 (2024-02-29)\n")
    (root / "CITATION.cff").write_text(f"title: skpolyode\n{citation}\n")


def in_wheel(version: str) -> dict[str, str]:
    info = f"skpolyode-{version}.dist-info"
    package = ("skpolyode/__init__.py", "skpolyode/panel.py", "skpolyode/py.typed")
    files = dict.fromkeys((*package, f"{info}/licenses/LICENSE", f"{info}/RECORD"), "x")
    return files | {f"{info}/METADATA": METADATA.format(version)}


def in_sdist(version: str) -> dict[str, str]:
    return dict.fromkeys(release.IN_SDIST, "x") | {"PKG-INFO": METADATA.format(version)}


def pack(dist: Path, wheel: dict[str, str], sdist: dict[str, str], version: str = VERSION) -> None:
    dist.mkdir()
    with zipfile.ZipFile(dist / f"skpolyode-{version}-py3-none-any.whl", "w") as archive:
        for name, text in wheel.items():
            archive.writestr(name, text)
    with tarfile.open(dist / f"skpolyode-{version}.tar.gz", "w:gz") as archive:
        for name, text in sdist.items():
            member = tarfile.TarInfo(f"skpolyode-{version}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


@pytest.mark.parametrize(
    ("version", "heading", "citation", "fault"),
    [
        ("0.1.0", "0.1.0 (2025-01-31)", "date-released: 2025-01-31", None),
        ("0.1.0.dev0", "0.1.0 (unreleased)", "", None),
        ("0.1.0.dev0", "0.1.0 (2025-01-31)", "", "but the version is 0.1.0.dev0"),
        ("0.1.0", "0.1.0 (unreleased)", "", "put the date there"),
        ("0.1.0", "0.1.0 (2025-01-31)", "", "lacks the line date-released: 2025-01-31"),
        ("0.2.0", "0.1.0 (2025-01-31)", "date-released: 2025-01-31", "is 0.1.0, not 0.2.0"),
    ],
)
def test_version_and_date(
    tmp_path: Path, version: str, heading: str, citation: str, fault: str | None
) -> None:
    source(tmp_path, version, heading, citation)
    pack(tmp_path / "dist", in_wheel(version), in_sdist(version), version)
    assert release.source_version(tmp_path) == version
    faults = list(release.faults_of(tmp_path / "dist", tmp_path))
    assert (not faults) if fault is None else (len(faults) == 1 and fault in faults[0])


INFO = f"skpolyode-{VERSION}.dist-info"


@pytest.mark.parametrize(
    ("wheel", "sdist", "fault"),
    [
        (lambda w: w.pop("skpolyode/py.typed"), dict, r"\.whl: lacks skpolyode/py.typed"),
        (lambda w: w.pop("skpolyode/panel.py"), dict, r"\.whl: lacks skpolyode/panel.py"),
        (lambda w: w.pop(f"{INFO}/licenses/LICENSE"), dict, r"\.whl: lacks .*licenses/LICENSE"),
        (lambda w: w.update({"tests/x.py": ""}), dict, r"\.whl: holds tests/x.py"),
        (lambda w: w.update({f"{INFO}/big": "x" * 800_000}), dict, r"\.whl: 80\d+ bytes, of at"),
        (dict, lambda s: s.pop("LICENSE"), r"\.gz: lacks LICENSE"),
        (dict, lambda s: s.update({"PKG-INFO": METADATA.format("0.9")}), r"Version: 0.9, not 0.1"),
    ],
)
def test_what_is_lacking_or_too_much_is_named(
    tmp_path: Path, wheel: Change, sdist: Change, fault: str
) -> None:
    source(tmp_path, VERSION, f"{VERSION} (2025-01-31)", "date-released: 2025-01-31")
    of_wheel, of_sdist = in_wheel(VERSION), in_sdist(VERSION)
    wheel(of_wheel)
    sdist(of_sdist)
    pack(tmp_path / "dist", of_wheel, of_sdist)
    (found,) = release.faults_of(tmp_path / "dist", tmp_path)
    assert re.search(fault, found)


def test_archives_of_another_version_are_not_taken_for_this_one(tmp_path: Path) -> None:
    source(tmp_path, VERSION, f"{VERSION} (2025-01-31)", "date-released: 2025-01-31")
    pack(tmp_path / "dist", in_wheel("0.0.9"), in_sdist("0.0.9"), "0.0.9")
    (fault,) = release.faults_of(tmp_path / "dist", tmp_path)
    assert "found ['skpolyode-0.0.9-py3-none-any.whl'" in fault
