"""The hand-over from the sandbox to its launcher: what one start of bubblewrap needs, as a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import ToolError
from ..base.tree import MARKER

_LONGEST_WORD = 128 << 10
"""MAX_ARG_STRLEN of Linux, with its final null."""
_LAUNCHER = Path(__file__).with_name("launcher.py")


@dataclass(frozen=True)
class LaunchPlan:
    """Everything about one start of bubblewrap; ``launcher.become_bwrap`` reads it."""

    bwrap: str
    options: Sequence[str | int]
    """Bubblewrap options; an int is an index into ``sources``."""
    sources: Sequence[str]
    argv: Sequence[str]
    status: Path
    """Receives bubblewrap's JSON status lines (child pid, exit code)."""
    uid: int | None = None
    """Become this user first (we are root), or stay who we are."""
    gid: int | None = None
    cgroups: Sequence[str] = ()
    rlimits: Sequence[tuple[int, tuple[int, int]]] = ()
    seccomp: bytes | None = None
    network_pid: int = 0
    """A process whose user and network namespaces to join, or 0."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])


def write_plan(plan: LaunchPlan, path: Path) -> list[str]:
    """Writes the plan where only we can read it; returns the argv that carries it out.

    The launcher removes the file. It refuses to run for another parent than this process.
    """
    settings: list[str] = []
    for name, value in plan.env.items():
        settings += ["--setenv", name, value]
    content = {
        "argv": list(plan.argv),
        "bwrap": plan.bwrap,
        "cgroups": list(plan.cgroups),
        "gid": plan.gid,
        "network_pid": plan.network_pid,
        "options": [*settings, *plan.options],
        "parent": os.getpid(),
        "rlimits": [[number, list(pair)] for number, pair in plan.rlimits],
        "seccomp": plan.seccomp.hex() if plan.seccomp else "",
        "sources": list(plan.sources),
        "status": str(plan.status),
        "uid": plan.uid,
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(content, file, ensure_ascii=False)
    return [sys.executable, "-I", "-S", str(_LAUNCHER), str(path)]


def check_command(argv: Sequence[str], cwd: str) -> None:
    """Raises ToolError for what no exec could take, so that it is not mistaken for a broken sandbox."""
    if not argv:
        raise ToolError("no command was given")
    if any("\0" in word for word in (*argv, cwd)):
        raise ToolError("a command line cannot hold null characters")
    sizes = [len(os.fsencode(word)) + 1 for word in argv]
    if max(sizes) > _LONGEST_WORD or sum(sizes) > os.sysconf("SC_ARG_MAX") // 2:
        raise ToolError("the command line is longer than the system allows", hint="pass the data in a file")


def isolation_options(*, own_network: bool, chdir: str, disable_userns: bool) -> list[str]:
    """The options every start has in common: namespaces, capabilities, session, working directory."""
    options = [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--hostname",
        "whimbrel",
        "--new-session",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
        "--unsetenv",
        MARKER,
    ]
    if own_network:
        options.append("--unshare-net")
    if disable_userns:
        options.append("--disable-userns")
    return [*options, "--chdir", chdir]


def holder_options() -> tuple[list[str], list[str]]:
    """Options and argv of the process that keeps a run's network namespace; it runs no project code."""
    options = [
        "--unshare-user",
        "--unshare-net",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
        "--ro-bind",
        "/",
        "/",
    ]
    return options, ["/bin/sh", "-c", "echo ready; read -r _"]
