"""Versions, machine and threads, for bug reports."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

_PACKAGES = (
    "skpolyode",
    "torch",
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "joblib",
    "safetensors",
    "matplotlib",
    "threadpoolctl",
    "tqdm",
)
_OPTIONAL = ("sktime", "numba", "pyarrow", "polars", "dask")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def show_versions() -> None:
    """Print the versions of everything that results depend on, for bug reports.

    Examples
    --------
    >>> import skpolyode
    >>> skpolyode.show_versions()  # doctest: +ELLIPSIS
    python        3...
    machine       ...
    threads       ...
    devices       cpu...
    <BLANKLINE>
    skpolyode     ...
    torch         ...
    """
    import torch

    variables = [f"{name}={os.environ[name]}" for name in _THREADS if name in os.environ]
    devices = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    _print_row("python", f"{platform.python_version()} ({sys.executable})")
    _print_row("machine", platform.platform())
    _print_row("threads", " ".join([f"{torch.get_num_threads()} of {os.cpu_count()}", *variables]))
    _print_row("devices", ", ".join(["cpu", *devices]))
    print()
    for package in _PACKAGES:
        _print_row(package, _version(package))
    print("\noptional")
    for package in _OPTIONAL:
        _print_row(package, _version(package))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _print_row(name: str, value: str) -> None:
    print(f"{name:13} {value}")
