"""The file format: a safetensors file whose header holds one text.

The arrays are stored as in memory. The first line of the text has the version of the format, the
version of the package, and a digest of everything, which detects damage. A JSON document follows,
which assigns the arrays to values.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import stat
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

SCHEMA = 1
"""Version of the format. Readers understand all versions up to this one."""

_KEY = "skpolyode"
_LEFT = 3600.0  # seconds since the last write, after which a partial file is abandoned


def write_file(
    path: str | os.PathLike[str],
    content: Any,
    arrays: dict[str, np.ndarray],
    version: str,
) -> None:
    """Write a file as `replace_file` does.

    Parameters
    ----------
    path : str or PathLike
        An existing file is replaced.
    content : JSON
        Values that refer to the arrays.
    arrays : dict of str to ndarray
        Contiguous numeric arrays.
    version : str
        Version of the package, for messages.
    """
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    about = f"{SCHEMA} {version}"
    head = f"{about} {_digest(about, text, arrays)}"
    replace_file(path, to_bytes(arrays, metadata={_KEY: f"{head}\n{text}"}))


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never a part.

    The permissions of an existing file are kept, and links are followed.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder: name a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{os.fspath(path)!r} is in a folder that is not there: make the folder first."
        )
    _remove_left(target)
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            if target.exists():
                # Before anything is written, so that a private file is never readable.
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _remove_left(target: Path) -> None:
    """Remove partial files of killed writers, but not those of active ones."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        with suppress(OSError):  # another writer may have removed it
            if left.stat().st_mtime < time.time() - _LEFT:
                left.unlink()


def read_file(path: str | os.PathLike[str]) -> tuple[Any, str, dict[str, np.ndarray]]:
    """Read a file: its content, the version that wrote it, and its arrays.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is damaged, was not written by this package, or has a later format.
    """
    target = Path(path)
    if not target.is_file():
        raise FileNotFoundError(f"no file {str(target)!r}: pass the path that was given to `save`.")
    try:
        with safe_open(target, framework="numpy") as file:
            text = (file.metadata() or {}).get(_KEY)
            names = [] if text is None else file.keys()
            arrays = {name: file.get_tensor(name) for name in names}
    # For number types that numpy lacks, the error depends on the version of safetensors.
    except (SafetensorError, OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise damaged(path) from error
    if text is None:
        raise ValueError(
            f"{str(path)!r} is a safetensors file, but not of skpolyode: only what `save` of an "
            "estimator wrote can be loaded."
        )
    return *_checked_content(path, text, arrays), arrays


def damaged(path: str | os.PathLike[str]) -> ValueError:
    """Error for a file that has changed since it was saved."""
    return ValueError(
        f"{str(path)!r} is not a file of skpolyode, or it is damaged or cut short: pass a file "
        "that `save` of an estimator wrote, and copy or save it again."
    )


def _checked_content(
    path: str | os.PathLike[str], text: str, arrays: dict[str, np.ndarray]
) -> tuple[Any, str]:
    """Content and version; a ValueError if the format is later or the digest differs."""
    try:
        head, _, text = text.partition("\n")
        about, digest = head.rsplit(" ", 1)
        schema, version = about.split(" ")
        newer = int(schema) > SCHEMA
        content = None if newer else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path) from error
    if newer:
        raise ValueError(
            f"{str(path)!r} was saved by skpolyode {version} in format {schema}; this version "
            f"reads formats up to {SCHEMA}: update skpolyode."
        )
    if digest != _digest(about, text, arrays):
        raise damaged(path)
    return content, version


def _digest(about: str, text: str, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(f"{about}\n{text}\n".encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
