"""Tools of servers as tools of the agent: ``mcp__SERVER__TOOL``."""

from __future__ import annotations

import hashlib
import re
import time
from typing import Any, cast

from pydantic import model_validator

from ...engine.chat import ToolSpec
from ..invisible import visible
from ..tools.base import PermissionClass, Progress, Tool, ToolArguments, ToolContext, ToolResult
from .config import McpServer
from .connection import Connection
from .results import tool_result
from .schemas import object_schema

MAX_DESCRIPTION = 2_000
MAX_NAME = 64
"""Endpoints refuse longer names of functions."""


class ForeignArguments(ToolArguments):
    """Whatever the model wrote: names such as ``type``, ``kind`` or ``name`` mean nothing here."""

    values: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def whole(cls, given: Any) -> Any:
        return {"values": given}


class McpTool:
    """One tool of one server."""

    arguments = ForeignArguments

    def __init__(self, connection: Connection, name: str, raw: dict[str, Any]) -> None:
        self.name = name
        self.permission = permission_of(connection.server, raw)
        self._connection = connection
        self._remote: str = raw["name"]
        self._raw = raw

    def spec(self) -> ToolSpec:
        """What the model sees: the server's words are data, bounded and without invisible characters."""
        text, _ = visible(str(self._raw.get("description") or self._raw.get("title") or self._remote))
        text = text.strip()
        if len(text) > MAX_DESCRIPTION:
            text = text[: MAX_DESCRIPTION - 3] + "..."
        told = f"Tool of the MCP server {self._connection.server.name}, which describes it so: {text}"
        return ToolSpec(self.name, told, object_schema(self._raw.get("inputSchema")))

    async def run(self, context: ToolContext, arguments: ForeignArguments) -> ToolResult:
        """Calls it.

        Raises:
            ToolError: the server refuses, takes too long, or has ended.
        """
        limit = self._connection.server.timeout_s
        if context.deadline is not None:
            limit = min(limit, max(1.0, context.deadline - time.monotonic()))

        async def told(progress: float, total: float | None, message: str | None) -> None:
            text = visible(message or f"{progress:g}" + (f" of {total:g}" if total else ""))[0][:200]
            context.progress(Progress("mcp", text, min(1.0, progress / total) if total else None))

        raw = await self._connection.call(self._remote, arguments.values, timeout_s=limit, on_progress=told)
        return tool_result(raw, context.keep)


def permission_of(server: McpServer, raw: dict[str, Any]) -> PermissionClass:
    """Servers run outside of the sandbox, so their tools reach outside, whatever they say.

    Only of a server whose entry says ``trust = true`` the hint that a tool only reads is believed.
    """
    hints: Any = raw.get("annotations")
    reads = isinstance(hints, dict) and cast("dict[str, Any]", hints).get("readOnlyHint") is True
    return PermissionClass.READ if server.trust and reads else PermissionClass.NETWORK


def tools_of(connection: Connection) -> list[Tool]:
    """The server's tools under names that every endpoint takes, each only once."""
    made: dict[str, McpTool] = {}
    for raw in connection.tools:
        name = tool_name(connection.server.name, raw["name"])
        if name in made:
            name = tool_name(connection.server.name, raw["name"], exact=True)
        if name not in made:
            made[name] = McpTool(connection, name, raw)
    # Names belong to each instance here, where our own tools have them by class.
    return cast("list[Tool]", list(made.values()))


def tool_name(server: str, tool: str, *, exact: bool = False) -> str:
    """``mcp__SERVER__TOOL``; a name that has to be changed or cut ends with a hash when it must differ."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", tool) or "tool"
    name = f"mcp__{server}__{plain}"
    if exact or len(name) > MAX_NAME:
        mark = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        name = f"{name[: MAX_NAME - 9]}_{mark}"
    return name
