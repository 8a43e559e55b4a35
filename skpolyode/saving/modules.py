"""Saving of torch modules: a registered class, its constructor's arguments, its weights."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import nn

from skpolyode.saving.codec import ArrayError, register

_FEW = 32  # most entries of the arguments, in addition to one per weight


def register_module(
    cls: type[nn.Module], arguments: Callable[[Any], dict[str, Any]] | None = None, **options: Any
) -> type[nn.Module]:
    """Register a class of torch modules, so that files can hold its instances; also a decorator.

    Saved are the constructor's arguments, the `state_dict`, and the attribute `training`. On
    loading, the constructor allocates and draws nothing: all memory is that of the weights in the
    file.

    Parameters
    ----------
    cls : type
        Exactly this class, not its subclasses. A module inside another need not be registered.
    arguments : callable or None, default=None
        Returns the arguments, by name, with which the constructor makes a module of the same
        structure. None: the attributes named like the constructor's parameters, except `generator`.
        Repeated parts must be given by a list of sizes, not by their number: with a number, a file
        of a few bytes could ask for a million layers.
    **options : dict
        `part` of :func:`skpolyode.saving.codec.register`.

    Returns
    -------
    type
        The class.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.saving.codec import Decoder, Encoder
    >>> from skpolyode.saving import register_module
    >>> @register_module
    ... class Rotation(torch.nn.Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.size, self.weight = size, torch.nn.Parameter(torch.zeros(size, size))
    >>> encoder = Encoder()
    >>> document = encoder.encode(Rotation(2), "rotation")
    >>> Decoder(encoder.arrays).decode(document).weight.shape
    torch.Size([2, 2])
    """

    def to_state(module: nn.Module) -> dict[str, Any]:
        if arguments is None:
            names = set(inspect.signature(cls).parameters) - {"generator"}
            given = {name: getattr(module, name) for name in sorted(names)}
        else:
            given = arguments(module)
        weights = dict(module.state_dict())
        return {"arguments": given, "weights": weights, "training": module.training}

    def from_state(state: dict[str, Any]) -> nn.Module:
        given, weights = state["arguments"], state["weights"]
        if _entries(given) > _FEW + len(weights):
            raise ValueError(f"more arguments of {cls.__name__} than its weights can need")
        with torch.device("meta"):
            module = cls(**given)
        module.load_state_dict(weights, assign=True)  # raises unless names and shapes agree
        if any(w.is_floating_point() and not w.isfinite().all() for w in weights.values()):
            raise ArrayError(f"weights of {cls.__name__} are not finite")
        if any(tensor.is_meta for tensor in chain(module.parameters(), module.buffers())):
            raise ValueError(f"{cls.__name__} has tensors that its state_dict leaves out")
        # Tables and other tensors that a module moves with its weights get their dtype and device.
        return module.train(state["training"])._apply(lambda tensor: tensor)

    register(cls, to_state, from_state, **options)
    return cls


def _entries(value: Any) -> int:
    """Count of numbers and texts in nested lists."""
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(_entries, value)) if isinstance(value, list | tuple) else 1


# Modules of torch, with those arguments that are attributes of the same name. Modules with
# `num_layers` are left out, since a file could ask for any number of layers.
_ATTRIBUTES: dict[type[nn.Module], tuple[str, ...]] = {
    nn.Linear: ("in_features", "out_features", "bias"),
    nn.LayerNorm: ("normalized_shape", "eps", "elementwise_affine", "bias"),
    nn.RNNCell: ("input_size", "hidden_size", "bias", "nonlinearity"),
    **dict.fromkeys((nn.GRUCell, nn.LSTMCell), ("input_size", "hidden_size", "bias")),
    nn.Embedding: ("num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type"),
    **dict.fromkeys((nn.Identity, nn.ReLU, nn.SiLU, nn.Tanh, nn.Sigmoid), ()),
    nn.GELU: ("approximate",),
    nn.ELU: ("alpha",),
    nn.LeakyReLU: ("negative_slope",),
    nn.Softplus: ("beta", "threshold"),
    nn.Dropout: ("p",),
    nn.Flatten: ("start_dim", "end_dim"),
}


def _attributes(names: tuple[str, ...], module: nn.Module) -> dict[str, Any]:
    arguments = {name: getattr(module, name) for name in names}
    if not isinstance(bias := arguments.get("bias", True), bool):  # the bias itself, or None
        arguments["bias"] = bias is not None
    return arguments


for _cls, _names in _ATTRIBUTES.items():
    register_module(_cls, partial(_attributes, _names), part="torch")


def _register_children(cls: type[nn.Module], make: Callable[[dict], nn.Module]) -> None:
    """Register a module that only has children; `make` takes them by name."""

    def from_state(state: dict[str, Any]) -> nn.Module:
        module = make(state["children"])
        module.training = state["training"]  # children have separate flags
        return module

    register(
        cls,
        lambda module: {"children": dict(module.named_children()), "training": module.training},
        from_state,
        part="torch",
    )


_register_children(nn.Sequential, lambda children: nn.Sequential(OrderedDict(children)))
_register_children(nn.ModuleList, lambda children: nn.ModuleList(children.values()))
_register_children(nn.ModuleDict, nn.ModuleDict)
