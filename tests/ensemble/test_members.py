"""Every registered member against the contract of `Member`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from skpolyode import Panel
from skpolyode.ensemble.backtest import rolling_origins
from skpolyode.ensemble.member import Asked, Lesson, Member, Records
from skpolyode.ensemble.members import BASE, MEMBERS, Members, members_of
from skpolyode.panel.units import Standardised
from skpolyode.saving.codec import Decoder, Encoder
from tests.ensemble.cases import Clairvoyant, single

KNOTS = np.array([1.0, 4.0])


@dataclass
class Driven(Clairvoyant):
    """With a response to an input, which is another one in each series."""

    def standardised(self, panel: Panel) -> Standardised:
        rows = super().standardised(panel)
        turns = np.repeat(np.arange(len(panel)), panel.lengths)
        return rows._replace(driven=np.sin(rows.times + turns)[:, None])


def noisy(n_series: int, seed: int) -> Panel:
    """Levels and noise at irregular times; one series never has the second channel."""
    rng, series = np.random.default_rng(seed), []
    for k in range(n_series):
        t = np.append(0.0, np.cumsum(rng.exponential(size=5 + k % 4)))
        x = rng.standard_normal(2) + rng.standard_normal((len(t), 2))
        x[rng.random(len(t)) < 0.4, 1] = np.nan
        x[:, 1] = np.nan if k == 1 else x[:, 1]
        series.append((t, x))
    return Panel.from_series(series)


PANEL = noisy(12, 0)
MODEL = Driven.of(PANEL)
ROWS = MODEL.standardised(noisy(4, 1))
EVERY = np.arange(len(ROWS.times))


@pytest.fixture(scope="module")
def lesson() -> Lesson:
    sample = rolling_origins(MODEL, PANEL, np.random.RandomState(0), PANEL.offsets[:-1])
    return Lesson(sample, [()], KNOTS, np.zeros(sample.actual.shape))


@pytest.fixture(scope="module", params=MEMBERS)
def learned(request, lesson) -> list[Member]:
    return MEMBERS[request.param].learn(lesson)


@pytest.fixture
def member(learned) -> Member:
    return learned[0]


def asked_at(known: np.ndarray, elapsed: np.ndarray, driven: float = 0.3) -> Asked:
    """Of series of which this is known in their records."""
    shape = known.shape[:2]
    responses = np.full((len(elapsed), 1), driven)
    return Asked(elapsed, responses, Records.of(known), 8.0, np.full(shape, 0.25))


def forecasts(member: Member, rows: Standardised, asked: np.ndarray, lead: float, **of: float):
    what = asked_at(Records.known_at(rows, asked), rows.times[asked] + lead, **of)
    return member.forecast(member.known_at(rows, asked), what)


def turned(rows: Standardised, series: list[int]) -> tuple[Standardised, np.ndarray]:
    """Some series in another order, and which rows these are."""
    place = np.concatenate([np.arange(rows.offsets[k], rows.offsets[k + 1]) for k in series])
    counts = np.diff(rows.offsets)[series]
    offsets = np.append(0, np.cumsum(counts))
    return Standardised(rows.times[place], rows.values[place], offsets, rows.driven[place]), place


def test_it_learns_from_all_series_and_without_each_fold(learned, lesson):
    assert len(learned) == 1 + lesson.sample.n_folds
    assert len({type(own) for own in learned}) == 1


def test_row_by_row_it_knows_what_it_knows_at_once(member):
    expected = member.known_at(ROWS, EVERY)
    for first, end in zip(ROWS.offsets, ROWS.offsets[1:], strict=False):
        known = member.start(1, 2)
        for row in range(first, end):
            known = member.updated(known, single(ROWS, [row]))
            np.testing.assert_allclose(known[0], expected[row], rtol=1e-10, atol=1e-12)


def test_what_was_not_observed_changes_nothing(member):
    known = member.known_at(ROWS, EVERY)
    before, cells = known.copy(), np.where([True, False], 9.0, np.nan) + np.zeros((len(known), 2))
    offsets, driven = np.arange(len(known) + 1), np.ones((len(known), 1))
    after = member.updated(known, Standardised(ROWS.times + 1.0, cells, offsets, driven))
    np.testing.assert_array_equal(after[:, 1], before[:, 1])
    np.testing.assert_array_equal(known, before)  # it is not written to


def test_series_do_not_depend_on_each_other(member):
    rows, place = turned(ROWS, [2, 0])
    one = member.known_at(rows, np.arange(len(place)))
    np.testing.assert_allclose(one, member.known_at(ROWS, place), atol=1e-12)
    own, other = (forecasts(member, r, a, 1.5) for r, a in ((rows, EVERY[:2]), (ROWS, place[:2])))
    np.testing.assert_allclose(own, other, atol=1e-12)


def test_only_what_it_knows_nothing_of_is_no_number(member):
    found = forecasts(member, ROWS, EVERY, 2.0)
    seen = Records.of(Records.known_at(ROWS, EVERY)).n_values > 0
    assert found.shape == (len(EVERY), 2)
    assert np.isfinite(found[seen]).all()
    assert not seen.all()


def test_what_it_says_of_itself_is_so(member):
    at_zero = forecasts(member, ROWS, EVERY, 0.0)
    records = Records.of(Records.known_at(ROWS, EVERY))
    here = (records.last_time == ROWS.times[:, None]) & (records.n_values > 0)
    is_last = np.allclose(at_zero[here], records.last[here], atol=1e-9)
    assert is_last == member.starts_at_last
    one, other = (forecasts(member, ROWS, EVERY, 1.0, driven=x) for x in (0.0, 1.0))
    assert np.array_equal(one, other, equal_nan=True) != member.reads_inputs


def test_expected_errors_are_positive_where_any_are_expected(member):
    records = Records.known_at(ROWS, EVERY)
    what = asked_at(records, ROWS.times + 2.0)
    found = member.errors(member.known_at(ROWS, EVERY), what)
    assert found.shape == (len(EVERY), 2)
    assert np.isnan(found).all() or (found > 0).all()


def test_it_comes_back_from_a_file(member):
    encoder = Encoder()
    content = encoder.encode(member, "member")
    again = Decoder(encoder.arrays).decode(content)
    assert type(again) is type(member)
    found, expected = (forecasts(own, ROWS, EVERY, 2.0) for own in (again, member))
    np.testing.assert_array_equal(found, expected)


# All together


def test_members_are_learned_and_followed_together(lesson):
    """The base first; each knows of series what it knows alone."""
    whole, *folds = Members.learn(lesson.sample, [()], KNOTS)
    assert list(whole.each) == [BASE, *(name for name in MEMBERS if name != BASE)]
    assert [list(own.each) for own in folds] == [list(whole.each)] * lesson.sample.n_folds
    known = whole.known_at(ROWS, EVERY)
    for name, own in whole.each.items():
        np.testing.assert_array_equal(known[name], own.known_at(ROWS, EVERY))
    blank = whole.start(3, 2)
    assert {name: part.shape[1:] for name, part in blank.items()} == {
        name: part.shape[1:] for name, part in known.items()
    }


def test_a_fold_is_forecast_by_what_others_taught(lesson):
    whole, *folds = Members.learn(lesson.sample, [()], KNOTS)
    given = {"run": np.zeros(lesson.sample.actual.shape)}
    found = members_of(folds, list(MEMBERS), lesson.sample, given)
    for k, own in enumerate(folds):
        rows = lesson.sample.fold == k
        alone = members_of([own], list(MEMBERS), lesson.sample, given)
        np.testing.assert_allclose(found[rows], alone[rows], atol=1e-12)
    assert np.abs(found - members_of([whole], list(MEMBERS), lesson.sample, given)).max() > 1e-3


def test_no_member_is_taken_for_another(lesson):
    """Forecasts go by name, whatever is in between; what is not there is the base's."""
    whole = Members.learn(lesson.sample, [()], KNOTS)[0]
    names, given = list(MEMBERS), {"run": np.zeros((len(EVERY), 2))}
    parts = given, whole.known_at(ROWS, EVERY), ROWS.times + 2.0, ROWS.driven
    every = whole.forecasts(["run", *names, "gone"], *parts)
    for place, name in enumerate(names, 1):
        np.testing.assert_array_equal(whole.forecasts([name], *parts)[..., 0], every[..., place])
    np.testing.assert_array_equal(every[..., -1], every[..., 1 + names.index(BASE)])
