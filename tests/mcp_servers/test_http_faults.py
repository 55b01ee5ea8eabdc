"""Addresses that are no good MCP servers: each is one bounded error."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.mcp.config import McpServer
from whimbrel.app.mcp.connection import Connection
from whimbrel.sandbox.base.errors import ToolError


@contextmanager
def serving(mode: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server on loopback that misbehaves; yields its address and the headers it saw."""
    seen: list[dict[str, str]] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if mode == "hang":
                over.wait(20)
                return
            if mode == "401":
                self.answer(401, b"secret-token-rejected", "text/plain")
            elif mode == "page":
                self.answer(200, b"<html>Welcome</html>", "text/html")
            elif mode == "redirect":
                self.send_response(307)
                self.send_header("location", "http://example.invalid/mcp")
                self.end_headers()
            elif request["method"] == "initialize":
                told = {
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                }
                self.result(request, {**told, "serverInfo": {"name": "x", "version": "1"}})
            elif "id" not in request:
                self.answer(202, b"", "application/json")
            elif request["method"] == "tools/list":
                self.result(request, {"tools": [{"name": "big"}]})
            else:
                self.result(request, {"content": [{"type": "text", "text": "x" * (40 << 20)}]})

        def do_GET(self) -> None:
            self.answer(405, b"", "text/plain")

        def result(self, request: dict[str, Any], value: Any) -> None:
            body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": value}).encode()
            self.answer(200, body, "application/json")

        def answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has read enough
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp", seen
    finally:
        over.set()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("mode", ["hang", "401", "page", "redirect", "refused"])
async def test_an_address_that_is_no_server_is_one_bounded_error(mode: str, tmp_path: Path):
    with serving(mode) as (url, seen):
        if mode == "refused":
            url = "http://127.0.0.1:9/mcp"
        server = McpServer("far", "test", url=url, headers={"authorization": "Bearer t"}, start_timeout_s=1.0)
        begin = time.monotonic()
        with pytest.raises(ToolError) as caught:
            await Connection(server, tmp_path).start()
        assert time.monotonic() - begin < 10
        assert caught.value.one_line().startswith("MCP server far ") and len(caught.value.one_line()) < 500
        assert mode == "refused" or seen[0]["authorization"] == "Bearer t"


async def test_an_answer_that_is_too_large_is_an_error_and_the_server_stays(tmp_path: Path):
    with serving("huge") as (url, _):
        connection = Connection(McpServer("far", "test", url=url), tmp_path)
        await connection.start()
        try:
            assert [tool["name"] for tool in connection.tools] == ["big"]
            for _ in range(2):
                with pytest.raises(ToolError, match="larger than 16777216 bytes"):
                    await connection.call("big", {}, timeout_s=60)
        finally:
            await connection.close()
