"""Files whose arrays were changed and signed anew: nothing that cannot be right is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import skpolyode
from skpolyode import Panel, PanelImputer, PolyODETransformer
from skpolyode.saving.codec import ArrayError, Decoder, Encoder, check_arrays
from skpolyode.saving.objects import write_file
from skpolyode.structural import StructuralForecaster
from tests.quick import whole_fits

# Arrays whose order a file cannot get wrong unnoticed.
ORDERED = re.compile(r"\.(leads|since|knots|errors)'*$|errors\[\d+\]\[\d+\]\.errors")
COUNTED = re.compile(r"\.errors\[|calibration\.paths\.scores|\['mixed'\]\.knots")


def series() -> Panel:
    rng, found = np.random.default_rng(0), []
    for k in range(12):
        times = np.sort(rng.uniform(0, 12, 24))
        values = np.stack([np.sin(times + k), np.cos(2 * times)], axis=1)
        values[rng.random(values.shape) < 0.2] = np.nan
        values[0] = 0.0, 1.0
        found.append((times, values + 0.1 * rng.normal(size=values.shape)))
    return Panel.from_series(found)


@pytest.fixture(scope="module")
def saved() -> tuple[object, dict[str, np.ndarray]]:
    """Document and arrays of a list of all that holds arrays, of whole fits."""
    small = {"n_coefficients": 4, "hidden_layer_sizes": (4,), "max_epochs": 2, "random_state": 0}
    with whole_fits():
        imputer = PanelImputer(PolyODETransformer(**small)).fit(series())
    structural = StructuralForecaster().fit(series())
    encoder = Encoder()
    return encoder.encode([imputer, structural], "saved"), encoder.arrays


def changes(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """One array that is too short or has too many axes, has NaN, or is in the wrong order."""
    found = {"axes": array[None], "shorter": array[:-1]}
    if array.dtype.kind == "f" and array.size:
        bad = array.copy()
        bad.flat[-1] = np.nan
        found["NaN"] = bad
    if ORDERED.search(name) and len(array) > 1:
        found["order"] = array[::-1].copy()
    return found


class Recalling(Decoder):
    """Decodes an object once: one that is known is handed out again."""

    def __init__(self, arrays: dict[str, np.ndarray], known: dict[int, object]) -> None:
        super().__init__(arrays)
        self.known = known

    def decode(self, document: object) -> object:
        if not isinstance(document, dict) or "object" not in document:
            return super().decode(document)
        if id(document) not in self.known:
            self.known[id(document)] = super().decode(document)
        return self.known[id(document)]


def owners(document: object, above: tuple[int, ...] = ()) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each array of a document, and the objects that hold it, directly or through others."""
    if isinstance(document, list):
        for part in document:
            yield from owners(part, above)
    elif isinstance(document, dict):
        for kind, content in document.items():
            if kind in ("array", "tensor") and isinstance(content, str):
                yield content, above
            yield from owners(content, (*above, id(document)) if kind == "object" else above)


def test_every_changed_array_is_refused(saved):
    """Only what holds the array is decoded anew."""
    document, arrays = saved
    recorded = Recalling(arrays, {})
    assert recorded.decode(document)
    held_by, accepted, n_tried = dict(owners(document)), [], 0
    assert held_by.keys() == arrays.keys()
    for name, array in arrays.items():
        others = {k: x for k, x in recorded.known.items() if k not in held_by[name]}
        for kind, changed in changes(name, array).items():
            n_tried += 1
            try:
                Recalling({**arrays, name: changed}, dict(others)).decode(document)
                accepted.append((name, kind))
            except (ValueError, RuntimeError):  # torch names weights of another shape
                pass
    # Nothing else says how many errors were kept of a lead, or how many paths or knots there are.
    left = [own for own in accepted if not (own[1] == "shorter" and COUNTED.search(own[0]))]
    assert (left, n_tried > 300) == ([], True), f"{len(accepted)} of {n_tried}: {left}"


def test_a_changed_file_is_named_with_what_is_wrong(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    model = skpolyode.HiPPOTransformer(n_coefficients=4).fit(series())
    encoder = Encoder()
    document = encoder.encode(model, "model")
    (name,) = (own for own in encoder.arrays if own.endswith("embedder_'].units.scaler.scale"))
    encoder.arrays[name] = np.array([1.0, np.nan])
    write_file(path, document, encoder.arrays, "9.9")
    with pytest.raises(ValueError, match=r"cannot be what was saved: ChannelScaler.scale has num"):
        skpolyode.load(path)


@pytest.mark.parametrize(
    ("spec", "value", "fault"),
    [
        ("D rising", [0.0, 1.0, 1.0], "increasing"),
        ("D sorted", [0.0, 1.0, 0.5], "increasing"),
        ("D positive", [0.0, 1.0, 1.0], "positive"),
        ("D unsigned", [0.0, -1.0, 1.0], "unsigned"),
        ("D", [0.0, np.inf, 1.0], "finite"),
        ("D inf", [0.0, np.nan, 1.0], "finite"),
        ("D+1", [0.0, 1.0, 1.0], "3 entries along"),
        ("D D", [0.0, 1.0, 1.0], "1 axes, not 2"),
    ],
)
def test_specifications(spec, value, fault):
    both = {"first": "D", "second": spec}
    with pytest.raises(ArrayError, match=f"Own.second.*{fault}"):
        check_arrays("Own", both, {"first": np.zeros(3), "second": np.array(value)})
    fine = {"a": "D sorted", "b": "D+1 inf", "c": "K+D", "d": "K", "e": "D"}
    values = {"a": np.zeros(2), "b": np.full(3, np.inf), "c": np.ones(5), "d": (1, 2, 3), "e": None}
    assert check_arrays("Own", fine, values) == {"D": 2, "K": 3}
