"""The servers of one run: chosen, started together, ended together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ...sandbox.base.errors import ConfigError, ToolError, UsageError
from .config import McpServer

if TYPE_CHECKING:
    from ..agent.permissions import Rule
    from .connection import Connection

NONE = "none"
Tell = Callable[[str, str], None]


def choose(
    own: Sequence[McpServer], repository: Sequence[McpServer], named: Sequence[str]
) -> tuple[McpServer, ...]:
    """The servers to start: all that are enabled, or only those named; the person's win over a namesake.

    Raises:
        UsageError: a name that no entry has.
    """
    known = {server.name: server for server in (*repository, *own)}
    if NONE in named:
        if len(set(named)) > 1:
            raise UsageError("--mcp none goes with no other --mcp")
        return ()
    unknown = [name for name in named if name not in known]
    if unknown:
        listed = ", ".join(sorted(known)) or "none is configured (or trusted)"
        raise UsageError(
            f"there is no MCP server {unknown[0]}", hint=f"known: {listed}; see whimbrel mcp list"
        )
    if named:
        return tuple(known[name] for name in sorted(set(named)))
    return tuple(known[name] for name in sorted(known) if known[name].enabled)


def require_package() -> None:
    """Raises ConfigError where the ``mcp`` package is missing."""
    if find_spec("mcp") is None:
        raise ConfigError(
            "MCP servers need the mcp package, which is not installed", hint="pip install 'whimbrel[mcp]'"
        )


@asynccontextmanager
async def started(servers: Sequence[McpServer], cwd: Path, tell: Tell) -> AsyncGenerator[list[Connection]]:
    """Connections of those that could be started; the others are told as warnings. Ends all at the end."""
    if not servers:
        yield []
        return
    require_package()
    from .connection import Connection

    connections = [Connection(server, cwd) for server in servers]
    try:
        ends = await asyncio.gather(*(one.start() for one in connections), return_exceptions=True)
        running: list[Connection] = []
        for connection, end in zip(connections, ends, strict=True):
            if isinstance(end, ToolError):
                tell("warning", f"{end.one_line()}; the run goes on without it")
            elif isinstance(end, BaseException):
                raise end
            else:
                running.append(connection)
                more = f" ({connection.left_out} more left out)" if connection.left_out else ""
                tell("info", f"MCP server {connection.server.name}: {len(connection.tools)} tools{more}")
        yield running
    finally:
        await asyncio.gather(*(one.close() for one in connections), return_exceptions=True)


def rules_of(servers: Sequence[McpServer], named: Sequence[str]) -> list[Rule]:
    """Permission rules: servers named for this run or allowed by the person's configuration."""
    from ..agent.permissions import Decision, Rule

    return [
        Rule(
            Decision.ALLOW,
            tool=f"mcp__{server.name}__*",
            reason=f"--mcp {server.name} was given" if server.name in named else f"{server.origin} allows it",
        )
        for server in servers
        if server.name in named or server.allow
    ]
