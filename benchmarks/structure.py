"""Figures of the structure of the code: run before and after a redesign, and compare.

    python -m benchmarks.structure                         # the package of this checkout
    python -m benchmarks.structure --package PATH          # another one, as of an older checkout
    python -m benchmarks.structure --list doors constants  # with the places that were counted

A *room* is a folder of the package; modules at the top are the room ".". The *core* is what is no
wing, as in `setup.cfg`. How each figure is made:

- Code lines: lines that hold code. Blank lines, comments and docstrings do not count; nor do
  strings that document a constant or a field.
- Comments per code line: comments, but ``noqa`` and ``type:``, over code lines.
- Constants: upper-case names that a module binds to a number, or to a container of numbers only
  (tuple, list, dict, array); ``A, B = 1, 2`` are two. A name that is derived from other names, with
  no number beside them, does not count. Numbers in the fields of classes ``...Settings`` do.
- Other numbers, which that rule does not see: those in the bodies of other classes, and those in
  functions except 0, 1, 2 and 0.5. There is no goal for them; they show whether constants were
  removed, or only moved.
- Circles: groups of modules that import each other, directly or through others. Imports in
  functions and under ``TYPE_CHECKING`` count.
- Doors: (1) names with one leading underscore that are read, written or deleted on any object but
  ``self``, ``cls``, ``super()`` and ``type(self)``, also through ``getattr`` and its kin. A name is
  excused if a class of the same file defines it, in its body or on ``self``; not on what the file
  imports, though. Methods of named tuples and ``_parameter_constraints`` of scikit-learn are public
  in all but name. (2) Imports of private modules of another room. (3) Imports of private names of
  another module. Private names of other libraries are counted apart.
- One-caller: private functions and methods with one mention outside their own bodies, of all
  private ones. A function is looked for in its module and in imports of it, a method in its class,
  its relatives and the functions of its file. Methods that relatives define too are left out:
  their callers cannot absorb them.
- Bodies: code lines of functions and methods below their signatures.
- Deep imports: imports of a module of another room past its face (a package, or a module at the
  top), of all imports from other rooms.
- Own classes: the classes of this package that an estimator consists of.
- Files and functions entered: those that run, files also by a lambda or a generator, when a
  PolyODETransformer is fitted to six small series, transforms and forecasts them, and when a
  PolyODEForecaster does. All modules are imported before.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import pkgutil
import re
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_parameter_constraints"}
PLAIN_NUMBERS = {0, 1, 2, 0.5}
LONG_FILE = 400
WINGS = {
    *("adapters", "datasets", "ensemble", "forecasting", "heads", "inspection", "parquet"),
    *("plotting", "questions", "siblings", "streams", "structural"),
}

Import = tuple[int, str, str]


def is_private(name: str) -> bool:
    return re.match(r"_[^_]", name) is not None


def is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


class Module:
    """A file of a package and its syntax tree."""

    def __init__(self, path: Path, root: Path) -> None:
        inside = path.relative_to(root).with_suffix("")
        self.file = f"{inside.as_posix()}.py"
        self.is_package = path.stem == "__init__"
        parts = inside.parts[:-1] if self.is_package else inside.parts
        self.name = ".".join((root.name, *parts))
        self.room = inside.parts[0] if len(inside.parts) > 1 else "."
        self.tree = ast.parse(path.read_text("utf-8"))
        self.nodes = list(ast.walk(self.tree))
        self.classes = [node for node in self.nodes if isinstance(node, ast.ClassDef)]
        with tokenize.open(path) as file:
            self.tokens = list(tokenize.generate_tokens(file.readline))

    @cached_property
    def code(self) -> set[int]:
        """Numbers of the lines that hold code."""
        lines: set[int] = set()
        for token in self.tokens:
            if token.type != tokenize.COMMENT and token.string.strip():
                lines |= set(range(token.start[0], token.end[0] + 1))
        for node in self.nodes:
            match node:
                case ast.Expr(value=ast.Constant(value=str())):
                    lines -= set(range(node.lineno, node.end_lineno + 1))
        return lines

    @property
    def is_core(self) -> bool:
        return self.room not in WINGS

    @property
    def n_comments(self) -> int:
        comments = [token.string for token in self.tokens if token.type == tokenize.COMMENT]
        return sum(not re.match(r"#\s*(noqa|type:)", text) for text in comments)

    @property
    def bodies(self) -> dict[str, int]:
        return {
            f"{self.file}:{node.lineno} {node.name}": sum(
                node.body[0].lineno <= line <= node.end_lineno for line in self.code
            )
            for node in filter(is_function, self.nodes)
        }

    @cached_property
    def imports(self) -> list[Import]:
        """Line, module and name of everything that is imported; ``import a`` has no name."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                own = self.name.split(".")
                own = own[: len(own) - node.level + self.is_package] if node.level else []
                base = ".".join([*own, node.module] if node.module else own)
                found += [(node.lineno, base, alias.name) for alias in node.names]
        return found

    def imports_of(self, modules: dict[str, Module]) -> list[Import]:
        """Those of `modules`; one that is imported by its package has no name."""
        named = [(line, f"{base}.{name}", base, name) for line, base, name in self.imports]
        return [
            (line, full, "") if full in modules else (line, base, name)
            for line, full, base, name in named
            if full in modules or base in modules
        ]


def read_package(root: Path) -> dict[str, Module]:
    """All modules of the package in a folder, by name."""
    modules = (Module(path, root) for path in sorted(root.rglob("*.py")))
    return {module.name: module for module in modules}


def bindings(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Names that statements bind, those of a tuple one by one, and to what."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                yield from zip(map(ast.unparse, names), values, strict=True)
            case ast.Assign(targets=targets, value=value):
                yield from ((ast.unparse(target), value) for target in targets)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                yield ast.unparse(target), value


def numbers(node: ast.AST) -> list[Any]:
    constants = [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return [part.value for part in constants if type(part.value) in (int, float)]


def may_be_tuned(node: ast.AST) -> bool:
    """Whether an expression is a number, a name, or a container or an array of these only."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return all(map(may_be_tuned, parts))
        case ast.Call(func=ast.Attribute(attr="array"), args=[part, *_]):
            return may_be_tuned(part)
    is_text = isinstance(node, ast.Constant) and not numbers(node)
    return isinstance(node, ast.Constant | ast.Name | ast.BinOp | ast.UnaryOp) and not is_text


def constants(module: Module) -> list[str]:
    found = [
        name
        for name, value in bindings(module.tree.body)
        if name.isupper() and numbers(value) and may_be_tuned(value)
    ]
    settings = [node for node in module.classes if node.name.endswith("Settings")]
    found += [f"{c.name}.{name}" for c in settings for name, v in bindings(c.body) if numbers(v)]
    return [f"{module.file} {name}" for name in found]


def other_numbers(module: Module) -> dict[str, int]:
    """How many fields of classes hold numbers, and how many numbers are in functions."""
    fields = [
        name
        for node in module.classes
        if not node.name.endswith("Settings")
        for name, value in bindings(node.body)
        if numbers(value) and name != "_parameter_constraints"
    ]
    functions = list(filter(is_function, module.nodes))
    inner = {part for node in functions for part in ast.walk(node) if part is not node}
    values = [value for node in functions if node not in inner for value in numbers(node)]
    return {
        "in classes": len(fields),
        "in functions": sum(value not in PLAIN_NUMBERS for value in values),
    }


def circles(modules: dict[str, Module]) -> list[str]:
    names = list(modules)
    targets = [{target for _, target, _ in m.imports_of(modules)} for m in modules.values()]
    arrows = np.array([[name in reached for name in names] for reached in targets])
    _, label = connected_components(arrows, connection="strong")
    groups = [np.flatnonzero(label == group) for group in np.unique(label)]
    return [" ".join(names[i] for i in group) for group in groups if len(group) > 1]


def deep_imports(modules: dict[str, Module]) -> tuple[list[str], int]:
    """Those past the face of another room, and the number of all imports from other rooms."""
    deep, total = {}, set()
    for module in modules.values():
        for line, target, _ in module.imports_of(modules):
            room, place = modules[target].room, f"{module.file}:{line}"
            if room != module.room:
                total.add(place)
                if room != "." and not modules[target].is_package:
                    deep[place] = f"{place} {target}"
    return list(deep.values()), len(total)


def is_own(node: ast.AST) -> bool:
    return ast.unparse(node) in {"self", "cls", "super()", "type(self)"}


def defined_names(module: Module) -> set[str]:
    """Names that classes of a file define, in their bodies or on themselves."""
    found = set()
    for part in (part for node in module.classes for part in node.body):
        if is_function(part):
            found.add(part.name)
        elif isinstance(part, ast.AnnAssign):
            found.add(ast.unparse(part.target))
        else:
            found |= {name for name, _ in bindings([part])}
        attributes = [node for node in ast.walk(part) if isinstance(node, ast.Attribute)]
        found |= {a.attr for a in attributes if isinstance(a.ctx, ast.Store) and is_own(a.value)}
    return found


def private_attributes(module: Module) -> Iterator[tuple[int, ast.AST, str]]:
    """Line, object and name of each access to a private attribute."""
    for node in module.nodes:
        match node:
            case ast.Attribute(value=base, attr=name) if is_private(name):
                yield node.lineno, base, name
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "delattr" | "hasattr"),
                args=[base, ast.Constant(value=str(name)), *_],
            ) if is_private(name):
                yield node.lineno, base, name


def private_doors(modules: dict[str, Module]) -> list[str]:
    found = []
    for module in modules.values():
        excused = defined_names(module)
        imported = {name or base for _, base, name in module.imports}
        for line, base, name in private_attributes(module):
            is_excused = name in excused and ast.unparse(base) not in imported
            if not (is_own(base) or is_excused or name in PUBLIC):
                found.append(f"{module.file}:{line} {ast.unparse(base)}.{name}")
        for line, target, name in module.imports_of(modules):
            is_hidden = any(map(is_private, target.split(".")))
            if is_private(name) or (is_hidden and modules[target].room != module.room):
                found.append(f"{module.file}:{line} imports from {target}")
    return list(dict.fromkeys(found))


def private_names_of_libraries(modules: dict[str, Module]) -> list[str]:
    return [
        f"{module.file}:{line} {base} {name}"
        for module in modules.values()
        for line, base, name in module.imports
        if base.split(".")[0] not in modules and any(map(is_private, (*base.split("."), name)))
    ]


def mentions(nodes: list[ast.AST]) -> Counter[str]:
    """How often names occur below nodes: as names, attributes, imports or strings."""
    found: Counter[str] = Counter()
    for part in (part for node in nodes for part in ast.walk(node)):
        match part:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                found[name] += 1
            case ast.Constant(value=str(name)):
                found[name] += 1
    return found


def one_caller(modules: dict[str, Module]) -> tuple[list[str], int]:
    """Private functions that are mentioned once, and the number of all that are counted."""
    classes = [node for module in modules.values() for node in module.classes]
    bases = {node.name: {ast.unparse(b).split(".")[-1] for b in node.bases} for node in classes}

    def ancestors(name: str) -> set[str]:
        return {name}.union(*map(ancestors, bases[name] & set(bases)))

    lineage = {name: ancestors(name) for name in bases}
    methods = {node: {part.name for part in node.body if is_function(part)} for node in classes}
    inside = {node: mentions([node]) for node in classes}
    imported = Counter(x[1:] for module in modules.values() for x in module.imports_of(modules))
    uses = {}
    for module in modules.values():
        local = mentions([module.tree])
        loose = mentions([part for part in module.tree.body if not isinstance(part, ast.ClassDef)])
        owner = {part: cls for cls in module.classes for part in cls.body}
        for node in filter(is_function, module.nodes):
            name, cls = node.name, owner.get(node)
            if not is_private(name):
                continue
            count = local[name] + imported[module.name, name]
            if cls is not None:
                kin = [
                    other
                    for other in classes
                    if other.name in lineage[cls.name] or cls.name in lineage[other.name]
                ]
                if sum(name in methods[other] for other in kin) > 1:
                    continue
                count = loose[name] + sum(inside[other][name] for other in kin)
            uses[f"{module.file}:{node.lineno} {name}"] = count - mentions([node])[name]
    return [place for place, count in uses.items() if count == 1], len(uses)


def own_classes(cls: type) -> list[type]:
    package = cls.__module__.split(".")[0]
    return [base for base in cls.__mro__ if base.__module__.split(".")[0] == package]


def entered(root: Path, action: Callable[[], Any]) -> set[tuple[str, str]]:
    """Files of a package and their functions that run in an action."""
    found = set()

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and Path(code.co_filename).is_relative_to(root):
            found.add((code.co_filename, code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def named_functions(found: set[tuple[str, str]]) -> list[str]:
    """Names of functions, without lambdas and comprehensions, some of which 3.12 runs inline."""
    return [function for _, function in found if not function.endswith(">")]


def six_series() -> list[tuple[np.ndarray, np.ndarray]]:
    """Two channels of a sine and a trend at uneven times, a fifth of the cells missing."""
    rng, series = np.random.default_rng(0), []
    for _ in range(6):
        times = np.sort(rng.uniform(0, 20, 30))
        values = np.sin(times[:, None] + [0, 2] + rng.uniform(0, 6)) + 0.1 * times[:, None]
        values[rng.random(values.shape) < 0.2] = np.nan
        series.append((times, values))
    return series


def print_sizes(modules: dict[str, Module]) -> None:
    files, code, comments, tuned, others = (Counter() for _ in range(5))
    for module in modules.values():
        for room in (module.room, "all", "core")[: 3 if module.is_core else 2]:
            files[room] += 1
            code[room] += len(module.code)
            comments[room] += module.n_comments
            tuned[room] += len(constants(module))
        others.update(other_numbers(module))
    print("room           files    code  constants  comments per code line")
    for room, lines in reversed(code.most_common()):
        share = comments[room] / max(lines, 1)
        print(f"{room:13} {files[room]:6} {lines:7} {tuned[room]:10} {share:10.3f}")
    print("other numbers:", dict(others))
    lengths = [n for module in modules.values() for n in module.bodies.values()]
    steps = [f"{np.percentile(lengths, q, method='higher')}" for q in (50, 90, 95, 100)]
    print(f"bodies of {len(lengths)} functions: median / p90 / p95 / max {' / '.join(steps)}")


def print_places(modules: dict[str, Module], listed: list[str]) -> None:
    length = {module.file: len(module.code) for module in modules.values()}
    places = {
        "constants": [place for module in modules.values() for place in constants(module)],
        "circles": circles(modules),
        "doors": private_doors(modules),
        "private names of libraries": private_names_of_libraries(modules),
        "private modules": [file for file in length if is_private(Path(file).stem)],
        f"files over {LONG_FILE} code lines": [
            f for f, lines in length.items() if lines > LONG_FILE
        ],
    }
    for name, (found, total) in {
        "one-caller": one_caller(modules),
        "deep imports": deep_imports(modules),
    }.items():
        places[f"{name} of {total}, {len(found) / max(total, 1):.0%}"] = found
    for name, found in places.items():
        print(f"{name}: {len(found)}")
        if name.split()[0] in listed:
            print(*(f"  {place}" for place in found), sep="\n")


def calls(package: Any, **settings: Any) -> dict[str, Callable[[], Any]]:
    """What is called to see which files run, in this order."""
    model, series = package.PolyODETransformer(random_state=0, **settings), six_series()
    panel = package.Panel.from_series(series)
    trained = package.PolyODEForecaster(package.PolyODETransformer(random_state=0, **settings))

    def forecast() -> Any:
        return model.forecast(series, [1.0, 2.0, 3.0], relative_to="end")

    return {
        "fit": lambda: model.fit(series),
        "transform": lambda: model.transform(series),
        "first forecast": forecast,  # learns the weights of forecasts
        "forecast": forecast,
        "pretrain of the forecaster": lambda: trained.pretrain(panel),
        "its forecast": lambda: trained.forecast(panel, [1.0, 2.0, 3.0], relative_to="end"),
    }


def print_calls(package: Any, root: Path) -> None:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    forecaster = package.forecasting.PolyODEForecaster
    for cls in (package.PolyODETransformer, package.HiPPOTransformer, forecaster):
        own = [base.__name__ for base in own_classes(cls)]
        print(f"{cls.__name__}: own classes {len(own)} ({' < '.join(own)})", end=", ")
        print(f"constructor parameters {len(inspect.signature(cls).parameters)}")
    for name, action in calls(package).items():
        found = entered(root, action)
        n_functions = len(named_functions(found))
        print(f"{name} enters {len({file for file, _ in found})} files, {n_functions} functions")


def main() -> None:
    here = Path(__file__).resolve().parents[1] / "skpolyode"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=Path, default=here, help="folder of the package")
    parser.add_argument("--list", nargs="*", default=[], help="first words of figures to list")
    parser.add_argument("--static", action="store_true", help="do not import and run the package")
    options = parser.parse_args()
    root = options.package.resolve()
    modules = read_package(root)
    print_sizes(modules)
    print_places(modules, options.list)
    if not options.static:
        sys.path.insert(0, str(root.parent))
        package = importlib.import_module(root.name)
        if Path(package.__file__).parent != root:
            raise RuntimeError(f"Python imports {package.__file__} instead of {root}.")
        print_calls(package, root)


if __name__ == "__main__":
    main()
