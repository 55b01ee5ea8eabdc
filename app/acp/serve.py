"""The protocol over this process's standard input and output, until the editor closes it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.streams import FlowControlMixin

from acp import run_agent

from ...sandbox.base.errors import UsageError
from .agent import EditorAgent
from .wire import Lines

_LIMIT = 50 << 20
"""Bytes of one message."""


def serve(agent: EditorAgent) -> int:
    """Serves one editor; 0 when it closed the connection, 143 after SIGTERM.

    Raises:
        UsageError: standard input or output is no pipe, socket or terminal.
    """
    return asyncio.run(_serve(agent))


async def _serve(agent: EditorAgent) -> int:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    ended: list[int] = []

    def end(number: int) -> None:
        ended.append(128 + number)
        if task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    # Whatever else writes to standard output must not get between the messages.
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=_LIMIT)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        transport, protocol = await loop.connect_write_pipe(FlowControlMixin, out)
    except ValueError as error:
        raise UsageError(
            "whimbrel acp talks to an editor over pipes",
            hint="name `whimbrel acp` as the agent in your editor",
        ) from error
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        await run_agent(agent, Lines(reader, writer))  # pyright: ignore[reportArgumentType]
    except asyncio.CancelledError:
        if not ended:
            raise
    finally:
        await asyncio.shield(agent.close())
    return ended[0] if ended else 0
