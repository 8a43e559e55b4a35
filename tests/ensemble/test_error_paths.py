"""Error paths: joint laws of errors that are known beforehand."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode.ensemble.conformal import Calibration, ErrorCentre, ErrorPaths
from skpolyode.futures.continued import Ahead

LEADS = np.arange(1.0, 17.0)


def learned(errors: np.ndarray, reach: np.ndarray | None = None, leads=LEADS) -> Calibration:
    """From errors (n, T, D), each origin in a series of its own; they may be known up to a lead."""
    n, n_leads, n_channels = errors.shape
    since = np.tile(leads, n)
    if reach is not None:
        errors = np.where(leads[None, :, None] <= reach[:, None, None], errors, np.nan)
    flat = errors.reshape(-1, n_channels)
    kept = ~np.isnan(flat).all(axis=1)
    series = np.repeat(np.arange(n), n_leads)[kept]
    leads = np.repeat(since[kept, None], n_channels, axis=1)
    return Calibration.learn(leads, flat[kept], series, since[kept], origin=series)


def sampled(calibration: Calibration, leads: np.ndarray, n: int = 500) -> np.ndarray:
    """Samples (n, T, D) around forecasts of zero."""
    shape = len(leads), len(calibration.errors)
    every = np.repeat(leads[:, None], shape[1], axis=1)
    ahead = Ahead(np.zeros(shape), every, np.zeros((*shape, 2)), np.ones(shape))
    drawn = calibration.paths.draw(n, np.random.RandomState(0))
    channels = [calibration.sample(ahead, drawn, j) for j in range(shape[1])]
    return np.stack(channels, axis=-1).swapaxes(0, 1)


def walks(n: int, seed: int = 0, correlation: float = 0.8) -> np.ndarray:
    """Random walks (n, 16, 2) whose steps are correlated."""
    steps = np.random.default_rng(seed).standard_normal((n, len(LEADS), 2))
    steps[..., 1] = correlation * steps[..., 0] + np.sqrt(1 - correlation**2) * steps[..., 1]
    return steps.cumsum(axis=1)


def decaying(n: int, seed: int, left: float = 0.8) -> np.ndarray:
    """Ornstein-Uhlenbeck processes (n, 16, 1) of variance one that start at zero."""
    x, noise = np.zeros(n), np.random.default_rng(seed).standard_normal((len(LEADS), n))
    found = []
    for own in noise:
        x = left * x + np.sqrt(1 - left**2) * own
        found.append(x)
    return np.stack(found, axis=1)[..., None]


@pytest.mark.parametrize("law", ["walk", "Ornstein-Uhlenbeck"])
def test_extremes_and_increments_are_those_of_the_law(law):
    own = walks if law == "walk" else decaying
    paths, true = sampled(learned(own(500, seed=1)), LEADS), own(20_000, seed=2)
    for name, f in {"highest": np.max, "lowest": np.min, "mean": np.mean}.items():
        ours, theirs = (f(x[..., 0], axis=1) for x in (paths, true))
        assert ours.std() == pytest.approx(theirs.std(), rel=0.12), name
        assert ours.mean() == pytest.approx(theirs.mean(), abs=0.15 * theirs.std()), name
    for first, second in ((0, 1), (3, 8), (8, 15)):
        steps = [
            np.stack([x[:, first, 0], x[:, second, 0] - x[:, first, 0]]) for x in (paths, true)
        ]
        ours, theirs = (np.corrcoef(x)[0, 1] for x in steps)
        assert ours == pytest.approx(theirs, abs=0.12)  # 500 paths: a standard error of 0.045
    independent = np.random.default_rng(0).permuted(paths[..., 0], axis=0)
    theirs = true[..., 0].max(axis=1).std()
    assert independent.max(axis=1).std() < 0.85 * theirs  # the same marginals


def test_channels_go_together():
    paths = np.diff(sampled(learned(walks(500)), LEADS), axis=1)
    assert np.corrcoef(paths[..., 0].ravel(), paths[..., 1].ravel())[0, 1] > 0.7
    lagged = np.corrcoef(paths[:, 1:, 0].ravel(), paths[:, :-1, 0].ravel())[0, 1]
    assert abs(lagged) < 0.1


@pytest.mark.parametrize("leads", [LEADS, LEADS[:-1] + 0.4], ids=["known leads", "between"])
def test_as_many_samples_are_in_an_interval_as_it_says(leads):
    calibration = learned(walks(400) ** 3)  # far from normal
    paths, every = sampled(calibration, leads, n=400), np.repeat(leads[:, None], 2, axis=1)
    for level in (0.5, 0.8, 0.95):
        inside = np.abs(paths) <= calibration.half_widths(every, level)
        np.testing.assert_allclose(inside.mean(axis=0), level, atol=0.04)


def test_series_that_end_early_are_continued_as_others_went_on():
    errors, rng = walks(500), np.random.default_rng(0)
    paths = sampled(learned(errors, reach=rng.integers(4, 17, 500)), LEADS)[..., 0]
    true = walks(20_000, seed=3)[..., 0]
    assert paths[:, 11].std() == pytest.approx(true[:, 11].std(), rel=0.15)
    ours, theirs = (np.corrcoef(x[:, 3], x[:, 11])[0, 1] for x in (paths, true))
    assert ours == pytest.approx(theirs, abs=0.15)
    assert paths.max(axis=1).std() == pytest.approx(true.max(axis=1).std(), rel=0.2)


def test_errors_keep_their_sign():
    """Intervals are symmetric; what comes is not always."""
    errors = np.random.default_rng(0).exponential(size=(400, len(LEADS), 1))
    assert (sampled(learned(errors), LEADS) > 0).mean() > 0.98
    both = sampled(learned(np.exp(0.5) ** errors[:4]), LEADS)  # of four series, who knows
    assert 0.1 < (both < 0).mean() < 0.5


def test_errors_start_at_zero_and_are_held_at_the_end():
    calibration = learned(walks(300))
    paths = sampled(calibration, np.array([1e-8, 0.25, 1.0, 16.0, 40.0]))[..., 0]
    spread = paths.std(axis=0)
    assert spread[0] < 1e-3
    assert spread[1] == pytest.approx(spread[2] / 2, rel=0.1)  # as of a random walk
    np.testing.assert_allclose(paths[:, 4], paths[:, 3])


@pytest.mark.parametrize("alike", [-0.5, 0.0, 0.8])
def test_scores_between_two_knots_are_as_large_as_at_them(alike):
    """Of two scores of variance one, correlated so: their mean has a smaller variance."""
    first = np.sqrt(2) * np.array([1.0, -1, 0, 0])  # the same mean square as of a normal score
    second = alike * first + np.sqrt(1 - alike**2) * np.sqrt(2) * np.array([0.0, 0, 1, -1])
    paths = ErrorPaths(np.array([1.0, 3.0]), np.stack([first, second], axis=1)[..., None])
    found = paths.at(np.array([0.0, 1.0, 1.5, 2.0, 3.0, 9.0]), np.arange(4), 0)
    np.testing.assert_allclose((found**2).mean(axis=1), 1.0)
    np.testing.assert_allclose(found[3], (first + second) / np.sqrt(2 + 2 * alike))
    np.testing.assert_allclose(found[[0, 5]], [first, second])


def test_errors_that_do_not_overlap_are_counted():
    """Of three series of 30 forecasts one step apart, about 30 / lead each."""
    lead = np.tile(np.repeat([2.0, 6.0], 30), 3)[:, None]
    at, series = np.tile(np.arange(30.0), 6), np.repeat(np.arange(3), 60)
    wrong = np.random.default_rng(0).standard_normal((180, 2)) * [1, np.nan]
    found = Calibration.learn(np.repeat(lead, 2, axis=1), wrong, series, at)
    bins = found.errors[0]
    asked = np.array([own.lead for own in bins])
    expected = [3 * (1 + 29 // own) for own in asked]
    np.testing.assert_allclose(found.n_independent(asked, 0), expected)
    np.testing.assert_array_equal(found.n_independent(asked, 1), 0.0)  # never observed


def test_rare_channels_have_whole_paths():
    errors, rng = walks(300), np.random.default_rng(0)
    errors[rng.random(errors.shape[:2]) < 0.8, 1] = np.nan
    calibration = learned(errors)
    assert np.isfinite(calibration.paths.scores).all()
    paths = sampled(calibration, LEADS)
    assert np.corrcoef(paths[:, 9, 0], paths[:, 9, 1])[0, 1] > 0.4
    errors[..., 1] = np.nan  # never observed: worth no more than the mean
    np.testing.assert_allclose(np.abs(sampled(learned(errors), LEADS)[..., 1]), 1.0)


def test_few_are_kept():
    many = np.random.default_rng(0).standard_normal((900, len(LEADS), 40)).cumsum(axis=1)
    paths = learned(many).paths
    assert len(paths.scores) == 500
    assert paths.scores.nbytes <= 2**20
    assert learned(np.full((3, 4, 1), np.nan), leads=LEADS[:4]).paths is None


def test_no_path_is_drawn_twice_before_all_others():
    paths = learned(walks(60)).paths
    drawn = paths.draw(150, np.random.RandomState(0))
    counts = np.bincount(drawn, minlength=60)
    assert counts.min() == 2
    assert counts.max() == 3


def missed(n_series: int, share: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Leads, errors, series, times and forecasts; what is high is mostly too high by a share."""
    rng, n = np.random.default_rng(seed), 40 * n_series
    forecasts, leads = rng.uniform(-1, 1, (n, 1)), rng.uniform(1, 9, (n, 1))
    errors = 0.2 * rng.standard_normal((n, 1)) - share * forecasts
    series = np.repeat(np.arange(n_series), 40)
    return leads, errors, series, np.tile(np.arange(40.0), n_series), forecasts


def test_samples_are_around_what_forecasts_usually_miss_by():
    """Half widths, around the forecast itself, are those of all errors; at once none is missed."""
    *own, forecasts = missed(60, share=0.5)
    found = Calibration.learn(*own, origin=np.arange(len(forecasts)), forecasts=forecasts)
    asked, at = np.array([[-0.7], [0.0], [0.7]]), np.full((3, 1), 5.0)
    centre = found.around.centre
    learned = centre.at(0, asked[:, 0], at[:, 0])
    np.testing.assert_allclose(learned, [0.35, 0.0, -0.35], atol=0.06)  # shrunk a little
    np.testing.assert_array_equal(centre.at(0, asked[:, 0], np.full(3, np.inf)), 0.0)
    np.testing.assert_array_equal(centre.at(0, asked[:, 0], np.zeros(3)), 0.0)
    wide = Calibration.learn(*own).half_widths(at, 0.9)
    np.testing.assert_allclose(found.half_widths(at, 0.9), wide)
    left = found.around.half_widths(at, 0.9)
    assert left == pytest.approx(0.2 * 1.645, rel=0.12)
    assert (wide > 1.4 * left).all()
    ahead = Ahead(asked, at, np.zeros((3, 1, 2)), np.ones((3, 1)))
    samples = found.sample(ahead, found.draw(500, np.random.RandomState(0)), 0)
    np.testing.assert_allclose(np.median(samples, axis=1), asked[:, 0] + learned, atol=0.06)
    nothing = found.sample(ahead._replace(expected=np.zeros((3, 1))), np.arange(5), 0)
    np.testing.assert_array_equal(nothing, np.repeat(asked, 5, axis=1))  # what is known


@pytest.mark.parametrize(("n_series", "share"), [(60, 0.0), (3, 0.5)])
def test_what_other_series_do_not_confirm_is_not_usual(n_series, share):
    """Neither of errors around zero, nor of series that are too few to tell."""
    *own, forecasts = missed(n_series, share)
    found, plain = Calibration.learn(*own, forecasts=forecasts), Calibration.learn(*own)
    assert not any(found.centre.usual)
    at = np.array([[2.0], [8.0]])
    np.testing.assert_array_equal(found.half_widths(at, 0.9), plain.half_widths(at, 0.9))
    np.testing.assert_array_equal(found.centre.at(0, at[:, 0], at[:, 0]), 0.0)


@pytest.mark.parametrize("n_series", [1, 5, 45])
def test_a_few_series_speak_for_errors_of_zero(n_series):
    """As if five others had none."""
    n, series = 90, np.arange(90) % n_series
    forecasts = np.random.default_rng(0).permutation(n)[:, None] / n
    same = np.full((n, 1), 0.6), np.full((n, 1), 2.0), series
    centre = ErrorCentre.learn(forecasts, *same)
    found = centre.at(0, np.array([0.1, 0.9]), np.array([2.0, 1.0]))
    expected = 0.6 * n_series / (n_series + 5)
    np.testing.assert_allclose(found, [expected, expected / 2])  # and on a line to none at once
