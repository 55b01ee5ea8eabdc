"""A real workspace (a copy of a real git repository) and a real sandbox for tool tests."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from whimbrel.app.evidence import EvidenceLedger
from whimbrel.app.tools.base import ToolContext
from whimbrel.sandbox.protocol import SandboxSpec
from whimbrel.sandbox.select import Choice, make_sandbox, workspace_owner
from whimbrel.sandbox.workspace import Workspace

MakeContext = Callable[..., Awaitable[ToolContext]]


def make_repository(root: Path, files: Mapping[str, bytes | str]) -> Path:
    """A committed git repository with these files."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "add", "-A", "-f"], check=True)
    subprocess.run(["git", "-C", str(root), *who, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    return root


@pytest.fixture
async def make_context(tmp_path: Path) -> AsyncIterator[MakeContext]:
    """``await make_context({"a.py": "x = 1"}, kind="bwrap")``: a context on a copy of such a repository."""
    async with AsyncExitStack() as stack:

        async def make(files: Mapping[str, bytes | str], kind: str = "host", **more: Any) -> ToolContext:
            repository = make_repository(tmp_path / "repository", files)
            # Isolating sandboxes run as a user who cannot enter root's temporary folders.
            run_dir = Path(tempfile.mkdtemp(prefix="whimbrel-test-", dir="/var/tmp"))
            stack.callback(shutil.rmtree, run_dir, ignore_errors=True)
            run_dir.chmod(0o711)
            workspace = await Workspace.create(repository, run_dir, owner=workspace_owner(kind))
            stack.push_async_callback(workspace.destroy)
            workdir = str(workspace.root) if kind == "host" else str(repository)
            spec = SandboxSpec(
                workspace=workspace.root,
                workdir=workdir,
                state_dir=run_dir / "state",
                run_id=run_dir.name,
                mounts=workspace.mounts(),
                env=more.pop("env", {}),
            )
            sandbox = make_sandbox(Choice(kind), spec, workspace)
            await sandbox.start()
            stack.push_async_callback(sandbox.stop)
            blobs: dict[str, bytes] = {}

            def keep(data: bytes, media: str) -> str:
                assert media == "text/plain"
                handle = hashlib.sha256(data).hexdigest()[:16]
                blobs[handle] = data
                return handle

            return ToolContext(
                workspace=workspace,
                sandbox=sandbox,
                tests=cast(Any, None),
                ledger=EvidenceLedger(),
                keep=keep,
                fetch=blobs.__getitem__,
                **more,
            )

        yield make
