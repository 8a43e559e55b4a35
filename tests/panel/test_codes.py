"""Numbers that mean "not observed": found in fit, and hidden at every door."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skpolyode import HiPPOTransformer, Panel
from skpolyode.panel.units import codes_of
from skpolyode.structural import StructuralForecaster

RNG = np.random.default_rng(0)
LEVELS = np.round(60 + 10 * RNG.normal(size=400), 1)


def with_code(code, share=0.05, values=LEVELS):
    return np.where(np.arange(len(values)) % round(1 / share) == 1, code, values)


@pytest.mark.parametrize("code", [-999.0, 9999.0, -1e30, np.float64(np.float32(-999.9))])
def test_a_number_far_from_all_others_is_a_code(code):
    assert codes_of(with_code(code)) == [(code, 20)]
    assert codes_of(-with_code(code)) == [(-code, 20)]
    assert codes_of(1e-9 * with_code(code)) == [(1e-9 * code, 20)]  # whatever the unit
    assert codes_of(np.r_[with_code(code), np.nan]) == [(code, 20)]
    assert codes_of(with_code(code, share=0.5)) == [(code, 200)]


def test_several_codes_of_one_channel():
    values = with_code(-9999.0, 0.01, with_code(-999.0, 0.04, with_code(1e5)))
    assert sorted(code for code, _ in codes_of(values)) == [-9999.0, -999.0, 1e5]


def no_codes():
    yield "counts with zeros", RNG.poisson(3, 500)
    yield "rain", np.where(RNG.uniform(size=500) < 0.92, 0, RNG.gamma(0.7, 8, 500).round(1))
    yield "at rest", np.where(RNG.uniform(size=500) < 0.3, 0, 1500 + RNG.normal(0, 5, 500))
    yield "saturated", np.clip(RNG.normal(0, 10, 500), -15, 12).round(1)
    yield "heavy tails", RNG.pareto(1.2, 500).round(1)
    yield "settings", RNG.choice([1.0, 2.0, 5.0, 1000.0], 500)
    yield "two far", np.r_[LEVELS, -999.0, -999.0]
    yield "far, but not the same", np.r_[LEVELS, -999.0, -998.0, -997.0]
    yield "constant", np.full(50, -999.0)
    yield "nothing", np.full(50, np.nan)


@pytest.mark.parametrize(
    ("what", "values"), [*no_codes()], ids=lambda x: x if isinstance(x, str) else ""
)
def test_limits_zeros_tails_and_settings_are_none(what, values):
    assert codes_of(values.astype(float)) == []


def panel_of(values, **options):
    values = values.reshape(20, 20)
    columns = np.stack([values, RNG.normal(size=values.shape)], axis=2)
    return Panel.from_array(columns, channel_names=["hr", "temp"], **options)


@pytest.mark.parametrize(
    "estimator",
    [HiPPOTransformer(n_coefficients=4), StructuralForecaster()],
    ids=lambda one: type(one).__name__,
)
def test_fit_names_the_channel_the_number_and_how_to_hide_it(estimator):
    text = (
        r"channel 'hr' is -999 in 20 cells, far .*'not observed'.* missing=\[-999\] to Panel.from"
    )
    with pytest.warns(UserWarning, match=text):
        estimator.fit(panel_of(with_code(-999.0)))
    estimator.fit(panel_of(with_code(-999.0), missing=[-999]))  # and no warning


@pytest.mark.parametrize("how", ["error", "mean"])
def test_every_door_hides_what_is_missing(how):
    wanted = [[1.0, 4.0], [np.nan, 5.0], [3.0, np.nan]]
    given = np.where(np.isnan(wanted), -999.0, wanted)
    options = {"missing": [-999], "duplicates": how, "channel_names": ["a", "b"]}
    times = np.arange(3.0)
    frame = pd.DataFrame(given, columns=["a", "b"])
    wide = pd.DataFrame({"id": 7, "t": times, "a": given[:, 0], "b": given[:, 1]})
    tidy = wide.melt(["id", "t"], var_name="what", value_name="x")
    nested = pd.DataFrame({"a": [frame["a"]], "b": [frame["b"]]})
    panels = [
        Panel(times, given, [0, 3], **options),
        Panel.from_series([(times, given)], **options),
        Panel.from_frames([frame], **options),
        Panel.from_array(given[None], **options),
        Panel.from_long(wide, id="id", time="t", **options),
        Panel.from_long(tidy, id="id", time="t", channel="what", value="x", **options),
        Panel.from_sktime(nested, **options),
    ]
    for panel in panels:
        np.testing.assert_array_equal(panel.values, wanted)


def test_a_code_is_no_part_of_a_mean():
    """Cells of one moment are merged after the code is hidden."""
    tidy = pd.DataFrame({"id": 0, "t": [0.0, 0.0], "what": "a", "x": [-999.0, 5.0]})
    names = {"id": "id", "time": "t", "missing": [-999], "duplicates": "mean"}
    assert Panel.from_long(tidy, channel="what", value="x", **names).values.item() == 5.0
    assert Panel.from_long(tidy, values="x", **names).values.item() == 5.0
    nested = pd.DataFrame({"a": [pd.Series([-999.0, 5.0], index=[0.0, 0.0])]})
    assert Panel.from_sktime(nested, missing=[-999], duplicates="mean").values.item() == 5.0


def test_what_is_missing_has_no_error_and_is_checked():
    panel = Panel([0.0, 1.0], [-999.0, 2.0], [0, 2], errors=[0.1, 0.2], missing=[-999])
    np.testing.assert_array_equal(panel.errors.ravel(), [np.nan, 0.2])
    with pytest.raises(ValueError, match="all values of its 1 row"):
        Panel([0.0], [-999.0], [0, 1], missing=[-999])
    with pytest.raises(TypeError, match=r"missing must be numbers, such as \[-999\], got \['x'\]"):
        Panel([0.0], [1.0], [0, 1], missing=["x"])
