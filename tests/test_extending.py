"""The recipes of `docs/extending*.md`, followed: their code is run, their entries are made."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.interpolate import CubicHermiteSpline, CubicSpline
from sklearn.utils._param_validation import InvalidParameterError, StrOptions
from sklearn.utils.estimator_checks import parametrize_with_checks

import skpolyode
from skpolyode import HiPPOTransformer, InterpolationTransformer, Panel, PolyODETransformer
from skpolyode.embedders.paths import SLOPES
from skpolyode.ensemble.members import MEMBERS
from skpolyode.memory import MEMORIES
from skpolyode.panel import as_panel, convert, is_ragged
from tests.closeness import assert_same_but_for_rounding
from tests.memory import measures
from tests.transformers.data import oscillators, small

ROOT = Path(__file__).resolve().parents[1]
TEXT = "".join(
    (ROOT / "docs" / name).read_text("utf-8") for name in ("extending.md", "extending_models.md")
)
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)
SERIES = oscillators()


def followed() -> ModuleType:
    """The code of the page as a module, which pickles can find."""
    page = ModuleType("skpolyode_page")
    sys.modules[page.__name__] = page
    exec(compile("".join(BLOCKS), "extending.md", "exec", dont_inherit=True), vars(page))
    return page


PAGE = followed()


@pytest.fixture
def slow(monkeypatch):
    """The measure, with its entries."""
    monkeypatch.setitem(MEMORIES, "slow", PAGE.SlowMemory)
    equation = measures.Equation(PAGE.slow_matrices, lambda t: 4 / measures.WINDOW)
    monkeypatch.setitem(measures.EQUATIONS, "slow", equation)
    return "slow"


def test_measure_agrees_with_its_equation(slow):
    rng, size, gaps, start = np.random.default_rng(0), 6, np.array([0.01, 0.6, 7.0]), 0.8
    c = rng.normal(size=(3, 2, size))
    path = measures.random_path(rng, gaps, np.array([1, 3, 4]), 2)
    memory = MEMORIES[slow](size, measures.WINDOW)
    found = memory.follow(torch.from_numpy(c), path, torch.from_numpy(start + gaps))
    for row in range(3):
        expected = measures.solve(slow, c[row], measures.hermite_pieces(path, row), start)
        assert_allclose(found[row], expected, rtol=0, atol=1e-9)


def test_measure_declares_what_is_so(slow):
    memory, gap = MEMORIES[slow](32, 1.7), torch.tensor([16.0 * 1.7], dtype=torch.float64)
    left = memory.propagate(torch.eye(32, dtype=torch.float64)[None], gap, gap)
    assert float(torch.linalg.matrix_norm(left)) < 1e-12
    rates = torch.linalg.eigvals(torch.from_numpy(PAGE.slow_matrices(5)[0])).real
    assert (rates < 0).all()


def test_measure_serves_the_transformer_of_memories(slow):
    embedder = HiPPOTransformer(measure=slow, n_coefficients=8).fit(SERIES)
    assert isinstance(embedder.embedder_.past.memory, PAGE.SlowMemory)
    stream = embedder.stream(len(SERIES))
    for k, (times, values) in enumerate(SERIES):
        stream.update(times, values, series=k)
    assert_allclose(stream.embedding(), embedder.transform(SERIES), atol=1e-11)
    now = embedder.reconstruct(SERIES, [[times[-1]] for times, _ in SERIES]).values[:, 0]
    assert_allclose(now, [values[-1, 0] for _, values in SERIES], atol=0.3)


def test_measure_serves_polyode_once_it_is_named(slow, monkeypatch):
    with pytest.raises(InvalidParameterError, match="'measure' parameter of PolyODETransformer"):
        small(measure=slow).fit(SERIES)
    named = [StrOptions({"legt", "legs", slow})]
    monkeypatch.setitem(PolyODETransformer._parameter_constraints, "measure", named)
    embedder = small(measure=slow).fit(SERIES)
    assert isinstance(embedder.embedder_.past.memory, PAGE.SlowMemory)
    stream = embedder.stream(len(SERIES))
    for k, (times, values) in enumerate(SERIES):
        stream.update(times, values, series=k)
    assert_allclose(stream.embedding(), embedder.transform(SERIES), atol=1e-11)
    ahead = embedder.forecast(SERIES, [4.5, 6.0]).values
    assert_allclose(stream.forecast([4.5, 6.0]).values, ahead, atol=1e-11)


def test_path_interpolates_its_observations(monkeypatch):
    monkeypatch.setitem(SLOPES, "steffen", PAGE.steffen_slopes)
    kinds = [StrOptions({"linear", "steffen"})]  # of the package, from its own list
    monkeypatch.setitem(InterpolationTransformer._parameter_constraints, "kind", kinds)
    embedder = InterpolationTransformer(kind="steffen", n_coefficients=24).fit(SERIES)
    for times, values in SERIES[:4]:
        gaps, rises = np.diff(times), np.diff(values[:, 0]) / np.diff(times)
        slopes = np.zeros(len(times))
        for i in range(1, len(times) - 1):
            before, after = rises[i - 1], rises[i]
            p = (before * gaps[i] + after * gaps[i - 1]) / (gaps[i] + gaps[i - 1])
            if before * after > 0:
                slopes[i] = 2 * np.sign(before) * min(abs(before), abs(after), abs(p) / 2)
        dense = np.linspace(times[0], times[-1], 300)
        found = embedder.interpolate([(times, values)], dense).values[:, 0]
        expected = CubicHermiteSpline(times, values[:, 0], slopes)(dense)
        assert_allclose(found, expected, atol=1e-9)
    own = embedder.interpolate(SERIES).values[:, 0]
    assert_array_equal(own, np.concatenate([values[:, 0] for _, values in SERIES]))
    assert np.isfinite(embedder.transform(SERIES)).all()


def test_a_question_finds_the_last_maximum_of_known_curves():
    """Of splines, in numbers and dates; NaN where a series only rises, or has no observation."""
    rng, series, expected = np.random.default_rng(0), [], []
    for _ in range(5):
        times = np.sort(rng.uniform(0, 9, 14))
        curve = CubicSpline(times, rng.normal(size=14), bc_type="natural")
        roots = curve.derivative().roots(extrapolate=False)
        tops = roots[(curve.derivative(2)(roots) < 0)]
        series.append((times, curve(times)))
        expected.append(times[-1] - tops[-1])
    series += [([0.0, 1.0, 3.0], [0.0, 1.0, 3.0]), ([0.0, 1.0], [np.nan, np.nan])]
    start = pd.Timestamp("2026-03-28", tz="Europe/Berlin")  # the clocks change the next night
    dated = [(start + pd.to_timedelta(t, unit="h"), x) for t, x in series]
    for own, unit in ((series, {}), (dated, {"time_unit": "h"})):
        panel = Panel.from_series(own, empty="keep", **unit)
        path = InterpolationTransformer(kind="cubic").fit(panel).path(panel)
        found = PAGE.time_since_maximum(path)
        assert_allclose(found[:5], expected, atol=1e-3)
        assert np.isnan(found[5:]).all()


def test_a_question_is_asked_of_a_trained_path():
    """Before its last maximum the path rises; after it, up to the end, it never rises again."""
    model = small().fit(SERIES)
    found = PAGE.time_since_maximum(model.path(SERIES))
    asked = np.flatnonzero(found > 0.02)
    assert len(asked) > 3
    for k in asked:
        times = np.append(-found[k] - 0.01, np.linspace(0.01 - found[k], -0.001, 50))
        slope = model.path(SERIES[k : k + 1]).slope(times, relative_to="end").values[:, 0]
        assert slope[0] > 0 > slope[1]
        assert not ((slope[1:-1] > 0) & (slope[2:] < 0)).any()


def test_paths_of_the_package_are_in_its_list():
    offered = InterpolationTransformer._parameter_constraints["kind"][0].options
    assert offered == {"constant", "linear", *SLOPES} - {"centred"}


def test_neural_model_is_the_toy():
    """Which `tests/transformers/test_toy.py` trains, streams, saves and checks."""
    toy = (ROOT / "tests" / "transformers" / "toy.py").read_text("utf-8")
    _, _, code = toy.partition("from __future__ import annotations\n\n")
    assert code in BLOCKS


def test_container_is_read_by_panels_and_estimators(monkeypatch):
    monkeypatch.setattr(convert, "READERS", (PAGE.reader, *convert.READERS))
    recordings = [PAGE.Recording(times.tolist(), values.tolist()) for times, values in SERIES]
    assert is_ragged(recordings)
    assert as_panel(recordings).equals(as_panel(SERIES))
    by_id = as_panel({f"r{k}": recording for k, recording in enumerate(recordings)})
    assert by_id.ids[:2].tolist() == ["r0", "r1"]
    embedder = HiPPOTransformer(n_coefficients=4).fit(recordings)
    assert_array_equal(embedder.transform(recordings), embedder.transform(SERIES))
    with pytest.raises(ValueError, match=r"series 1, time 0: times must increase"):
        as_panel([recordings[0], PAGE.Recording([1.0, 0.0], [[1.0, 2.0]] * 2)])


def test_stage_reports_in_its_place():
    fitted = PAGE.CountedTransformer(max_epochs=1, random_state=0).fit(SERIES)
    n_weights = sum(p.numel() for p in fitted.embedder_.model.parameters())
    assert fitted.fit_report_["size"].outcome == f"{n_weights} weights"
    assert fitted.fit_report_.decisions[-1].seconds is not None
    without = PAGE.CountedTransformer(max_epochs=1, random_state=0)
    stages = [d.stage for d in without.fit_stages(SERIES, skip=["size"]).fit_report_.decisions]
    assert stages == [d.stage for d in fitted.fit_report_.decisions][:-1]


def test_display_draws_the_numbers():
    embedder = PAGE.ToyTransformer(max_epochs=1, random_state=0).fit(SERIES)
    display = PAGE.ResidualDisplay.from_estimator(embedder, SERIES, series=2)
    expected = embedder.residuals(SERIES[2:3]).values
    drawn = np.stack([line.get_ydata() for line in display.lines_], axis=1)
    assert_same_but_for_rounding(drawn, expected)
    assert [ax.get_ylabel() for ax in display.axes_] == ["x0", "x1"]
    plt.close(display.figure_)
    with pytest.raises(TypeError, match="ResidualDisplay needs an estimator with a method resid"):
        PAGE.ResidualDisplay.from_estimator(HiPPOTransformer().fit(SERIES), SERIES)


@parametrize_with_checks([PAGE.LastSeenTransformer()])
def test_estimator_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_estimator_gives_what_a_loop_gives():
    series = [*SERIES, ([0.0, 1.0, 3.0], [[1.0, np.nan], [2.0, np.nan], [np.nan, np.nan]])]
    embedder = PAGE.LastSeenTransformer().fit(SERIES)
    found = embedder.set_output(transform="pandas").transform(series)
    assert list(found) == ["x0_last", "x0_age", "x1_last", "x1_age"]
    for k, (times, values) in enumerate(series):
        times, values = np.asarray(times), np.asarray(values)
        known = ~np.isnan(values)
        first, last = times[known.any(axis=1)][[0, -1]]
        for j in range(2):
            own = np.flatnonzero(known[:, j])
            z, age = 0.0, last - first
            if len(own):
                z = (values[own[-1], j] - embedder.scaler_.mean[j]) / embedder.scaler_.scale[j]
                age = last - times[own[-1]]
            expected = [z, age / embedder.time_scale_]
            assert_allclose(found.iloc[k, 2 * j : 2 * j + 2], expected, atol=1e-12)


def test_estimator_comes_back_from_a_file(tmp_path):
    panel = Panel.from_series(SERIES, channel_names=["height", "tilt"])
    embedder = PAGE.LastSeenTransformer().fit(panel)
    embedder.save(tmp_path / "last")
    again = skpolyode.load(tmp_path / "last")
    assert type(again) is PAGE.LastSeenTransformer
    assert_array_equal(again.transform(panel), embedder.transform(panel))


def test_column_reaches_the_model_with_its_cells(tmp_path):
    """Past channels in another order, rows and series without any observation, and selections."""
    rng, lengths = np.random.default_rng(0), [5, 0, 7]
    rows = int(np.sum(lengths))
    values, quality = rng.normal(size=(rows, 2)), rng.uniform(size=(rows, 2))
    values[rng.random(values.shape) < 0.3], values[8] = np.nan, np.nan
    quality[np.isnan(values)] = np.nan
    times = np.concatenate([np.arange(n) for n in lengths])
    offsets, names = np.array([0, 5, 5, 12]), ["x", "y"]
    panel = Panel(times, values, offsets, channel_names=names, empty="keep")
    panel = PAGE.with_quality(panel, quality)
    model = PAGE.BestKnownTransformer().fit(panel)
    given = np.where(np.isnan(values), 0.0, values), np.nan_to_num(quality)
    sums = [
        np.stack([x[:5].sum(axis=0), x[5:].sum(axis=0)]) for x in (given[0] * given[1], given[1])
    ]
    expected = (sums[0] / sums[1] - model.scaler_.mean) / model.scaler_.scale
    for own in (panel, panel.select_channels(["y", "x"]), Panel.concat([panel[:1], panel[1:]])):
        found = model.transform(own)
        assert_allclose(found[[0, 2]], expected)
        assert np.isnan(found[1]).all()
    assert_allclose(model.transform(panel[[2, 0]]), expected[::-1])
    model.save(tmp_path / "model")
    again = skpolyode.load(tmp_path / "model")
    assert_array_equal(again.transform(panel), model.transform(panel))


@contextmanager
def members(**own):
    """Within, these are the members of the ensemble, in this order."""
    before = dict(MEMBERS)
    try:
        MEMBERS.clear()
        MEMBERS.update(own)
        yield
    finally:
        MEMBERS.clear()
        MEMBERS.update(before)


def test_member_is_weighed_followed_and_saved(tmp_path):
    """Of series that stand still but for noise, their mean says most."""
    rng = np.random.default_rng(0)
    series = [(np.arange(14.0), a + 0.5 * rng.normal(size=14)) for a in rng.normal(size=24)]
    before, asked = small().fit(series), [15.0, 20.0]
    before.forecast(series, asked)  # learns its members
    with members(mean=PAGE.MeanSoFar, **MEMBERS):  # in front of all others
        model = small().fit(series)
        model.forecast(series, asked)
        before.save(tmp_path / "before")
        again = skpolyode.load(tmp_path / "before")  # no member takes another's weights
        expected = before.forecast(series, asked).values
        assert_array_equal(again.forecast(series, asked).values, expected)
    assert model.embedder_.stacking.names[:2] == ("run", "mean")
    assert model.embedder_.stacking.mean_weights["mean"] > 0.1
    model.save(tmp_path / "model")
    stream = skpolyode.load(tmp_path / "model").stream(len(series))
    for k, (times, values) in enumerate(series):
        stream.update(times, values, series=k)
    assert_allclose(stream.forecast(asked).values, model.forecast(series, asked).values, atol=1e-9)


def test_tables_named_by_the_page_are_there():
    """Names in the pages' tables of entries, each in the file that is said to hold it."""
    text = TEXT
    files = set(re.findall(r"`((?:skpolyode|tests|docs|benchmarks)/[\w/]+\.(?:py|md))`", text))
    assert len(files) > 15
    assert not [name for name in files if not (ROOT / name).is_file()]
    for name, file in {
        "MEMORIES": "skpolyode/memory/__init__.py",
        "EQUATIONS": "tests/memory/measures.py",
        "SLOPES": "skpolyode/embedders/paths.py",
        "PATHS": "tests/transformers/test_interpolation.py",
        "CHEAP": "tests/transformers/registry.py",
        "READERS": "skpolyode/panel/convert.py",
        "MEMBERS": "skpolyode/ensemble/members.py",
        "RAGGED": "tests/panel/test_formats.py",
    }.items():
        assert f"`{name}`" in text
        assert re.search(rf"^{name}\b.*=", (ROOT / file).read_text("utf-8"), re.MULTILINE)
