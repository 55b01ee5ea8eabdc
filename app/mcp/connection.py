"""One server, from its start to its end. What goes wrong is a ToolError; nothing outlives ``close``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
    Implementation,
    PaginatedRequestParams,
)

from ...sandbox.base.channel import ProcessChannel, open_process_channel
from ...sandbox.base.errors import ToolError
from ...sandbox.base.secrets import redact
from ..invisible import visible_line
from ..version import __version__
from .config import McpServer
from .http import http_streams
from .stdio import Faults, stdio_streams

MAX_TOOLS = 128
"""Of one server."""
_MAX_PAGES = 20
_LEAVE_S = 0.4
"""For a server to leave by itself, and once more between SIGTERM and SIGKILL."""
_CLOSE_S = 1.2
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


for _name in ("mcp", "client", "httpx2", "httpcore2"):
    # Without a handler, the library's complaints about a server would land on our standard error.
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Connection:
    """A started server. Its streams live in one task; calls come from any."""

    def __init__(self, server: McpServer, cwd: Path) -> None:
        self.server = server
        self.tools: tuple[dict[str, Any], ...] = ()
        """As the server lists them (``name``, ``description``, ``inputSchema``, ``annotations``)."""
        self.left_out = 0
        """Tools beyond MAX_TOOLS."""
        self._cwd = cwd
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self._faults = Faults()
        self._channel: ProcessChannel | None = None
        self._session: ClientSession | None = None
        self._dispatcher: JSONRPCDispatcher[Any] | None = None
        self._headers: dict[str, str] = {}

    async def start(self) -> None:
        """Starts the server and lists its tools.

        Raises:
            ToolError: it cannot be started, does not answer in time, or answers with something else.
        """
        self._task = asyncio.create_task(self._live())
        ready = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait(
                (ready, self._task), timeout=self.server.start_timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if ready.done():
                return
            if self._task.done():
                raise self._failed(self._task.exception() if not self._task.cancelled() else None)
            why = self._faults.explain() or self._last_words()
            raise ToolError(
                f"MCP server {self.server.name} did not answer within {self.server.start_timeout_s:g} s"
                f" of its start{': ' + why if why else ''}"
            )
        except BaseException:
            await self.close()
            raise
        finally:
            ready.cancel()

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        timeout_s: float,
        on_progress: ProgressFnT | None = None,
    ) -> dict[str, Any]:
        """The result of a tool as the server wrote it. A cancelled call is told to the server.

        Raises:
            ToolError: the server refuses, takes too long, or has ended.
        """
        session, dispatcher = self._session, self._dispatcher
        if session is None or dispatcher is None or self._task is None or self._task.done():
            raise self._gone()
        try:
            if session.discover_result is not None:
                found = await session.call_tool(name, arguments, timeout_s, on_progress)
                return found.model_dump(by_alias=True, mode="json", exclude_none=True)
            # Not through the typed call: it refuses results that are a little off, and lists tools anew.
            options: Any = {"timeout": timeout_s, "headers": self._headers}
            if on_progress is not None:
                options["on_progress"] = on_progress
            return await dispatcher.send_raw_request(
                "tools/call", {"name": name, "arguments": arguments}, options
            )
        except MCPError as error:
            raise self._refused(error, timeout_s) from error
        except (RuntimeError, ValueError) as error:
            raise ToolError(f"MCP server {self.server.name}: {_line(error)}") from error

    async def close(self) -> None:
        """Ends the session and the server's whole process tree; idempotent."""
        self._stop.set()
        if self._task is not None:
            done, _ = await asyncio.wait((self._task,), timeout=_CLOSE_S)
            if not done:
                self._task.cancel()
                if self._channel is not None:
                    self._channel.kill_now()
                await asyncio.wait((self._task,), timeout=_CLOSE_S)

    async def _live(self) -> None:
        """Everything of the connection, in one task: its scopes must be left where they were entered."""
        async with self._streams() as (incoming, outgoing):
            self._dispatcher = JSONRPCDispatcher(incoming, outgoing)
            info = Implementation(name="whimbrel", version=__version__)
            async with ClientSession(dispatcher=self._dispatcher, client_info=info) as session:
                await self._greet(session)
                self.tools = await self._list(session)
                self._session = session
                self._ready.set()
                await self._stop.wait()

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[tuple[Any, Any]]:
        if self.server.url:
            async with http_streams(self.server) as streams:
                yield streams
            return
        environment = {
            "PATH": os.environ.get("PATH", _PATH),
            **({"HOME": os.environ["HOME"]} if "HOME" in os.environ else {}),
            **self.server.env,
        }
        cwd = self._cwd / self.server.cwd if self.server.cwd else self._cwd
        argv = [self.server.command, *self.server.args]
        self._channel = channel = await open_process_channel(argv, cwd=cwd, env=environment)
        try:
            async with stdio_streams(channel, self._faults) as streams:
                yield streams
        finally:
            await channel.close(_LEAVE_S)

    async def _greet(self, session: ClientSession) -> None:
        try:
            told = await session.initialize()
        except MCPError as error:
            if error.code not in (METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION):
                raise
            await session.discover()
        else:
            self._headers = {"mcp-protocol-version": str(told.protocol_version)}

    async def _list(self, session: ClientSession) -> tuple[dict[str, Any], ...]:
        found: list[dict[str, Any]] = []
        cursor: Any = None
        for _ in range(_MAX_PAGES):
            page = await self._page(session, cursor)
            listed: Any = page.get("tools")
            for tool in cast("list[Any]", listed) if isinstance(listed, list) else []:
                if isinstance(tool, dict) and isinstance(cast("dict[str, Any]", tool).get("name"), str):
                    found.append(cast("dict[str, Any]", tool))
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or len(found) > MAX_TOOLS:
                break
        found.sort(key=lambda tool: tool["name"])
        self.left_out = max(0, len(found) - MAX_TOOLS)
        return tuple(found[:MAX_TOOLS])

    async def _page(self, session: ClientSession, cursor: str | None) -> Mapping[str, Any]:
        if session.discover_result is not None:
            params = PaginatedRequestParams(cursor=cursor) if cursor else None
            listed = await session.list_tools(params=params)
            return listed.model_dump(by_alias=True, mode="json", exclude_none=True)
        assert self._dispatcher is not None
        # Not through the typed list: one schema that is a little off would cost all tools.
        options: Any = {"timeout": self.server.start_timeout_s, "headers": self._headers}
        return await self._dispatcher.send_raw_request(
            "tools/list", {"cursor": cursor} if cursor else None, options
        )

    # ------------------------------------------------------------------ what went wrong

    def _failed(self, error: BaseException | None) -> ToolError:
        cause = error
        while isinstance(cause, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", cause)
            cause = group.exceptions[0]
        if isinstance(cause, ToolError):
            return ToolError(
                f"MCP server {self.server.name} cannot be started: {cause.message}", hint=cause.hint
            )
        said = self._faults.explain() or self._last_words()
        if isinstance(cause, MCPError) and cause.code != CONNECTION_CLOSED:
            return ToolError(f"MCP server {self.server.name} refused to begin: {_line(cause)}")
        what = "it ended" if isinstance(cause, MCPError) or cause is None else _line(cause)
        return ToolError(f"MCP server {self.server.name} cannot be used: {what}{'; ' + said if said else ''}")

    def _refused(self, error: MCPError, timeout_s: float) -> ToolError:
        if error.code == CONNECTION_CLOSED:
            return self._gone()
        if error.code == REQUEST_TIMEOUT:
            return ToolError(
                f"MCP server {self.server.name} did not answer within {timeout_s:g} s; the call is cancelled",
                hint="ask for less, or raise timeout of its entry",
            )
        return ToolError(f"MCP server {self.server.name}: {_line(error)}")

    def _gone(self) -> ToolError:
        said = self._faults.explain() or self._last_words()
        return ToolError(
            f"MCP server {self.server.name} has ended{': ' + said if said else ''}",
            hint="its tools cannot be used any more in this run; go on without them",
        )

    def _last_words(self) -> str:
        if self._channel is None:
            return ""
        with contextlib.suppress(OSError, ValueError):
            lines = self._channel.errors().decode("utf-8", "replace").strip().splitlines()
            return visible_line(redact(lines[-1]), 200) if lines else ""
        return ""


def _line(error: BaseException) -> str:
    return visible_line(redact(str(error)), 300) or type(error).__name__
