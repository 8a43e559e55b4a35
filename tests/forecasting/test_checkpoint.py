"""The fit of a forecaster that was cut short goes on when it is called again."""

from __future__ import annotations

import pandas as pd
import pytest

from skpolyode.forecasting import PolyODEForecaster
from skpolyode.training import checkpoint, loop
from skpolyode.transformers import PolyODETransformer
from tests.forecasting.conftest import frame, waves

N_EPOCHS = 3

pytestmark = pytest.mark.usefixtures("few_structural_models")


def forecaster(checkpoint_dir=None) -> PolyODEForecaster:
    small = {"n_coefficients": 3, "hidden_layer_sizes": (4,), "horizon": 2}
    transformer = PolyODETransformer(
        **small, max_epochs=N_EPOCHS, validation_fraction=None, checkpoint_dir=checkpoint_dir
    )
    return PolyODEForecaster(transformer, random_state=0)


class Counted:
    """Stands in for the training of an epoch; the one with number `fails` breaks off."""

    def __init__(self, fails: int | None = None) -> None:
        self.n_epochs, self.fails = 0, fails
        self.train_epoch = loop._Run._train_epoch

    def __get__(self, run, owner):
        def train_epoch(epoch: int) -> float:
            if self.n_epochs == self.fails:
                raise RuntimeError("power failure")
            self.n_epochs += 1
            return self.train_epoch(run, epoch)

        return train_epoch


# ten series or more are trained once; of fewer, first all but the ends, then everything
@pytest.mark.parametrize(("n_series", "cut", "still_to_do"), [(10, 2, 1), (2, 2, 1 + N_EPOCHS)])
def test_goes_on(tmp_path, monkeypatch, n_series, cut, still_to_do):
    y = frame(waves(n_series, seed=0, fewest=10))
    ahead = [pd.Timedelta("30min"), pd.Timedelta("3h")]
    expected = forecaster().fit(y).predict(ahead)
    monkeypatch.setattr(checkpoint.Checkpoint.__init__, "__defaults__", (0.0,))  # each epoch
    with monkeypatch.context() as patch:
        patch.setattr(loop._Run, "_train_epoch", Counted(fails=cut))
        with pytest.raises(RuntimeError, match="power failure"):
            forecaster(checkpoint_dir=tmp_path).fit(y)
    assert len(list(tmp_path.iterdir())) == 1
    counted = Counted()
    monkeypatch.setattr(loop._Run, "_train_epoch", counted)
    again = forecaster(checkpoint_dir=tmp_path).fit(y)
    assert counted.n_epochs == still_to_do
    assert not list(tmp_path.iterdir())
    pd.testing.assert_frame_equal(again.predict(ahead), expected, check_exact=True)


def test_it_takes_an_int_to_draw_the_same_numbers(tmp_path):
    with pytest.raises(ValueError, match="checkpoint_dir needs an int as random_state, got None"):
        forecaster(checkpoint_dir=tmp_path).set_params(random_state=None).fit(
            frame(waves(2, seed=0))
        )
