"""The scan of PolyODE against a plain one: series by series, observation by observation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicHermiteSpline
from scipy.linalg import expm, solve

from skpolyode.memory import LegTMemory, legt_matrices
from skpolyode.models import pack
from tests.models.cases import SIZE, WINDOW, embed, flat_series, join, make_model, part

LENGTHS = [6, 1, 4, 9, 2]


def rk4(field, y, h):
    k1 = field(y)
    k2 = field(y + h / 2 * k1)
    k3 = field(y + h / 2 * k2)
    k4 = field(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def drive(c, polynomial, h, A, B):
    """Exact end of ``dc/dt = A c + B p(t)`` for a cubic p, from its particular solution."""
    # c(t) = q(t) + e^{At} (c - q(0)) with the polynomial q' = A q + B p, highest power first.
    q = [np.zeros_like(c)]
    for power in range(len(polynomial) - 1, -1, -1):
        q.insert(0, solve(A, (power + 1) * q[0] - B * polynomial[power]))
    return sum(part * h**k for k, part in enumerate(q)) + expm(A * h) @ (c - q[0])


class Plain:
    """PolyODE for one series, as its definition reads. State (D (1 + N) + H,), memory (D, N)."""

    def __init__(self, model, bridges=True):
        self.model, self.bridges = model, bridges
        A, B = legt_matrices(SIZE)
        self.A, self.B = A / WINDOW, B / WINDOW

    def field(self, y):
        """Within the wall."""
        out = y
        *hidden, last = [[p.detach().numpy() for p in layer] for layer in self.model.field.affine()]
        for weight, bias in hidden:
            out = weight @ out + bias
            out = out / (1 + np.exp(-out))
        return last[0] @ out + last[1]

    def step(self, z, h):
        """The network moves what is within the wall, and what is beyond it decays."""
        field = self.model.field
        inside = np.clip(z, -field.wall, field.wall)
        return rk4(self.field, inside, h) + np.exp(-field.pull * h) * (z - inside)

    def slope(self, z):
        field = self.model.field
        inside = np.clip(z, -field.wall, field.wall)
        return self.channels(self.field(inside) - field.pull * (z - inside))[:, 0]

    def channels(self, z):
        """Those of a state (D, 1 + N), a view."""
        return z[: self.model.signals.stop].reshape(-1, 1 + SIZE)

    def recur(self, seen, w):
        """The state of a gated recurrent unit, as its definition reads (Cho et al., 2014)."""
        cell = self.model.cell
        rows = zip(
            *(
                np.split(m.detach().numpy() @ v + b.detach().numpy(), 3)
                for m, b, v in (
                    (cell.weight_ih, cell.bias_ih, seen),
                    (cell.weight_hh, cell.bias_hh, w),
                )
            ),
            strict=True,
        )
        (r, r_w), (u, u_w), (n, n_w) = rows
        reset, update = (1 / (1 + np.exp(-x)) for x in (r + r_w, u + u_w))
        return update * w + (1 - update) * np.tanh(n + reset * n_w)

    def advance(self, z, c, gap):
        integrated = min(gap, self.model.max_gap)
        n = max(1, int(np.ceil(integrated / self.model.step_size - 1e-6)))
        for _ in range(n):
            h, start = integrated / n, z
            z = self.step(z, h)
            slopes = self.slope(start), self.slope(z)
            ends = [self.channels(x)[:, 0] for x in (start, z)]
            spline = CubicHermiteSpline([0, h], ends, slopes)
            cubics = spline.c[::-1, 0]  # (power, channel)
            c = np.stack([drive(c[j], cubics[:, j], h, self.A, self.B) for j in range(len(c))])
        if gap > integrated:
            signal = self.channels(z)[:, 0]
            held = [
                drive(c[j], [signal[j]], gap - integrated, self.A, self.B) for j in range(len(c))
            ]
            c = np.stack(held)
        return z, c

    def run(self, times, values):
        """Prediction before, state and memory after each observation."""
        n_channels = values.shape[1]
        z, c = np.zeros(self.model.size), np.zeros((n_channels, SIZE))
        latest, results = [None] * n_channels, []
        for k, (time, row) in enumerate(zip(times, values, strict=True)):
            if k:
                z, c = self.advance(z, c, time - times[k - 1])
            z, c = z.copy(), c.copy()
            channels, w = self.channels(z), z[self.model.signals.stop :]
            prediction, mask = channels[:, 0].copy(), ~np.isnan(row)
            for j in np.flatnonzero(mask):
                rise = row[j] - prediction[j]
                if latest[j] is None:
                    c[j, 0] += rise
                elif self.bridges:
                    gap = time - latest[j]
                    c[j] += drive(0 * c[j], [0.0, rise / gap], gap, self.A, self.B)
                channels[j], latest[j] = np.r_[row[j], c[j]], time
            if len(w):
                seen = [np.where(mask, row, 0.0), mask, np.where(mask, row - prediction, 0.0)]
                w[:] = self.recur(np.concatenate(seen), w)
            results.append((prediction, z, c))
        return results


@pytest.mark.parametrize("block_rows", [200_000, 7])
@pytest.mark.parametrize("longest", [1.0, 8.0], ids=["short gaps", "gaps beyond max_gap"])
def test_scan_is_the_plain_one(block_rows, longest):
    flat = flat_series(LENGTHS, max_gap=longest)
    model = make_model(max_gap=3.0)
    data = pack(*flat, block_rows=block_rows)
    expected = [Plain(model).run(*part(flat, i)) for i in range(len(LENGTHS))]
    count = [0] * len(LENGTHS)
    with torch.no_grad():
        for step in model.run(data):
            for k, row in enumerate(step.rows.tolist()):
                i = int(data.series[row])
                prediction, z, c = expected[i][count[i]]
                count[i] += 1
                np.testing.assert_allclose(step.prediction.mean[k], prediction, atol=1e-9)
                np.testing.assert_allclose(step.state["z"][k], z, atol=1e-9)
                np.testing.assert_allclose(step.state["c"][k], c, atol=1e-9)
        state = model.embed(data)
    z, c = state["z"], state["c"]
    assert count == LENGTHS
    for i, results in enumerate(expected):
        np.testing.assert_allclose(z[i], results[-1][1], atol=1e-9)
        np.testing.assert_allclose(c[i], results[-1][2], atol=1e-9)


def test_a_second_memory_follows_the_same_path_and_leaves_no_trace():
    """That of the same measure is the same; one of another window is that of a model with it."""
    flat, other = flat_series(LENGTHS), LegTMemory(SIZE + 3, 4 * WINDOW)
    z, c = embed(make_model(), flat)
    for history in (LegTMemory(SIZE, WINDOW), other):
        model = make_model(history=history)
        assert model.embed(pack(*flat)).keys() == {"z", "c"}  # training does without
        with torch.no_grad():
            state = model.eval().embed(pack(*flat))
        torch.testing.assert_close(state["z"], z)
        torch.testing.assert_close(state["c"], c)
        if history is not other:
            torch.testing.assert_close(state["history"], c)
    # What a long memory holds of a path is what it would remember of it, bridged, by quadrature.
    with torch.no_grad():
        steps = list(model.run(pack(*flat)))
    for step in steps:
        rows = step.rows
        data = pack(*flat)
        again = model.corrected(other, step.before["z"][:, model.signals], data, rows)
        torch.testing.assert_close(step.before["history"] + again, step.state["history"])


def test_features_are_coefficients_and_the_state_after_a_reset():
    flat = flat_series(LENGTHS)
    model = make_model(history=LegTMemory(SIZE + 3, 4 * WINDOW)).eval()
    with torch.no_grad():
        state = model.embed(pack(*flat))
        features = model.features(state)
    assert torch.equal(features["coefficients"], state["history"])
    hidden = torch.cat([model.split(state["z"])[0][..., :1], state["c"]], dim=-1)
    torch.testing.assert_close(features["hidden"], hidden * 0.5)  # root of a quarter


def test_order_batch_and_time_shift_do_not_matter():
    flat, model = flat_series(LENGTHS), make_model()
    parts = [part(flat, i) for i in range(5)]
    z, c = embed(model, flat)
    order = [3, 1, 4, 0, 2]
    z_permuted, c_permuted = embed(model, join([parts[i] for i in order]))
    torch.testing.assert_close(z_permuted, z[order], rtol=0, atol=1e-10)
    torch.testing.assert_close(c_permuted, c[order], rtol=0, atol=1e-10)
    z_shifted, c_shifted = embed(model, join([(t + 100.0, v) for t, v in parts]))
    torch.testing.assert_close(z_shifted, z, rtol=0, atol=1e-10)
    torch.testing.assert_close(c_shifted, c, rtol=0, atol=1e-10)
    for i, one in enumerate(parts):
        z_alone, c_alone = embed(model, join([one]))
        torch.testing.assert_close(z_alone[0], z[i], rtol=0, atol=1e-10)
        torch.testing.assert_close(c_alone[0], c[i], rtol=0, atol=1e-10)


def observe_one(model, mask):
    """State and memory before and after an observation of some channels."""
    data = pack(*flat_series([2], missing=0.0))
    data.mask[1], rows = torch.tensor(mask), slice(1, 2)
    rng = np.random.default_rng(0)
    z = torch.from_numpy(rng.normal(size=(1, model.size)))
    c = torch.from_numpy(rng.normal(size=(1, 2, SIZE)))
    after = model.observe({"z": z, "c": c}, data, rows)
    return data.x[rows], *(model.split(x)[0] for x in (z, after["z"])), c, after["c"]


def test_only_observed_channels_are_reset():
    x, z, z_after, c, c_after = observe_one(make_model(), [True, False])
    assert torch.equal(z_after[:, 1], z[:, 1])
    assert torch.equal(c_after[:, 1], c[:, 1])
    assert torch.equal(z_after[:, 0, 0], x[:, 0])
    assert torch.equal(z_after[:, 0, 1:], c_after[:, 0])


def test_bridged_memory_passes_through_the_observations():
    """The remembered path, with many coefficients, meets them."""
    times = np.cumsum(np.full(6, 0.25))
    values = np.random.default_rng(0).normal(size=(6, 1))
    model = make_model(1, size=64, strength=1.0, step_size=0.05)
    _, c = embed(model, (times, values, np.array([0, 6])))
    ages = torch.from_numpy((times[-1] - times)[None])
    back = model.memory.reconstruct(c, ages, torch.tensor([1.25], dtype=torch.float64))
    assert abs(back[0, :, 0].numpy() - values[:, 0])[1:].max() < 0.2


def test_first_observation_of_a_channel_is_its_whole_past():
    times, values = np.array([0.0]), np.array([[0.7, np.nan]])
    model = make_model()
    z, c = embed(model, (times, values, np.array([0, 1])))
    expected = torch.zeros(2, SIZE, dtype=torch.float64)
    expected[0, 0] = 0.7
    torch.testing.assert_close(c[0], expected)
    z, _ = model.split(z)
    torch.testing.assert_close(z[0, 0], torch.cat([torch.tensor([0.7]).double(), expected[0]]))
    torch.testing.assert_close(z[0, 1], torch.zeros(1 + SIZE, dtype=torch.float64))


def test_after_the_longest_gap_the_signal_is_held():
    model = make_model(max_gap=2.0)
    z = torch.from_numpy(np.random.default_rng(0).normal(size=(1, model.size)))
    c = model.split(z)[0][..., 1:].clone()

    def double(x):
        return torch.tensor([x], dtype=torch.float64)

    with torch.no_grad():
        end = model.flow({"z": z, "c": c}, double(7.0), double(7.0))
        two = model.flow({"z": z, "c": c}, double(2.0), double(2.0))
        held = model.memory.hold(two["c"], two["z"][:, model.signals], double(5.0), double(7.0))
    torch.testing.assert_close(end["z"], two["z"])
    torch.testing.assert_close(end["c"], held)


@pytest.mark.parametrize("gap", [0.4, 2.6])
def test_flow_with_and_without_memory_and_trace_agree(gap):
    model = make_model(max_gap=2.0)
    z = torch.from_numpy(np.random.default_rng(0).normal(size=(3, model.size)))
    gaps = torch.full((3,), gap, dtype=torch.float64)
    with torch.no_grad():
        flowed = model.flow({"z": z}, gaps, gaps)["z"]
        traced, path = model.trace(z, gaps)
        whole = model.flow({"z": z, "c": model.split(z)[0][..., 1:]}, gaps, gaps)
    torch.testing.assert_close(traced, flowed)
    torch.testing.assert_close(whole["z"], flowed)
    torch.testing.assert_close(path.values[0], z[:, model.signals])
    torch.testing.assert_close(path.values[int(path.n_steps[0])], flowed[:, model.signals])


def test_without_an_observation_the_learned_state_goes_on():
    """And what was not observed is not read."""
    model, data = make_model(), pack(*flat_series([2], missing=0.0))
    rng = np.random.default_rng(0)
    z = torch.from_numpy(rng.normal(size=(1, model.size)))
    after = []
    for mask, other in (([False, False], 0.0), ([True, False], 0.0), ([True, False], 7.0)):
        data.mask[1], data.x[1, 1] = torch.tensor(mask), other
        state = {"z": z, "c": torch.zeros(1, 2, SIZE, dtype=torch.float64)}
        after.append(model.split(model.observe(state, data, slice(1, 2))["z"])[1])
    assert torch.equal(after[0], model.split(z)[1])
    assert not torch.equal(after[1], after[0])
    assert torch.equal(after[1], after[2])


def test_state_dict_round_trip():
    one, two = make_model(seed=0), make_model(seed=1)
    flat = flat_series(LENGTHS)
    assert not torch.equal(embed(one, flat)[1], embed(two, flat)[1])
    two.load_state_dict(one.state_dict())
    assert torch.equal(embed(one, flat)[1], embed(two, flat)[1])
