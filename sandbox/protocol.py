"""The Sandbox protocol: what the agent may ask of an isolated copy of a repository.

Implementations: docker, bwrap, host, outer. All are asynchronous; all run on one
event loop; none is safe to share between loops.

Paths given to a sandbox are paths *inside* it. The workspace (a copy of the
repository on the host) appears inside at ``SandboxSpec.workdir``, which is the
original repository path wherever the implementation can arrange it, so that
editable installs and absolute paths in caches point at the copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol, runtime_checkable

from .base.results import ExecResult, RunHandle

__all__ = [
    "Channel",
    "ExecResult",
    "Mount",
    "NetworkPolicy",
    "RunHandle",
    "Sandbox",
    "SandboxDescription",
    "SandboxLimits",
    "SandboxSpec",
    "SnapshotStore",
    "run_to_end",
]


class NetworkPolicy(Enum):
    """Whether processes inside may reach anything outside the sandbox's own loopback."""

    NONE = "none"
    ALLOW = "allow"


@dataclass(frozen=True)
class SandboxLimits:
    """Resource limits of one sandbox. Bytes unless named otherwise."""

    memory_bytes: int = 4 << 30
    cpus: float = 2.0
    pids: int = 512
    disk_bytes: int = 4 << 30
    """Growth of the workspace beyond its size at start."""
    file_bytes: int = 2 << 30
    """Largest single file a process may write (RLIMIT_FSIZE)."""
    tmp_bytes: int = 1 << 30
    """Size of the private /tmp where the implementation can bound it."""


@dataclass(frozen=True)
class Mount:
    """A host path made visible inside at ``target``."""

    source: Path
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class SandboxSpec:
    """Everything needed to start one sandbox; plain data."""

    workspace: Path
    """Host directory with the copy of the repository; the only persistent writable place."""
    workdir: str
    """Where the workspace appears inside (absolute)."""
    state_dir: Path
    """Host directory for full logs and bookkeeping; never visible inside."""
    run_id: str
    """Unique per run; goes into names and labels."""
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added on top of the scrubbed base environment."""
    network: NetworkPolicy = NetworkPolicy.NONE
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    image: str | None = None
    """Container image (docker only); None = the default base image."""


@dataclass(frozen=True)
class SandboxDescription:
    """What a sandbox really is, for the evidence ledger and for people."""

    kind: str
    """docker, bwrap, host or outer."""
    isolated: bool
    image: str | None = None
    image_digest: str | None = None
    workdir: str = ""
    warnings: tuple[str, ...] = ()
    """One honest line per limit or protection that could not be enforced."""


class Channel(Protocol):
    """A duplex byte stream to a long-lived helper inside the sandbox (stdin / stdout)."""

    async def send(self, data: bytes) -> None: ...

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """At least one byte, or b"" at end of stream."""
        ...

    async def receive_line(self) -> bytes:
        """One line with its newline (at most 64 MiB), or b"" at end of stream."""
        ...

    def errors(self) -> bytes:
        """The last 64 KiB the helper wrote to stderr."""
        ...

    async def close(self) -> int:
        """Ends the helper and its whole process tree; returns its exit code."""
        ...


class SnapshotStore(Protocol):
    """Records and restores the state of the workspace directory (see sandbox.workspace)."""

    async def snapshot(self) -> str: ...

    async def restore(self, tree: str, /) -> None: ...


@runtime_checkable
class Sandbox(Protocol):
    """An isolated place to run commands on a copy of a repository."""

    @property
    def spec(self) -> SandboxSpec: ...

    def describe(self) -> SandboxDescription: ...

    async def start(self) -> None:
        """Raises SandboxUnavailable with the way to get it. Never falls back to something weaker."""
        ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        label: str = "run",
    ) -> RunHandle:
        """Starts a command (no shell; give ``["/bin/sh", "-c", text]`` for one).

        Stdin is empty; the environment is the scrubbed base, then ``spec.env``,
        then ``env``. ``cwd`` defaults to ``spec.workdir``. ``label`` names the log file.

        Raises:
            SandboxDied: the sandbox went away; the message holds its last log lines.
        """
        ...

    async def open_channel(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Channel:
        """Starts a long-lived helper and returns the duplex stream to it."""
        ...

    async def read(self, path: str) -> bytes:
        """Content of a regular file inside (workspace or elsewhere); FileNotFoundError, ..."""
        ...

    async def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Writes a file inside the workspace or the sandbox's temporary directory."""
        ...

    async def snapshot(self) -> str:
        """Records the state of the workspace; returns its tree hash."""
        ...

    async def restore(self, snapshot: str) -> None:
        """Puts the workspace back to a recorded state (tracked and untracked, not ignored files)."""
        ...

    async def stop(self) -> None:
        """Ends everything inside and removes what the sandbox made; idempotent."""
        ...


async def run_to_end(
    sandbox: Sandbox,
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    label: str = "run",
) -> ExecResult:
    """Runs a command to its end; kills its tree if the caller is cancelled."""
    handle = await sandbox.run(argv, cwd=cwd, env=env, timeout_s=timeout_s, label=label)
    try:
        return await handle.wait()
    except BaseException:
        await handle.kill()
        raise
