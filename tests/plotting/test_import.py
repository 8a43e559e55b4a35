from __future__ import annotations

from tests.fresh import after_steps


def test_matplotlib_is_loaded_by_the_first_plot_and_pyplot_by_the_first_own_figure() -> None:
    loaded = after_steps()
    assert {"matplotlib", "sktime"}.isdisjoint(loaded["skpolyode.plotting"])
    assert "matplotlib.pyplot" not in loaded["plot into given axes"]
    assert "matplotlib.pyplot" in loaded["plot"]
