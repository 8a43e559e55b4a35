"""Adapters to peers' code: what they import, what they hand over, and how answers come back.

Their repositories are not here; small ones of our own stand in for them.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn
from torch.optim import SGD

from benchmarks.peers_code import grafiti, linodenet, tpatchgnn
from benchmarks.peers_code.padded import Padded
from benchmarks.peers_code.preparations import hourly, odd
from benchmarks.peers_code.repositories import Repository
from benchmarks.peers_code.training import (
    Peer,
    Recipe,
    Shape,
    answers,
    in_order,
    with_descriptors,
)
from benchmarks.real.questions import after, ahead
from skpolyode import Panel

CUT = 24.0
FAKE = Repository("https://example.org/owner/fake", "0" * 40, ("code",))
GRAFITI = """
import torch
class GraFITi(torch.nn.Module):
    def __init__(self, input_dim, attn_head, latent_dim, n_layers, device):
        super().__init__()
    def forward(self, times, values, seen, targets):
        self.read = times, values, seen, targets
        return values + targets * times[:, :, None]
"""
LINODENET = """
from types import SimpleNamespace
import torch
part = {"x": 0}
ResNet = SimpleNamespace(HP=part)
embeddings = SimpleNamespace(ConcatEmbedding=ResNet, ConcatProjection=ResNet)
filters = SimpleNamespace(SequentialFilter=ResNet)
class System(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = self.kernel = torch.nn.Parameter(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
        self.scalar = torch.nn.Parameter(torch.tensor(0.5))
    def kernel_parametrization(self, weight):
        return weight
system = SimpleNamespace(LinODECell=ResNet)
class LinODEnet(torch.nn.Module):
    def __init__(self, n_channels, latent, hidden, **parts):
        super().__init__()
        self.system = System()
    def forward(self, times, values):
        self.read = times, values
        return times[:, :, None].expand(values.shape)
"""
TPATCHGNN = """
import torch
from reformer_pytorch import LSHSelfAttention
class tPatchGNN(torch.nn.Module):
    def __init__(self, args):
        super().__init__()
        self.nodes = torch.nn.Parameter(torch.zeros(args.ndim).cuda())
    def forecasting(self, times, values, at, mask):
        self.read = times, values, at, mask
        return (times[:, :, None] + self.nodes)[None]
"""
SOURCES = {
    "GraFITi/grafiti/grafiti.py": GRAFITI,
    "Physiome-ODE/experiments/training/models/linodenet/models.py": LINODENET,
    "t-PatchGNN/tPatchGNN/model/tPatchGNN.py": TPATCHGNN,
}


@pytest.fixture
def repositories(tmp_path):
    for file, source in SOURCES.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True)
        path.write_text(source)
    return tmp_path


@pytest.fixture
def panel():
    rng = np.random.default_rng(0)
    series = []
    for n in (9, 4, 12, 7):
        times = np.sort(rng.uniform(1, 40, n))
        times[0], times[-1] = 1.0, 40.0
        values = rng.normal(size=(n, 3))
        values[1:-1][rng.random((n - 2, 3)) < 0.4] = np.nan
        series.append((times, values))
    static = pd.DataFrame({"Age": [40.0, np.nan, 50.0, 60.0], "Unit": ["type 2", *3 * ["type 4"]]})
    return Panel.from_series(series, static=static)


class Knows(nn.Module):
    """Forecasts what is asked for, plus a bias that it learns."""

    def __init__(self, *_):
        super().__init__()
        self.bias = nn.Parameter(torch.ones(()))

    def forward(self, batch):
        return batch.values.nan_to_num() + self.bias


def test_padded_tables_hold_the_rows_of_each_series(panel):
    questions = after(CUT)(panel)
    padded = Padded.of(questions)
    asked = [(times > CUT).any() and (times <= CUT).any() for times, _ in panel]
    assert len(padded.lengths) == sum(asked) == 4
    for n, (times, values) in enumerate(panel):
        length = padded.lengths[n]
        assert_allclose(padded.times[n, :length], times, rtol=1e-6)
        assert_allclose(padded.values[n, :length], values, rtol=1e-6)
        assert padded.values[n, length:].isnan().all()
        assert_array_equal(padded.asked[n, :length], times > CUT)
        known = ~np.isnan(values)
        assert_array_equal(padded.seen[n, :length], known & (times <= CUT)[:, None])
        assert_array_equal(padded.targets[n, :length], known & (times > CUT)[:, None])
    short = padded.at(torch.tensor([1]))
    assert short.times.shape == (1, 4)
    assert_allclose(in_order(padded, padded.values), questions.truth, rtol=1e-6)


def test_answers_come_in_the_order_of_the_questions(panel):
    questions = after(CUT)(panel)
    shuffled = questions.at(np.random.default_rng(1).permutation(len(questions.target)))
    found = answers(Knows(), Padded.of(shuffled), batch_size=3)
    truth = shuffled.truth
    known = ~np.isnan(truth)
    assert_allclose(found[known], truth[known] + 1.0, rtol=1e-6)


def test_one_moment_of_each_series_is_asked_from(panel):
    grid = Panel.from_series([(np.arange(6.0), np.ones((6, 1)))])
    with pytest.raises(ValueError, match="one moment of a series"):
        Padded.of(ahead(1.0, every=1.0)(grid))


@pytest.mark.parametrize("by_variable", [False, True])
@pytest.mark.parametrize("extremes", [False, True])
def test_a_peer_learns_and_answers_in_the_units_of_the_panel(panel, by_variable, extremes, capsys):
    recipe = Recipe(40, 40, 2, partial(SGD, lr=0.2), by_variable=by_variable, extremes=extremes)
    recipe = recipe._replace(descriptors=True)
    peer = Peer(Knows, recipe, after(CUT), None)
    peer.fit(panel, panel)
    test = after(CUT)(panel)
    known = ~np.isnan(test.truth)
    assert not peer.limited
    assert peer.n_epochs == 40
    assert peer.low.shape == (5,)
    found = peer.answer(None, test).mean
    assert_allclose(found[known], test.truth[known], atol=1e-4)
    assert capsys.readouterr().out == ""
    hasty = Peer(Knows, recipe, after(CUT), None, limit=0.0)
    hasty.fit(panel, panel)
    assert hasty.limited
    assert hasty.n_epochs == 1
    assert "the limit of 0 s ended training in epoch 1" in capsys.readouterr().out


def test_the_best_weights_are_kept(panel):
    recipe = Recipe(30, 3, 4, partial(SGD, lr=1.5))  # which only gets worse
    peer = Peer(Knows, recipe, after(CUT), None)
    peer.fit(panel, panel)
    assert peer.n_epochs == 4
    assert abs(peer.network.bias.item()) == pytest.approx(2.0)  # after one step


def test_descriptors_are_channels_of_the_first_row(panel):
    both = with_descriptors(panel)
    assert both.channel_names[3:] == ("Age", "Unit")
    first = both.offsets[:-1]
    assert_array_equal(both.values[first, 3:], [[40, 2], [np.nan, 4], [50, 4], [60, 4]])
    assert np.isnan(np.delete(both.values[:, 3:], first, axis=0)).all()
    assert_array_equal(both.values[:, :3], panel.values)


def test_grafiti_reads_cells_and_targets(panel, repositories):
    padded = Padded.of(after(CUT)(panel))
    network = grafiti.make(grafiti.DAY, repositories, Shape(3, 48.0, "cpu"))
    forecasts = network(padded)
    times, values, seen, targets = network.own.read
    assert_allclose(times, padded.times / 48)
    assert_array_equal(seen.bool(), padded.seen)
    assert_array_equal(targets.bool(), padded.targets)
    assert (values[~padded.seen] == 0).all()
    assert_array_equal(values[padded.seen], padded.values[padded.seen])
    expected = (padded.times / 48)[:, :, None].expand(forecasts.shape)
    assert_array_equal(forecasts[padded.targets], expected[padded.targets])


def test_linodenet_reads_series_that_end_together(panel, repositories):
    padded = Padded.of(after(CUT)(panel))
    network = linodenet.Network(repositories, Shape(3, 48.0, "cpu"))
    forecasts = network(padded)
    times, values = network.own.read
    for n, length in enumerate(padded.lengths.tolist()):
        start = times.shape[1] - length
        assert (times[n, :start] == 0).all()
        assert values[n, :start].isnan().all()
        assert_allclose(times[n, start:], padded.times[n, :length] / 48)
        own = padded.values[n, :length].where(padded.seen[n, :length], torch.nan)
        assert_array_equal(values[n, start:], own)
        assert_allclose(forecasts[n, :length, 0], padded.times[n, :length] / 48)
    system = network.own.system  # one exponential a gap is what its own code has for each row
    gaps, states = times.diff(dim=1)[:, 3], torch.randn(len(times), 2)
    flows = torch.matrix_exp(gaps[:, None, None] * 0.5 * system.own.weight)
    expected = torch.einsum("bkl,bl->bk", flows, states)
    assert_allclose(system(gaps, states).detach(), expected.detach(), atol=1e-5)


def test_tpatchgnn_reads_patches_of_eight_hours(panel, repositories):
    padded = Padded.of(after(CUT)(panel))
    network = tpatchgnn.Network(repositories, Shape(3, 48.0, "cpu"))
    forecasts = network(padded)
    asked, values, times, mask = network.own.read
    for n, (own, cells) in enumerate(panel):
        targets = own[own > CUT]
        assert_allclose(asked[n, : len(targets)], targets / 48, rtol=1e-6)
        assert_allclose(forecasts[n][padded.asked[n]][:, 0].detach(), targets / 48, rtol=1e-6)
        for patch in range(3):
            for channel in range(3):
                inside = (own // 8 == patch) & ~np.isnan(cells[:, channel])
                there = mask[n, patch, :, channel].bool()
                assert_allclose(times[n, patch, there, channel], own[inside] / 48, rtol=1e-6)
                found = values[n, patch, there, channel]
                assert_allclose(found, cells[inside, channel], rtol=1e-6)
    assert "reformer_pytorch" not in sys.modules
    assert mask.sum() == padded.seen.sum()


def test_a_copy_that_is_missing_or_at_another_commit_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"git clone https://example.org/owner/fake .*000"):
        FAKE.copy_in(tmp_path)
    copy = tmp_path / "fake"
    (copy / "code").mkdir(parents=True)
    assert FAKE.copy_in(tmp_path) == copy  # a plain copy: there is no commit to check
    name = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q"], [*name, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", "-C", copy, *command], check=True)
    with pytest.raises(ValueError, match=r"is at commit .* checkout 000"):
        FAKE.copy_in(tmp_path)
    found = subprocess.run(
        ["git", "-C", copy, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    assert FAKE._replace(commit=found.stdout.strip()).copy_in(tmp_path) == copy


def test_modules_of_a_copy_leave_no_trace(tmp_path):
    code = tmp_path / "fake" / "code"
    code.mkdir(parents=True)
    (code / "json.py").write_text("from inside import VALUE")  # as one of the standard library
    (code / "inside.py").write_text("VALUE = 5")
    import json as before

    path = sys.path[:]
    with FAKE.importable(tmp_path):
        import json

        assert json.VALUE == 5
    import json as after_all

    assert after_all is before
    assert "inside" not in sys.modules
    assert sys.path == path


def test_rows_of_an_even_number_of_cells_are_dropped(panel):
    left = odd(panel)
    counts = (~np.isnan(panel.values)).sum(axis=1)
    assert_array_equal(left.times, panel.times[counts % 2 == 1])
    assert ((~np.isnan(left.values)).sum(axis=1) % 2 == 1).all()
    assert_array_equal(left.ids, panel.ids)


def test_hours_hold_means_of_their_rows_and_no_outliers():
    rng = np.random.default_rng(0)
    series = [(np.array([0.2, 0.8, 1.5]), rng.normal(size=(3, 1))) for _ in range(99)]
    series.append((np.array([0.5, 2.5]), np.array([[0.0], [1e3]])))
    found = hourly(Panel.from_series(series))
    assert_array_equal(found.times, [*np.tile([0.0, 1.0], 99), 0.0])  # without the outlier
    means = np.array([[values[:2].mean(), values[2, 0]] for _, values in series[:-1]]).ravel()
    scale = np.diff(found.values[:2, 0]) / np.diff(means[:2])
    assert_allclose(np.diff(found.values[:-1, 0]), scale * np.diff(means))
