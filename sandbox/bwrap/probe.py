"""Does bubblewrap really work here? Answered by starting it, never by looking at settings."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from ..protocol import SandboxSpec
from .runner import BwrapRunner


async def probe_bwrap() -> str:
    """Starts a command in a throw-away sandbox with all protections on.

    Returns bubblewrap's name and version.

    Raises:
        SandboxUnavailable: with the reason on this machine.
    """
    scratch = Path(tempfile.mkdtemp(prefix="whimbrel-probe-"))
    try:
        workspace = scratch / "workspace"
        workspace.mkdir()
        runner = BwrapRunner(
            SandboxSpec(
                workspace=workspace, workdir="/srv/probe", state_dir=scratch / "state", run_id=scratch.name
            )
        )
        try:
            await runner.prepare()
            return runner.version
        finally:
            await runner.close()
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
