"""How the code hangs together: what the closing notes of a redesign can be held against.

    python benchmarks/structure.py

Counted on the syntax trees, as they stand:

- own classes: classes of this package among the bases of an estimator, itself included;
- names across classes: names that a class of PolyODETransformer's family reads from ``self`` and
  that only another class of the family defines;
- private doors: attributes with one leading underscore that are read from anything but ``self``,
  ``cls`` or ``super()``, unless a class of the same file defines them, or every named tuple does;
- one-caller private functions: functions and methods with a leading underscore whose name occurs
  once besides its definition, overridden and overriding methods left out.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from pathlib import Path

import skpolyode
from skpolyode.forecasting import PolyODEForecaster

PACKAGE = Path(skpolyode.__file__).parent
TREES = {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def own_classes(cls: type) -> list[type]:
    return [base for base in cls.__mro__ if base.__module__.startswith("skpolyode")]


def self_names(cls: type) -> tuple[set[str], set[str]]:
    """Names that a class reads from self, and that it defines itself."""
    (tree,) = ast.parse(inspect.getsource(cls)).body
    reads, defines = set(), set(vars(cls)) | set(vars(cls).get("__annotations__", {}))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
            (reads if isinstance(node.ctx, ast.Load) else defines).add(node.attr)
    return reads, defines


def names_across_classes(cls: type) -> set[str]:
    family = [self_names(own) for own in own_classes(cls)]
    found = set()
    for reads, defines in family:
        for name in reads - defines:
            if any(name in others for _, others in family):
                found.add(name)
    return found


def private_doors() -> list[str]:
    found = []
    for path, tree in TREES.items():
        own = {"_replace", "_asdict", "_fields"}  # of named tuples
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                own.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
            elif isinstance(node, ast.AnnAssign):
                own.add(ast.unparse(node.target))
        modules = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or not re.match(r"_[^_]", node.attr):
                continue
            base = ast.unparse(node.value)
            if base not in {"self", "cls", "super()"} | modules and node.attr not in own:
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(node)}")
    return found


def one_caller_share() -> tuple[int, int]:
    """Private functions with one caller, and all of them."""
    text = "\n".join(path.read_text("utf-8") for path in TREES)
    uses = Counter(re.findall(r"\b_\w+\b", text))
    defined = Counter(
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and re.match(r"_[^_]", node.name)
    )
    once = [name for name, count in defined.items() if count == 1]
    return sum(uses[name] == 2 for name in once), len(once)


def long_bodies(limit: int = 40) -> list[str]:
    found = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                length = node.end_lineno - body[0].lineno + 1 if body else 0
                if length > limit:
                    found.append(f"{path.relative_to(PACKAGE)}:{node.name} {length}")
    return found


def main() -> None:
    for cls in (skpolyode.PolyODETransformer, skpolyode.HiPPOTransformer, PolyODEForecaster):
        names = " < ".join(base.__name__ for base in own_classes(cls))
        n_parameters = len(inspect.signature(cls).parameters)
        print(f"{cls.__name__}: {len(own_classes(cls))} own classes ({names})", end=", ")
        print(f"{n_parameters} constructor parameters")
    across = names_across_classes(skpolyode.PolyODETransformer)
    print(f"names across the classes of PolyODETransformer: {len(across)} {sorted(across)}")
    doors = private_doors()
    print(f"private doors: {len(doors)}", *doors, sep="\n  ")
    modules = sorted(p.stem for p in (PACKAGE / "transformers").glob("*.py"))
    private = [name for name in modules if re.match(r"_[^_]", name)]
    print(f"private modules in transformers: {len(private)} of {len(modules) - 1} {private}")
    single, total = one_caller_share()
    print(f"private functions with one caller: {single} of {total}, {single / total:.0%}")
    print(f"bodies over 40 lines: {long_bodies()}")


if __name__ == "__main__":
    main()
