"""A small project in a real git repository, its workspace copy, a sandbox and the tools' context."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from whimbrel.app.evidence import EvidenceLedger
from whimbrel.app.repo.environment import ProjectEnvironment
from whimbrel.app.repo.testing.adapters import PytestAdapter
from whimbrel.app.repo.testing.runner import TestRunner
from whimbrel.app.tools.base import Progress, ToolContext
from whimbrel.sandbox.base.git import Git
from whimbrel.sandbox.protocol import SandboxSpec
from whimbrel.sandbox.select import Choice, make_sandbox, workspace_owner
from whimbrel.sandbox.workspace import Workspace


async def make_repository(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """A git repository with the files in one commit."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    git = Git(folder / ".git", folder)
    await git.run("init", "-q")
    await git.run("add", "-A")
    await git.run(
        "-c", "user.name=Test", "-c", "user.email=test@example.invalid", "commit", "-q", "-m", "start"
    )
    return folder


@asynccontextmanager
async def opened(
    base: Path,
    files: Mapping[str, str | bytes],
    *,
    kind: str = "host",
    progress: list[Progress] | None = None,
    test_timeout_s: float = 60,
) -> AsyncIterator[ToolContext]:
    """Everything the tools need, on a copy of a repository made of ``files``."""
    repository = await make_repository(base / "repository", files)
    run_dir = base / "run"
    workspace = await Workspace.create(repository, run_dir, owner=workspace_owner(kind))
    workdir = str(workspace.root) if kind == "host" else str(repository)
    environment = await plan(repository, kind)
    spec = SandboxSpec(
        workspace=workspace.root,
        workdir=workdir,
        state_dir=run_dir / "state",
        run_id=f"repair-{base.name}"[:40],
        mounts=(*workspace.mounts(), *environment.mounts),
    )
    sandbox = make_sandbox(Choice(kind, None, ()), spec, workspace)
    await sandbox.start()
    ledger = EvidenceLedger()
    blobs: dict[str, bytes] = {}

    def keep(data: bytes, name: str) -> str:
        blobs[name] = data
        return name

    seen = progress if progress is not None else []
    runner = TestRunner(
        PytestAdapter(), sandbox, environment.at(workdir), ledger, workspace, test_timeout_s=test_timeout_s
    )
    try:
        yield ToolContext(
            workspace=workspace,
            sandbox=sandbox,
            tests=runner,
            ledger=ledger,
            keep=keep,
            fetch=blobs.__getitem__,
            progress=seen.append,
        )
    finally:
        await sandbox.stop()


async def plan(repository: Path, kind: str) -> ProjectEnvironment:
    from whimbrel.app.repo.environment.plan import plan_environment

    planned = await plan_environment(
        repository,
        kind,
        python=sys.executable,
        environ={},
        recipe=None,
        allow_build=False,
        report=lambda _: None,
    )
    # The plugins of our own tests would double the time of every start.
    return replace(planned, env={**planned.env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
