"""One container of one run: made, entered, ended; and what became of it when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from ..base.errors import SandboxDied, SandboxUnavailable
from ..daemon import Daemon, ask, explain, make_container, status_of
from .config import Identity
from .host_pids import InitProcess, belongs_to, pids_of
from .scripts import FOLDER, MARK, READY
from .stream import ExecStream

_NAME_TRIES = 5
_READY_TRIES = 60
_END_PATIENCE_S = 20.0
_PERHAPS_THE_CONTAINERS_END = 126
"""Killed with it (137), or not begun any more because it had ended (the daemon says 126 or 128 then)."""
_UNTIL_SEEN_TO_END = (0, 0.02, 0.05, 0.1, 0.3)
_KILL_PATIENCE_S = 5.0
_NO_PROGRAM = re.compile(r"no such file|not found|exec format|permission denied", re.IGNORECASE)


@dataclass(frozen=True)
class ExecState:
    """How one exec stands."""

    running: bool
    exit_code: int | None


@dataclass
class Container:
    """A started container. All paths and processes are inside it."""

    daemon: Daemon
    identity: Identity
    id: str
    name: str
    workdir: str
    memory_kills: int = 0
    """How many processes the memory limit has killed, as far as known."""
    last_output: str = ""
    """The newest line a command printed: what is left to show when the container's own log went with it."""
    init: InitProcess | None = None
    """Its first process as this machine sees it; None where the daemon lives on another machine."""

    @classmethod
    async def start(
        cls, daemon: Daemon, identity: Identity, run_id: str, workdir: str, config: Mapping[str, Any]
    ) -> Container:
        """Creates and starts it under a unique name.

        Raises:
            SandboxUnavailable: the daemon refuses, or the image cannot run /bin/sh; holds its last log lines.
        """
        made, name = await _create(daemon, run_id, config)
        container = cls(daemon, identity, made, name, workdir)
        try:
            await container._begin()
        except BaseException:
            # Shielded: a cancelled start must not leave the container behind.
            await asyncio.shield(container.remove())
            raise
        return container

    async def _begin(self) -> None:
        cause: SandboxUnavailable | None = None
        try:
            await ask("starting the container", self.daemon.api.start, self.id)
            if await self._ready():
                await self._find_init()
                return
        except SandboxUnavailable as error:
            cause = error
        status, log = await self._remains()
        what = cause.message if cause else f"the container ended at once ({status})"
        if "/bin/sh" in f"{what} {log}" and _NO_PROGRAM.search(f"{what} {log}"):
            what = f"the image cannot run /bin/sh, which every command needs ({status})"
        raise SandboxUnavailable(
            f"{what}; container log: {log or 'empty'}", hint="use an image with a working /bin/sh"
        ) from cause

    async def _ready(self) -> bool:
        """Whether its own process came up; a missing shell shows only a moment after the start."""
        for _ in range(_READY_TRIES):
            if not (await self.inspect()).get("Running"):
                return False
            raw = await ask("reading the container's log", self.daemon.api.logs, self.id, tail=5)
            if READY.encode() in cast("bytes", raw):
                return True
            await asyncio.sleep(0.03)
        # No log to be had from this daemon: it runs, and the first command will tell the rest.
        return True

    async def _find_init(self) -> None:
        self.init = InitProcess.of(self.id, int((await self.inspect()).get("Pid") or 0))

    async def inspect(self) -> dict[str, Any]:
        """The daemon's ``State`` of the container. Raises docker's NotFound when it was removed."""
        found = await ask("looking at the container", self.daemon.api.inspect_container, self.id)
        return cast("dict[str, Any]", found["State"])

    async def enter(
        self,
        script: str,
        arguments: Sequence[str],
        on_output: Callable[[int, bytes], None],
        *,
        env: Mapping[str, str] | None = None,
        mark: str = "",
        stdin: bool = False,
    ) -> tuple[str, ExecStream]:
        """Runs one of our scripts as the sandbox user; returns the exec's id and its stream.

        Raises:
            SandboxDied: the container or the daemon is gone.
        """
        environment = dict(env or {})
        if mark:
            environment[MARK] = mark
        exec_id = await self._guarded(
            "entering the container",
            self.daemon.api.exec_create,
            self.id,
            ["/bin/sh", f"{FOLDER}/{script}", *arguments],
            stdin=stdin,
            user=self.identity.user,
            environment=environment,
            workdir="/",
        )
        identity = str(cast("dict[str, Any]", exec_id)["Id"])
        connection = await self._guarded(
            "running a command in the container", self.daemon.api.exec_start, identity, socket=True
        )
        return identity, ExecStream(connection, on_output)

    async def call(
        self,
        script: str,
        arguments: Sequence[str],
        *,
        limit: int = 1 << 20,
        timeout_s: float = 60,
        stdin: bytes | None = None,
    ) -> tuple[int, bytes]:
        """Runs one of our scripts to its end; returns exit code and output (cut beyond ``limit``)."""
        output = bytearray()

        def take(_: int, data: bytes) -> None:
            if len(output) <= limit:
                output.extend(data)

        mark = secrets.token_hex(8)
        exec_id, stream = await self.enter(script, arguments, take, mark=mark, stdin=stdin is not None)
        try:
            if stdin is not None:
                with contextlib.suppress(OSError):  # it ended before reading all; its exit code tells why
                    await stream.send(stdin)
                stream.end_input()
            async with asyncio.timeout(timeout_s):
                await stream.ended.wait()
        except TimeoutError as error:
            raise SandboxDied(
                f"the sandbox container {self.name} did not answer within {timeout_s:g} s"
            ) from error
        finally:
            stream.close()
        return await self.exit_code(exec_id), bytes(output)

    async def exec_state(self, exec_id: str) -> ExecState:
        """Raises SandboxDied when the container is gone."""
        found = await self._guarded("looking at a command", self.daemon.api.exec_inspect, exec_id)
        details = cast("dict[str, Any]", found)
        code = details.get("ExitCode")
        return ExecState(bool(details.get("Running")), int(code) if code is not None else None)

    async def exit_code(self, exec_id: str) -> int:
        """The code of an exec whose stream has ended. Raises SandboxDied when there can be none."""
        for pause in (0, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4):
            # The daemon may still say "running" for a moment after the stream's end.
            await asyncio.sleep(pause)
            state = await self.exec_state(exec_id)
            if not state.running and state.exit_code is not None:
                break
        else:
            state = ExecState(True, None)
        if state.exit_code is None or state.exit_code >= _PERHAPS_THE_CONTAINERS_END:
            await self.require_alive()
            # The end of the whole container shows in its commands first and in its state a moment later.
            if self.init is None:
                await asyncio.sleep(0.2)
                await self.require_alive()
            elif self.init.ending():
                await self._await_end()
        if state.exit_code is None:
            raise SandboxDied(f"the daemon lost the end of a command in the container {self.name}")
        return state.exit_code

    async def end(self, mark: str) -> bool:
        """Ends all processes of the command with that mark; False when some are left."""
        try:
            async with asyncio.timeout(_END_PATIENCE_S):
                code, _ = await self.call("end", [mark], timeout_s=_END_PATIENCE_S)
        except (TimeoutError, SandboxDied):
            if self.init is not None and self.init.ending():
                await self._await_end()
            # A command that stops everything it can (SIGSTOP) also stops what the daemon sends in,
            # and the daemon then answers nothing about this container any more.
            if not await asyncio.to_thread(self._kill_from_outside):
                await self.require_alive()
            return False
        return code == 0

    async def end_exec(self, exec_id: str, mark: str) -> bool:
        """The same for what was entered as ``exec_id``, which the daemon may not have begun yet.

        It answers when it has heard of a command, and starts its first process a little later: whoever looks
        in between finds nothing to end.
        """
        deadline = time.monotonic() + _END_PATIENCE_S
        while True:
            if not await self.end(mark):
                return False
            for pause in _UNTIL_SEEN_TO_END:
                await asyncio.sleep(pause)
                state = await self.exec_state(exec_id)
                if not state.running and state.exit_code is not None:
                    return True
            if time.monotonic() > deadline:
                return True

    def _kill_from_outside(self) -> bool:
        """Ends all commands through this machine's own process table; False when none can be seen."""
        seen = False
        deadline = time.monotonic() + _KILL_PATIENCE_S
        while time.monotonic() < deadline:
            pids = [pid for pid in pids_of(self.id) if belongs_to(pid, self.identity.uid)]
            if not pids:
                return seen
            seen = True
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        return seen

    async def restart(self) -> None:
        """Ends every process inside by restarting the container; temporary files go, the workspace stays."""
        await self._guarded("restarting the container", self.daemon.api.restart, self.id, timeout=0)
        await self._find_init()

    async def out_of_memory(self) -> bool:
        """Whether the memory limit has killed a process since this was last asked."""
        _, output = await self.call("out-of-memory", [])
        counts = [int(word) for word in output.split() if word.isdigit()]
        before, self.memory_kills = self.memory_kills, sum(counts)
        return self.memory_kills > before

    async def require_alive(self) -> None:
        """Raises SandboxDied when the container no longer runs."""
        from docker.errors import NotFound

        try:
            state = await self.inspect()
        except NotFound as error:
            await self._raise_died(error)
        except SandboxUnavailable as error:
            raise self._daemon_gone(error) from error
        if not state.get("Running") or state.get("Paused"):
            await self._raise_died(None)

    async def _await_end(self) -> NoReturn:
        """The container's first process has ended: says so, with the daemon's account when it has one."""
        deadline = time.monotonic() + _END_PATIENCE_S
        while time.monotonic() < deadline:
            await self.require_alive()
            await asyncio.sleep(0.05)
        await self._raise_died(None)

    async def remove(self) -> None:
        """Ends and removes it; one that is gone already is fine."""
        from docker.errors import APIError, NotFound

        if self.daemon.podman:
            # Its forced removal asks first and waits ten seconds for an answer.
            with contextlib.suppress(APIError, SandboxUnavailable):
                await ask("ending the container", self.daemon.api.kill, self.id)
        try:
            await ask("removing the container", self.daemon.api.remove_container, self.id, force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            if "already in progress" not in explain(error):
                raise SandboxUnavailable(
                    f"the container {self.name} cannot be removed: {explain(error)}"
                ) from error

    async def _guarded(self, doing: str, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """One SDK call on a container that should be alive."""
        from docker.errors import APIError, NotFound

        try:
            return await ask(doing, call, *args, **kwargs)
        except (NotFound, APIError) as error:
            await self._raise_died(error)
        except SandboxUnavailable as error:
            if status_of(error.__cause__ or error) is not None:
                await self.require_alive()
                raise
            raise self._daemon_gone(error) from error

    async def _raise_died(self, cause: Exception | None) -> NoReturn:
        state, log = await self._remains()
        parts = [f"the sandbox container {self.name} is gone: {state}"]
        if log:
            parts.append(f"container log: {log}")
        if self.last_output:
            parts.append(f"last output: {self.last_output}")
        raise SandboxDied(
            "; ".join(parts), hint="run again; nothing outside the sandbox was changed"
        ) from cause

    def _daemon_gone(self, error: SandboxUnavailable) -> SandboxDied:
        return SandboxDied(f"the sandbox went away mid-run: {error.message}", hint=error.hint)

    async def _remains(self) -> tuple[str, str]:
        """Status and last log lines of a container that does not run."""
        from docker.errors import APIError, NotFound

        try:
            state = await self.inspect()
            raw = await ask("reading the container's log", self.daemon.api.logs, self.id, tail=5)
        except (NotFound, APIError):
            return "it was removed from outside", ""
        except SandboxUnavailable as error:
            return error.message, ""
        status = f"{state.get('Status', 'unknown')}, exit code {state.get('ExitCode', '?')}"
        if state.get("Paused"):
            status = "it was paused from outside"
        if state.get("OOMKilled"):
            status += ", killed at the memory limit"
        if state.get("Error"):
            status += f", {_brief(str(state['Error']))}"
        log = cast("bytes", raw).decode("utf-8", "replace")
        return status, " / ".join(line.strip() for line in log.splitlines() if line.strip())[-500:]


async def _create(daemon: Daemon, run_id: str, config: Mapping[str, Any]) -> tuple[str, str]:
    from docker.errors import APIError, NotFound

    word = re.sub(r"[^A-Za-z0-9_.-]+", "-", run_id).strip("-.")[:40] or "run"
    last: Exception | None = None
    for _ in range(_NAME_TRIES):
        name = f"whimbrel-{word}-{new_suffix()}"
        try:
            made = await make_container(daemon, "creating the container", name, config)
        except NotFound as error:
            raise SandboxUnavailable(
                f"the container image is gone: {explain(error)}", hint="run `whimbrel sandbox build`"
            ) from error
        except APIError as error:
            # 409: somebody has that name; the next one is different.
            last = error
            continue
        return made, name
    raise SandboxUnavailable(
        f"no free container name after {_NAME_TRIES} tries: {explain(last or Exception())}"
    )


def new_suffix() -> str:
    """The random part of a container's name."""
    return secrets.token_hex(4)


def _brief(text: str) -> str:
    return " ".join(text.split())[:300]
