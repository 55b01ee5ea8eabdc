"""The server as a process: addresses, keys, signals, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from ...sandbox.base.errors import ConfigError, UsageError
from .app import Limits, Server
from .backend import Backend
from .gate import is_loopback
from .logs import say, take_library_logs

_HEADER_BYTES = 32 << 10
_CLOSING_S = 5
"""For answers that are made but not yet read."""
_ENDING_S = 5.0
"""For what was ended from outside to say so to its client."""
_SHORTEST_KEY = 16
_LARGEST_KEY_FILE = 64 << 10


@dataclass(frozen=True)
class Settings:
    """How a model is served."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    drain_s: float = 30.0


def read_keys(path: Path) -> tuple[str, ...]:
    """The keys in a file, one a line; empty lines and lines with # do not count.

    Raises:
        ConfigError: it cannot be read, holds none, or one that is too short or no plain text.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_LARGEST_KEY_FILE + 1)
    except OSError as error:
        raise ConfigError(f"the key file {path} cannot be read: {error.strerror}") from error
    if stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(f"the key file {path} is open to others", hint=f"chmod 600 {path}")
    text = data.decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines()]
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys or len(data) > _LARGEST_KEY_FILE:
        raise ConfigError(f"the key file {path} holds no keys", hint="one key a line")
    if any(len(key) < _SHORTEST_KEY or not key.isascii() or not key.isprintable() for key in keys):
        raise ConfigError(
            f"a key in {path} cannot be used: keys are {_SHORTEST_KEY} or more ASCII characters",
            hint=f"for example: openssl rand -hex 32 > {path}",
        )
    return keys


def serve(backend: Backend, settings: Settings, *, version: str) -> int:
    """Runs until a signal ends it; the exit code.

    Raises:
        UsageError: the address is open to others, and there is no key.
        ConfigError: the address cannot be used.
        WhimbrelError: the model cannot be loaded.
    """
    if not settings.keys and not is_loopback(settings.host):
        raise UsageError(
            f"--host {settings.host} lets others in, but there is no key", hint="give --api-key-file FILE"
        )
    listening = listen(settings.host, settings.port)
    try:
        return asyncio.run(_serve(backend, settings, version, listening))
    finally:
        listening.close()


async def _serve(backend: Backend, settings: Settings, version: str, listening: socket.socket) -> int:
    ending = _Ending()
    with ending.installed():
        loading = asyncio.ensure_future(backend.start())
        try:
            first = asyncio.ensure_future(ending.asked.wait())
            await asyncio.wait([loading, first], return_when=asyncio.FIRST_COMPLETED)
            first.cancel()
            if not loading.done():
                loading.cancel()
                await asyncio.wait([loading])
                return 0
            loading.result()
            server = Server(backend, version=version, limits=settings.limits, keys=settings.keys)
            return await _until_ended(server, settings, listening, ending)
        finally:
            await backend.close()


def web_server(server: Server) -> uvicorn.Server:
    """The web server around an application: one HTTP/1.1 parser with limits, no signals, no own logs."""
    config = uvicorn.Config(
        server.asgi,
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_graceful_shutdown=_CLOSING_S,
        backlog=2048,
    )
    return _Web(config)


async def _until_ended(server: Server, settings: Settings, listening: socket.socket, ending: _Ending) -> int:
    take_library_logs()
    web = web_server(server)
    serving = asyncio.ensure_future(web.serve(sockets=[listening]))
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    say(
        "serving",
        url=f"http://{shown}:{port}/v1",
        model=server.backend.names[0],
        context_window=server.backend.context_window,
        key_needed=bool(settings.keys),
        pid=os.getpid(),
    )
    for notice in server.backend.notices:
        say("notice", level="warning", message=notice)
    asked = asyncio.ensure_future(ending.asked.wait())
    await asyncio.wait([serving, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not serving.done():
        await _drain(server, settings.drain_s, ending)
    web.should_exit = True
    web.force_exit = ending.now.is_set()
    await serving
    say("ended", signal=ending.name)
    return ending.code


async def _drain(server: Server, seconds: float, ending: _Ending) -> None:
    """Lets what runs come to its end; the socket stays open, so that others are told why not."""
    admission = server.admission
    say("draining", signal=ending.name, running=admission.running, waiting=admission.waiting)
    draining = asyncio.ensure_future(admission.drain(seconds))
    now = asyncio.ensure_future(ending.now.wait())
    await asyncio.wait([draining, now], return_when=asyncio.FIRST_COMPLETED)
    finished = draining.done() and draining.result()
    for task in (draining, now):
        task.cancel()
    if not finished:
        say("cut", level="warning", running=admission.running, waiting=admission.waiting)
        admission.end_all()
        await admission.drain(0 if ending.now.is_set() else _ENDING_S)


class _Ending:
    """The first signal asks for an orderly end, the second for one now."""

    def __init__(self) -> None:
        self.asked, self.now = asyncio.Event(), asyncio.Event()
        self.name = ""
        self.code = 0

    @contextlib.contextmanager
    def installed(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.asked.is_set():
            self.now.set()
            self.code = 128 + number
        self.name = number.name
        self.asked.set()


class _Web(uvicorn.Server):
    """Signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        ConfigError: no such address, or it is taken.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening: Any = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"--host {host} is no address of this machine: {error.strerror}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by connections: small pieces of an answer wait for nobody.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind(address)
        listening.listen(2048)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror}", hint="--port 0 takes a free one"
        ) from error
    return listening
