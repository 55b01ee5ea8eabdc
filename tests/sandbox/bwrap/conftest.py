"""A started bubblewrap sandbox on a small workspace, stopped after each test."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from whimbrel.sandbox.bwrap import BwrapSandbox
from whimbrel.sandbox.protocol import (
    ExecResult,
    Mount,
    NetworkPolicy,
    SandboxLimits,
    SandboxSpec,
    run_to_end,
)
from whimbrel.sandbox.select import workspace_owner

WORKDIR = "/home/someone/projects/demo"
PREFIX = Path(sys.base_prefix)
PYTHON = str(PREFIX / "bin" / "python3")


class NoSnapshots:
    """These tests never take snapshots; one that did would fail here."""

    async def snapshot(self) -> str:
        raise AssertionError("no snapshot was expected")

    async def restore(self, snapshot: str) -> None:
        raise AssertionError("no restore was expected")


class Box:
    """A sandbox with short ways to run things in it."""

    def __init__(self, sandbox: BwrapSandbox) -> None:
        self.sandbox = sandbox
        self.workspace = sandbox.spec.workspace
        self.state = sandbox.spec.state_dir

    async def sh(self, script: str, **options: object) -> ExecResult:
        return await run_to_end(self.sandbox, ["/bin/sh", "-c", script], **{"timeout_s": 60, **options})  # type: ignore[arg-type]

    async def py(self, script: str, **options: object) -> ExecResult:
        return await run_to_end(self.sandbox, [PYTHON, "-c", script], **{"timeout_s": 60, **options})  # type: ignore[arg-type]


MakeBox = Callable[..., Awaitable[Box]]


@pytest.fixture
async def make_box(tmp_path: Path) -> AsyncIterator[MakeBox]:
    boxes: list[Box] = []

    async def make(
        *,
        limits: SandboxLimits | None = None,
        network: NetworkPolicy = NetworkPolicy.NONE,
        mounts: tuple[Mount, ...] = (),
        env: dict[str, str] | None = None,
        workdir: str = WORKDIR,
    ) -> Box:
        number = len(boxes)
        workspace = tmp_path / f"copy{number}"
        workspace.mkdir()
        owner = workspace_owner("bwrap")
        if owner is not None:
            os.chown(workspace, *owner)
        spec = SandboxSpec(
            workspace=workspace,
            workdir=workdir,
            state_dir=tmp_path / f"state{number}",
            run_id=f"test-{tmp_path.name}-{number}",
            mounts=(Mount(PREFIX, str(PREFIX)), *mounts),
            env=env or {},
            network=network,
            limits=limits or SandboxLimits(),
        )
        box = Box(BwrapSandbox(spec, NoSnapshots()))
        boxes.append(box)
        await box.sandbox.start()
        return box

    yield make
    for box in boxes:
        await box.sandbox.stop()


@pytest.fixture
async def box(make_box: MakeBox) -> Box:
    return await make_box()
