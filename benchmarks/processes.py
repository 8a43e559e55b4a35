"""Measurements in a process of their own, so that peak memory and limits on threads are too."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import Any


def in_a_process(module: str, *arguments: object) -> dict[str, Any]:
    """What a module prints, as JSON, when Python runs it with --measure and the arguments."""
    command = [sys.executable, "-m", module, "--measure", *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def peak_mib() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
