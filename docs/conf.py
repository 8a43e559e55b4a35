"""Settings of the documentation, and the pages of the API reference."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import skpolyode

HERE = Path(__file__).parent

project = "skpolyode"
author = "the skpolyode developers"
project_copyright = author
version = release = skpolyode.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "code"

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = f"skpolyode {release}"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"show_prev_next": False, "footer_end": []}


def is_documented(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)


def topics() -> dict[str, list[str]]:
    """Names of everything public, each under the module below the root that it comes from.

    A name is as short as an import allows: what the root exports too is listed without module.
    """
    found: dict[str, dict[int, str]] = {}
    modules = [m.name for m in pkgutil.iter_modules(skpolyode.__path__) if m.name[0] != "_"]
    for module in modules:
        exports = importlib.import_module(f"skpolyode.{module}")
        objects = ((key, getattr(exports, key)) for key in getattr(exports, "__all__", ()))
        found[module] = {id(x): f"{module}.{key}" for key, x in objects if is_documented(x)}
    for key in skpolyode.__all__:
        value = getattr(skpolyode, key)
        if is_documented(value):
            found[value.__module__.split(".")[1]][id(value)] = key
    return {module: sorted(names.values()) for module, names in found.items() if names}


def topic_page(module: str, names: list[str]) -> str:
    """One page of the reference; its title is the module's first line up to a colon."""
    doc = inspect.getdoc(importlib.import_module(f"skpolyode.{module}")) or module
    summary = " ".join(doc.partition("\n\n")[0].split())
    title = summary.split(":")[0].rstrip(".")
    lines = [title, "=" * len(title), "", ".. currentmodule:: skpolyode", "", summary, ""]
    lines += [".. autosummary::", "   :toctree: ../api", "", *(f"   {name}" for name in names)]
    return "\n".join(lines) + "\n"


def write_topic_pages() -> None:
    """Write the reference from the exports, so that an export is all that a new name needs."""
    folder = HERE / "generated" / "topics"
    folder.mkdir(parents=True, exist_ok=True)
    for module, names in topics().items():
        (folder / f"{module}.rst").write_text(topic_page(module, names), encoding="utf-8")


def skip_foreign_member(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what a class inherits from scikit-learn, torch, sktime or the language."""
    if what != "class":
        return None
    # A property or cached property knows its module only through the function inside.
    inside = getattr(member, "fget", None) or getattr(member, "func", None)
    function = inside or inspect.unwrap(member)
    return None if str(getattr(function, "__module__", "")).startswith("skpolyode") else True


def setup(app: Sphinx) -> None:
    write_topic_pages()
    app.connect("autodoc-skip-member", skip_foreign_member)
