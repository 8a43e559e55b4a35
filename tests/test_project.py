"""What has to hold for the project as a whole, whatever its modules do."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import os
import re
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString
from packaging.version import Version

import skpolyode
from benchmarks.structure import (
    WINGS,
    Module,
    calls,
    circles,
    constants,
    entered,
    named_functions,
    own_classes,
    read_package,
)
from tests.fresh import after_steps
from tests.public_api import public_callables, public_modules, public_objects

ROOT = Path(__file__).resolve().parents[1]
OBJECTS = public_objects()
CALLABLES = public_callables()

# What git does not track, besides the environments and caches in hidden folders.
UNTRACKED = {"__pycache__", "_build", "gallery", "generated", "build", "dist", "demo_output"}
# Traces of one person's machine or of one package index.
LOCAL = re.compile(
    r"(?<![\w.])/(?:work|tmp)\b"
    r"|pypi\.org|pythonhosted\.org|download\.pytorch\.org|conda\.anaconda\.org"
    r"|--(?:extra-)?index-url|--find-link[s]"
)


@cache
def modules() -> dict[str, Module]:
    """Read once, and not before a test asks: each worker collects, one of them asks."""
    return read_package(ROOT / "skpolyode")


def test_import_leaves_out_the_heavy_optional_parts() -> None:
    loaded = after_steps()["skpolyode"]
    assert "skpolyode" in loaded
    assert {"sktime", "matplotlib"}.isdisjoint(loaded)


def test_every_part_is_of_the_core_or_a_wing() -> None:
    """A new one that stood in neither contract could import what it liked."""
    contracts = ConfigParser()
    contracts.read(ROOT / "setup.cfg")
    core, wings = (contracts[f"importlinter:contract:{name}"] for name in ("core", "wings"))
    parts = {module.__name__ for module in public_modules()[1:]}
    assert {*core["source_modules"].split(), *wings["modules"].split()} == parts
    assert core["forbidden_modules"] == wings["modules"]
    assert {name.removeprefix("skpolyode.") for name in wings["modules"].split()} == WINGS


# `python -m benchmarks.structure` prints these figures. Ceilings of lines, constants and functions
# are 1 % above what it printed last. Lower them by hand whenever code leaves; a commit that raises
# one says what that has bought.
CEILINGS = {
    "code lines of the package": 20_515,
    "code lines of the core": 11_460,
    "tuned constants": 268,
    "circles of imports": 0,
    "own classes of PolyODETransformer": 5,
    "own classes of HiPPOTransformer": 3,
    "own classes of PolyODEForecaster": 3,
    "functions entered by fit": 435,
    "functions entered by transform": 142,
    "functions entered by first forecast": 325,
    "functions entered by forecast": 222,
}


def test_the_package_does_not_grow() -> None:
    files = modules().values()
    figures = {
        "circles of imports": len(circles(modules())),
        "code lines of the package": sum(len(file.code) for file in files),
        "code lines of the core": sum(len(file.code) for file in files if file.is_core),
        "tuned constants": sum(len(constants(file)) for file in files),
    }
    for name in ("PolyODETransformer", "HiPPOTransformer", "PolyODEForecaster"):
        figures[f"own classes of {name}"] = len(own_classes(getattr(skpolyode, name)))
    root = Path(skpolyode.__file__).parent
    for name, action in list(calls(skpolyode, max_epochs=1).items())[:4]:
        figures[f"functions entered by {name}"] = len(named_functions(entered(root, action)))
    assert figures.keys() == CEILINGS.keys()
    above = {name: n for name, n in figures.items() if n > CEILINGS[name]}
    assert not above, "the package has grown: simplify, or raise a ceiling and say why"


@pytest.mark.parametrize("step", ["HiPPOTransformer", "fit HiPPOTransformer"])
def test_what_trains_nothing_loads_a_part_of_the_core(step: str) -> None:
    own = [name for name in after_steps()[step] if name.startswith("skpolyode.")]
    assert {name.split(".")[1] for name in own}.isdisjoint(WINGS | {"training"})
    assert 20 < len(own) < 70


def test_models_are_loaded_without_torch_in_python() -> None:
    """Arithmetic on the device "meta" is written in 800 modules, which take seconds."""
    assert "torch.fx.experimental.symbolic_shapes" not in after_steps()["models to be loaded"]


def test_what_is_imported_on_demand_is_found() -> None:
    for module in public_modules()[1:]:
        name = module.__name__.removeprefix("skpolyode.")
        assert getattr(skpolyode, name) is module
        assert (name in dir(skpolyode)) == hasattr(module, "__all__")
    from skpolyode import PolyODEForecaster, evaluate_forecasts

    assert PolyODEForecaster is skpolyode.forecasting.PolyODEForecaster
    assert evaluate_forecasts is skpolyode.forecasting.evaluate_forecasts
    with pytest.raises(AttributeError, match="'skpolyode' has no attribute 'PolyODEForcaster'"):
        _ = skpolyode.PolyODEForcaster


def test_what_is_listed_is_public() -> None:
    everything: dict[str, object] = {}
    exec("from skpolyode import *", everything)
    assert {*everything} - {"__builtins__"} == {*skpolyode.__all__}
    modules = {module.__name__.removeprefix("skpolyode.") for module in public_modules()[1:]}
    assert {*dir(skpolyode)} <= {*skpolyode.__all__, *modules}
    assert {"PolyODEForecaster", "evaluate_forecasts", "__version__"} < {*skpolyode.__all__}
    for room in (skpolyode.transformers, skpolyode.models, skpolyode.embedders):
        assert dir(room) == sorted(room.__all__)


def test_import_leaves_no_thread_that_would_keep_the_interpreter_alive() -> None:
    assert after_steps()["threads"] == []


def test_import_does_not_touch_global_state() -> None:
    assert after_steps()["global state is kept"]


def test_files_and_bodies_have_limits() -> None:
    files = modules().values()
    long = {file.file: len(file.code) for file in files if len(file.code) > 400}
    assert not long, "a file has up to 400 lines of code: docstrings are free"
    long = {name: n for file in files for name, n in file.bodies.items() if n > 60}
    assert not long, "bodies have up to 60 lines of code"


def test_version_is_the_newest_in_the_changelog() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == Version(skpolyode.__version__).base_version
    assert headings == sorted(headings, key=Version, reverse=True)


def test_version_is_that_of_the_installed_package() -> None:
    try:
        installed = importlib.metadata.version("skpolyode")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("run from the source tree, without an installation")
    assert installed == skpolyode.__version__, "install again: pip install -e . (or make clean)"


def test_package_is_marked_as_typed() -> None:
    assert Path(skpolyode.__file__).with_name("py.typed").is_file()


@pytest.mark.parametrize("module", public_modules(), ids=lambda module: module.__name__)
def test_module_says_what_it_is_for_and_exports_what_it_has(module: Any) -> None:
    assert (module.__doc__ or "").strip(), f"{module.__name__} has no docstring"
    assert hasattr(module, "__all__") or not hasattr(module, "__path__")
    names = getattr(module, "__all__", [])
    assert len(names) == len(set(names))
    missing = [name for name in names if not hasattr(module, name)]
    assert not missing


def test_public_objects_have_runnable_examples() -> None:
    docs = {
        name: NumpyDocString(docstring(value))
        for name, value in OBJECTS.items()
        # An exception is explained by the functions that raise it.
        if not (inspect.isclass(value) and issubclass(value, BaseException))
    }
    assert len(docs) > 100
    assert not [name for name, doc in docs.items() if not doc["Summary"]], "no summary"
    assert not [name for name, doc in docs.items() if not has_example(doc)], (
        "no section Examples with lines that start with >>>"
    )


def has_example(doc: NumpyDocString) -> bool:
    return any(line.lstrip().startswith(">>>") for line in doc["Examples"])


def test_example_without_prompt_is_noticed() -> None:
    text = "Do it.\n\nExamples\n--------\n{}1 + 1\n2\n"
    assert has_example(NumpyDocString(text.format(">>> ")))
    assert not has_example(NumpyDocString(text.format("")))


def test_docstrings_describe_the_signatures() -> None:
    faults = [
        f"{name}: {fault}"
        for name, function in CALLABLES.items()
        for fault in docstring_faults(function, required=name in OBJECTS)
    ]
    assert not faults, "\n".join(faults)
    assert len(CALLABLES) > 400


def docstring(value: Any) -> str:
    # A class without a docstring of its own must not borrow that of its parent.
    return inspect.cleandoc(value.__doc__ or "")


def docstring_faults(function: Callable[..., Any], required: bool = True) -> list[str]:
    """Say how the section Parameters differs from the signature, in names and in defaults.

    A method may do without the section; where it has one, that has to be right.
    """
    written = {}
    for entry in NumpyDocString(docstring(function))["Parameters"]:
        written |= dict.fromkeys(entry.name.split(", "), entry.type)
    if not written and not required:
        return []
    actual = signature_parameters(function)
    if list(written) != list(actual):
        return [f"documented: {list(written)}; in the signature: {list(actual)}"]
    return [
        f"{key} : {written[key]!r}, but the default is {shown(default)}"
        for key, default in actual.items()
        if not states_default(written[key], default)
    ]


def signature_parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Give the defaults by name, starred as numpydoc writes them, `empty` where there is none."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = inspect.signature(function).parameters.values()
    # A method is reached through its class, so that `self` is still there.
    return {stars.get(p.kind, "") + p.name: p.default for p in parameters if p.name != "self"}


def states_default(text: str, default: Any) -> bool:
    match = re.search(r"default\s*=\s*(.+)$", text)
    if match is None or default is inspect.Parameter.empty:
        return match is None and default is inspect.Parameter.empty
    try:
        value = ast.literal_eval(match[1])
    except (ValueError, SyntaxError):
        return match[1] == shown(default)
    return type(value) is type(default) and value == default


def shown(default: Any) -> str:
    return getattr(default, "__name__", None) or repr(default)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("a : int", r"a : 'int', but the default is 3"),
        ("a : int, default=4", r"but the default is 3"),
        ("a : float, default=3.0", r"but the default is 3"),
        ("b : int, default=3", r"documented: \['b'\]; in the signature: \['a'\]"),
        ("a : int, default=3", None),
    ],
)
def test_wrong_docstring_is_noticed(line: str, fault: str | None) -> None:
    def function(a: int = 3) -> None: ...

    function.__doc__ = f"Do it.\n\nParameters\n----------\n{line}\n    Meaning.\n"
    faults = docstring_faults(function)
    assert (not faults) if fault is None else re.search(fault, faults[0])


def tracked_files() -> Iterator[Path]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f == ".ci" or not (f[0] == "." or f in UNTRACKED)]
        # In a linked work tree .git is a file that holds a path.
        yield from (Path(folder, file) for file in files if file != ".git")


def test_no_file_mentions_a_machine_or_a_package_index() -> None:
    found = []
    for path in tracked_files():
        try:
            lines = path.read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            if match := LOCAL.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    assert not found, "\n".join(found)


def test_local_trace_is_noticed() -> None:
    for trace in ("/" + "work/main", "see /" + "tmp/x", "https://pypi" + ".org/simple"):
        assert LOCAL.search(trace)
    for harmless in ("frame/work", "../tmp", "/workers", "tmp_path / name"):
        assert not LOCAL.search(harmless)
