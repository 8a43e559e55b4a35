"""The command that makes every table of the paper."""

from __future__ import annotations

import pytest

from benchmarks.paper import __main__ as everything
from benchmarks.paper import classification, mimic, solvers
from benchmarks.paper.cells import Setting, Size
from tests.benchmarks.test_physionet_extract import write_stays


def test_a_printed_table_is_kept_and_failures_stop_nothing(tmp_path, monkeypatch, capsys):
    ran = []

    def fails(argv):
        print("half a table")
        raise SystemExit("one cell failed")

    def works(argv):
        ran.append(argv)
        print("a table")

    steps = {
        "cells": everything.Step(fails, has_cells=True),
        "whole": everything.Step(works, "--output {output} --jobs {jobs}", "--quick"),
    }
    monkeypatch.setattr(everything, "STEPS", steps)
    arguments = ["--output", str(tmp_path / "out"), "--jobs", "2"]
    for _ in range(2):
        with pytest.raises(SystemExit, match="cells: one cell failed"):
            everything.main(arguments)
        shown = capsys.readouterr().out
        assert "half a table" in shown
        assert "a table" in shown.partition("## whole")[2]
    assert ran == [["--output", str(tmp_path / "out"), "--jobs", "2"]]  # once
    everything.main([*arguments, "--quick", "--only", "whole"])  # others than the full ones
    assert ran[1] == ["--quick"]


def test_tables_on_own_copies_are_left_out_without_them(tmp_path, capsys):
    everything.main(["--only", "physionet", "mimic", "--output", str(tmp_path)])
    assert capsys.readouterr().out.count("names your own copy") == 2


@pytest.mark.slow
def test_every_table_is_printed(tmp_path, monkeypatch, capsys):
    tiny = {"max_epochs": 1, "n_coefficients": 4, "hidden_size": 4}
    monkeypatch.setattr(classification, "QUICK", Size(20, 1, 1, tiny))
    monkeypatch.setattr(mimic, "QUICK", Size(20, 1, 1, tiny | {"hidden_size": 12}))
    settings = [Setting("Synthetic", 0.7, own) for own in ("paper-code", "independent")]
    monkeypatch.setattr(classification, "settings", lambda size: settings)
    monkeypatch.setattr(solvers, "RUNS", [("exact", "auto")])
    write_stays(tmp_path / "stays", 40)
    arguments = ["--quick", "--physionet", str(tmp_path / "stays"), "--output", str(tmp_path)]
    everything.main(arguments)
    shown = capsys.readouterr().out.split("\n## ")[1:]
    names = [part.partition("\n")[0] for part in shown]
    assert names == list(everything.STEPS)
    for name, part in zip(names, shown, strict=True):
        assert "| --- |" in part or name in ("mimic", "training_speed"), name
    assert "seed 0" in shown[-1]
    size = len((tmp_path / "cells.jsonl").read_text("utf-8"))
    everything.main([*arguments, "--only", "printed", "physionet"])  # nothing is computed again
    assert len((tmp_path / "cells.jsonl").read_text("utf-8")) == size
