r"""Signatures of piecewise linear paths, and their logarithms.

The signature of a path X in v dimensions is, to depth n, the tensors of its iterated integrals,
``S_k = int_{t1 < .. < tk} dX(t1) x .. x dX(tk)``, k = 1..n. For a straight piece with increment d
it is ``d^k / k!``, and the signature of a continued path is the product with that of the new piece
(Chen's identity). The logarithm of the signature contains the same in fewer numbers: increments,
areas between pairs of dimensions, and so on. Here these are its entries at the Lyndon words; all
others are combinations of them.
"""

from __future__ import annotations

from functools import lru_cache

import torch

Signature = list[torch.Tensor]
"""Levels of n signatures: (n, v), (n, v, v), (n, v, v, v), ..."""


def trivial(n: int, n_dims: int, depth: int, like: torch.Tensor) -> Signature:
    """Signatures of n paths of length zero."""
    return [like.new_zeros(n, *[n_dims] * k) for k in range(1, depth + 1)]


def continued(signature: Signature, increment: torch.Tensor) -> Signature:
    """Signatures of paths, continued by linear increments (n, v).

    Examples
    --------
    A step to the right and one upwards enclose an area of 1/2:

    >>> import torch
    >>> from skpolyode.siblings.log_signature import continued, log_signature, trivial
    >>> right, up = torch.eye(2)[:, None]
    >>> signature = trivial(1, 2, 2, like=right)
    >>> log_signature(continued(continued(signature, right), up))
    tensor([[1.0000, 1.0000, 0.5000]])
    """
    result = []
    for k in range(1, len(signature) + 1):
        # Horner: (((d / k + S_1) d / (k - 1) + S_2) d / (k - 2) + ..) + S_k
        level = increment / k
        for j in range(1, k):
            level = _outer(signature[j - 1] + level, increment / (k - j))
        result.append(signature[k - 1] + level)
    return result


def log_signature(signature: Signature) -> torch.Tensor:
    """Entries (n, b) of the logarithms at the Lyndon words, by their lengths."""
    depth, n_dims = len(signature), signature[0].shape[1]
    total, power = list(signature), list(signature)
    for order in range(2, depth + 1):  # log(1 + S) = S - S^2 / 2 + S^3 / 3 ..
        power = _product(power, signature)
        total = [x + (-1) ** (order + 1) / order * p for x, p in zip(total, power, strict=True)]
    entries = [level.flatten(1)[:, _places(n_dims, k)] for k, level in enumerate(total, start=1)]
    return torch.cat(entries, dim=1)


def n_words(n_dims: int, depth: int) -> int:
    """Number of words that :func:`lyndon_words` returns, up to a length of three.

    Examples
    --------
    >>> from skpolyode.siblings.log_signature import n_words
    >>> n_words(2, 3)
    5
    """
    if depth not in (1, 2, 3):
        raise ValueError(f"depth must be 1, 2 or 3, got {depth}.")
    # Lyndon words of a prime length k are the words of unequal letters, up to rotation.
    return n_dims + sum((n_dims**k - n_dims) // k for k in range(2, depth + 1))


def lyndon_words(n_dims: int, depth: int) -> list[tuple[int, ...]]:
    """Lyndon words up to length `depth`, by length, then in lexicographic order (Duval).

    Examples
    --------
    >>> from skpolyode.siblings.log_signature import lyndon_words
    >>> lyndon_words(2, 3)
    [(0,), (1,), (0, 1), (0, 0, 1), (0, 1, 1)]
    """
    words, word = [], [-1]
    while word:
        word[-1] += 1
        words.append(tuple(word))
        word = [word[k % len(word)] for k in range(depth)]
        while word and word[-1] == n_dims - 1:
            word.pop()
    return sorted(words, key=lambda word: (len(word), word))


@lru_cache(maxsize=64)
def _places(n_dims: int, length: int) -> list[int]:
    """Positions of the Lyndon words of a length in a flat level."""
    words = [word for word in lyndon_words(n_dims, length) if len(word) == length]
    return [sum(d * n_dims ** (length - 1 - k) for k, d in enumerate(word)) for word in words]


def _outer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Tensor products, row by row."""
    flat = x.flatten(1)[:, :, None] * y.flatten(1)[:, None, :]
    return flat.reshape(len(x), *x.shape[1:], *y.shape[1:])


def _product(x: Signature, y: Signature) -> Signature:
    """Products of tensor series without constant parts."""
    levels = []
    for k in range(len(x)):
        level = torch.zeros_like(x[k])
        for j in range(k):
            level = level + _outer(x[j], y[k - 1 - j])
        levels.append(level)
    return levels
