"""Streams of every kind, and what they are compared with."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from skpolyode import HiPPOTransformer
from skpolyode.memory import MEMORIES
from skpolyode.saving.codec import Encoder
from tests.transformers.data import Pairs, short_oscillators, small

VARIANTS: dict[str, dict[str, Any]] = {
    "polyode": {},
    "polyode coefficients": {"embedding": "coefficients"},
    "polyode legs": {"measure": "legs"},
    "polyode hidden": {"embedding": "hidden", "window": 0.7},
    "polyode noisy": {"observations": "noisy"},
    "hippo": {},
    "hippo previous": {"hold": "previous"},
    "hippo lagt previous": {"measure": "lagt", "hold": "previous"},
    **{f"hippo {measure}": {"measure": measure} for measure in MEMORIES if measure != "legt"},
}


@cache
def fitted(name: str) -> Any:
    parameters = VARIANTS[name]
    if name.startswith("polyode"):
        return small(**parameters).fit(short_oscillators())
    return HiPPOTransformer(n_coefficients=6, **parameters).fit(short_oscillators())


def flat(series: Pairs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which series, times and values of all rows."""
    owner = np.repeat(np.arange(len(series)), [len(t) for t, _ in series])
    return owner, *(np.concatenate(parts) for parts in zip(*series, strict=True))


def mixed(series: Pairs, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `flat`, with the series mixed; each of them stays in order."""
    owner, times, values = flat(series)
    place = rng.permutation(len(owner))
    places = np.concatenate([np.sort(place[owner == i]) for i in range(len(series))])
    order = np.argsort(places)
    return owner[order], times[order], values[order]


def snapshot(stream: Any) -> tuple[Any, dict[str, bytes]]:
    """All that a stream consists of."""
    encoder = Encoder()
    content = encoder.encode(stream, "stream")
    return content, {name: array.tobytes() for name, array in encoder.arrays.items()}


def assert_same_answers(stream: Any, transformer: Any, series: Pairs, atol: float = 1e-10) -> None:
    """Every answer of the stream is that of the transformer."""
    tight = {"rtol": 0, "atol": atol}
    np.testing.assert_allclose(stream.embedding(), transformer.transform(series), **tight)
    ends = np.array([t[~np.isnan(x).all(axis=1)][-1] for t, x in series])
    past = [[end, end - 0.2 * transformer.window_] for end in ends]
    old, new = transformer.reconstruct(series, past), stream.reconstruct(past)
    np.testing.assert_allclose(new.values, old.values, **tight)
    assert new.equals(new.like(old.times, new.values, old.offsets))
    if hasattr(stream, "forecast"):
        ahead = [[end, end + 0.3, end + 2.0] for end in ends]
        old, new = transformer.forecast(series, ahead), stream.forecast(ahead)
        np.testing.assert_allclose(new.values, old.values, **tight)
        paths = [
            answer.samples
            for answer in (
                transformer.sample_paths(series, ahead, n_samples=9, random_state=0),
                stream.sample_paths(ahead, n_samples=9, random_state=0),
            )
        ]
        np.testing.assert_allclose(paths[1], paths[0], **tight)
