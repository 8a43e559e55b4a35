"""Log-signatures against iterated sums and pysiglib, and the state that they drive."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement, product
from math import factorial, prod

import numpy as np
import pytest
import torch
from torchdiffeq import odeint

from skpolyode.models import pack
from skpolyode.siblings import NeuralRDE
from skpolyode.siblings.neural_rde import (
    continued,
    log_signature,
    lyndon_words,
    n_words,
    trivial,
)
from tests.models.cases import flat_series
from tests.models.weights import observations, shaken, states

H = 4


def signature(increments, depth):
    """Of the path with these increments (n_pieces, v)."""
    increments = torch.as_tensor(increments, dtype=torch.float64)
    result = trivial(1, increments.shape[1], depth, increments)
    for increment in increments:
        result = continued(result, increment[None])
    return result


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_signature_is_the_iterated_integrals(depth):
    """Over all ordered choices of pieces; of one that is chosen k times, 1/k! of the product."""
    steps = states(4, 3).numpy()
    found = signature(steps, depth)
    for length in range(1, depth + 1):
        for word in product(range(3), repeat=length):
            expected = 0.0
            for pieces in combinations_with_replacement(range(len(steps)), length):
                ties = prod(factorial(n) for n in Counter(pieces).values())
                expected += prod(steps[p, d] for p, d in zip(pieces, word, strict=True)) / ties
            assert found[length - 1][(0, *word)].item() == pytest.approx(expected)


def test_two_pieces_are_baker_campbell_hausdorff():
    """At x, y, xy, xxy and xyy: 1, 1, 1/2 [x, y], 1/12 [x, [x, y]] and 1/12 [y, [y, x]]."""
    expected = torch.tensor([[1, 1, 1 / 2, 1 / 12, 1 / 12]], dtype=torch.float64)
    torch.testing.assert_close(log_signature(signature(np.eye(2), 3)), expected)


def test_a_straight_path_is_its_increment_alone():
    piece = states(1, 3)
    whole = log_signature(signature(piece.expand(5, -1) / 5, 3))
    torch.testing.assert_close(whole[:, :3], piece)
    assert whole[:, 3:].abs().max() < 1e-14


@pytest.mark.parametrize(("n_dims", "depth"), [(2, 3), (5, 2), (5, 3), (9, 3)])
def test_log_signature_is_that_of_pysiglib(n_dims, depth):
    pysiglib = pytest.importorskip("pysiglib")
    path = states(7, n_dims).cumsum(0)
    pysiglib.prepare_log_sig(n_dims, depth, method=1)
    expected = pysiglib.log_sig(path, depth, method=1)
    found = log_signature(signature(path.diff(dim=0), depth))[0]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("n_dims", "counts"), [(2, [2, 1, 2]), (5, [5, 10, 40])])
def test_lyndon_words_are_as_many_as_necklaces(n_dims, counts):
    """And smaller than all their rotations."""
    words = lyndon_words(n_dims, 3)
    assert [sum(len(word) == k for word in words) for k in (1, 2, 3)] == counts
    assert [n_words(n_dims, k) for k in (1, 2, 3)] == np.cumsum(counts).tolist()
    assert all(word < word[k:] + word[:k] for word in words for k in range(1, len(word)))


def make_model(n_static=0, **options):
    return shaken(NeuralRDE(2, n_static, H, rank=6, head_size=3, **options))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_state_follows_the_log_signature(depth):
    """One step of fourth order: half of the drive, a 32nd of the error."""
    model, errors = make_model(depth=depth), []
    state = model.initial(observations([0.0, 0.0]), torch.arange(1)) | {"z": states(1, H)}
    increments = states(3, 5)
    for strength in (0.2, 0.1):
        levels = signature(strength * increments, depth)
        with torch.no_grad():
            drive = model.project(log_signature(levels))
            now = state | {f"s{k}": level for k, level in enumerate(levels, start=1)}
            exact = odeint(
                lambda _, z, drive=drive: model.collect(model.field(z) * drive),
                *(state["z"], torch.tensor([0.0, 1.0], dtype=torch.float64)),
                rtol=1e-11,
                atol=1e-13,
            )[-1]
            errors.append(float((model.now(now) - exact).norm()))
    assert errors[0] < 1e-3
    assert errors[0] > 16 * errors[1]


def test_path_is_of_time_values_and_counts():
    """Causal: time, then a step, at each observation; the first is where it begins."""
    times, values, offsets = flat_series([5])
    model, ended = make_model(depth=3), []
    now_of = model.now
    model.now = lambda state: ended.append(state) or now_of(state)
    with torch.no_grad():
        state = model.embed(pack(times, values, offsets))
        ended = [one for one in ended if one["s1"][0, -2:].any()]  # not before an observation
        torch.testing.assert_close(state["z"], now_of(ended[-1]))
    mask, filled = ~np.isnan(values), np.zeros(2)
    filled[mask[0]] = values[0][mask[0]]
    for k in range(1, 5):
        now = np.where(mask[k], np.nan_to_num(values[k]), filled)
        pieces = [[times[k] - times[k - 1], 0, 0, 0, 0], [0, *(now - filled), *mask[k]]]
        for level, expected in enumerate(signature(pieces, 3), start=1):
            torch.testing.assert_close(ended[k - 1][f"s{level}"], expected)
        filled = now
    np.testing.assert_allclose(state["value"][0], filled)
    assert len(ended) == 4
    assert not any(state[name].any() for name in ("s1", "s2", "s3"))  # the next ones begin


def test_time_goes_on_evenly_and_stands_still_after_the_longest_gap():
    model, data = make_model(max_gap=3.0), pack(*flat_series([4]))
    two, ten = torch.tensor([2.0]).double(), torch.tensor([1e9]).double()
    with torch.no_grad():
        state = model.embed(data)
        twice, once = (
            model.flow(model.flow(state, gap, gap), 4 - gap, gap) for gap in (two, 0 * two)
        )
        later = model.flow(state, ten, ten)
    for name in ("s1", "s2", "since"):
        torch.testing.assert_close(twice[name], once[name], rtol=0, atol=1e-12)
    torch.testing.assert_close(later["s1"], once["s1"], rtol=0, atol=1e-12)


def test_where_nothing_was_observed_the_state_is_kept():
    model, data = make_model(), observations([np.nan, np.nan])
    with torch.no_grad():
        state = {k: part + 0.3 for k, part in model.initial(data, torch.arange(1)).items()}
        after = model.observe(state, data, torch.arange(1))
    assert all(torch.equal(after[name], state[name]) for name in state)


@pytest.mark.parametrize("depth", [1, 3])
def test_gradient(depth):
    model = make_model(1, depth=depth)
    data = pack(*flat_series([4]), static=np.array([[0.5]]))

    def last_forecast(*weights):
        *_, step = model.run(data)
        return step.prediction.mean

    assert torch.autograd.gradcheck(
        last_forecast, tuple(model.parameters()), atol=1e-6, fast_mode=True
    )
