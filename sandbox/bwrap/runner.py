"""Starting commands in bubblewrap for one run: one bubblewrap per command, shared surroundings.

Shared between the commands of a run: the workspace, a private /tmp and HOME on disk, the
network namespace (so that a server started by one command answers the next) and the
control groups. Not shared: processes, mounts, IPC. See docs/decisions/0003-bwrap.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import re
import resource
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..base.errors import SandboxDied, SandboxUnavailable
from ..base.identity import SANDBOX_GID, SANDBOX_UID
from ..base.process import (
    ProcessChannel,
    base_environment,
    open_process_channel,
    run_process,
    start_process,
)
from ..base.results import ExecResult
from ..disk import DiskGuard, DiskWatch, Quota
from ..logs import RunLogs
from ..protocol import NetworkPolicy, SandboxSpec
from .cgroups import RunGroups, create_groups, sweep_groups
from .handle import BwrapChannel, BwrapHandle
from .layout import HOME, USER_NAME, Layout, build_layout, check_workdir, private_etc
from .places import PrivatePlaces
from .plan import LaunchPlan, check_command, holder_options, isolation_options, write_plan
from .program import BwrapProgram, diagnose, failure, find_bwrap
from .seccomp import filter_program
from .status import PLAN_SUFFIX, forget, namespace_pids, read_status, uid_is_mapped

_LAUNCH_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
_TRIAL_TIMEOUT_S = 60
_PRLIMIT = "/usr/bin/prlimit"
_COUNTS_PER_NAMESPACE = (5, 14)
"""Since Linux 5.14 RLIMIT_NPROC counts per user namespace, not per user of the whole machine."""


class BwrapRunner:
    """Prepares the surroundings of one run and starts commands in them."""

    def __init__(self, spec: SandboxSpec) -> None:
        self.spec = spec
        self._places = PrivatePlaces(spec.state_dir / "bwrap")
        self._logs = RunLogs(spec.state_dir)
        self._as_root = os.geteuid() == 0
        self._uid = SANDBOX_UID if self._as_root else os.geteuid()
        self._gid = SANDBOX_GID if self._as_root else os.getegid()
        self._program: BwrapProgram | None = None
        self._layout = Layout()
        self._groups = RunGroups({}, frozenset())
        self._seccomp = filter_program()
        self._holder: ProcessChannel | None = None
        self._network_pid = 0
        self._starts = 0
        self._handles: dict[BwrapHandle, dict[str, int]] = {}
        self._channels: set[BwrapChannel] = set()
        self._guard: DiskGuard | None = None
        self._extra_warnings: list[str] = []

    @property
    def version(self) -> str:
        """The bubblewrap in use, such as ``bubblewrap 0.8.0``; empty before ``prepare``."""
        return self._program.version if self._program else ""

    @property
    def ready(self) -> bool:
        return self._program is not None

    async def prepare(self) -> None:
        """Makes the surroundings and really starts a command in them.

        Raises:
            SandboxUnavailable: with the reason on this machine. What was made is removed again.
        """
        check_workdir(self.spec.workdir)
        if self._as_root and not uid_is_mapped(self._uid):
            raise SandboxUnavailable(
                f"this root user has no user id {self._uid} to give to commands (a single-user namespace)",
                hint="run Whimbrel as an ordinary user, use Docker, or choose --sandbox outer explicitly",
            )
        if not self.spec.workspace.is_dir():
            raise SandboxUnavailable(f"the workspace {self.spec.workspace} is not a directory")
        await asyncio.to_thread(sweep_groups)
        etc = private_etc(self._uid, self._gid, self.spec.network)
        self._places.make((self._uid, self._gid) if self._as_root else None, etc)
        try:
            program = await find_bwrap(self._places.root)
            self._layout = build_layout(
                self.spec,
                self._places,
                sized_tmpfs=program.knows("--size"),
                hide=[self.spec.state_dir, Path(os.path.expanduser("~"))],  # noqa: PTH111 - never raises,
            )
            self._groups = create_groups(self.spec.run_id, self.spec.limits)
            self._program = program
            await self._share_network()
            await self._trial()
            await self._watch_disk()
        except BaseException:
            await self.close()
            raise

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout_s: float | None,
        label: str,
    ) -> BwrapHandle:
        """Starts a command inside; ``cwd`` is a path inside."""
        plan, status = self._plan(self._limited(argv), cwd=cwd, env=env)
        inner = await start_process(
            plan,
            cwd="/",
            env=_LAUNCH_ENVIRONMENT,
            log_path=self._logs.next_path(label),
            timeout_s=timeout_s,
            shown_argv=argv,
            shown_cwd=cwd,
        )
        handle = BwrapHandle(inner, status, self._ended)
        self._handles[handle] = self._groups.events()
        if self._guard is not None:
            self._guard.on()
        return handle

    async def open_channel(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> BwrapChannel:
        """Starts a helper inside with its stdin and stdout connected."""
        plan, status = self._plan(self._limited(argv), cwd=cwd, env=env)
        try:
            inner = await open_process_channel(plan, cwd="/", env=_LAUNCH_ENVIRONMENT)
        except BaseException:
            # Cancelled while it started: its processes are gone, its files may be there.
            forget(status)
            raise
        channel = BwrapChannel(inner, status, self._channel_ended)
        self._channels.add(channel)
        if self._guard is not None:
            self._guard.on()
        return channel

    def warnings(self) -> tuple[str, ...]:
        """One line per protection or limit that is not enforced."""
        lines: list[str] = []
        have = self._groups.controllers
        if "pids" not in have:
            if self._limited(["x"]) != ["x"]:
                lines.append(
                    "no writable pids control group: the process count is limited per command, not per run"
                )
            else:
                lines.append("no writable pids control group: the process count is not limited")
        if "memory" not in have:
            lines.append("no writable memory control group: memory is not limited")
        if "cpu" not in have:
            lines.append("no writable cpu control group: CPU time is not limited")
        if self._seccomp is None:
            lines.append(f"no system-call filter is known for {platform.machine()}")
        if (
            self._program is not None
            and not self._program.knows("--disable-userns")
            and self._seccomp is None
        ):
            lines.append("this bubblewrap cannot forbid nested user namespaces")
        if self.spec.network is NetworkPolicy.ALLOW:
            lines.append("the network is open, this machine's own services included")
        if self._guard is not None and self._guard.failure:
            lines.append(f"disk use is not limited: {self._guard.failure}")
        return (*lines, *self._extra_warnings)

    async def close(self) -> None:
        """Ends everything inside and removes what ``prepare`` made; idempotent."""
        await asyncio.gather(
            *(handle.kill() for handle in self._handles), *(_close(channel) for channel in self._channels)
        )
        if self._guard is not None:
            self._guard.off()
        if self._holder is not None:
            await self._holder.close()
            self._holder, self._network_pid = None, 0
        await asyncio.to_thread(self._groups.remove)
        self._program = None
        await self._places.remove(self._logs.next_path("cleanup"))

    def _plan(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
    ) -> tuple[list[str], Path]:
        assert self._program is not None
        check_command(argv, cwd)
        own_network = self.spec.network is NetworkPolicy.NONE and not self._network_pid
        options = isolation_options(
            own_network=own_network, chdir=cwd, disable_userns=self._program.knows("--disable-userns")
        )
        size = self.spec.limits.file_bytes
        return self._write_plan(
            LaunchPlan(
                bwrap=self._program.path,
                options=[*options, *self._layout.options],
                sources=self._layout.sources,
                argv=argv,
                status=self._next_status(),
                uid=self._uid if self._as_root else None,
                gid=self._gid if self._as_root else None,
                cgroups=self._groups.procs_files(),
                rlimits=((resource.RLIMIT_FSIZE, (size, size)), (resource.RLIMIT_CORE, (0, 0))),
                seccomp=self._seccomp,
                network_pid=self._network_pid,
                env=self._environment(env),
            )
        )

    def _next_status(self) -> Path:
        self._starts += 1
        return self._places.starts / f"{self._starts:05d}.status"

    def _write_plan(self, plan: LaunchPlan) -> tuple[list[str], Path]:
        return write_plan(plan, plan.status.with_suffix(PLAN_SUFFIX)), plan.status

    def _environment(self, env: Mapping[str, str]) -> dict[str, str]:
        own = {"HOME": HOME, "TMPDIR": "/tmp", "USER": USER_NAME, "LOGNAME": USER_NAME}
        merged = base_environment({**own, **self.spec.env, **env})
        have = merged.get("PATH", "").split(":")
        merged["PATH"] = ":".join(
            [*have, *(p for p in _LAUNCH_ENVIRONMENT["PATH"].split(":") if p not in have)]
        )
        return merged

    def _limited(self, argv: Sequence[str]) -> list[str]:
        """Without a pids group: the process limit set from inside, where the kernel counts per sandbox."""
        release = re.match(r"(\d+)\.(\d+)", platform.release())
        counts = release is not None and (int(release[1]), int(release[2])) >= _COUNTS_PER_NAMESPACE
        if "pids" in self._groups.controllers or not counts or not Path(_PRLIMIT).exists():
            return list(argv)
        count = self.spec.limits.pids
        return [_PRLIMIT, f"--nproc={count}:{count}", "--", *argv]

    async def _share_network(self) -> None:
        """Starts the process that keeps the run's network namespace; without it each command gets its own."""
        if self.spec.network is NetworkPolicy.ALLOW:
            return
        assert self._program is not None
        options, argv = holder_options()
        plan, status = self._write_plan(
            LaunchPlan(
                bwrap=self._program.path,
                options=options,
                sources=(),
                argv=argv,
                status=self._next_status(),
                uid=self._uid if self._as_root else None,
                gid=self._gid if self._as_root else None,
            )
        )
        holder = await open_process_channel(plan, cwd="/", env=_LAUNCH_ENVIRONMENT)
        try:
            ready = await asyncio.wait_for(holder.receive_line(), _TRIAL_TIMEOUT_S)
        except TimeoutError:
            ready = b""
        pid = read_status(status).child_pid
        if not ready or pid is None:
            await holder.close()
            raise failure(holder.errors().decode("utf-8", "replace"))
        self._holder, self._network_pid = holder, pid

    async def _trial(self) -> None:
        """One command for real, with everything on, so that a run never starts in a broken sandbox."""
        result = await self._try_once()
        if isinstance(result, str) and self._holder is not None:
            refusal = result
            await self._holder.close()
            self._holder, self._network_pid = None, 0
            result = await self._try_once()
            if not isinstance(result, str):
                self._extra_warnings.append(f"each command has a loopback of its own ({diagnose(refusal)})")
        if isinstance(result, str):
            raise failure(result)

    async def _try_once(self) -> ExecResult | str:
        plan, status = self._plan(["/bin/sh", "-c", "exit 0"], cwd=self.spec.workdir, env={})
        result = await run_process(
            plan,
            cwd="/",
            env=_LAUNCH_ENVIRONMENT,
            log_path=self._places.root / "trial.log",
            timeout_s=_TRIAL_TIMEOUT_S,
        )
        ended = read_status(status)
        forget(status)
        if ended.exit_code == 0 and result.exit_code == 0:
            return result
        return result.text() or f"the trial command ended with code {result.exit_code}"

    async def _watch_disk(self) -> None:
        limits = self.spec.limits
        watch = DiskWatch(
            [
                Quota("workspace", (self.spec.workspace, self._places.home), limits.disk_bytes),
                Quota("private /tmp", (self._places.tmp,), limits.tmp_bytes),
            ],
            self._places.root / "usage.log",
        )
        if shutil.which("du") is None:
            self._extra_warnings.append("disk use is not limited: there is no du program")
            return
        await watch.set_baseline()
        self._guard = DiskGuard(watch, self._inside, self._end_all)

    async def _end_all(self, reason: str) -> bool:
        for handle in self._handles:
            handle.limit_note = reason
        endings = [handle.kill() for handle in self._handles]
        endings += [_close(channel) for channel in self._channels]
        await asyncio.gather(*endings)
        return self._busy()

    def _busy(self) -> bool:
        return bool(self._handles or self._channels)

    def _inside(self) -> Iterable[int]:
        if self._groups.controllers:
            return self._groups.pids()
        firsts = [started.inside_pid() for started in (*self._handles, *self._channels)]
        return [pid for first in firsts if first is not None for pid in namespace_pids(first)]

    def _ended(self, handle: BwrapHandle) -> list[str]:
        before = self._handles.pop(handle, None)
        if self._guard is not None and not self._busy():
            self._guard.off()
        if before is None:
            return []
        after = self._groups.events()
        notes: list[str] = []
        if after["memory"] > before["memory"]:
            limit = self.spec.limits.memory_bytes >> 20
            notes.append(f"the memory limit of {limit} MiB was reached and a process was killed")
        if after["pids"] > before["pids"]:
            notes.append(f"the limit of {self.spec.limits.pids} processes was reached")
        return notes

    def _channel_ended(self, channel: BwrapChannel) -> None:
        self._channels.discard(channel)
        if self._guard is not None and not self._busy():
            self._guard.off()


async def _close(channel: BwrapChannel) -> None:
    with contextlib.suppress(SandboxDied):
        await channel.close()
