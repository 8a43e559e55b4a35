"""The scripts of the gallery run, on a handful of series; `make docs` runs them in full."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SIZE = {"N_TRAIN": 8, "N_TEST": 4, "N_SERIES": 16, "N_EPOCHS": 1}


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize(
    "name",
    [
        "backward_in_time",
        pytest.param("noisy_observations", marks=pytest.mark.slow),
        "reconstruct_the_past",
        pytest.param("reverse_reconstruction_by_method", marks=pytest.mark.slow),
    ],
)
def test_script_prints_errors_and_draws(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    code = (EXAMPLES / f"{name}.py").read_text("utf-8")
    names, sizes = re.search(r"^(N_.*) = ([\d, ]+)$", code, re.MULTILINE).groups()
    small = ", ".join(str(SIZE[key]) for key in names.split(", "))
    code = code.replace(f"{names} = {sizes}", f"{names} = {small}")
    exec(compile(code, name, "exec", dont_inherit=True), {"__name__": "script"})
    assert len(plt.get_fignums()) == 1
    plt.close("all")
    printed = capsys.readouterr().out
    assert re.search(r"\d\.\d", printed)
    assert "nan" not in printed.lower()
