"""Ends commands that wait for file changes or an answer instead of finishing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

from ....sandbox.protocol import ExecResult, Sandbox
from .textclean import clean_text

QUIET_S = 10.0
"""Silence after such a line that counts as waiting."""

_WATCHING = re.compile(
    r"(?:watching|waiting) for (?:file )?changes|watch usage|\bwatch mode\b|looponfail|re-?run on change"
    r"|press .{1,20} to (?:quit|exit|rerun|run all)",
    re.IGNORECASE,
)


async def run_unless_watching(
    sandbox: Sandbox,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    timeout_s: float,
    label: str,
    quiet_s: float = QUIET_S,
) -> tuple[ExecResult, str]:
    """Runs a command; kills it when it announces watching and then stays silent for ``quiet_s``.

    Returns the result and, when it was ended for watching, one line saying so (else "").
    """
    handle = await sandbox.run(argv, env=env, timeout_s=timeout_s, label=label)
    seen = ""
    announced = ""
    output = handle.output()
    pending: asyncio.Future[bytes] | None = None
    verdict = ""
    try:
        while True:
            if pending is None:
                pending = asyncio.ensure_future(anext(output, b""))
            done, _ = await asyncio.wait({pending}, timeout=quiet_s if announced else None)
            if not done:
                verdict = f"the command waits for changes instead of ending ({announced})"
                await handle.kill()
                break
            chunk = pending.result()
            pending = None
            if not chunk:
                break
            seen = clean_text((seen + chunk.decode("utf-8", "replace"))[-2000:])
            match = _WATCHING.search(seen)
            announced = match.group() if match else ""
        return await handle.wait(), verdict
    except BaseException:
        await handle.kill()
        raise
    finally:
        if pending is not None:
            pending.cancel()
