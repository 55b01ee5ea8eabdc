"""Framed JSON messages to and from a helper inside the sandbox (see inside/processes.py)."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import TYPE_CHECKING, Any

from ....sandbox.base.errors import SandboxDied, ToolError

if TYPE_CHECKING:
    from ....sandbox.protocol import Channel

_MAX_MESSAGE = 1 << 30


class Messages:
    """Both directions of one helper's stream."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._buffer = b""
        self._sending = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        """Writes one message; a helper that has gone is noticed by the next ``receive``."""
        body = json.dumps(message).encode("ascii")
        async with self._sending:
            try:
                await self._channel.send(struct.pack(">I", len(body)) + body)
            except (OSError, ToolError):
                # The read that follows says that it ended.
                return

    async def receive(self, limit_s: float | None = None) -> dict[str, Any] | None:
        """The next message; None when the helper ended or did not answer in time."""
        try:
            async with asyncio.timeout(limit_s):
                head = await self._exactly(4)
                if head is None:
                    return None
                length: int = struct.unpack(">I", head)[0]
                body = await self._exactly(length) if length <= _MAX_MESSAGE else None
        except TimeoutError:
            return None
        return None if body is None else json.loads(body)

    def errors(self) -> list[str]:
        """Lines the helper wrote to standard error."""
        return self._channel.errors().decode("utf-8", "replace").strip().splitlines()

    async def close(self) -> None:
        """Ends the helper; one that went with its sandbox is fine."""
        try:
            await self._channel.close()
        except SandboxDied:
            # Nothing is left to close; the next command reports the death with its cause.
            return

    async def _exactly(self, count: int) -> bytes | None:
        while len(self._buffer) < count:
            part = await self._channel.receive(1 << 20)
            if not part:
                return None
            self._buffer += part
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data
