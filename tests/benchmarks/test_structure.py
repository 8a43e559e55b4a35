"""The figures of the structure, on a made-up package with one case of each rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import structure

FILES = {
    "__init__.py": '"""Tiny."""\n',
    "a/__init__.py": "from tiny.a.one import Store\n",
    "a/one.py": '''
"""A docstring."""
import typing

if typing.TYPE_CHECKING:
    from tiny.b.two import use

_LIMIT, _SHARES = 3, (0.1, -0.2)  # a comment
"""What documents a constant."""
_DERIVED = _LIMIT
_NAMES = ("a", "b")
_TABLE = {"x": 1.5}


class FitSettings:
    # A comment alone.
    patience: int = 12
    name: str = "3"
    bounds: tuple[float, float] = (0.5, 2.0)


class Store:
    size = 7

    def __init__(self):
        self._rows = 0
        self._told = self._twice() + self._twice()

    @classmethod
    def _of(cls, rows):
        store = cls()
        store._rows = rows  # excused: defined above
        return store

    def _twice(self):
        return self._once()

    def _once(self):
        return 0.75 * _helper(1)

    def _hook(self):
        return 1


class Shelf(Store):
    def _hook(self):
        return 2


def _helper(x):
    """More than one line

    of a docstring.
    """

    # A comment and a blank line.
    return x
''',
    "b/__init__.py": "",
    "b/_hidden.py": "def _secret(): ...\n",
    "b/two.py": """
from tiny.a import Store
from tiny.a.one import FitSettings
from tiny.b._hidden import _secret


class Pair:
    def _of(self): ...


def use(store: Store):
    from tiny.a.one import _helper

    store._longest = 3
    del store._longest
    Store._of(3)
    getattr(store, "_rows")
    store._replace(a=1)
    Pair()._of()
    return [_secret() for _ in range(2)], _helper(FitSettings)
""",
    "c.py": "from tiny.b import _hidden\nfrom .b import two\nimport sklearn.utils._tags\n",
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, structure.Module]:
    root = tmp_path_factory.mktemp("checkout") / "tiny"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return structure.read_package(root)


def test_rooms_and_code_lines(modules):
    assert {module.room for module in modules.values()} == {".", "a", "b"}
    code = {name: len(module.code) for name, module in modules.items()}
    assert (code["tiny"], code["tiny.a"], code["tiny.b"], code["tiny.b._hidden"]) == (0, 1, 0, 1)
    one = modules["tiny.a.one"]
    assert one.n_comments == 4
    bodies = [(place.split()[1], lines) for place, lines in one.bodies.items()]
    once = [(name, 1) for name in ("_twice", "_once", "_hook", "_hook", "_helper")]
    assert sorted(bodies) == sorted([("__init__", 2), ("_of", 3), *once])


def test_constants_of_modules_and_of_settings(modules):
    names = [place.split()[1] for place in structure.constants(modules["tiny.a.one"])]
    settings = ["FitSettings.patience", "FitSettings.bounds"]
    assert names == ["_LIMIT", "_SHARES", "_TABLE", *settings]
    numbers = structure.other_numbers(modules["tiny.a.one"])
    assert numbers == {"in classes": 1, "in functions": 1}  # size, and .75


def test_circles_are_found_behind_type_checking_and_in_functions(modules):
    assert structure.circles(modules) == ["tiny.a tiny.a.one tiny.b.two"]


def test_doors_that_write_into_foreign_objects_are_seen(modules):
    found = [place.split(" ", 1) for place in structure.private_doors(modules)]
    assert {place.split(":")[0] for place, _ in found} == {"b/two.py", "c.py"}
    assert sorted(door for _, door in found) == [
        "Store._of",  # although a class of that file defines a method of this name
        "imports from tiny.a.one",
        "imports from tiny.b._hidden",
        "imports from tiny.b._hidden",
        "store._longest",
        "store._longest",
        "store._rows",
    ]
    assert structure.private_names_of_libraries(modules) == ["c.py:3 sklearn.utils._tags "]


def test_private_functions_with_one_caller(modules):
    """Overridden methods do not count; two classes may use one name."""
    found, total = structure.one_caller(modules)
    assert [place.split()[1] for place in found] == ["_once", "_secret"]
    assert total == 6  # _of twice, _twice, _once, _helper, _secret


def test_imports_past_the_face_of_a_room(modules):
    found, total = structure.deep_imports(modules)
    assert found == [
        "a/one.py:6 tiny.b.two",
        "b/two.py:3 tiny.a.one",
        "b/two.py:12 tiny.a.one",
        "c.py:1 tiny.b._hidden",
        "c.py:2 tiny.b.two",
    ]
    assert total == 6


def test_entered_files(modules, tmp_path):
    here = Path(__file__).parent
    assert structure.entered(tmp_path, lambda: called_here()) == set()
    files, functions = zip(*structure.entered(here, lambda: called_here()), strict=True)
    assert set(files) == {__file__}
    assert "called_here" in functions


def called_here() -> None: ...
