"""How many candidates run side by side on this machine. The result of a search never depends on it."""

from __future__ import annotations

import os
from pathlib import Path

from ...sandbox.protocol import SandboxLimits

_BYTES_EACH = 1 << 30
"""Memory that is kept for each candidate that runs; most use far less, a wrong one may use it all."""


def workers(limits: SandboxLimits, *, meminfo: Path = Path("/proc/meminfo")) -> int:
    """One for each core that this process may use, within what the sandbox may use and what memory allows.

    The sandbox's processor share (two cores unless told otherwise) is also what has been measured:
    two at a time try almost twice as many candidates as one. At least 1.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = limits.memory_bytes
    available = _available(meminfo)
    if available is not None:
        memory = min(memory, available) if memory else available
    return max(1, min(cores, round(limits.cpus) or cores, memory // _BYTES_EACH))


def _available(meminfo: Path) -> int | None:
    """Bytes that new processes can have without swapping; None where the system does not say."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None
