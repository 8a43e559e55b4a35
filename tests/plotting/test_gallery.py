"""The scripts of the gallery run, on a handful of series."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    "name",
    [
        "backward_in_time",
        "noisy_observations",
        "reconstruct_the_past",
        "reverse_reconstruction_by_method",
    ],
)
def test_script_prints_errors_and_writes_its_figure(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    script = importlib.import_module(name)
    for size, small in {"N_TRAIN": 5, "N_TEST": 2, "N_EPOCHS": 1}.items():
        monkeypatch.setattr(script, size, small)
    monkeypatch.setattr("sys.argv", [name, "--output", str(tmp_path / "new")])
    script.main()
    assert (tmp_path / "new" / f"{name}.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "x" in printed
    assert "nan" not in printed
