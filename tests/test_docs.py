"""What the pages of the documentation and the examples show can be run."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt

import skpolyode
from benchmarks.paper import hyperparameters
from tests.quick import no_stacking, whole_fits

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EPOCHS = re.compile(r"max_epochs=\d+")
TEXTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PAGES = [page for page in TEXTS if BLOCK.search(page.read_text("utf-8"))]
LONG = {"answers.md", "big_data.md", "classification.md", "forecasting.md", "getting_started.md"}
LONG |= {"imputation.md"}
RUNS = [pytest.param(page, "all", marks=pytest.mark.slow, id=f"{page.name}-all") for page in PAGES]
RUNS += [pytest.param(page, "one", id=page.name) for page in PAGES if page.name not in LONG]
# Tools of the pages: what code prints, and the commands of tables.
sys.path.insert(0, str(ROOT / "docs"))
names = ("outputs", "table_commands", "diagrams", "benchmark_summary", "transformer_matrix")
outputs, tables, diagrams, summary, matrix = map(importlib.import_module, names)
page_tables = importlib.import_module("page_tables")
paper = importlib.import_module("paper_summary")
sys.path.pop(0)


# What needs that stage of a fit.
STACKED = re.compile("stacking|sample_paths|crossing_times|Forecast(er|Display)|_interval|_quant")


@pytest.mark.usefixtures("close_figures")
@pytest.mark.parametrize(("page", "n_epochs"), RUNS)
def test_code_of_the_page_runs(
    page: Path, n_epochs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8")
    shown = sum(line.startswith("```python") for line in text.splitlines())
    assert len([*outputs.blocks(text)]) == shown  # none is passed over
    is_whole = n_epochs == "all" or not EPOCHS.search(text)
    faults = []
    asks_for_it = any(STACKED.search(block.code) for block in outputs.blocks(text))
    with ExitStack() as shorter:
        if is_whole:
            shorter.enter_context(whole_fits())
        elif not asks_for_it:
            shorter.enter_context(no_stacking())
        for block, printed in outputs.run(page, str if is_whole else one_epoch):
            is_right = outputs.is_near if is_whole else both_or_none
            if not is_right(block.shown, printed):
                faults.append(f"line {block.line}: shown is\n{block.shown}printed was\n{printed}")
    if page.name not in outputs.ELSEWHERE:
        assert not faults, "\n".join([*faults, "python docs/outputs.py --write writes outputs"])


def one_epoch(code: str) -> str:
    """The same code, faster."""
    return EPOCHS.sub("max_epochs=1", code)


def both_or_none(shown: str, printed: str) -> bool:
    """What an epoch more or less does not change."""
    return bool(shown) == bool(printed)


def test_outputs_are_compared_by_words_and_near_numbers() -> None:
    shown = "PolyODE 0.98 [-0.3 1.2]\n(30, 66)\n"
    assert outputs.is_near(shown, "PolyODE  1.0 [ 0.3e-1 1.25]\n(30, 66)\n") is False
    assert outputs.is_near(shown, "PolyODE   0.97 [-0.28  1.25]\n(30,\n 66)\n")
    for wrong in ("(30, 67)", "(30,)", "(40, 66)"):
        assert not outputs.is_near(shown, shown.replace("(30, 66)", wrong))
    assert not outputs.is_near(shown, shown.replace("PolyODE", "HiPPO"))
    assert not outputs.is_near(shown, shown.replace("0.98", "0.78"))


def test_outputs_are_written_beneath_the_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    old = "a\n\n```python\nx = 2\nprint(x)\n```\n\n```text\n1\n```\n\nb\n\n```python\nx += 1\n```\n"
    page.write_text(old + "\n```text\ngone\n```\n\nc\n\n```python\nprint(x)\n```\n", "utf-8")
    new = old.replace("\n1\n", "\n2\n") + "\nc\n\n```python\nprint(x)\n```\n\n```text\n3\n```\n"
    assert outputs.rewritten(page) == new


def test_pictures_that_a_page_shows_are_kept(tmp_path: Path) -> None:
    (static := tmp_path / "static").mkdir()
    for name in ("shown.png", "other.png"):
        (tmp_path / name).write_bytes(name.encode())
    outputs.keep_pictures("![x](_static/shown.png)\n", tmp_path, static)
    assert [path.read_bytes() for path in static.iterdir()] == [b"shown.png"]


def test_diagrams_are_those_of_their_script() -> None:
    for name, diagram in diagrams.DIAGRAMS.items():
        assert (ROOT / f"docs/_static/{name}.svg").read_text("utf-8") == diagrams.svg(*diagram)


NO_PICTURE = {"paper", "changelog", "troubleshooting", "glossary"}


def test_every_guide_opens_with_its_picture() -> None:
    guide = (ROOT / "docs" / "guide.rst").read_text("utf-8")
    pages = re.findall(r"^   (\w+)$", guide, re.MULTILINE)
    guides = [page for page in pages if page not in NO_PICTURE]
    openings = {page: opening_of(ROOT / "docs" / f"{page}.md") for page in guides}
    assert len(guides) > 20
    assert [page for page, text in openings.items() if "](_static/" not in text] == []


def opening_of(page: Path) -> str:
    """Text of a page before its first heading below the title, and before its code."""
    return re.split(r"^(?:## |```python)", page.read_text("utf-8"), maxsplit=1, flags=re.M)[0]


COMMAND = re.compile(r"python -m benchmarks\.([a-z_]+(?:\.[a-z_]+)?)")


def test_every_command_of_a_page_is_one_of_the_tables() -> None:
    text = "\n".join(page.read_text("utf-8") for page in TEXTS)
    shown = set(COMMAND.findall(text))
    known = {table.script for table in tables.TABLES.values()}
    assert shown - OWN_CHECKS <= known
    assert len(shown) > 15


OF_A_PART = "--static --package skpolyode/memory"  # not of all files, which takes seconds


def test_a_table_is_run(monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "sys.argv", ["table_commands.py", "--only", "structure", "labels", "--quick"]
    )
    monkeypatch.setitem(tables.TABLES, "structure", tables.Table("structure", quick=OF_A_PART))
    assert tables.main() == 0
    out = capsys.readouterr().out
    assert "structure: works" in out
    assert "labels: left out" in out
    broken = tables.Table("no_such_script")
    monkeypatch.setitem(tables.TABLES, "structure", broken)
    assert tables.main() == 1


def test_a_table_goes_into_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert tables.header(["/bin/python3", "-m", "x", "--data", "/home/me"]).startswith(
        "`python -m x --data FOLDER` at "
    )
    (shown := tmp_path / "shown").mkdir()
    other = tmp_path / "other"
    monkeypatch.setattr(page_tables, "PAGES", shown)
    command = ["table_commands.py", "--only", "structure", "--output", str(other)]
    monkeypatch.setattr("sys.argv", command)
    monkeypatch.setitem(tables.TABLES, "structure", tables.Table("structure", OF_A_PART))
    tables.main()
    text = (other / "structure.md").read_text("utf-8")  # no page shows it
    assert text.startswith(f"`python -m benchmarks.structure {OF_A_PART}` at ")
    page = "a\n\n<!-- table: structure -->\nold\n\n<!-- end of table -->\n\nb\n"
    (shown / "page.md").write_text(page, "utf-8")
    (other / "structure.md").unlink()
    tables.main()
    assert page_tables.read("structure").startswith(f"`python -m benchmarks.structure {OF_A_PART}`")
    assert page_tables.without_tables((shown / "page.md").read_text("utf-8")) == "a\n\n\n\nb\n"
    assert not (other / "structure.md").exists()


def test_parts_of_a_table_go_to_their_places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(page_tables, "PAGES", tmp_path)
    block = "<!-- table: {} -->\n{}\n\n<!-- end of table -->"
    names = ("a", "a, late", "ab")
    (tmp_path / "page.md").write_text("\n\n".join(block.format(x, "x") for x in names), "utf-8")
    page_tables.write("a", r"| \1 |" + "\n\n<!-- late -->\n| x2 |\n")
    assert page_tables.blocks() == {"a": "| \\1 |\n", "a, late": "| x2 |\n", "ab": "x\n"}
    assert page_tables.read("a") == "| \\1 |\n\n| x2 |\n"


FROM_FILES = {
    "summary",
    "transformers",
    "paper_claims",
    "paper_printed",
    "paper_mimic",
}  # by scripts of docs/, without a commit
HEADER = re.compile(r"`python -m benchmarks\.[^`]+` .*\b[0-9a-f]{7,8}\b.*, 20\d\d-\d\d-\d\d:\n\n")
DECIMAL = re.compile(r"(?<![\w.])\d*\.\d")
NOT_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
NOT_PROSE = re.compile(r"^```.*?^```$|`[^`]*`|\$[^$]*\$", re.DOTALL | re.MULTILINE)


def test_tables_of_pages_say_where_they_come_from() -> None:
    text = "\n".join(page.read_text("utf-8") for page in TEXTS)
    titles = re.findall("^<!-- table: (.*) -->$", text, re.MULTILINE)
    assert sorted(titles) == sorted(page_tables.blocks())  # a figure stands on one page
    names = {title for title in titles if ", " not in title}
    assert len(names) > 40
    for name in names - FROM_FILES:
        assert HEADER.match(page_tables.read(name)), name
    for name in names & set(tables.TABLES):
        command = tables.TABLES[name].command(quick=False, data=Path(), folder="x")
        start = tables.header(command).partition(" at ")[0]
        assert page_tables.read(name).startswith(start), name


def typed_figures(text: str) -> list[str]:
    """Lines of a page with a decimal number in prose or in a table that no command writes."""
    prose = NOT_PROSE.sub("", page_tables.without_tables(text)).splitlines()
    return [line for line in prose if DECIMAL.search(line)]


def test_figures_of_benchmarks_are_from_files() -> None:
    for page in ("benchmarks", "crossings", "forecasting", "imputation", "inputs", "streaming"):
        assert typed_figures((ROOT / "docs" / f"{page}.md").read_text("utf-8")) == [], page
    paper = (ROOT / "docs" / "paper.md").read_text("utf-8")
    assert [line for line in typed_figures(paper) if line.startswith("|")] == []


# What readers stumble over; pages are added as they are rewritten.
REREAD = "benchmarks classification ensemble internals intervals paper theory which_embedding"
REREAD += " getting_started forecasting imputation data_formats crossings streaming inputs answers"
REREAD += " troubleshooting glossary displays coming_from saving"
REREAD += " reproducibility big_data datasets siblings extending extending_models"
STUMBLES = re.compile(r"\b(errs?|told|untold|tells? of|losses first|leans? on)\b|(?<![\w.)/])\.\d")


@pytest.mark.parametrize("name", REREAD.split())
def test_words_of_no_dialect(name: str) -> None:
    text = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    text = NOT_PROSE.sub("", page_tables.without_tables(text))
    assert [line for line in text.splitlines() if STUMBLES.search(line)] == []


def test_typed_figures_are_noticed() -> None:
    text = "an error of 0.28\n\n| a | .3 |\n\n`0.5` and 5 %\n\n```text\n0.1\n```\n"
    assert typed_figures(text) == ["an error of 0.28", "| a | .3 |"]
    assert STUMBLES.search("PolyODE errs")
    assert STUMBLES.search("an error of .08")
    assert not STUMBLES.search("an error of 0.083")


def test_tables_from_other_files_are_those_of_their_scripts() -> None:
    written = page_tables.blocks()
    assert written["summary"] == summary.summary()
    assert written["transformers"] == matrix.matrix()
    for name in paper.WRITTEN:
        assert written[name].strip() == paper.text(name).strip()
    assert written["paper_hyperparameters"].endswith("\n".join(["", *hyperparameters.table(), ""]))


def test_numbers_of_the_papers_settings_are_read() -> None:
    setting = paper.SETTINGS[0]
    table = page_tables.read("paper").partition("Synthetic, rate 0.7")[2]
    (own,) = re.findall(r"^\| PolyODE \| (.*) \|$", table.partition("\n</details>")[0], re.M)
    found = [
        paper.summary()[setting, "PolyODE", own.metric].text(own.decimals) for own in paper.COLUMNS
    ]
    assert own.split(" | ")[:4] == found
    assert (setting, "SummaryStats", paper.PAST) not in paper.summary()
    least, name = paper.best(setting, ("SummaryStats", "mean", "last value"), paper.PAST)
    assert (least, name) == (paper.error(setting, "mean", paper.PAST), "mean")


def test_solvers_are_compared_by_the_seconds_of_an_epoch() -> None:
    seconds = paper.solver_seconds()
    assert seconds["dopri5"] == (149 / 6, 23286 / 250)
    assert seconds["euler, 0.05"] == (0, 816 / 250)  # it diverges here
    assert "rk4, 0.5" not in seconds


def test_a_task_is_compared_with_the_best_of_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "`x`:\n\n| set | k | PolyODE | lines | mean | CPU s |\n|-|-|-|-|-|-|\n"
    text += "| a | 1 | **0.5** | 0.25 (0.2 to 0.3) | 1 000 | 7 |\n"
    page = f"<!-- table: toy -->\n{text}\n<!-- end of table -->\n"
    (tmp_path / "page.md").write_text(page, "utf-8")
    monkeypatch.setattr(page_tables, "PAGES", tmp_path)
    task = summary.Task("t", "d", "toy/set", "a, 1", "PolyODE", across=True, keys=2)
    found = summary.result(task)
    assert found[:3] == ("0.5", "0.25", "lines")
    assert (found.ratio, found.verdict) == (2, "worse")
    found = summary.result(task._replace(is_score=True))
    assert (found.name, found.verdict) == ("mean", "worse")
    with pytest.raises(ValueError, match="a table 'toy' with a part that starts with 'no'"):
        summary.cells_of("toy/no")


OWN_CHECKS = {"paper.mimic", "paper.physionet", "paper", "gradient_step", "glucose"}
WORDS = {"README.md": 2000, "benchmarks.md": 2000, "theory.md": 3000}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_guides_are_short(page: Path) -> None:
    text = page_tables.without_tables(page.read_text("utf-8"))
    assert len(text.split()) <= WORDS.get(page.name, 1500)


SITE_ONLY = {"index.md"}  # what Sphinx needs, and no reader of the repository
DIRECTIVE = re.compile(r"^(:::|```\{)|\{[a-z]+\}`|\(gallery/|^\([a-z-]+\)=$", re.MULTILINE)
PICTURES = 1_500_000  # bytes, of all pictures of the pages


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_pages_can_be_read_in_the_repository(page: Path) -> None:
    """A plain renderer shows every table, picture and link, and no text of a directive."""
    if page.name in SITE_ONLY:
        return
    text = page.read_text("utf-8")
    assert DIRECTIVE.findall(text) == []
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    inside = [own for token in tokens for own in token.children or ()]
    rows = sum(token.type == "tr_open" for token in tokens)
    lines = [line for line in NOT_CODE.sub("", text).splitlines() if line.startswith("|")]
    assert rows == len([line for line in lines if not re.fullmatch(r"[|: -]*-[|: -]*", line)])
    shown = [token.attrs["src"] for token in inside if token.type == "image"]
    assert len(shown) == text.count("![")
    links = [token.attrs["href"] for token in inside if token.type == "link_open"]
    for target in [*shown, *links]:
        path, _, anchor = str(target).partition("#")
        if path.startswith("https:"):
            continue
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def anchors(page: Path) -> set[str]:
    """Places of a page that links lead to: its headings, as web views of repositories name them."""
    headings = re.findall(r"^#+ (.*)$", NOT_CODE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def test_pictures_of_pages_are_small() -> None:
    text = "\n".join(page.read_text("utf-8") for page in TEXTS)
    static = {*(ROOT / "docs" / "_static").iterdir()}
    assert {path.name for path in static - {ROOT / "docs/_static/pages.css"}} == {
        *re.findall(r"_static/(\w+\.\w+)\)", text)
    }
    assert sum(path.stat().st_size for path in static) < PICTURES


DEEP = {"extending.md", "extending_models.md"}  # recipes for those who add to the package
SHOWN = {page: "\n".join(BLOCK.findall(page.read_text("utf-8"))) for page in PAGES}
SHOWN |= {path: path.read_text("utf-8") for path in sorted((ROOT / "examples").glob("*.py"))}


def faults_of_imports(code: str, *, may_be_deep: bool) -> list[str]:
    """Imports of this package that reach past a shorter public name, or for a private one."""
    faults = []
    for node in ast.walk(ast.parse(code)):
        module = getattr(node, "module", None) or ""
        if not isinstance(node, ast.ImportFrom) or module.partition(".")[0] != "skpolyode":
            continue
        parents = [".".join(module.split(".")[:k]) for k in range(1, module.count(".") + 2)]
        for name in (alias.name for alias in node.names):
            public = (own for own in parents if name in public_names(own))
            shortest = next(public, module if may_be_deep else None)
            if shortest != module:
                faults.append(f"from {module} import {name}, which is public in {shortest}")
    return faults


def public_names(module: str) -> set[str]:
    """What a module promises; deeper ones promise nothing."""
    if module == "skpolyode":
        return {*skpolyode.__all__, *dir(skpolyode)}
    if module.count(".") > 1:
        return set()
    return set(getattr(importlib.import_module(module), "__all__", ()))


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_imports_that_are_shown_are_the_public_ones(path: Path) -> None:
    assert not faults_of_imports(SHOWN[path], may_be_deep=path.name in DEEP)


def test_deep_imports_are_noticed() -> None:
    code = "from skpolyode.panel import Panel, as_panel\nfrom skpolyode.panel.units import Units\n"
    assert faults_of_imports(code, may_be_deep=False) == [
        "from skpolyode.panel import Panel, which is public in skpolyode",
        "from skpolyode.panel.units import Units, which is public in None",
    ]
    deep = "from skpolyode.forecasting.forecaster import PolyODEForecaster"
    assert "is public in skpolyode" in faults_of_imports(deep, may_be_deep=True)[0]
    deep = "from skpolyode.panel.select import take\nfrom skpolyode.panel.convert import as_panel"
    (fault,) = faults_of_imports(deep, may_be_deep=True)
    assert fault.endswith("import as_panel, which is public in skpolyode.panel")


def test_quick_start_of_the_readme_is_the_example() -> None:
    example = (ROOT / "examples" / "quick_start.py").read_text("utf-8")
    _, _, code = example.partition("from __future__ import annotations\n\n")
    assert code in {block[1] for block in BLOCK.finditer((ROOT / "README.md").read_text("utf-8"))}


def test_notebooks_install_what_the_gallery_imports() -> None:
    (line,) = re.findall(r"%pip install -q (.*)',", (ROOT / "docs" / "conf.py").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = " ".join(
        [line, *project["dependencies"], *project["optional-dependencies"]["classify"]]
    )
    for path in (ROOT / "examples").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names:
                assert name.replace("sklearn", "scikit-learn") in needed, f"{path.name}: {name}"


def test_the_readme_names_both_commands_early() -> None:
    """One runs the main job, the other passes the tests; each makes its environment."""
    start = (ROOT / "README.md").read_text("utf-8").partition("\n## A first look")[0]
    assert {"make demo", "make test"} <= {line.partition("  ")[0] for line in start.splitlines()}


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text("utf-8"))
    assert links
    assert not [link for link in links if not (ROOT / link).is_file()]


def run_demo(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **sizes: int
) -> dict[str, list[float]]:
    """Run a script of `make demo` with fewer series; the numbers of each row of its table."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    demo = importlib.import_module(name)
    for size, value in sizes.items():
        monkeypatch.setattr(demo, size, value)
    monkeypatch.setattr("sys.argv", [f"{name}.py", "--output", str(folder)])
    with no_stacking():
        demo.main()
    (picture,) = folder.glob("*.png")
    assert picture.stat().st_size > 10_000
    rows = [re.fullmatch(r"(.*?)((?:  +[\d.]+)+)", line) for line in table_of(folder).splitlines()]
    return {row[1]: [float(x) for x in row[2].split()] for row in rows if row}


def table_of(folder: Path) -> str:
    (file,) = folder.glob("*.txt")
    return file.read_text("utf-8")


def test_demo_runs_what_is_tested_here() -> None:
    (lines,) = re.findall(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert re.findall(r"examples/(\w+)\.py", lines) == [
        "drifting_buoys",
        "glucose_under_meals",
        "gaps_of_storms",
    ]


def test_demo_of_buoys_compares_paths_and_classifiers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = run_demo("drifting_buoys", tmp_path, monkeypatch, N_BUOYS=60, N_TRAIN=40)
    assert table_of(tmp_path) in capsys.readouterr().out
    assert len(rows) == 8
    assert rows["PolyODE"] < rows["PCHIP"] < rows["straight lines"]
    assert all(0 <= rows[name][0] <= 1 for name in rows if ", " in name)


@pytest.mark.slow
def test_demo_of_glucose_shows_what_meals_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = run_demo("glucose_under_meals", tmp_path, monkeypatch, N_PATIENTS=20, N_TRAIN=16)
    assert table_of(tmp_path) in capsys.readouterr().out
    assert list(rows) == [
        "PolyODE with meals",
        "boosted trees with meals",
        "PolyODE without meals",
        "PolyODE with meals, combined",
        "last reading",
    ]
    assert all(len(row) == 4 for row in rows.values())
    assert np.mean(rows["PolyODE with meals"]) < np.mean(rows["PolyODE without meals"])


def test_demo_of_storms_is_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = run_demo("gaps_of_storms", tmp_path, monkeypatch, N_TRAIN=30)
    assert table_of(tmp_path) in capsys.readouterr().out
    assert rows["cubic spline"] < rows["PCHIP"] < rows["PolyODE"]
