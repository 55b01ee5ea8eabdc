"""No isolation: commands run on this machine, on the workspace copy, as the calling user.

For code the person trusts (``--sandbox host``), and for CI jobs that already live in a
throw-away container (``--sandbox outer``). What remains is hygiene: a scrubbed
environment, an own HOME and temporary directory, process groups, a few rlimits.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from .base.errors import SandboxUnavailable, ToolError
from .base.files import atomic_write
from .base.process import (
    ProcessChannel,
    ProcessHandle,
    base_environment,
    open_process_channel,
    start_process,
)
from .logs import RunLogs
from .protocol import (
    Channel,
    NetworkPolicy,
    RunHandle,
    SandboxDescription,
    SandboxLimits,
    SandboxSpec,
    SnapshotStore,
)

_MAX_READ_BYTES = 64 << 20


class HostSandbox:
    """Runs commands directly; implements ``Sandbox``. Says plainly that it isolates nothing.

    ``spec.workdir`` must be the workspace's own path: nothing is mounted anywhere else.
    """

    def __init__(self, spec: SandboxSpec, store: SnapshotStore, outer: bool = False) -> None:
        self._spec = spec
        self._store = store
        self._kind = "outer" if outer else "host"
        self._logs = RunLogs(spec.state_dir)
        self._home = spec.state_dir / "home"
        self._tmp = spec.state_dir / "tmp"
        self._running: list[ProcessHandle] = []
        self._channels: list[ProcessChannel] = []
        self._started = False

    @property
    def spec(self) -> SandboxSpec:
        return self._spec

    def describe(self) -> SandboxDescription:
        return SandboxDescription(
            kind=self._kind, isolated=False, workdir=str(self._workdir()), warnings=self._warnings()
        )

    async def start(self) -> None:
        if not self._spec.workspace.is_dir():
            raise SandboxUnavailable(f"the workspace {self._spec.workspace} is not a directory")
        if Path(self._spec.workdir).resolve() != self._spec.workspace.resolve():
            raise SandboxUnavailable(
                f"the {self._kind} sandbox cannot show the copy at {self._spec.workdir}",
                hint="without isolation the working directory is the copy's own path",
            )
        for directory in (self._home, self._tmp):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._started = True

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        label: str = "run",
    ) -> RunHandle:
        handle = await start_process(
            argv,
            cwd=self._directory(cwd),
            env=self._environment(env),
            log_path=self._logs.next_path(label),
            timeout_s=timeout_s,
            rlimits=host_rlimits(self._spec.limits),
        )
        # Only what still runs: a long session starts thousands.
        self._running = [*(each for each in self._running if not each.over), handle]
        return handle

    async def open_channel(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Channel:
        channel = await open_process_channel(
            argv,
            cwd=self._directory(cwd),
            env=self._environment(env),
            rlimits=host_rlimits(self._spec.limits),
        )
        self._channels = [*(each for each in self._channels if not each.closed), channel]
        return channel

    async def read(self, path: str) -> bytes:
        return await asyncio.to_thread(_read_file, self._inside(path))

    async def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        target = self._inside(path)
        real = target.parent.resolve() / target.name
        allowed = (self._workdir().resolve(), self._tmp.resolve(), self._home.resolve())
        if not any(real.is_relative_to(place) for place in allowed):
            raise ToolError(f"{path} is outside the workspace and the temporary directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(atomic_write, target, data, mode=0o755 if executable else None)

    async def snapshot(self) -> str:
        return await self._store.snapshot()

    async def restore(self, snapshot: str) -> None:
        await self._store.restore(snapshot)

    async def stop(self) -> None:
        running, self._running = self._running, []
        channels, self._channels = self._channels, []
        await asyncio.gather(
            *(handle.kill() for handle in running), *(channel.close() for channel in channels)
        )
        for directory in (self._home, self._tmp):
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        self._started = False

    def _workdir(self) -> Path:
        return Path(self._spec.workdir)

    def _inside(self, path: str) -> Path:
        return self._workdir() / path

    def _directory(self, cwd: str | None) -> Path:
        if not self._started:
            raise SandboxUnavailable(f"the {self._kind} sandbox was not started")
        directory = self._inside(cwd) if cwd else self._workdir()
        if not directory.is_dir():
            raise ToolError(f"the working directory {directory} does not exist")
        return directory

    def _environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        own = {"HOME": str(self._home), "TMPDIR": str(self._tmp)}
        return base_environment({**own, **self._spec.env, **(env or {})})

    def _warnings(self) -> tuple[str, ...]:
        limits = "memory, process count and disk use are not limited"
        if self._kind == "outer":
            first = "not isolated by Whimbrel: the surrounding container is the only protection"
        else:
            first = "not isolated: commands run on this machine with the rights of the calling user"
        network = "the network is open" if self._spec.network is NetworkPolicy.NONE else ""
        root = "commands run as root" if os.geteuid() == 0 else ""
        return tuple(line for line in (first, network, limits, root) if line)


def _read_file(path: Path) -> bytes:
    # Non-blocking: a pipe or a device in the place of a file would hold the thread for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = file.read(_MAX_READ_BYTES + 1)
    if len(data) > _MAX_READ_BYTES:
        raise ToolError(
            f"{path} is larger than {_MAX_READ_BYTES >> 20} MiB", hint="read a part of it with a command"
        )
    return data


def host_rlimits(limits: SandboxLimits) -> dict[int, tuple[int, int]]:
    """The rlimits that help without a namespace: file size and core dumps.

    Address space and process count are left alone: the first breaks runtimes that reserve
    far more than they use, the second counts every process of the user, not only ours.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = limits.file_bytes if hard == resource.RLIM_INFINITY else min(limits.file_bytes, hard)
    return {resource.RLIMIT_FSIZE: (size, size), resource.RLIMIT_CORE: (0, 0)}
