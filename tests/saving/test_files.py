"""Files that are not as `save` left them: clear errors, and nothing in them is executed."""

from __future__ import annotations

import builtins
import json
import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save as to_bytes

import skpolyode
from skpolyode.memory.tables import ResponseTable, TransitionTable
from skpolyode.saving import objects
from skpolyode.saving.objects import save
from tests.transformers.data import oscillators, small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def good(folder: Path) -> bytes:
    """A file of a transformer with a network."""
    path = folder / "good.safetensors"
    small(n_coefficients=2, hidden_layer_sizes=(3,)).fit(oscillators(4)).save(path)
    return path.read_bytes()


def parts(data: bytes, folder: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Content and arrays of a file."""
    path = folder / "parts.safetensors"
    path.write_bytes(data)
    with safe_open(path, framework="numpy") as file:
        content = json.loads(file.metadata()["skpolyode"].partition("\n")[2])
        return content, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def load_bytes(data: bytes, folder: Path) -> object:
    path = folder / "tried.safetensors"
    path.write_bytes(data)
    return skpolyode.load(path)


def crafted(content: Any, arrays: dict[str, np.ndarray], about: str = "1 9.9") -> bytes:
    """A file with a right digest, whatever it says."""
    text = content if isinstance(content, str) else json.dumps(content)
    digest = objects._digest(about, text, arrays)
    return to_bytes(arrays, metadata={"skpolyode": f"{about} {digest}\n{text}"})


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file '.*gone.safetensors': pass the path"):
        skpolyode.load(tmp_path / "gone.safetensors")
    with pytest.raises(FileNotFoundError, match="no file"):
        skpolyode.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="no file"):
        skpolyode.load("")
    model = skpolyode.SummaryStatsTransformer().fit([([0.0, 1.0], [1.0, 2.0])])
    with pytest.raises(FileNotFoundError, match=r"gone/e.safetensors' is in a folder that is not"):
        model.save(tmp_path / "gone" / "e.safetensors")
    with pytest.raises(IsADirectoryError, match="is a folder: name a file in it"):
        model.save(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 7, b"\0" * 100, b"just some text", pickle.dumps([1, 2]), b"\xff" * 64],
    ids=["empty", "short", "zeros", "text", "pickle", "ones"],
)
def test_foreign_file_is_refused(data, folder):
    with pytest.raises(ValueError, match=r"tried.safetensors' is not a file of skpolyode, or it"):
        load_bytes(data, folder)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_safetensors_file_of_others_is_refused(metadata, folder):
    data = to_bytes({"weight": np.ones(3)}, metadata=metadata)
    with pytest.raises(ValueError, match="is a safetensors file, but not of skpolyode"):
        load_bytes(data, folder)


@given(st.floats(0, 1, exclude_max=True))
@example(0.999999)
def test_file_cut_short_is_refused(good, folder, share):
    with pytest.raises(ValueError, match="damaged or cut short"):
        load_bytes(good[: int(share * len(good))], folder)


FLIPS = st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255))


@given(st.lists(FLIPS, min_size=1, max_size=3))
def test_damage_anywhere_is_noticed(good, folder, flips):
    data = bytearray(good)
    for place, mask in flips:
        data[int(place * len(data))] ^= mask
    if bytes(data) == good:
        return
    with pytest.raises(ValueError, match="skpolyode"):
        load_bytes(bytes(data), folder)


def test_every_byte_of_the_header_counts(good, folder):
    size = 8 + int.from_bytes(good[:8], "little")
    for place in range(0, size, 29):
        data = bytearray(good)
        data[place] ^= 1
        with pytest.raises(ValueError, match="skpolyode"):
            load_bytes(bytes(data), folder)


def test_later_format_says_to_update(good, folder):
    data = crafted("not even JSON", {}, about=f"{objects.SCHEMA + 1} 9.9")
    with pytest.raises(ValueError, match=r"by skpolyode 9.9 in format 2; .* update skpolyode"):
        load_bytes(data, folder)


@pytest.mark.parametrize("about", ["1", "x 9.9", "1 2 3", ""])
def test_header_that_makes_no_sense_is_refused(about, folder):
    with pytest.raises(ValueError, match="damaged"):
        load_bytes(crafted({}, {}, about=about), folder)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda pair: pair.__setitem__(0, "transformers.Future"), "'transformers.Future'"),
        (
            lambda pair: pair[1]["params"]["dict"].append(["depth", 3]),
            "parameter 'depth' of PolyODETransformer",
        ),
    ],
    ids=["class", "parameter"],
)
def test_unknown_name_says_to_update(good, folder, change, name):
    content, arrays = parts(good, folder)
    change(content["object"])
    with pytest.raises(ValueError, match=rf"holds .*{name}, which .* saved by skpolyode 9.9: upd"):
        load_bytes(crafted(content, arrays), folder)


def test_file_of_an_older_stack_says_to_fit_again(good, folder):
    """Members had no names: they were three fields of one object."""
    content, arrays = parts(good, folder)
    text = json.dumps(content).replace("ensemble.Bounds", "ensemble.SimpleForecasts")
    with pytest.raises(ValueError, match=r"holds .*'ensemble.SimpleForecasts', .* save again if"):
        load_bytes(crafted(text, arrays), folder)


def test_parameter_that_the_file_lacks_gets_its_default(good, folder):
    content, arrays = parts(good, folder)
    params = content["object"][1]["params"]["dict"]
    params[:] = [pair for pair in params if pair[0] != "horizon"]
    assert load_bytes(crafted(content, arrays), folder).horizon == "auto"


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["object", "tuple", "dict", "array", "scalar", "float", "objects"]),
            inner,
            max_size=2,
        )
        | st.tuples(
            st.sampled_from(
                ["transformers.HiPPOTransformer", "transformers.WalledMLP", "pandas.MultiIndex"]
            ),
            inner,
        ).map(lambda pair: {"object": list(pair)})
    ),
    max_leaves=8,
)


@given(DOCUMENTS)
def test_document_that_makes_no_sense_is_refused(folder, content):
    with pytest.raises(ValueError, match="skpolyode"):
        load_bytes(crafted(content, {"a": np.ones(2)}), folder)


@pytest.mark.parametrize("content", ["an object", ["object"], 3, {"dict": []}, {"array": "a"}])
def test_only_objects_are_files_of_their_own(folder, content):
    with pytest.raises(ValueError, match="damaged"):
        load_bytes(crafted(content, {"a": np.ones(2)}), folder)


@pytest.mark.parametrize("value", ["text", [1.0], {"a": 1}, np.ones(3)])
def test_what_could_not_be_loaded_is_not_saved(tmp_path, value):
    with pytest.raises(TypeError, match=f"only estimators .* got {type(value).__name__}"):
        save(value, tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_deep_document_is_refused(folder):
    with pytest.raises(ValueError, match="damaged"):
        load_bytes(crafted("[" * 10**5 + "]" * 10**5, {}), folder)


def test_names_in_a_file_are_looked_up_and_never_called(good, folder, monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError("a file must not get here")

    for module, name in [
        (builtins, "eval"),
        (builtins, "exec"),
        (pickle, "loads"),
        (pickle, "load"),
        (torch, "load"),
    ]:
        monkeypatch.setattr(module, name, forbidden)
    load_bytes(good, folder)
    for tag in ("os.system", "builtins.eval", "skpolyode.load", "numpy.load"):
        content = {"object": [tag, {"command": "true"}]}
        with pytest.raises(ValueError, match="update skpolyode"):
            load_bytes(crafted(content, {}), folder)


def test_random_numbers_of_others_are_left_alone(good, folder):
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    load_bytes(good, folder)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


def test_file_is_replaced_at_once_or_not_at_all(good, tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    transformer = load_bytes(good, tmp_path)
    (tmp_path / "tried.safetensors").unlink()
    monkeypatch.setattr(objects.os, "fsync", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        transformer.save(path)
    assert path.read_bytes() == b"old"
    monkeypatch.undo()
    transformer.save(path)
    assert path.read_bytes() == good
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_what_a_killed_save_left_is_removed_by_the_next_one(good, tmp_path):
    """But nothing of other names, and not what another writer is just writing."""
    killed = "import os, sys, skpolyode; from skpolyode.saving import objects\n"
    killed += "objects.os.fsync = lambda _: os._exit(9)\n"
    killed += "skpolyode.HiPPOTransformer().save(sys.argv[1])\n"
    path = tmp_path / "model[1]"
    assert subprocess.run([sys.executable, "-c", killed, path]).returncode == 9
    (left,) = tmp_path.iterdir()
    os.utime(left, (0, 0))
    others = [tmp_path / f".{name}.part" for name in ("model[1]", "model1.0", "model[1]x.0")]
    busy = tmp_path / ".model[1].busy.part"
    for other in (*others, busy):
        other.touch()
    for other in others:
        os.utime(other, (0, 0))
    transformer = load_bytes(good, tmp_path)
    transformer.save(path)
    assert {path, busy, *others} == set(tmp_path.iterdir()) - {tmp_path / "tried.safetensors"}
    os.utime(busy, (0, 0))
    transformer.save(path)
    assert not busy.exists()


def test_two_writers_of_one_file_both_end(good, tmp_path, monkeypatch):
    """The second begins and ends while the first has made its part, and not yet written it."""
    first, second = load_bytes(good, tmp_path), load_bytes(good, tmp_path)
    path, stages = tmp_path / "model", []

    def sync(number: int) -> None:
        if not stages:
            stages.append(number)
            second.save(path)

    monkeypatch.setattr(objects.os, "fsync", sync)
    first.save(path)
    assert len(stages) == 1
    assert path.read_bytes() == good
    assert {own.name for own in tmp_path.iterdir()} == {"model", "tried.safetensors"}


def test_a_private_file_stays_private(good, tmp_path):
    """Also while it is written, and whatever is usual here."""
    path = tmp_path / "own"
    transformer = load_bytes(good, tmp_path)
    path.write_bytes(b"")
    for mode in (0o600, 0o640, 0o604):
        path.chmod(mode)
        transformer.save(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == good


def test_a_link_stays_one_and_its_target_is_replaced(good, tmp_path):
    (tmp_path / "deep").mkdir()
    target, link = tmp_path / "deep" / "model", tmp_path / "latest"
    target.write_bytes(b"old")
    link.symlink_to(Path("deep") / "model")
    load_bytes(good, tmp_path).save(link)
    assert link.is_symlink()
    assert target.read_bytes() == good
    assert [entry.name for entry in target.parent.iterdir()] == ["model"]
    link.unlink()
    link.symlink_to(tmp_path / "deep" / "new")  # leads nowhere yet
    load_bytes(good, tmp_path).save(link)
    assert (tmp_path / "deep" / "new").read_bytes() == good


def test_file_has_the_usual_permissions(good, tmp_path):
    usual, own = tmp_path / "usual", tmp_path / "own"
    usual.write_bytes(b"")
    load_bytes(good, tmp_path).save(own)
    assert stat.S_IMODE(own.stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)


def of_pandas(kind: str, **state: Any) -> dict[str, Any]:
    return {"object": [f"pandas.{kind}", state]}


HUGE = 10**12


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_an_array_is_used_once(kind, folder, good):
    content, arrays = parts(good, folder)
    extra = [{kind: "a"}, {"array": "a"}]
    content["object"][1]["fitted"]["dict"].append(["extra_", extra])
    with pytest.raises(ValueError, match="damaged"):
        load_bytes(crafted(content, arrays | {"a": np.ones(2)}), folder)


def memories(document: Any) -> Iterator[dict[str, Any]]:
    """States of all memories in a document."""
    if isinstance(document, dict):
        if str(document.get("object", [""])[0]).endswith("Memory"):
            yield document["object"][1]
        document = list(document.values())
    for part in document if isinstance(document, list) else []:
        yield from memories(part)


@pytest.mark.parametrize("n_coefficients", [0, -1, 3, 1025, HUGE, 2.5, None, {"array": "a"}])
def test_coefficients_that_do_not_fit_are_refused(n_coefficients, folder, good):
    content, arrays = parts(good, folder)
    for memory in memories(content):
        memory["n_coefficients"] = n_coefficients
    with pytest.raises(ValueError, match="damaged"):
        load_bytes(crafted(content, arrays | {"a": np.ones(2)}), folder)


@pytest.mark.parametrize("kind", ["transformer", "stream"])
def test_a_file_makes_no_tables(kind, folder, good, monkeypatch):
    """Those of 1000 coefficients take a minute and gigabytes, and nothing in a file tells."""
    path, model = folder / "memory.safetensors", skpolyode.HiPPOTransformer(n_coefficients=3)
    model = model.fit(oscillators(4)) if kind == "transformer" else load_bytes(good, folder)
    (model if kind == "transformer" else model.stream(oscillators(2))).save(path)
    for table in (TransitionTable, ResponseTable):
        monkeypatch.setattr(table, "__init__", lambda *_, **__: 1 / 0)
    skpolyode.load(path)
    content, arrays = parts(path.read_bytes(), folder)
    for memory in memories(content):
        memory |= {"n_coefficients": 1000} if kind == "transformer" else {"window": 0.77}
    load_bytes(crafted(content, arrays), folder)


@pytest.mark.parametrize("zone", ["dateutil//proc/self/maps", "dateutil/x", "/etc/x", "../x", ""])
def test_a_time_zone_is_no_path(zone, folder, good, monkeypatch):
    monkeypatch.setattr("dateutil.tz.gettz", lambda *_: 1 / 0)
    monkeypatch.setattr("dateutil.tz.tzfile", lambda *_: 1 / 0)
    content, arrays = parts(good, folder)
    index = {"counts": {"array": "a"}, "unit": "s", "tz": zone}
    content["object"][1]["fitted"]["dict"].append(["extra_", of_pandas("DatetimeIndex", **index)])
    with pytest.raises(ValueError, match="damaged"):
        load_bytes(crafted(content, arrays | {"a": np.zeros(2, dtype=np.int64)}), folder)


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "F4", "F6_E2M3", "BF16", "C64"])
def test_numbers_that_numpy_lacks_are_refused(kind, folder, good):
    """A header is length and JSON: made by hand, as no library writes such arrays."""
    content, _ = parts(good, folder)
    size = {"F4": 4, "C64": 64, "BF16": 16, "F6_E2M3": 6}.get(kind, 8)
    entry = {"dtype": kind, "shape": [8], "data_offsets": [0, size]}
    text = json.dumps(content)
    metadata = {"skpolyode": f"1 9.9 {objects._digest('1 9.9', text, {})}\n{text}"}
    header = json.dumps({"__metadata__": metadata, "a": entry}).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(size)
    with pytest.raises(ValueError, match="damaged"):
        load_bytes(data, folder)
