"""How much memory a process may still take: what the system has, or what its control group allows."""

from __future__ import annotations

import os
import re
from pathlib import Path


def available_memory(root: Path = Path("/")) -> int:
    """Bytes; one GiB where the system does not say.

    Args:
        root: where ``proc`` and ``sys`` lie.
    """
    found = re.search(r"MemAvailable:\s+(\d+) kB", _text(root / "proc/meminfo"))
    if found:
        free = int(found[1]) * 1024
    else:
        try:
            free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        except (OSError, ValueError):
            free = 1 << 30
    return min([free, *_group_limits(root)])


def resident_memory(root: Path = Path("/")) -> tuple[int, int] | None:
    """Bytes that this process holds: of its own, and of mapped files; None where the system does not say."""
    status = _text(root / "proc/self/status")
    found = [re.search(rf"{name}:\s+(\d+) kB", status) for name in ("RssAnon", "RssFile", "RssShmem")]
    own, mapped, shared = (int(each[1]) * 1024 if each else None for each in found)
    return None if own is None or mapped is None else (own + (shared or 0), mapped)


def _group_limits(root: Path) -> list[int]:
    """What the control groups of this process leave it, those of its parents included (version 1 and 2)."""
    limits: list[int] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            top, names = root / "sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        folder = top / path.lstrip("/")
        for group in (folder, *folder.parents):
            limit, used = (_text(group / name).strip() for name in names)
            if limit.isdigit() and used.isdigit():
                # Cached file pages count as used and are given back when they are needed.
                cache = re.search(
                    r"^(?:total_)?(?:inactive_)?file (\d+)$", _text(group / "memory.stat"), re.M
                )
                limits.append(max(0, int(limit) - int(used) + (int(cache[1]) if cache else 0)))
            if group == top:
                break
    return limits


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
