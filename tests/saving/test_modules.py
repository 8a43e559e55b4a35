"""Torch modules come back by class, arguments and weights; nothing is built that a file lacks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from sklearn.base import BaseEstimator
from torch import nn

import skpolyode
from skpolyode.dynamics import WalledMLP
from skpolyode.saving.codec import Decoder, Encoder, place, saved
from skpolyode.saving.modules import register_module
from skpolyode.saving.objects import register_estimator, save
from skpolyode.siblings import NeuralRDE
from tests.saving.test_codec import again

GENERATOR = torch.Generator()


class OdeRnn(nn.Module):
    """A rival in a few lines: a cell with a flow of its own, some of whose layers are shared."""

    def __init__(self, n_channels: int, n_hidden: int, *, n_layers: int = 1) -> None:
        super().__init__()
        self.n_channels, self.n_hidden = n_channels, n_hidden
        self.cell = nn.GRUCell(n_channels, n_hidden)
        self.flow = nn.Sequential(nn.Linear(n_hidden, 4), nn.Tanh(), nn.Linear(4, n_hidden))
        self.register_buffer("scale", torch.ones(n_hidden))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.cell(x)
        return h + self.scale * self.flow(h)


register_module(
    OdeRnn, lambda m: {"n_channels": m.n_channels, "n_hidden": m.n_hidden}, part="test_modules"
)


def norm() -> nn.LayerNorm:
    layer = nn.LayerNorm([2, 3], eps=1e-3)
    nn.init.uniform_(layer.weight)
    return layer


MODULES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(3, 2), (5, 3)),
    "Linear without bias": (lambda: nn.Linear(3, 2, bias=False), (5, 3)),
    "RNNCell": (lambda: nn.RNNCell(3, 4, nonlinearity="relu"), (5, 3)),
    "GRUCell": (lambda: nn.GRUCell(3, 4), (5, 3)),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4, bias=False), (5, 3)),
    "LayerNorm": (norm, (5, 2, 3)),
    "LayerNorm without weights": (lambda: nn.LayerNorm(3, elementwise_affine=False), (5, 3)),
    "Sequential": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.Dropout(0.5), nn.Linear(4, 1)).eval(),
        (5, 3),
    ),
    "activations": (
        lambda: nn.Sequential(
            *(nn.Tanh(), nn.ELU(0.5), nn.LeakyReLU(0.3), nn.Softplus(2.0), nn.GELU("tanh")),
            *(nn.Sigmoid(), nn.ReLU(), nn.Identity(), nn.Flatten(0)),
        ),
        (5, 3),
    ),
    "float64": (lambda: nn.Linear(3, 2).double(), (5, 3)),
    "WalledMLP": (lambda: WalledMLP(3, (4, 5), wall=0.5, pull=2.0), (5, 3)),
    "own": (lambda: OdeRnn(3, 2), (5, 3)),
}


@pytest.mark.parametrize("name", MODULES)
def test_module_comes_back_as_it_was(name):
    make, shape = MODULES[name]
    module = make()
    dtype = next((p.dtype for p in module.parameters()), torch.float32)
    x = torch.randn(shape, dtype=dtype, generator=GENERATOR)
    before = torch.get_rng_state()
    back = again(module)
    assert torch.equal(torch.get_rng_state(), before), "loading draws nothing"
    assert repr(back) == repr(module)
    assert [m.training for m in back.modules()] == [m.training for m in module.modules()]
    for one, other in zip(_flat(back(x)), _flat(module(x)), strict=True):
        assert torch.equal(one, other)
    assert all(p.requires_grad for p in back.parameters())


def _flat(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


def test_embedding_comes_back_as_it_was():
    module = nn.Embedding(5, 3, padding_idx=1)
    index = torch.tensor([0, 4, 1])
    assert torch.equal(again(module)(index), module(index))


def test_lists_of_modules_come_back_with_their_names():
    named = nn.Sequential()
    named.add_module("first", nn.Linear(1, 1))
    for module in (named, nn.ModuleList([nn.ReLU(), named]), nn.ModuleDict({"a": nn.Linear(1, 2)})):
        back = again(module)
        assert type(back) is type(module)
        assert back.state_dict().keys() == module.state_dict().keys()


@pytest.mark.parametrize("module", [nn.GRU(2, 2), nn.Sequential(nn.ReLU(), nn.Conv1d(1, 1, 1))])
def test_module_that_no_file_can_hold_is_named(module):
    with pytest.raises(TypeError, match=r"^net.* cannot be saved: it is of type (GRU|Conv1d), "):
        Encoder().encode(module, "net")


def test_number_that_numpy_lacks_is_refused_by_name():
    with pytest.raises(TypeError, match=r"^net.weights\['weight'\] .* of type tensor of torch.bfl"):
        Encoder().encode(nn.Linear(1, 1).bfloat16(), "net")


def crafted(module: nn.Module, **arguments: Any) -> Any:
    """What a file gives that holds the module's weights and other arguments."""
    encoder = Encoder()
    document = encoder.encode(module, "module")
    state = document["object"][1]
    given = dict(map(tuple, state["arguments"]["dict"])) | arguments
    state["arguments"] = {"dict": [[name, value] for name, value in given.items()]}
    return Decoder(encoder.arrays).decode(json.loads(json.dumps(document)))


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (nn.Linear(2, 2), {"in_features": 10**9, "out_features": 10**9}),
        (nn.GRUCell(2, 2), {"hidden_size": 10**8}),
        (nn.Embedding(2, 2), {"num_embeddings": 10**13}),
        (WalledMLP(2, (2,)), {"hidden_layer_sizes": [10**9]}),
        (NeuralRDE(1, hidden_size=2, rank=2), {"n_channels": 10**5}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sizes_are_those_of_the_weights(module, arguments):
    """Without them the arguments ask for at least 1 GB, which is never allocated."""
    assert type(crafted(module)) is type(module)
    with pytest.raises(RuntimeError, match="size mismatch"):
        crafted(module, **arguments)


@pytest.mark.parametrize(
    ("module", "name"),
    [(NeuralRDE(1, hidden_size=2, rank=2), "depth"), (WalledMLP(2, (2,)), "n_linear")],
    ids=lambda value: type(value).__name__,
)
def test_numbers_that_no_weight_tells_are_bounded(module, name):
    with pytest.raises(ValueError, match=rf"{name} must be .*, got 1000"):
        crafted(module, **{name: 1000})


def test_a_long_list_of_arguments_builds_nothing():
    with pytest.raises(ValueError, match="more arguments of WalledMLP than its weights can need"):
        crafted(WalledMLP(2, (2,)), hidden_layer_sizes=[1] * 10**4)


@pytest.mark.parametrize("change", ["lacks", "adds"])
def test_weights_that_are_not_those_of_the_class_are_refused(change):
    encoder = Encoder()
    document = encoder.encode(nn.Linear(2, 2), "net")
    weights = document["object"][1]["weights"]["dict"]
    if change == "lacks":
        weights.pop()
    else:
        weights.append(["other", {"tensor": "net.weights['weight']"}])
    with pytest.raises((RuntimeError, KeyError), match=r"Missing key|Unexpected key|weights"):
        Decoder(encoder.arrays).decode(document)


class Waves(nn.Module):
    """Keeps a table that its state_dict leaves out: it would be missing afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(3), persistent=False)


register_module(Waves, lambda _: {}, part="test_modules")


def test_a_table_that_is_not_saved_is_not_forgotten_without_a_word():
    with pytest.raises(ValueError, match="Waves has tensors that its state_dict leaves out"):
        again(Waves())


@saved
@dataclass(frozen=True)
class Embedder:
    """What `fit` may leave behind."""

    model: nn.Module
    tables: dict[str, torch.Tensor]
    unit: float


@register_estimator(part="test_modules")
class Rival(BaseEstimator):
    """An estimator as others may register it."""

    def __init__(self, size: int = 2, device: str = "cpu") -> None:
        self.size = size
        self.device = device

    def fit(self) -> Rival:
        tables = {"legt": torch.eye(self.size)}
        self.embedder_ = Embedder(OdeRnn(1, self.size), tables, 2.0)
        return self


def test_a_rival_is_saved_and_moved_to_a_device(tmp_path):
    rival = Rival(3).fit()
    save(rival, tmp_path / "rival")
    back = skpolyode.load(tmp_path / "rival")
    assert back.size == 3
    x = torch.ones(2, 1)
    assert torch.equal(back.embedder_.model(x), rival.embedder_.model(x))
    moved = skpolyode.load(tmp_path / "rival", device="meta")
    assert moved.device == "meta"
    tensors = [*moved.embedder_.model.parameters(), moved.embedder_.tables["legt"]]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.embedder_.unit == 2.0


def test_what_is_not_registered_stays_where_it_is():
    value = [{"a": 1.5}, (None, "text")]
    assert place(value, "meta") == value
