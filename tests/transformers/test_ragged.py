"""What the checks of scikit-learn, which only know 2-D arrays, do not see of any transformer."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_union

from skpolyode import HiPPOTransformer, Panel
from tests.quick import no_stacking
from tests.transformers.registry import all_transformers

TRANSFORMERS = all_transformers()
STACKED = ("HiPPOTransformer",)


@pytest.fixture(autouse=True)
def quick(request):
    """How forecasts are combined is learned in the same way for all: one of them does it here."""
    with nullcontext() if request.getfixturevalue("name") in STACKED else no_stacking():
        yield


def some_series(n_series=7, seed=0, n_channels=2):
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(n_series):
        times = np.sort(rng.uniform(0, 5, rng.integers(3, 9)))
        values = np.sin(times[:, None] + np.arange(n_channels)) + 0.1 * rng.normal()
        values[rng.random(values.shape) < 0.2] = np.nan
        values[0] = 1.0
        result.append((times, values))
    return result


@cache
def fitted_to_series(name):
    """For tests that only read."""
    return clone(TRANSFORMERS[name]).fit(some_series())


@pytest.mark.parametrize("name", TRANSFORMERS)
class TestRagged:
    series = staticmethod(some_series)

    def test_unfitted(self, name):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            clone(TRANSFORMERS[name]).transform(self.series())

    def test_independent_of_batch_mates(self, name):
        X = self.series()
        transformer = fitted_to_series(name)
        together = transformer.transform(X)
        assert together.dtype == np.float64
        assert np.isfinite(together).all()
        assert together.shape == (7, len(transformer.get_feature_names_out()))
        alone = np.concatenate([transformer.transform([one]) for one in X])
        np.testing.assert_allclose(together, alone, rtol=1e-7, atol=1e-9)
        order = [3, 0, 6, 5, 1, 2, 4]
        permuted = transformer.transform([X[i] for i in order])
        np.testing.assert_allclose(permuted, together[order], rtol=1e-7, atol=1e-9)

    def test_time_shift(self, name):
        X = self.series()
        shifted = [(times + 1024.0, values) for times, values in X]
        one, other = fitted_to_series(name), clone(TRANSFORMERS[name]).fit(shifted)
        Z = one.transform(X)
        np.testing.assert_allclose(one.transform(shifted), Z, atol=1e-7)
        # The weights are trained in float32.
        np.testing.assert_allclose(other.transform(X), Z, atol=1e-4)

    def test_empty_rows_do_not_count(self, name):
        """Rows without any observation are like padding: before, between and after."""
        X = self.series()
        nothing = np.full((1, 2), np.nan)
        padded = []
        for times, values in X:
            middle = times[:2].mean()
            times = np.concatenate([[times[0] - 3], times[:1], [middle], times[1:], [9.0]])
            parts = [nothing, values[:1], nothing, values[1:], nothing]
            padded.append((times, np.concatenate(parts)))
        transformer = fitted_to_series(name)
        Z = transformer.transform(X)
        np.testing.assert_allclose(transformer.transform(padded), Z, atol=1e-9)
        np.testing.assert_array_equal(clone(transformer).fit(padded).transform(X), Z)

    def test_pickle_and_clone(self, name):
        X = self.series()
        transformer = fitted_to_series(name)
        back = pickle.loads(pickle.dumps(transformer))
        np.testing.assert_array_equal(back.transform(X), transformer.transform(X))
        copy = clone(transformer)
        assert repr(copy.get_params()) == repr(transformer.get_params())  # some are estimators
        np.testing.assert_array_equal(copy.fit_transform(X), transformer.transform(X))

    def test_input_is_left_alone(self, name):
        X = self.series()
        before = [(times.copy(), values.copy()) for times, values in X]
        clone(TRANSFORMERS[name]).fit_transform(X)
        for one, other in zip(X, before, strict=True):
            np.testing.assert_array_equal(one[0], other[0])
            np.testing.assert_array_equal(one[1], other[1])

    def test_other_channels_are_refused(self, name):
        transformer = fitted_to_series(name)
        with pytest.raises(ValueError, match=r"X has 3 features.*expecting 2"):
            transformer.transform(self.series(n_channels=3))

    @pytest.mark.parametrize("n_rows", [1, 2])
    def test_few_rows(self, name, n_rows):
        """One series, or series of one observation: nothing to learn, but nothing to fail on."""
        X = [(times[:n_rows], values[:n_rows]) for times, values in self.series()]
        for series in (X, X[:1]):
            own = clone(TRANSFORMERS[name])
            is_still = np.ptp([x for _, x in series], axis=(0, 1)).max() == 0
            is_still &= hasattr(own, "max_epochs")
            why = pytest.warns(UserWarning, match="no channel ever changes in fit")
            with why if is_still else nullcontext():
                assert np.isfinite(own.fit_transform(series)).all()

    @pytest.mark.parametrize("value", [0.0, 7.5, 5e-324, 1e-300, -1e300])
    @pytest.mark.filterwarnings("ignore:the channels .* have one value throughout fit")
    def test_a_constant_channel(self, name, value):
        X = [
            (times, np.c_[values[:, 0], np.full(len(times), value)])
            for times, values in self.series()
        ]
        own = clone(TRANSFORMERS[name])
        assert np.isfinite(own.fit_transform(X)).all()
        assert own.fit_report_.decisions[0].figures == {"constant_channels": 1}

    def test_a_channel_that_is_never_observed(self, name):
        X = [
            (times, np.c_[values[:, 0], np.full(len(times), np.nan)])
            for times, values in self.series()
        ]
        transformer = clone(TRANSFORMERS[name])
        with pytest.warns(UserWarning, match=r"channels \['x1'\] were never observed in fit"):
            transformer.fit(X)
        Z = transformer.transform(X)
        assert np.isfinite(Z).all()
        # What comes later is not read, and nothing is made up.
        seen = self.series()
        other = [(t, np.c_[x[:, 0], 1e3 + x[:, 1]]) for t, x in seen]
        np.testing.assert_array_equal(transformer.transform(seen), transformer.transform(other))
        names = transformer.get_feature_names_out()
        own = Z[:, [n.startswith("x1") for n in names]]
        if transformer.has_coefficients:
            assert (own == 0).all()
            assert (transformer.reconstruct(seen).values[:, 1] == 0).all()
        else:
            levels = [n in ("x1_mean", "x1_first", "x1_slope", "x1_count") for n in names]
            assert (Z[:, levels] == 0).all()
        if hasattr(transformer, "forecast"):
            assert (transformer.forecast(seen, [9.0, 30.0]).values[:, 1] == 0).all()
        if hasattr(transformer, "stream"):
            Z, stream = transformer.transform(seen), transformer.stream(seen)
            np.testing.assert_allclose(stream.embedding(), Z, rtol=0, atol=1e-9)
            stream = transformer.stream(len(seen))
            for k, (t, x) in enumerate(seen):
                stream.update(t, x, series=k)
            np.testing.assert_allclose(stream.embedding(), Z, rtol=0, atol=1e-9)
            if hasattr(stream, "forecast"):
                assert (stream.forecast([9.0]).values[:, 1] == 0).all()

    def test_ids_are_the_index_of_tables(self, name):
        ids = [("ward", k) for k in "gfedcba"]
        X = Panel.from_series(self.series(), ids=ids)
        transformer = clone(TRANSFORMERS[name]).set_output(transform="pandas")
        tables = [transformer.fit_transform(X), transformer.transform(X)]
        union = make_union(transformer, HiPPOTransformer(n_coefficients=2))
        tables.append(union.set_output(transform="pandas").fit(X).transform(X))
        static = pd.DataFrame({"age": range(7)}, index=pd.Index(ids, tupleize_cols=False))
        for table in tables:
            assert table.index.tolist() == ids
            assert pd.concat([table, static], axis=1).shape == (7, table.shape[1] + 1)
        flat = pd.DataFrame(np.random.default_rng(0).normal(size=(3, 4)), index=["a", "b", "c"])
        assert transformer.fit_transform(flat).index.tolist() == ["a", "b", "c"]
        plain = transformer.set_output(transform="default").fit_transform(X)
        assert isinstance(plain, np.ndarray)

    def test_static_covariates_are_used_or_missed_aloud(self, name, no_static_warnings_so_far):
        static = pd.DataFrame({"age": range(7), "sex": list("fmfmfmf")})
        X = Panel.from_series(self.series(), static=static)
        transformer = clone(TRANSFORMERS[name])
        if transformer.uses_static:
            transformer.fit(X)
            return
        wanted = rf"{name} does not use the static covariates \['age', 'sex'\]: put StaticFeatures"
        with pytest.warns(UserWarning, match=wanted) as caught:
            transformer.fit(X)
        assert len(caught) == 1
        assert transformer.transform(X).shape[0] == 7  # without another one
        clone(transformer).fit(X)  # nor here: once a process

    @pytest.mark.parametrize("gap", [5e-324, 1e-300, 1e-51])
    def test_times_too_close(self, name, gap):
        fitted = fitted_to_series(name)
        X = [([0.0, 1.0], np.ones((2, 2))), ([0.0, gap, 2 * gap], np.eye(3, 2))]
        with pytest.raises(ValueError, match=r"series 1 \(id 1\), time .*: .* less than 1e-50"):
            fitted.transform(X)
        with pytest.raises(ValueError, match=r"(?s)less than 1e-50.*Remed.*in another unit"):
            clone(fitted).fit(X)
        if hasattr(fitted, "stream"):
            stream = fitted.stream(2)
            with pytest.raises(ValueError, match=r"series 1 .*less than 1e-50.*another unit"):
                stream.update([0.0, gap], np.ones((2, 2)), 1)
            assert stream.n_observations.tolist() == [0, 0]

    @pytest.mark.parametrize("span", [1.7e308, 1e300, 1e51])
    def test_times_too_far_apart(self, name, span):
        fitted = fitted_to_series(name)
        X = [([0.0, 1.0], np.ones((2, 2))), ([-span, 0.0, span], np.eye(3, 2))]
        with pytest.raises(ValueError, match=r"series 1.*, time .*(too large|more than 1e\+50)"):
            fitted.transform(X)
        with pytest.raises(ValueError, match=r"(?s)too large|more than.*Remed.*unit"):
            clone(fitted).fit(X)
        if hasattr(fitted, "stream"):
            with pytest.raises(
                ValueError, match=r"series 0 .*since the first row.*(another|larger) unit"
            ):
                fitted.stream().update([-span, span], np.ones((2, 2)))

    @pytest.mark.filterwarnings("ignore:the typical gap between rows:UserWarning")
    @pytest.mark.parametrize("unit", [1e-46, 1e46])
    def test_nearly_extreme_times(self, name, unit):
        """Of one unit in fit, or of two that differ by all that is possible."""
        X = self.series()
        scaled = [(times * unit, values) for times, values in X]
        transformer = fitted_to_series(name)
        assert np.isfinite(transformer.transform(scaled)).all()
        Z = clone(transformer).fit_transform(scaled)
        assert np.isfinite(Z).all()
        if name != "SummaryStatsTransformer":
            np.testing.assert_allclose(Z, transformer.transform(X), atol=1e-3)
