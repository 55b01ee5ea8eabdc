"""What every probe needs: run a program briefly, and never fail the whole diagnosis."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from ...sandbox.base.process import base_environment, run_process
from .finding import Finding, State

Probe = Callable[[], Awaitable[list[Finding]]]

PROGRAM_LIMIT_S = 5.0
PROBE_LIMIT_S = 20.0
_VERSION = re.compile(r"\d+(?:\.\d+)+")


async def guarded(group: str, name: str, probe: Probe, limit_s: float = PROBE_LIMIT_S) -> list[Finding]:
    """Runs a probe; a failure or a hang becomes one finding of state UNKNOWN."""
    try:
        return await asyncio.wait_for(probe(), limit_s)
    except TimeoutError:
        return [Finding(group, name, State.UNKNOWN, f"no answer within {limit_s:g} s")]
    except Exception as error:  # noqa: BLE001 - a probe may meet any broken machine; the others must still run
        text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return [Finding(group, name, State.UNKNOWN, f"the probe failed: {text}")]


async def first_line(argv: Sequence[str]) -> str | None:
    """The first line a program prints, or None when it is absent, fails or takes over five seconds."""
    program = shutil.which(argv[0])
    if program is None:
        return None
    with tempfile.TemporaryDirectory(prefix="whimbrel-doctor-") as scratch:
        result = await run_process(
            [program, *argv[1:]],
            cwd=scratch,
            env=base_environment(),
            log_path=Path(scratch, "output"),
            timeout_s=PROGRAM_LIMIT_S,
        )
    if result.exit_code != 0 or result.timed_out:
        return None
    lines = result.head.decode("utf-8", "replace").strip().splitlines()
    return lines[0].strip() if lines else ""


def version_in(line: str) -> str:
    """The version number in a line such as ``git version 2.39.5``, or the line itself."""
    match = _VERSION.search(line)
    return match[0] if match else line
