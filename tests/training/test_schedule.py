"""The learning rate over the steps of a training."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode.training import one_cycle


@pytest.mark.parametrize("total", [1, 2, 10, 777])
def test_one_cycle(total):
    rates = np.array([one_cycle(step, total) for step in range(total + 1)])
    peak = rates.argmax()
    assert (rates > 0)[:-1].all()
    assert rates.max() <= 1
    assert (np.diff(rates[: peak + 1]) > 0).all()
    assert (np.diff(rates[peak:]) < 0).all()
    assert peak <= max(1, 0.15 * total)
    if total > 1:
        assert rates[-1] == pytest.approx(0)
        assert rates.max() == 1


def test_one_cycle_with_another_rise():
    assert [one_cycle(step, 8, warm_up=0.5) for step in (0, 3, 4)] == pytest.approx([0.2, 0.8, 1])
