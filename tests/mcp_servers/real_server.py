"""A real MCP server made with the official package: `stdio`, or `http PORTFILE`."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("garden")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360000000020001e5"
    "27d4a20000000049454e44ae426082"
)


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def plant(kind: str, type: int, id: str | None = None, name: list[str] | None = None) -> dict[str, str]:
    """Plants\u200b something."""
    return {"planted": f"{kind}-{type}-{id}-{name}"}


@server.tool()
async def grow(ctx: Context, steps: int) -> str:
    """Grows and says so."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return "grown"


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
def wither() -> str:
    """Fails."""
    raise ToolError("too dry")


@server.tool()
def surroundings() -> str:
    """Names of the variables this process has."""
    return " ".join(sorted(os.environ))


@server.tool()
async def sleep() -> str:
    """Takes for ever."""
    await asyncio.sleep(600)
    return "awake"


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
    Path(sys.argv[2]).write_text(str(listener.getsockname()[1]))
    uvicorn.Server(config).run(sockets=[listener])


main()
