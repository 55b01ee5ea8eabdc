"""The bubblewrap sandbox as the agent sees it."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence

from ..base.errors import SandboxUnavailable
from ..protocol import SandboxDescription, SandboxSpec, SnapshotStore
from .files import read_inside, write_inside
from .handle import BwrapChannel, BwrapHandle
from .runner import BwrapRunner


class BwrapSandbox:
    """Implements ``Sandbox`` with one bubblewrap per command."""

    def __init__(self, spec: SandboxSpec, store: SnapshotStore) -> None:
        self._spec = spec
        self._store = store
        self._runner = BwrapRunner(spec)

    @property
    def spec(self) -> SandboxSpec:
        return self._spec

    def describe(self) -> SandboxDescription:
        return SandboxDescription(
            kind="bwrap", isolated=True, workdir=self._spec.workdir, warnings=self._runner.warnings()
        )

    async def start(self) -> None:
        """Raises SandboxUnavailable with the reason on this machine."""
        if not self._runner.ready:
            await self._runner.prepare()

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        label: str = "run",
    ) -> BwrapHandle:
        self._check_started()
        return await self._runner.start(
            argv, cwd=self._inside(cwd or "."), env=env or {}, timeout_s=timeout_s, label=label
        )

    async def open_channel(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> BwrapChannel:
        self._check_started()
        return await self._runner.open_channel(argv, cwd=self._inside(cwd or "."), env=env or {})

    async def read(self, path: str) -> bytes:
        self._check_started()
        return await read_inside(self, self._inside(path))

    async def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        self._check_started()
        await write_inside(self, self._inside(path), data, executable=executable)

    async def snapshot(self) -> str:
        return await self._store.snapshot()

    async def restore(self, snapshot: str) -> None:
        await self._store.restore(snapshot)

    async def stop(self) -> None:
        await self._runner.close()

    def _inside(self, path: str) -> str:
        return os.path.normpath(os.path.join(self._spec.workdir, path))  # noqa: PTH118 - a path inside, not of this machine

    def _check_started(self) -> None:
        if not self._runner.ready:
            raise SandboxUnavailable("the bubblewrap sandbox was not started, or was stopped")
