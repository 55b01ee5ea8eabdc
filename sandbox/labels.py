"""Labels on everything we make in a container daemon, and the removal of what dead runs left there.

A label names the owner process so exactly that a reused process id is not mistaken
for a live owner: the machine's boot, the pid namespace and the process's start time.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from .daemon import Daemon, ask

RUN = "whimbrel.run"
PID = "whimbrel.pid"
BOOT = "whimbrel.boot"
KIND = "whimbrel.kind"
"""What the object is: ``sandbox`` or ``build`` (containers); ``base``, ``stack`` or ``layer`` (images)."""
REFERENCE = "whimbrel.reference"
"""The name we gave an image. Images others build on ours inherit every label, but not this name."""
KEY = "whimbrel.key"
"""Hash of everything an image was made from; equal keys mean equal images."""


def owner_labels(run_id: str, kind: str) -> dict[str, str]:
    """Labels for a container that must not outlive this process."""
    pid = os.getpid()
    return {RUN: run_id, KIND: kind, PID: str(pid), BOOT: _identity(pid)}


def owner_is_dead(labels: dict[str, str], *, running: bool) -> bool:
    """Whether the process that made a labelled container is certainly gone.

    A process of another pid namespace cannot be judged from here and counts as alive.
    One of another boot is dead unless the container still runs: then the daemon is
    shared between machines and the owner lives on the other one.
    """
    pid, boot = labels.get(PID, ""), labels.get(BOOT, "")
    if not pid.isdigit() or boot.count("/") != 2:
        return False
    there, here = boot.split("/"), _identity(int(pid)).split("/")
    if there[0] != here[0]:
        return not running
    if there[1] != here[1]:
        return False
    return there[2] != here[2]


async def sweep_leftovers(daemon: Daemon) -> list[str]:
    """Removes containers whose owner process is dead (also by kill -9); returns their names."""
    from docker.errors import APIError, NotFound

    found = await ask("listing containers", daemon.api.containers, all=True, filters={"label": [PID]})
    removed: list[str] = []
    for entry in cast("list[dict[str, Any]]", found):
        labels = cast("dict[str, str]", entry.get("Labels") or {})
        if not owner_is_dead(labels, running=entry.get("State") == "running"):
            continue
        try:
            await ask(
                "removing a leftover container", daemon.api.remove_container, entry["Id"], force=True, v=True
            )
        except NotFound:
            continue
        except APIError:
            # 409: another run is removing it at this moment, which is what we want.
            continue
        names = cast("list[str]", entry.get("Names") or [entry["Id"][:12]])
        removed.append(names[0].lstrip("/"))
    return removed


def _identity(pid: int) -> str:
    """``boot id/pid namespace/start time of the process``; the start time is ``-`` when it is gone."""
    return f"{_boot_id()}/{_pid_namespace()}/{_start_time(pid)}"


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        # No /proc (macOS): the host name still keeps machines that share a daemon apart.
        return os.uname().nodename.replace("/", "-")


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return "0"


def _start_time(pid: int) -> str:
    """Clock ticks since boot when the process started; "-" when there is none, "?" where unknowable."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        if Path("/proc/self/stat").exists():
            return "-"
        return "?" if _alive(pid) else "-"
    # The command name may hold spaces and parentheses: count fields after the last one.
    fields = stat.rpartition(")")[2].split()
    return "-" if fields[0] in "ZX" else fields[19]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
