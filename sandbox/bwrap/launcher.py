"""The last step before bubblewrap; a program of its own, started as ``python -I -S launcher.py PLAN``.

It joins the run's control groups, lets go of root, enters the run's network namespace and
becomes bubblewrap. It is a separate process because each of these changes the process that
does it, and because as root it must hand bubblewrap (an unprivileged process by then)
directories below places like /root: it binds them into a private mount namespace first.

The plan is a JSON file, removed once read; it is made by ``plan.py``. Environment variables
of the command travel inside it and never become the environment of this program, so that an
``LD_PRELOAD`` meant for the command acts inside the sandbox only. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import stat
import sys
from typing import Any, NoReturn

STARTING_FAILED = 125
"""Exit code when bubblewrap itself was never reached."""

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG = 1
_STAGE = "/tmp"
_MARKER = "WHIMBREL_PROCESS"
# Where any user can run a program. Kept at its own path there: AppArmor profiles go by the path.
_REACHABLE = ("/usr/", "/bin/", "/opt/")

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    result = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )
    _check(result, f"mount {target}")


def _die_with(parent: int) -> None:
    """SIGKILL for this process when its parent ends; asked for again after every change of identity."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _stage(sources: list[str]) -> list[str]:
    """Binds each source below ``_STAGE`` in a mount namespace of our own; returns the new paths."""
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    # Opened before anything is covered: a source may itself lie below the staging directory.
    handles = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources]
    _mount("tmpfs", _STAGE, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=1m")
    staged: list[str] = []
    for number, handle in enumerate(handles):
        path = f"{_STAGE}/{number}"
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            os.mkdir(path, 0o755)  # noqa: PTH102
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        _mount(f"/proc/self/fd/{handle}", path, None, _MS_BIND | _MS_REC)
        os.close(handle)
        staged.append(path)
    return staged


def _memory_file(name: str, content: bytes) -> int:
    descriptor = os.memfd_create(name, 0)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def become_bwrap(plan: dict[str, Any]) -> NoReturn:
    """Follows ``plan`` (see ``plan.LaunchPlan``) and replaces this process by bubblewrap."""
    parent: int = plan["parent"]
    _die_with(parent)
    for procs in plan["cgroups"]:
        descriptor = os.open(procs, os.O_WRONLY | os.O_CLOEXEC)
        os.write(descriptor, b"0")
        os.close(descriptor)
    status = os.open(plan["status"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    namespaces: list[tuple[int, int]] = []
    if plan["network_pid"]:
        for name, kind in (("user", _CLONE_NEWUSER), ("net", _CLONE_NEWNET)):
            path = f"/proc/{plan['network_pid']}/ns/{name}"
            namespaces.append((os.open(path, os.O_RDONLY | os.O_CLOEXEC), kind))
    program: str = plan["bwrap"]
    if plan["uid"] is not None:
        *sources, staged_program = _stage([*plan["sources"], program])
        if not program.startswith(_REACHABLE):
            program = staged_program
        os.setgroups([])
        os.setresgid(plan["gid"], plan["gid"], plan["gid"])
        os.setresuid(plan["uid"], plan["uid"], plan["uid"])
        _die_with(parent)
    else:
        sources = plan["sources"]
    for number, (soft, hard) in plan["rlimits"]:
        _, present = resource.getrlimit(number)
        ceiling = hard if present == resource.RLIM_INFINITY else min(hard, present)
        resource.setrlimit(number, (min(soft, ceiling), ceiling))
    for descriptor, kind in namespaces:
        _check(_libc.setns(descriptor, kind), "setns")
    options = [sources[option] if isinstance(option, int) else option for option in plan["options"]]
    if plan["seccomp"]:
        options += ["--seccomp", str(_memory_file("filter", bytes.fromhex(plan["seccomp"])))]
    options += ["--json-status-fd", str(status)]
    arguments = _memory_file("options", b"".join(os.fsencode(option) + b"\0" for option in options))
    for descriptor in (status, arguments):
        os.set_inheritable(descriptor, True)
    os.chdir("/")
    command = [program, "--args", str(arguments), "--", *plan["argv"]]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    # Bubblewrap's own processes keep the mark by which the process runner finds what it started.
    if _MARKER in os.environ:
        environment[_MARKER] = os.environ[_MARKER]
    os.execve(program, command, environment)


def main(path: str) -> NoReturn:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - pathlib costs start-up time
        plan = json.load(file)
    os.unlink(path)  # noqa: PTH108
    try:
        become_bwrap(plan)
    except OSError as error:
        sys.stderr.write(f"bwrap: {error.strerror or error} [{error.errno}]\n")
        os._exit(STARTING_FAILED)


if __name__ == "__main__":
    main(sys.argv[1])
