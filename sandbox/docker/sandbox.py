"""The Docker sandbox: one long-lived container per run, commands by exec."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from ..base.errors import SandboxDied, SandboxUnavailable, ToolError
from ..base.output import OutputCapture
from ..daemon import Daemon, connect
from ..disk import DiskGuard, DiskWatch, Quota
from ..images import ImageInfo, default_image, find_image
from ..labels import sweep_leftovers
from ..logs import RunLogs
from ..protocol import Channel, NetworkPolicy, RunHandle, SandboxDescription, SandboxSpec, SnapshotStore
from .channel import DockerChannel
from .command import DockerCommand
from .config import SCRIPTS_DIR, Identity, check_mounts, container_config, container_environment, identity_for
from .container import Container
from .files import SandboxFiles
from .filter import filter_options
from .host_pids import pids_of
from .scripts import write_scripts

_OPENING_TRIES = 4


class DockerSandbox:
    """Implements ``Sandbox`` with Docker, or Podman through its Docker-compatible socket."""

    def __init__(self, spec: SandboxSpec, store: SnapshotStore) -> None:
        self._spec = spec
        self._store = store
        self._logs = RunLogs(spec.state_dir)
        self._daemon: Daemon | None = None
        self._image: ImageInfo | None = None
        self._container: Container | None = None
        self._files: SandboxFiles | None = None
        self._guard: DiskGuard | None = None
        self._environment: dict[str, str] = {}
        self._warnings: tuple[str, ...] = ()
        self._commands: set[DockerCommand] = set()
        self._channels: set[DockerChannel] = set()
        self._endings: set[asyncio.Future[None]] = set()

    @property
    def spec(self) -> SandboxSpec:
        return self._spec

    @property
    def container_name(self) -> str | None:
        """The container's name while there is one."""
        return self._container.name if self._container else None

    def describe(self) -> SandboxDescription:
        image = self._image
        return SandboxDescription(
            kind="docker",
            isolated=True,
            image=image.reference if image else self._spec.image,
            image_digest=image.digest if image else None,
            workdir=self._spec.workdir,
            warnings=(*self._warnings, *self._guard_failure()),
        )

    async def start(self) -> None:
        """Sweeps leftovers of dead runs, then starts the container.

        Raises:
            SandboxUnavailable: no daemon, no usable image, an image without /bin/sh, or a
                workspace the sandbox user cannot write.
        """
        if self._container is not None:
            return
        check_mounts(self._spec)
        await asyncio.to_thread(write_scripts, self._spec.state_dir / SCRIPTS_DIR)
        daemon = await connect()
        try:
            await sweep_leftovers(daemon)
            image = await self._find_image(daemon)
            identity = identity_for(daemon)
            container = await self._open(daemon, image, identity)
        except BaseException:
            daemon.close()
            raise
        self._daemon, self._image, self._container = daemon, image, container
        self._environment = container_environment(self._spec, image)
        self._files = SandboxFiles(container, self._spec.workspace, self._spec.workdir)
        self._warnings = (
            *identity.warnings,
            *filter_options(daemon)[1],
            *daemon.missing_limits(),
            *self._network_warning(),
        )
        await self._watch_disk(container)

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        label: str = "run",
    ) -> RunHandle:
        container, files = self._started()
        program = _command_line(argv)
        directory = await self._directory(files, cwd)
        command = DockerCommand(
            container,
            OutputCapture(self._logs.next_path(label)),
            mark=secrets.token_hex(8),
            argv=program,
            cwd=directory,
            env=dict(env or {}),
            timeout_s=timeout_s,
            on_end=self._command_ended,
        )
        self._commands.add(command)
        self._busy()
        beginning = asyncio.ensure_future(command.start(directory))
        try:
            await asyncio.shield(beginning)
        except asyncio.CancelledError:
            # It may be starting at this moment: nothing may run on unseen.
            await self._see_off(beginning, command.kill)
            raise
        except BaseException:
            self._command_ended(command)
            raise
        return command

    async def open_channel(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Channel:
        container, files = self._started()
        program = _command_line(argv)
        directory = await self._directory(files, cwd)
        channel = DockerChannel(container, secrets.token_hex(8), self._channel_ended)
        self._channels.add(channel)
        self._busy()
        beginning = asyncio.ensure_future(channel.start(program, directory, env))
        try:
            await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await self._see_off(beginning, channel.close)
            raise
        except BaseException:
            self._channel_ended(channel)
            raise
        return channel

    async def read(self, path: str) -> bytes:
        _, files = self._started()
        return await files.read(path)

    async def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        _, files = self._started()
        await files.write(path, data, executable=executable)

    async def snapshot(self) -> str:
        return await self._store.snapshot()

    async def restore(self, snapshot: str) -> None:
        await self._store.restore(snapshot)

    async def stop(self) -> None:
        """Removes the container and with it everything inside; idempotent."""
        container, daemon = self._container, self._daemon
        commands, channels = list(self._commands), list(self._channels)
        for running in (*commands, *channels):
            running.abandon()
        self._container = self._files = self._daemon = None
        if self._guard is not None:
            self._guard.off()
        if container is not None:
            # A daemon that is gone cannot remove it now; the sweep of the next start will.
            with contextlib.suppress(SandboxUnavailable):
                await asyncio.shield(container.remove())
        await asyncio.gather(*(command.settled() for command in commands), *(it.close() for it in channels))
        if daemon is not None:
            daemon.close()

    async def _find_image(self, daemon: Daemon) -> ImageInfo:
        if self._spec.image is not None:
            found = await find_image(daemon, self._spec.image)
        else:
            found = await default_image(daemon)
        if found is None:
            wanted = self._spec.image or "no sandbox image"
            raise SandboxUnavailable(
                f"{wanted} is not on this machine"
                if self._spec.image
                else "no sandbox image has been built here",
                hint=f"docker pull {wanted}" if self._spec.image else "run `whimbrel sandbox build` once",
            )
        return found

    async def _open(self, daemon: Daemon, image: ImageInfo, identity: Identity) -> Container:
        """Starts a container in which every mount can be reached.

        The image may hold directories only root enters (such as /root) on the way to a mount;
        those are covered by empty ones, which takes another start.
        """
        spec = self._spec
        targets = [spec.workdir, *(mount.target for mount in spec.mounts)]
        opened: list[str] = ["/root"] if any(target.startswith("/root/") for target in targets) else []
        for _ in range(_OPENING_TRIES):
            config = container_config(daemon, spec, image, identity, opened)
            container = await Container.start(daemon, identity, spec.run_id, spec.workdir, config)
            try:
                code, output = await container.call("probe", [spec.workdir, *targets])
            except SandboxDied as error:
                await container.remove()
                raise SandboxUnavailable(f"the container ended at once: {error.message}") from error
            except BaseException:
                await asyncio.shield(container.remove())
                raise
            closed = [line for line in output.decode("utf-8", "replace").splitlines() if line.startswith("/")]
            if code == 0 and not closed:
                return container
            await container.remove()
            if code == 4:
                raise SandboxUnavailable(
                    f"the workspace is not writable for {identity.user}, who commands run as",
                    hint=f"chown -R {identity.user} {spec.workspace}",
                )
            fresh = [place for place in closed if place not in opened]
            if not fresh:
                said = " ".join(output.decode("utf-8", "replace").split())[:300]
                raise SandboxUnavailable(
                    f"the working directory {spec.workdir} cannot be entered inside: {said}"
                )
            opened += fresh
        raise SandboxUnavailable(f"directories of the image keep commands from {', '.join(opened)}")

    async def _directory(self, files: SandboxFiles, cwd: str | None) -> str:
        if cwd is None:
            return self._spec.workdir
        inside = files.absolute(cwd)
        if str(inside) != self._spec.workdir and not await files.is_directory(inside):
            raise ToolError(
                f"the working directory {inside} does not exist in the sandbox", hint="choose another"
            )
        return str(inside)

    async def _see_off(
        self, beginning: asyncio.Future[None], end: Callable[[], Coroutine[Any, Any, object]]
    ) -> None:
        """Ends what a cancelled caller was starting; goes on also when that caller is cancelled again."""

        async def finish() -> None:
            await asyncio.wait([beginning])
            if not beginning.cancelled() and beginning.exception() is None:
                await end()

        task = asyncio.ensure_future(finish())
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        await asyncio.shield(task)

    async def _watch_disk(self, container: Container) -> None:
        quota = Quota("workspace", (self._spec.workspace,), self._spec.limits.disk_bytes)
        watch = DiskWatch([quota], self._spec.state_dir / "usage.log")
        try:
            await watch.set_baseline()
        except ToolError as error:
            self._warnings = (*self._warnings, f"disk use is not limited: {error.message}")
            return
        self._guard = DiskGuard(watch, lambda: pids_of(container.id), self._disk_full)

    async def _disk_full(self, note: str) -> bool:
        await asyncio.gather(
            *(command.kill(note) for command in list(self._commands)),
            *(channel.close() for channel in list(self._channels)),
        )
        return bool(self._commands or self._channels)

    def _command_ended(self, command: DockerCommand) -> None:
        self._commands.discard(command)
        self._rest()

    def _channel_ended(self, channel: DockerChannel) -> None:
        self._channels.discard(channel)
        self._rest()

    def _rest(self) -> None:
        if self._guard is not None and not self._commands and not self._channels:
            self._guard.off()

    def _busy(self) -> None:
        if self._guard is not None:
            self._guard.on()

    def _started(self) -> tuple[Container, SandboxFiles]:
        if self._container is None or self._files is None:
            raise SandboxUnavailable("the sandbox is not running", hint="start it first")
        return self._container, self._files

    def _guard_failure(self) -> tuple[str, ...]:
        if self._guard is None or not self._guard.failure:
            return ()
        return (f"disk use is not limited any more: {self._guard.failure}",)

    def _network_warning(self) -> tuple[str, ...]:
        if self._spec.network is NetworkPolicy.ALLOW:
            return ("the network is open: commands can reach other machines",)
        return ()


def _command_line(argv: Sequence[str]) -> tuple[str, ...]:
    if not argv:
        raise ToolError("a command needs at least a program")
    if any("\0" in argument for argument in argv):
        raise ToolError("an argument of a command cannot hold a NUL byte")
    return tuple(argv)
