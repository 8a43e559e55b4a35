from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import skpolyode, skpolyode.plotting
print("matplotlib" in sys.modules, "sktime" in sys.modules)
import matplotlib
matplotlib.use("agg")
from skpolyode.plotting import CoefficientDisplay
from matplotlib.figure import Figure
CoefficientDisplay([1.0, 2.0]).plot(Figure().add_subplot())
print("matplotlib.pyplot" in sys.modules)
CoefficientDisplay([1.0, 2.0]).plot()
print("matplotlib.pyplot" in sys.modules)
"""


def test_matplotlib_is_loaded_by_the_first_plot_and_pyplot_by_the_first_own_figure() -> None:
    command = [sys.executable, "-W", "error", "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "False", "False", "True"]
