"""Values come back from their encoding as they were, to the bit and to the type."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from dateutil.tz import tzoffset
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import skpolyode
from skpolyode.saving import codec
from skpolyode.saving.codec import Decoder, Encoder, UnknownNameError

DTYPES = [np.dtype(code) for code in ("?", "i1", "u2", "<i8", ">i4", "f4", ">f8", "f2")]
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=2))
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"])),
    ARRAYS,
    st.sampled_from([np.bool_, np.int8, np.uint64, np.float32, np.float64]).flatmap(
        lambda kind: hnp.from_dtype(np.dtype(kind))
    ),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=2), st.integers()), inner, max_size=3),
    ),
    max_leaves=4,
)


def again(value: object) -> object:
    """The value after a way through JSON."""
    encoder = Encoder()
    text = json.dumps(encoder.encode(value, "value"), allow_nan=False)
    return Decoder(encoder.arrays).decode(json.loads(text))


def same(a: object, b: object) -> bool:
    """Equal to the last bit, and of one type; NaN is itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, np.ndarray | np.generic):
        # The byte order is the machine's own afterwards.
        native = a.astype(a.dtype.newbyteorder("="))
        return native.dtype == b.dtype and a.shape == b.shape and native.tobytes() == b.tobytes()
    return repr(a) == repr(b)


@given(VALUES)
def test_value_comes_back_as_it_was(value):
    assert same(value, again(value))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_tensor_comes_back_as_it_was(dtype):
    tensor = torch.arange(6).to(dtype).reshape(2, 3).T
    back = again(tensor)
    assert back.dtype == dtype
    assert torch.equal(back, tensor)


def test_path_comes_back_as_it_was():
    path = Path("some") / "folder"
    assert again(path) == path


def test_what_comes_back_can_be_written_to_and_is_not_shared():
    array = np.ones(3)
    first, second = again([array, array])
    first[0] = 5.0
    assert second.tolist() == array.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("n_draws", [0, 1, 700])
def test_random_state_goes_on_where_it_was(n_draws):
    state = np.random.RandomState(7)
    state.standard_normal(n_draws)
    back = again(state)
    assert back.standard_normal(5).tolist() == state.standard_normal(5).tolist()


TIMES = [
    pd.DatetimeIndex([pd.Timestamp("2024-01-31 10:00:00.123456789"), pd.NaT]),
    pd.date_range("2024-03-30 12:00", periods=5, freq="12h", tz="Europe/Paris", unit="s"),
    pd.DatetimeIndex(["2024-01-01"], tz="+05:30"),
    pd.TimedeltaIndex(["1h", "3h", "4h"]),
]


@pytest.mark.parametrize("times", TIMES, ids=lambda times: type(times).__name__)
def test_times_come_back_as_they_were(times):
    back = again(times)
    pd.testing.assert_index_equal(back, times, exact=True)
    assert back.unit == times.unit


class Foreign:
    pass


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Foreign(), "Foreign"),
        (print, "builtin_function_or_method"),
        (np.array([1 + 2j]), "array of complex128"),
        (np.datetime64("2024"), "datetime64"),
        (np.array([[Foreign()]]), "array of object"),
        ({1, 2}, "set"),
        (pd.Series([1.0]), "Series"),
    ],
)
def test_value_that_no_file_can_hold_is_named(value, kind):
    with pytest.raises(TypeError, match=rf"^here\['x'\]\[1\] cannot be saved: .* type {kind}, "):
        Encoder().encode({"x": [0, value]}, "here")


def test_a_time_zone_that_no_file_can_hold_is_named():
    value = pd.DatetimeIndex(["2024"], tz=tzoffset(None, 3600))
    with pytest.raises(TypeError, match=r"^here cannot be saved: .*no time zone .*use tz_convert"):
        Encoder().encode(value, "here")


@pytest.mark.parametrize("tag", ["os.system", "transformers.Nothing", "skpolyode", ""])
def test_tag_that_is_not_in_the_registry_is_refused(tag):
    with pytest.raises(UnknownNameError, match=f"an object of '{tag}'"):
        Decoder({}).decode({"object": [tag, {}]})


def test_every_class_that_files_hold_is_found_by_its_tag_alone():
    """In an interpreter that has loaded nothing of the package but this registry."""
    for module in pkgutil.walk_packages(skpolyode.__path__, "skpolyode."):
        importlib.import_module(module.name)
    # Tests and examples of docstrings may have registered classes of their own, under tags of the
    # same form and as if a module of ours had defined them.
    modules = [module for name, module in sys.modules.items() if name.startswith("skpolyode.")]
    ours = {id(value) for module in modules for value in vars(module).values()}
    tags = [tag for tag, cls in codec._CLASSES.items() if id(cls) in ours]
    assert len(tags) > 50
    code = (
        "import sys\n"
        "from skpolyode.saving.codec import Decoder, UnknownNameError\n"
        "for tag in sys.argv[1:]:\n"
        "    try:\n"
        "        Decoder({}).decode({'object': [tag, {}]})\n"
        "    except UnknownNameError:\n"
        "        sys.exit(tag)\n"
        "    except Exception:\n"
        "        pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *tags], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
