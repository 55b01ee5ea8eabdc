"""The terminal interface in a browser, through textual-serve: on loopback, behind a token in the address.

Every browser tab gets a process of its own; the token is the first part of every path, of files,
the page and the socket alike. Whatever comes without it gets 403 and starts nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import shlex
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web
from aiohttp.web_runner import GracefulExit
from textual_serve.app_service import AppService
from textual_serve.server import Server

from ...sandbox.base.errors import UsageError

HOST = "127.0.0.1"
DEFAULT_PORT = 8765
_END_S = 20.0
"""So long a process may take to end in order: a run that goes on is recorded first."""
_MOST = 8
"""Open at once; each is a process."""
# Nothing is asked from elsewhere (a font, by the library's own page), and the address is told nobody.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "connect-src 'self' ws:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class TokenServer(Server):
    """textual-serve's server with everything below ``/TOKEN/``; it ends what it started."""

    def __init__(self, argv: Sequence[str], port: int, token: str) -> None:
        super().__init__(f"exec {shlex.join(argv)}", host=HOST, port=port, title="Whimbrel",
                         public_url=f"http://{HOST}:{port}")  # fmt: skip
        self.token = token
        self.address = f"{self.public_url}/{token}/"
        self._open: set[web.WebSocketResponse] = set()

    async def _make_app(self) -> web.Application:
        below = await super()._make_app()
        below.on_startup.clear()
        below.on_shutdown.clear()
        app = web.Application(middlewares=[self._guard])
        app.add_subapp(f"/{self.token}", below)
        app.on_shutdown.append(self._close_all)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.path.split("/", 2)[1]
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            return web.Response(status=403, text="403: the token in the address is missing or wrong\n")
        if request.headers.get("Origin", self.public_url) != self.public_url:
            return web.Response(status=403, text="403: asked by another page\n")
        request_is_socket = request.headers.get("Upgrade", "").lower() == "websocket"
        if request_is_socket and len(self._open) >= _MOST:
            return web.Response(status=503, text=f"503: {_MOST} pages are open already\n")
        try:
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(_HEADERS)
            raise
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """One browser tab: its process begins and ends with it."""
        page = web.WebSocketResponse(heartbeat=15)
        await page.prepare(request)
        self._open.add(page)
        service = AppService(
            self.command,
            write_bytes=lambda data: _send(page.send_bytes(data)),
            write_str=lambda text: _send(page.send_str(text)),
            close=page.close,  # pyright: ignore[reportArgumentType] - what it returns is not looked at
            download_manager=self.download_manager,
        )
        try:
            await service.start(_number(request, "width", 80), _number(request, "height", 24))
            with contextlib.suppress(ValueError, KeyError, TypeError, AssertionError):
                # Not what the library's own page sends: the page is closed.
                await self._process_messages(page, service)
        finally:
            # Whatever ends this, also the server's own end, must not leave the process behind.
            await asyncio.shield(_end(service))
            self._open.discard(page)
        return page

    async def _close_all(self, _: web.Application) -> None:
        await asyncio.gather(*(page.close(code=1001) for page in list(self._open)))


async def _send(sending: Awaitable[None]) -> None:
    # The process is read to its end also when its page has gone: it could not leave otherwise.
    with contextlib.suppress(ConnectionError, RuntimeError):
        await sending


async def _end(service: AppService) -> None:
    """Asks the process to leave; one that does not in time is ended, then killed."""
    process = service._process  # pyright: ignore[reportPrivateUsage] - the library has no other way to it
    with contextlib.suppress(Exception):  # whatever went wrong with it, it must not stay
        async with asyncio.timeout(_END_S):
            await service.stop()
    if process is None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await process.wait()
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
    await process.wait()


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    return min(1000, max(1, int(text))) if text.isascii() and text.isdigit() and len(text) < 5 else default


def child_argv(arguments: Sequence[str]) -> list[str]:
    """The command of one page: the same program with the same arguments, without those of serving."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--port":
            next(rest, None)
        elif argument != "--serve" and not argument.startswith("--port="):
            kept.append(argument)
    return [sys.executable, "-m", "whimbrel.app.cli", *kept]


def serve(arguments: Sequence[str], port: int | None) -> int:
    """Serves until Ctrl-C (0) or SIGTERM (143).

    Args:
        arguments: of this process; see child_argv.
        port: 0 takes any free one; None tries DEFAULT_PORT, then any.

    Raises:
        UsageError: the port is taken.
    """
    listener = _listen(port)
    os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor"})
    server = TokenServer(child_argv(arguments), listener.getsockname()[1], secrets.token_urlsafe(24))
    ended: list[int] = []
    loop = asyncio.new_event_loop()

    def end(code: int) -> None:
        if ended:
            return  # the end is on its way
        ended.append(code)
        raise GracefulExit

    loop.add_signal_handler(signal.SIGINT, end, 0)
    loop.add_signal_handler(signal.SIGTERM, end, 143)

    def ready(*_: Any) -> None:
        sys.stdout.write(
            f"Open {server.address}\nWho has the address has your rights here. Ctrl-C ends it.\n"
        )
        sys.stdout.flush()

    web.run_app(
        server._make_app(),  # pyright: ignore[reportPrivateUsage] - its own `serve` has no room for a socket
        sock=listener,
        handle_signals=False,
        shutdown_timeout=_END_S + 10,
        access_log=None,
        print=ready,
        loop=loop,
    )
    return ended[0] if ended else 0


def _listen(port: int | None) -> socket.socket:
    for number in (DEFAULT_PORT, 0) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, number))
            return listener
        except OSError as error:
            listener.close()
            if port is not None:
                raise UsageError(
                    f"port {port} of {HOST} cannot be had: {error.strerror}",
                    hint="name another one, or leave --port out",
                ) from error
    raise UsageError(f"no port of {HOST} can be had")
