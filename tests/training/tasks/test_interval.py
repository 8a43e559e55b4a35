"""What training asks of PolyODE."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.paper.study.series_task import of_series
from skpolyode.models import Prediction, SequenceModel, pack
from skpolyode.siblings.s4 import SegmentTask
from skpolyode.training import forecasting_mse, prediction_loss
from skpolyode.training.tasks import (
    IntervalTask,
    PolyODETask,
)
from tests.closeness import assert_same_but_for_rounding
from tests.models.cases import flat_series, make_model, some_gain

LENGTHS = [6, 1, 4, 9, 2]
TASKS = {task.__name__: task for task in (IntervalTask, PolyODETask, SegmentTask)}
INTERVALS = pytest.mark.parametrize("kind", [IntervalTask, PolyODETask])
NONE = torch.zeros(5, dtype=torch.bool)


def held_out(*series):
    mask = NONE.clone()
    mask[list(series)] = True
    return mask


def predictions(model, data):
    """Of all rows, by a scan."""
    result = torch.empty_like(data.x)
    with torch.no_grad():
        for step in model.run(data):
            result[step.rows] = step.prediction.mean
    return result


def masked_mse(model, data, rows):
    """Rows is a mask; first rows of series are not forecast."""
    error = (predictions(model, data) - data.x).square()
    counted = data.mask & (rows & (data.elapsed > 0))[:, None]
    return float(error[counted].mean())


@pytest.mark.parametrize("block_rows", [200_000, 8])
def test_forecasting_mse_counts_observed_values_after_the_first_row(block_rows):
    model, data = make_model(), pack(*flat_series(LENGTHS), block_rows=block_rows)
    everything = torch.ones(len(data), dtype=torch.bool)
    assert forecasting_mse(model, data) == pytest.approx(masked_mse(model, data, everything))


def test_nothing_to_forecast_is_no_error():
    assert forecasting_mse(make_model(), pack(*flat_series([1, 1]))) == 0


@pytest.mark.parametrize("name", TASKS)
def test_validation_error_is_that_of_the_held_out_series(name):
    model, data = make_model(), pack(*flat_series(LENGTHS))
    task = TASKS[name](model, data, held_out(0, 3))
    rows = torch.isin(data.series, torch.tensor([0, 3]))
    assert task.refresh() == pytest.approx(masked_mse(model, data, rows))
    # without any, the training error stands in
    task = TASKS[name](model, data, NONE)
    assert task.refresh() == pytest.approx(masked_mse(model, data, ~rows | rows))


def test_errors_of_series_have_the_weights_of_the_validation_error():
    """Those of cells whose errors are known."""
    times, values, offsets = flat_series(LENGTHS)
    errors = np.random.default_rng(0).uniform(0.1, 2.0, np.shape(values))
    data = pack(times, values, offsets, errors=errors)
    task = IntervalTask(make_model(), data, held_out(0, 2, 3))
    error = task.refresh()
    sums, counts = task.series_errors
    assert (sums.sum() / counts.sum()).item() == pytest.approx(error)
    some = of_series(task.data, torch.tensor([0, 2, 3]))
    assert error == pytest.approx(forecasting_mse(task.model, some))


def test_intervals_to_train_on_are_those_of_the_other_series():
    data = pack(*flat_series(LENGTHS))
    task = IntervalTask(make_model(), data, held_out(0))
    assert 0 not in data.series[task.items]
    assert (data.next[task.items] >= 0).all()
    assert len(task.items) == sum(n - 1 for n in LENGTHS[1:])


def fresh(model, data, kind=PolyODETask, forgotten_share=0.0, **options):
    task = kind(model, data, NONE, **options)
    task.forgotten_share = forgotten_share
    task.refresh()
    return task


@INTERVALS
@pytest.mark.parametrize("block_rows", [200_000, 8])
def test_loss_of_fresh_intervals_is_the_error_of_the_scan(block_rows, kind):
    model, data = make_model(), pack(*flat_series(LENGTHS), block_rows=block_rows)
    task = fresh(model, data, kind)
    loss = task.loss(torch.arange(len(task.items)))
    assert loss.item() == pytest.approx(forecasting_mse(model, data))


def test_what_is_forgotten_is_the_learned_state_but_not_the_first_one():
    model, data = make_model(n_static=3), pack(*flat_series(LENGTHS), static=np.ones((5, 3)))
    rows, found = (data.next >= 0).nonzero()[:, 0], []
    for share in (0.0, 1.0, 0.5):
        task = fresh(model, data, forgotten_share=share)
        task._observed = lambda state, rows: state
        found.append(model.split(task._set_out(rows)["z"].detach()))
    (known, w), (signals, none), (_, some) = found
    assert torch.equal(signals, known)
    later = data.gap[rows] > 0
    assert (w != 0).any(dim=1).all()
    assert torch.equal(none, torch.where(later[:, None], 0.0, w))
    kept = (some == w).all(dim=1)
    assert torch.equal(some[~kept], none[~kept])
    assert 0 < (kept & later).sum() < later.sum()


def test_other_models_forget_all_and_begin_anew():
    model, data = make_model(n_static=3), pack(*flat_series(LENGTHS), static=np.ones((5, 3)))
    rows, found = (data.next >= 0).nonzero()[:, 0], []
    for share in (0.0, 1.0, 0.5):
        task = fresh(model, data, IntervalTask, forgotten_share=share)
        found.append(task._set_out(rows)["z"])
    known, none, some = found
    anew = model.observe(model.initial(data, rows), data, rows)["z"]
    assert torch.equal(none, anew)
    forgotten = (some == anew).all(dim=1)
    assert torch.equal(some[~forgotten], known[~forgotten])
    assert 0 < (forgotten & (data.gap[rows] > 0)).sum() < len(rows)


def test_loss_of_some_intervals_is_the_error_of_their_ends():
    model, data = make_model(), pack(*flat_series(LENGTHS))
    task, index = fresh(model, data), torch.tensor([4, 0, 11])
    ends = data.next[task.items[index]]
    error = (predictions(model, data) - data.x)[ends].square()[data.mask[ends]].mean()
    assert task.loss(index).item() == pytest.approx(float(error))


@INTERVALS
def test_looking_further_runs_on_without_updates(kind):
    """Of one series, from its first observation: 0.7 to the power of the steps weighs them."""
    model, data = make_model(), pack(*flat_series([4]))
    task = fresh(model, data, kind, horizon=5)
    first = int((task.items == 0).nonzero())
    with torch.no_grad():
        state, total, weights = next(model.run(data)).state, 0.0, 0.0
        for ahead, row in enumerate((1, 2, 3)):
            at = slice(row, row + 1)
            state = model.flow(state, data.gap[at], data.elapsed[at])
            error = (model.predict(state).mean[0] - data.x[row]).square()[data.mask[row]].mean()
            total, weights = total + 0.7**ahead * error, weights + 0.7**ahead
    assert task.loss(torch.tensor([first])).item() == pytest.approx(float(total / weights))


def test_some_minibatches_look_far_in_units_of_each_lead():
    """One of two, of one series from its first observation."""
    model, data = make_model(), pack(*flat_series([6], missing=0.0))
    task = fresh(model, data, PolyODETask, furthest=4)
    start = (task.items == 0).nonzero()[:, 0]
    task.refresh(0.5)
    weights = [*model.field.parameters(), *model.cell.parameters()]
    losses = [task.loss(start) for _ in range(12)]
    state, errors = next(model.run(data)).state, []
    for row in range(1, 5):
        at = slice(row, row + 1)
        state = model.flow(state, data.gap[at], data.elapsed[at])
        errors.append((model.predict(state).mean[0] - data.x[row]).square().mean())
    near, *far = errors
    shares = [(near / error).clamp(max=1.0).detach() for error in far]
    far = [share * error for share, error in zip(shares, far, strict=True)]
    half, whole = (near + far[0]) / 2, (near + sum(far) / 3) / 2
    # A quarter of four observations is the next one alone.
    wanted = 2 * [near, half, near, near, near, whole]
    for loss, expected in zip(losses, wanted, strict=True):
        pairs = (torch.autograd.grad(x, weights, retain_graph=True) for x in (loss, expected))
        for found, other in zip(*pairs, strict=True):
            torch.testing.assert_close(found, other)


@INTERVALS
def test_the_error_ahead_is_that_of_free_runs_of_the_held_out_series(kind, monkeypatch):
    """The geometric mean over leads 2 and 3, 4 to 7, and so on."""
    monkeypatch.setattr("skpolyode.training.tasks._FEWEST_JUDGED", 2)
    model, data = make_model(), pack(*flat_series([6, 9, 4], missing=0.3))
    task = kind(model, data, torch.tensor([True, True, False]), furthest=5)
    task.refresh()
    errors = {}
    with torch.no_grad():
        for step in model.run(data):
            for n, row in enumerate(step.rows.tolist()):
                state, at = {name: part[n : n + 1] for name, part in step.state.items()}, row
                for lead in range(1, 6):
                    at = int(data.next[at])
                    if at < 0 or data.series[row] == 2:
                        break
                    here = slice(at, at + 1)
                    state = model.flow(state, data.gap[here], data.elapsed[here])
                    wrong = (model.predict(state).mean - data.x[here])[data.mask[here]]
                    errors.setdefault(lead.bit_length(), []).extend(wrong.square().tolist())
    means = [np.mean(own) for power, own in errors.items() if power > 1]
    assert len(means) == 2
    assert task.error_ahead == pytest.approx(np.exp(np.mean(np.log(means))), rel=1e-4)
    assert kind(model, data, NONE[:3]).error_ahead is None  # nothing further ahead was asked


@pytest.mark.parametrize("furthest", [2, 12])
def test_looks_at_the_pace_of_each_series_are_those_of_all_together(furthest, monkeypatch):
    """Of series of different lengths, gaps and missing channels."""
    model, data = make_model(), pack(*flat_series([6, 1, 14, 9, 2, 7], max_gap=3.0))
    losses, gradients = [], []
    for own in (PolyODETask._leads, IntervalTask._leads):
        monkeypatch.setattr(PolyODETask, "_leads", own)
        task = PolyODETask(model, data, torch.zeros(6, dtype=torch.bool), furthest=furthest)
        task.refresh(0.5)
        losses += [[task.loss(torch.arange(len(task.items))) for _ in range(12)][-1]]
        gradients += [torch.autograd.grad(losses[-1], list(model.parameters()))]
    torch.testing.assert_close(*losses)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@INTERVALS
def test_none_looks_far_before_a_quarter_of_the_training(kind):
    model, data = make_model(), pack(*flat_series(LENGTHS))
    near, far = (fresh(model, data, kind, furthest=k) for k in (1, 9))
    index = torch.arange(len(near.items))
    for progress, same in ((0.2, True), (0.3, False)):
        near.refresh(progress), far.refresh(progress)
        losses = [[task.loss(index).item() for _ in range(6)] for task in (near, far)]
        assert (losses[0] == losses[1]) is same
        near_ones = [k for k in range(6) if (k + 1) % far.far_every]
        assert [losses[0][k] for k in near_ones] == [losses[1][k] for k in near_ones]


def finite_differences(model, loss, parameter, index, size=1e-5):
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            parameter.view(-1)[index] += sign * size
            values.append(loss().item())
            parameter.view(-1)[index] -= sign * size
    return (values[0] - values[1]) / (2 * size)


def check_gradient(model, loss):
    model.zero_grad()
    loss().backward()
    for parameter in model.parameters():
        for index in (0, parameter.numel() // 2, parameter.numel() - 1):
            found = float(parameter.grad.view(-1)[index])
            expected = finite_differences(model, loss, parameter, index)
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)


@INTERVALS
@pytest.mark.parametrize("filters", [False, True])
def test_intervals_with_updates_are_those_of_the_pass(kind, filters):
    """Whole series of at most four observations, from their first one on."""
    model, data = make_model(gain=some_gain() if filters else None), pack(*flat_series([4, 3, 4]))
    task = fresh(model, data, kind, length=3)
    starts = torch.isin(task.items, (data.elapsed == 0).nonzero()[:, 0]).nonzero()[:, 0]
    with torch.no_grad():
        (block,) = data.blocks()
        steps = list(SequenceModel.run_block(model, data, block))[1:]
    means = [(data.x[s.rows] - s.prediction.mean).square()[data.mask[s.rows]].mean() for s in steps]
    assert task.loss(starts).item() == pytest.approx(float(sum(means) / 3))


@INTERVALS
def test_what_is_far_and_what_is_not_there_is_left_out(kind):
    """Series end before the furthest look; channels are not observed there."""
    model, data = make_model(), pack(*flat_series([2, 3]))
    task = fresh(model, data, kind, furthest=12)
    task.refresh(0.5)
    losses = [task.loss(torch.arange(len(task.items))) for _ in range(6)]
    assert all(torch.isfinite(loss) for loss in losses)


@INTERVALS
@pytest.mark.parametrize("horizon", [1, 3])
def test_gradient_of_intervals(horizon, kind):
    model, data = make_model(), pack(*flat_series(LENGTHS))
    task = fresh(model, data, kind, horizon=horizon)
    check_gradient(model, lambda: task.loss(torch.arange(len(task.items))))


@INTERVALS
@pytest.mark.parametrize("filters", [False, True])
def test_gradient_of_intervals_with_updates(kind, filters):
    model, data = make_model(gain=some_gain() if filters else None), pack(*flat_series(LENGTHS))
    task = fresh(model, data, kind, horizon=2, length=3)
    task.progress = 0.0

    def loss():
        task.n_batches = 0  # the same updates are left out
        return task.loss(torch.arange(len(task.items)))

    check_gradient(model, loss)


def test_at_first_half_of_the_updates_in_between_are_left_out_and_none_in_the_end():
    model, data = make_model(), pack(*flat_series([3]))  # 0 -> 1 -> 2: at 1 there may be an update
    task = PolyODETask(model, data, torch.tensor([False]), length=2)
    task.refresh()
    start = torch.tensor([0])
    state, rows = task.model.arrive(task._depart(start), task.data, start)
    errors = []  # of the forecast of 2: after the update at 1, and without it
    for then in (task._observed(state, rows), model.steer(state, data, rows)):
        then, at = task.model.arrive(then, task.data, rows)
        errors.append(task._mean_loss(model.predict(then), at).item())
    first = task._mean_loss(model.predict(state), rows).item()
    assert all(task.loss(start).item() == pytest.approx((first + errors[0]) / 2) for _ in range(8))
    task.progress = 0.0
    losses = [task.loss(start).item() for _ in range(16)]
    assert abs(errors[0] - errors[1]) > 1e-3
    wanted = [pytest.approx((first + error) / 2) for error in errors]
    hidden = [loss == wanted[1] for loss in losses]
    assert all(h or loss == wanted[0] for h, loss in zip(hidden, losses, strict=True))
    assert 4 <= sum(hidden) <= 12
    assert IntervalTask(model, data, torch.tensor([False]), length=4)._hidden() == [False] * 3


def test_a_known_scale_is_scored_by_the_normal_likelihood():
    mean, scale, x = (torch.tensor(v, dtype=torch.float64) for v in ([0.5], [2.0], [3.0]))
    expected = -torch.distributions.Normal(mean, scale).log_prob(x) - 0.5 * np.log(2 * np.pi)
    torch.testing.assert_close(prediction_loss(Prediction(mean, scale.log()), x), expected)


def test_states_are_detached_and_follow_the_weights():
    model, data = make_model(), pack(*flat_series(LENGTHS))
    task = fresh(model, data)
    assert not task.states["z"].requires_grad
    before = task.states["z"].clone()
    with torch.no_grad():
        next(model.parameters()).add_(0.5)
    task.refresh()
    first = (data.elapsed == 0).numpy()
    changed = (task.states["z"] != before).any(dim=1).numpy()
    np.testing.assert_array_equal(changed & first, False)
    assert changed.any()


def test_the_coarse_part_validates_as_a_scan_and_learns_from_short_gaps():
    model, data = make_model(), pack(*flat_series(LENGTHS))
    model.field.stand_still()
    task = PolyODETask(model, data, held_out(0))
    error = task.refresh(progress=0.0)
    assert model.is_coarse
    assert error == pytest.approx(masked_mse(model, data, data.series == 0))
    gap = data.gap[data.next[task.items]]
    model.step_size = float(gap.sort().values[2]) / 4
    short = gap <= 4 * model.step_size
    everything = torch.arange(len(gap))
    assert 0 < short.sum() < len(gap)
    losses = [task.loss(some).detach() for some in (everything, everything[short])]
    assert_same_but_for_rounding(*losses)
    some = everything[~short]  # nothing else in the batch: better than nothing
    assert task.loss(some).item() > 0
    task.refresh(progress=1.0)
    assert not model.is_coarse
    assert task.loss(everything).item() != task.loss(everything[short]).item()
