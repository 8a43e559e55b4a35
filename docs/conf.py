"""Settings of the documentation, and the pages of the API reference."""

from __future__ import annotations

import importlib
import inspect
import operator
import pkgutil
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import skpolyode
import skpolyode.datasets
import skpolyode.inspection
import skpolyode.plotting

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
    "sphinx-mathjax-offline",  # formulas show without a network
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
    "myst_parser",
]
exclude_patterns = [
    "_build",
    "_templates",
    "**/sg_execution_times.rst",
    "sg_execution_times.rst",
]
templates_path = ["_templates"]
default_role = "code"

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_typehints = "none"
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = f"skpolyode {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme_options = {
    "footer_end": [],
    "header_links_before_dropdown": 3,
    "navigation_depth": 2,
    "show_nav_level": 1,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
}
html_sidebars = {"index": [], "changelog": []}

# Scripts of examples/ are run, and shown with what they print and draw. The others are those of
# `make demo`, and the first one of the README.
_NOT_RUN = "drifting_buoys|gaps_of_storms|glucose_under_meals|quick_start"
SCRIPT = re.compile(rf"\]\((?:\.\./)?examples/(?!{_NOT_RUN})(\w+)\.py\)")
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": rf"({_NOT_RUN})\.py$",
    "within_subsection_order": "ExampleTitleSortKey",
    "reference_url": {"skpolyode": None},
    "remove_config_comments": True,
    # Notebooks run anywhere after this.
    "first_notebook_cell": '%pip install -q "skpolyode[classify]" mpmath torchdiffeq',
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,
    "plot_gallery": True,
    "abort_on_example_error": True,
    "copyfile_regex": "",
    "matplotlib_animations": False,
}


_INSIDE = ("fget", "func", "__func__")  # of properties, cached ones, class and static methods


def is_own(member: Any) -> bool:
    """Whether a member of a class is from this package."""
    # These know their module only through the function inside.
    inside = next(filter(None, (getattr(member, k, None) for k in _INSIDE)), None)
    if isinstance(inside, operator.attrgetter):  # a property that reads a field
        return True
    function = inside or inspect.unwrap(member)
    return str(getattr(function, "__module__", "")).startswith("skpolyode")


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


# What users need, by what they want to do; everything else is listed by module.
PURPOSES = {
    "Features of series": [
        "PolyODETransformer",
        "HiPPOTransformer",
        "InterpolationTransformer",
        "LegendreFitTransformer",
        "SummaryStatsTransformer",
        "StaticFeatures",
        "ODERNNTransformer",
        "GRUODEBayesTransformer",
        "LinODENetTransformer",
        "NeuralRDETransformer",
        "S4Transformer",
        "HiPPORNNTransformer",
        "PastDecoder",
    ],
    "Labels and numbers": ["PolyODEClassifier", "PolyODERegressor", "heads.MiniRocket"],
    "Gaps and regular grids": ["PanelImputer", "Resampler"],
    "Questions to a path": ["questions.Path"],
    "Forecasts": [
        "PolyODEForecaster",
        "structural.StructuralForecaster",
        "evaluate_forecasts",
    ],
    "Series as data": [
        "Panel",
        "Inputs",
        "panel.calendar_inputs",
        "panel.Series",
        "panel.as_panel",
        "panel.query_times",
    ],
    "Data sets": [f"datasets.{name}" for name in skpolyode.datasets.__all__],
    "What drove an answer": [f"inspection.{name}" for name in skpolyode.inspection.__all__],
    "Pictures": [f"plotting.{name}" for name in skpolyode.plotting.__all__],
    "Streams": ["streams.HiPPOStream", "streams.ModelStream"],
    "Files, big data, reports": [
        "load",
        "parquet.sample_dataset",
        "parquet.embed_dataset",
        "show_versions",
    ],
    "Inside sktime's pipelines": ["adapters.SeriesFeatures"],
}


# Where new exports of a module go, after what is listed above.
HOMES = {
    "transformers": "Features of series",
    "heads": "Labels and numbers",
    "forecasting": "Forecasts",
    "futures": "Forecasts",
    "streams": "Streams",
    "inspection": "What drove an answer",
    "parquet": "Files, big data, reports",
    "adapters": "Inside sktime's pipelines",
}


def page(title: str, summary: str, names: list[str]) -> str:
    """One page of the reference."""
    lines = [title, "=" * len(title), "", ".. currentmodule:: skpolyode", "", summary, ""]
    lines += [".. autosummary::", "   :toctree: ../api", "", *(f"   {name}" for name in names)]
    return "\n".join(lines) + "\n"


def overview(pages: dict[str, str]) -> str:
    """Every name of the reference with one line on it, under the titles of the pages."""
    tables = []
    for text in pages.values():
        title, _, rest = text.partition("\n")
        table = rest.partition("\n\n")[2].replace("   :toctree: ../api\n", "")
        tables += [title, "~" * len(title), "", table]
    return "\n".join(tables)


def pages() -> dict[str, str]:
    """Give all pages of the reference by file name: first by purpose, then the rest by module."""
    by_module = topics()
    listed = {name for names in PURPOSES.values() for name in names}
    purposes = {title: list(names) for title, names in PURPOSES.items()}
    for module, title in HOMES.items():
        purposes[title] += [name for name in by_module[module] if name not in listed]
    found = {}
    for title, names in purposes.items():
        file = f"for_{len(found):02d}_{title.split()[0].lower().strip(',')}"
        found[file] = page(title, "", names)
    listed = {name for names in purposes.values() for name in names}
    assert listed <= {name for names in by_module.values() for name in names}
    for module, names in by_module.items():
        rest = [name for name in names if name not in listed]
        if rest:
            doc = inspect.getdoc(importlib.import_module(f"skpolyode.{module}")) or module
            found[module] = page(module, " ".join(doc.partition("\n\n")[0].split()), rest)
    return found


def write_pages() -> None:
    """Write the reference from the exports, so that an export is all that a new name needs."""
    folder = HERE / "generated" / "topics"
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in (found := pages()).items():
        (folder / f"{file}.rst").write_text(text, encoding="utf-8")
    (HERE / "generated" / "overview.txt").write_text(overview(found), encoding="utf-8")


def own_members(cls: type) -> dict[str, list[str]]:
    """Methods and properties that a class has from this package, for its page."""
    members = {key: inspect.getattr_static(cls, key) for key in dir(cls) if key[0] != "_"}
    own = [key for key, x in members.items() if is_own(x) and inspect.getdoc(x)]
    methods = [key for key in own if callable(getattr(cls, key))]
    return {"methods": methods, "properties": [key for key in own if key not in methods]}


def own_members_of_all() -> dict[str, dict[str, list[str]]]:
    """Give the same for every exported class, by its name in the reference."""
    names = [name for found in topics().values() for name in found]
    exported = {name: operator.attrgetter(name)(skpolyode) for name in names}
    return {
        f"skpolyode.{name}": own_members(x) for name, x in exported.items() if inspect.isclass(x)
    }


def link_names(app: Sphinx, tree: nodes.document) -> None:
    """Make every name of an exported class or function, in text as code, a link to its page."""
    full = {name.rpartition(".")[2]: name for names in topics().values() for name in names}
    for code in list(tree.findall(nodes.literal)):
        name = full.get(code.astext().removeprefix("skpolyode.").rpartition(".")[2])
        if name is None or isinstance(code.parent, nodes.reference | addnodes.pending_xref):
            continue
        if isinstance(code.parent, nodes.title) or f"skpolyode.{name}" in anchors(tree):
            continue  # a page does not link to itself
        target = {"refdomain": "py", "reftype": "obj", "reftarget": f"skpolyode.{name}"}
        link = addnodes.pending_xref("", refexplicit=True, refwarn=True, **target)
        link["refdoc"] = app.env.current_document.docname
        code.replace_self(link)
        link += code


def anchors(tree: nodes.document) -> set[str]:
    """Names that a page itself describes."""
    return {name for sign in tree.findall(addnodes.desc_signature) for name in sign["ids"]}


def read_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn plain pages into those of the site: README comes first, scripts are in the gallery."""
    if name == "changelog":
        source[0] = (HERE.parent / "CHANGELOG.md").read_text("utf-8")
    if name == "index":
        readme = (HERE.parent / "README.md").read_text("utf-8")
        inside = readme.replace("](CHANGELOG.md)", "](changelog.md)").replace("](docs/", "](")
        source[0] = source[0].replace("```{toc", inside + "\n```{toc")
    text = source[0].replace("](../CHANGELOG.md)", "](changelog.md)")
    text = re.sub(r"\[(.*?)\]\((?:\.\./)?[A-Z]+\.md\)", r"\1", text)  # not on the site
    source[0] = SCRIPT.sub(r"](gallery/\1)", text.replace("](../examples)", "](gallery/index)"))


def skip_foreign_member(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what a class inherits from scikit-learn, torch, sktime or the language."""
    if what != "class":
        return None
    return None if is_own(member) else True


def setup(app: Sphinx) -> None:
    write_pages()
    app.connect("source-read", read_page)
    app.connect("autodoc-skip-member", skip_foreign_member)
    app.connect("doctree-read", link_names)
    app.config.autosummary_context = {"own": own_members_of_all()}
    app.config.mathjax_path = "mathjax/tex-svg.js"  # no fonts, which pages from a disk may not load
