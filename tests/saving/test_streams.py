"""Files of streams that are not as `save` left them: refused before anything is built."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tests.saving.test_files import HUGE, crafted, load_bytes, parts
from tests.transformers.data import oscillators, small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@pytest.fixture(scope="module")
def good_stream(folder: Path) -> bytes:
    path = folder / "stream.safetensors"
    X = oscillators(4)
    small(n_coefficients=2, hidden_layer_sizes=(3,)).fit(X).stream(X).save(path)
    return path.read_bytes()


def drop(name):
    return lambda state: state.pop(name)


def put(*keys):
    """Change a state at a path of keys, the last of which is the new value."""

    def change(state):
        *path, last, value = keys
        for key in path:
            state = (dict(map(tuple, state["dict"])) if "dict" in state else state)[key]
        if "dict" in state:
            state["dict"] = [pair for pair in state["dict"] if pair[0] != last] + [[last, value]]
        else:
            state[last] = value

    return change


_PANEL = "panel", "object", 1
_MEMORY = ("of", "object", 1, "past", "object", 1, "memory", "object", 1)
UNFITTED = {"params": {"dict": []}, "fitted": {"dict": []}}
SPOILT_STREAMS = {
    **{f"no {name}": drop(name) for name in ("of", "panel", "clock", "parts")},
    "offsets": put(*_PANEL, "offsets", {"array": "a"}),
    "times": put(*_PANEL, "counts", {"array": "a"}),
    "origin": put(*_PANEL, "origin", {"array": "a"}),
    "zone": put(*_PANEL, "tz", "dateutil//proc/self/environ"),
    "names": put(*_PANEL, "channel_names", ["a"]),
    "ids": put(*_PANEL, "ids", {"objects": ["a"]}),
    "more labels": put(*_PANEL, "other", 3.0),
    "part": put("parts", "z", 3.0),
    "more parts": put("parts", "other", {"tensor": "a"}),
    "clock": put("clock", "last", {"array": "a"}),
    "n_coefficients": put(*_MEMORY, "n_coefficients", HUGE),
    "transformer": put("of", 3),
    "unfitted": put("of", "object", ["transformers.HiPPOTransformer", UNFITTED]),
}


@pytest.mark.parametrize("kind", SPOILT_STREAMS)
def test_stream_whose_parts_do_not_fit_is_refused(kind, folder, good_stream):
    content, arrays = parts(good_stream, folder)
    assert load_bytes(crafted(content, arrays), folder).n_series == 4
    SPOILT_STREAMS[kind](content["object"][1])
    with pytest.raises(ValueError, match="damaged"):
        load_bytes(crafted(content, arrays | {"a": np.ones(2)}), folder)


def test_stream_with_a_memory_whose_tables_no_file_bounds_is_refused(folder, good_stream):
    content, arrays = parts(good_stream, folder)
    n = 5000
    put(*_MEMORY, "n_coefficients", n)(content["object"][1])
    for name, size in (("c", n), ("z", n + 1)):
        put("parts", name, {"tensor": name})(content["object"][1])
        arrays[name] = np.zeros((4, 2, size))
    with pytest.raises(ValueError, match="damaged") as caught:
        load_bytes(crafted(content, arrays), folder)
    assert "no memory has 5000 coefficients" in str(caught.value.__cause__)


def test_labels_alone_make_nothing_large(folder, good_stream):
    """Text is short: so many ids times as many names are not."""
    content, arrays = parts(good_stream, folder)
    state, n = content["object"][1], 3000
    names = [str(k) for k in range(n)]
    flat = {"offsets": np.zeros(n + 1, dtype=np.int64), "values": np.empty((0, n))}
    arrays |= flat
    for label in flat:
        put(*_PANEL, label, {"array": label})(state)
    put(*_PANEL, "channel_names", {"tuple": names})(state)
    put(*_PANEL, "ids", {"objects": names})(state)
    data = crafted(content, arrays)
    tracemalloc.start()
    with pytest.raises(ValueError, match="damaged"):
        load_bytes(data, folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * len(data) < 8 * n**2
