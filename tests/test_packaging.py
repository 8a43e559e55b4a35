"""What is said of the package holds: bounds, citation, and what can be left out."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import skpolyode

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOR_USERS = [*PROJECT["dependencies"], *EXTRAS["classify"], *EXTRAS["parquet"], *EXTRAS["sktime"]]


def pins(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text("utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


@pytest.mark.parametrize("requirement", sorted(set(FOR_USERS)))
def test_lower_bound_is_tested_and_there_is_no_upper_bound(requirement: str) -> None:
    needed = Requirement(requirement)
    (bound,) = needed.specifier
    assert bound.operator == ">="
    assert Version(pins("constraints-oldest.txt")[needed.name]) == Version(bound.version)
    assert Version(pins("constraints.txt")[needed.name]) in needed.specifier


def test_citation_names_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == skpolyode.__version__
    assert citation["license"] == PROJECT["license"]


# What conda-forge calls differently.
CONDA = {"matplotlib": "matplotlib-base", "torch": "pytorch"}


def conda_names(requirements: list[str]) -> set[str]:
    parsed = map(Requirement, requirements)
    return {f"{CONDA.get(own.name, own.name)} {own.specifier}".strip() for own in parsed}


def test_conda_recipe_says_what_the_project_says() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text("utf-8"))
    needs, python = recipe["requirements"], f"python {PROJECT['requires-python']}"
    assert recipe["context"]["version"] == skpolyode.__version__
    assert recipe["package"]["name"] == PROJECT["name"]
    assert recipe["source"]["path"] == "../dist/skpolyode-${{ version }}.tar.gz"
    assert set(needs["run"]) == {python} | conda_names(PROJECT["dependencies"])
    users = EXTRAS["classify"] + EXTRAS["parquet"] + EXTRAS["sktime"]
    assert set(needs["run_constraints"]) == conda_names(users)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    assert set(needs["host"]) == {python, "pip"} | conda_names(build)
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]


def test_hosted_ci_runs_the_gate_and_targets_that_exist() -> None:
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    assert flow["jobs"]["test"]["steps"][-1]["run"] == "bash .ci/run"
    targets = flow["jobs"]["weekly"]["strategy"]["matrix"]["target"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert [t for t in targets if re.search(rf"^{t}:", makefile, re.MULTILINE)] == targets


WITHOUT_EXTRAS = """
import sys
sys.modules |= {"pyarrow": None, "sktime": None}
import skpolyode
assert not hasattr(skpolyode, "nothing")
skpolyode.datasets, skpolyode.plotting, skpolyode.evaluate_forecasts
assert not {"PolyODEForecaster", "adapters"} & {*dir(skpolyode), *skpolyode.forecasting.__all__}
for call in (
    "from skpolyode import PolyODEForecaster",
    "from skpolyode.forecasting import PolyODEForecaster",
    "import skpolyode.adapters",
    "skpolyode.datasets.load_plaid()",
    "import skpolyode.parquet",
):
    try:
        exec(call)
    except ImportError as error:
        print(error)
"""


def test_a_missing_extra_is_named() -> None:
    command = [sys.executable, "-c", WITHOUT_EXTRAS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "PolyODEForecaster needs sktime: pip install 'skpolyode[sktime]'.",
        "PolyODEForecaster needs sktime: pip install 'skpolyode[sktime]'.",
        "skpolyode.adapters needs sktime: pip install 'skpolyode[sktime]'.",
        "load_plaid() needs sktime: pip install 'skpolyode[sktime]'.",
        "skpolyode.parquet needs pyarrow: pip install 'skpolyode[parquet]'.",
    ]


def test_versions_name_every_requirement(capsys: pytest.CaptureFixture[str]) -> None:
    skpolyode.show_versions()
    printed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line}
    assert {Requirement(requirement).name for requirement in FOR_USERS} <= printed
