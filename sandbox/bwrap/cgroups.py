"""Control groups of one run: memory, process count and CPU for everything in the sandbox together.

Works with version 1 hierarchies (one directory per controller), with a delegated part of
the unified version 2 hierarchy, and with mixtures. What cannot be had is reported, not
hidden. Groups are named after their owner process, so that a later run can tell those
left behind by a killed one and remove them.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..protocol import SandboxLimits

_PREFIX = "whimbrel-"
_NAME = re.compile(rf"{_PREFIX}(\d+)-(\d+)-(\d+)-")
_KILL_PATIENCE_S = 5.0
_CPU_PERIOD_US = 100_000
CONTROLLERS = ("pids", "memory", "cpu")


@dataclass(frozen=True)
class Hierarchy:
    """A directory below which groups for ``controllers`` may be made."""

    parent: Path
    controllers: frozenset[str]
    unified: bool


class RunGroups:
    """The control groups of one sandbox. Empty when none could be made."""

    def __init__(self, directories: dict[str, Path], unified: frozenset[str]) -> None:
        self._directories = directories
        self._unified = unified

    @property
    def controllers(self) -> frozenset[str]:
        """The limits that are really enforced, out of pids, memory, cpu."""
        return frozenset(self._directories)

    def procs_files(self) -> list[str]:
        """Files a process writes ``0`` to, to enter the groups."""
        return [str(path / "cgroup.procs") for path in sorted(set(self._directories.values()))]

    def pids(self) -> list[int]:
        """Host pids of the processes inside."""
        found: set[int] = set()
        for directory in set(self._directories.values()):
            found.update(_pids(directory))
        return sorted(found)

    def events(self) -> dict[str, int]:
        """How often the memory and pids limits were hit so far."""
        counts = {"memory": 0, "pids": 0}
        if directory := self._directories.get("memory"):
            name = "memory.events" if "memory" in self._unified else "memory.oom_control"
            counts["memory"] = _keyed(directory / name, "oom_kill")
        if directory := self._directories.get("pids"):
            counts["pids"] = _keyed(directory / "pids.events", "max")
        return counts

    def remove(self) -> None:
        """Kills what is left inside and removes the groups."""
        for directory in sorted(set(self._directories.values())):
            _empty_and_remove(directory)
        self._directories = {}


def create_groups(run_id: str, limits: SandboxLimits) -> RunGroups:
    """Makes the groups of a run, as many as this machine allows, with their limits written."""
    name = f"{_owner_prefix()}{re.sub(r'[^A-Za-z0-9_.-]+', '-', run_id)[:60]}"
    directories: dict[str, Path] = {}
    unified: set[str] = set()
    # A process has one place in the unified hierarchy: the ancestor that offers most, nearest first.
    for hierarchy in sorted(_hierarchies(), key=lambda each: -len(each.controllers) if each.unified else -9):
        wanted = hierarchy.controllers - directories.keys()
        if not wanted or (hierarchy.unified and unified):
            continue
        directory = hierarchy.parent / name
        try:
            directory.mkdir(exist_ok=True)
        except OSError:
            continue
        entered: set[str] = set()
        for controller in wanted:
            if _write_limit(directory, controller, limits, hierarchy.unified):
                entered.add(controller)
        if not entered or not _may_enter(directory, hierarchy.unified):
            with contextlib.suppress(OSError):
                directory.rmdir()
            continue
        directories.update(dict.fromkeys(entered, directory))
        if hierarchy.unified:
            unified |= entered
    return RunGroups(directories, frozenset(unified))


def sweep_groups() -> int:
    """Kills and removes groups whose owner process is gone; returns how many there were."""
    swept = 0
    seen: set[Path] = set()
    for hierarchy in _hierarchies():
        with contextlib.suppress(OSError):
            for directory in hierarchy.parent.glob(f"{_PREFIX}*"):
                match = _NAME.match(directory.name)
                if match is None or directory in seen or not directory.is_dir():
                    continue
                seen.add(directory)
                pid, started, namespace = (int(part) for part in match.groups())
                # Owners in another pid namespace cannot be judged from here.
                if namespace == _pid_namespace() and _start_time(pid) != started:
                    _empty_and_remove(directory)
                    swept += 1
    return swept


def _owner_prefix() -> str:
    return f"{_PREFIX}{os.getpid()}-{_start_time(os.getpid())}-{_pid_namespace()}-"


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _start_time(pid: int) -> int:
    """Clock ticks since boot when the process started, or -1 when there is none."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return -1
    return int(line.rpartition(")")[2].split()[19])


def _hierarchies() -> Iterator[Hierarchy]:
    """Places for groups: each version 1 controller's own, then the unified hierarchy upwards from us."""
    own = _own_groups()
    for line in _read("/proc/self/mountinfo").splitlines():
        fields, _, rest = line.partition(" - ")
        parts, kind = fields.split(), rest.split()
        if len(parts) < 5 or len(kind) < 3:
            continue
        root, mountpoint = parts[3], Path(parts[4])
        if kind[0] == "cgroup":
            for controller in set(kind[2].split(",")) & set(CONTROLLERS):
                place = _below(mountpoint, root, own.get(controller, "/"))
                yield Hierarchy(place, frozenset({controller}), unified=False)
        elif kind[0] == "cgroup2":
            yield from _unified(mountpoint, _below(mountpoint, root, own.get("", "/")))


def _unified(mountpoint: Path, own: Path) -> Iterator[Hierarchy]:
    """A group with processes cannot hand controllers to children, so ancestors are tried too."""
    place = own
    while place.is_relative_to(mountpoint):
        offered = set(_read(place / "cgroup.controllers").split()) & set(CONTROLLERS)
        handed = set(_read(place / "cgroup.subtree_control").split())
        for controller in sorted(offered - handed):
            with contextlib.suppress(OSError):
                _put(place / "cgroup.subtree_control", f"+{controller}")
        handed = set(_read(place / "cgroup.subtree_control").split()) & set(CONTROLLERS)
        if handed and os.access(place, os.W_OK):
            yield Hierarchy(place, frozenset(handed), unified=True)
        if place == mountpoint:
            return
        place = place.parent


def _own_groups() -> dict[str, str]:
    """Controller -> this process's group; the unified hierarchy under the empty name."""
    groups: dict[str, str] = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def _below(mountpoint: Path, root: str, group: str) -> Path:
    """Where a group lies in a mounted hierarchy whose visible part starts at ``root``."""
    relative = group.removeprefix(root) if root != "/" else group
    place = mountpoint / relative.lstrip("/")
    return place if place.is_dir() else mountpoint


def _write_limit(directory: Path, controller: str, limits: SandboxLimits, unified: bool) -> bool:
    quota = max(1000, int(limits.cpus * _CPU_PERIOD_US))
    try:
        match controller, unified:
            case "pids", _:
                _put(directory / "pids.max", str(limits.pids))
            case "memory", True:
                _put(directory / "memory.max", str(limits.memory_bytes))
                with contextlib.suppress(OSError):
                    _put(directory / "memory.swap.max", "0")
            case "memory", False:
                _put(directory / "memory.limit_in_bytes", str(limits.memory_bytes))
                with contextlib.suppress(OSError):
                    _put(directory / "memory.memsw.limit_in_bytes", str(limits.memory_bytes))
            case "cpu", True:
                _put(directory / "cpu.max", f"{quota} {_CPU_PERIOD_US}")
            case _:
                _put(directory / "cpu.cfs_period_us", str(_CPU_PERIOD_US))
                _put(directory / "cpu.cfs_quota_us", str(quota))
    except OSError:
        return False
    return True


def _may_enter(directory: Path, unified: bool) -> bool:
    """Whether processes of ours may be moved in; version 2 asks for the common ancestor's consent too."""
    needed = [directory / "cgroup.procs"]
    if unified:
        needed.append(directory.parent / "cgroup.procs")
    return all(os.access(path, os.W_OK) for path in needed)


def _empty_and_remove(directory: Path) -> None:
    deadline = time.monotonic() + _KILL_PATIENCE_S
    while True:
        # In version 2 one write does it; the pids are signalled for version 1 and older kernels.
        with contextlib.suppress(OSError):
            _put(directory / "cgroup.kill", "1")
        for pid in _pids(directory):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)
        else:
            return


def _pids(directory: Path) -> list[int]:
    # 0 stands for a process of another pid namespace, and would signal our own group.
    return [pid for word in _read(directory / "cgroup.procs").split() if (pid := int(word)) > 0]


def _keyed(path: Path, key: str) -> int:
    for line in _read(path).splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return 0


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""


def _put(path: Path, value: str) -> None:
    # One write(2) on an existing control file; a created file would mean there is no such control.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
