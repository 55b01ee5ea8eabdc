"""One page of the public web over HTTP: no address inside this machine or network, bounded bytes and time.

Every connection, also after a redirect, goes to an address that was checked after the name was
resolved, and to exactly that one: a name that answers differently a moment later gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin, urlsplit

from ...sandbox.base.errors import ToolError
from ...sandbox.base.git import redact_url_secrets
from ..version import __version__

if TYPE_CHECKING:
    import httpcore

__all__ = ["Page", "fetch_page", "is_public"]

MAX_BYTES = 2 << 20
MAX_SECONDS = 30.0
MAX_REDIRECTS = 5

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Page:
    """What came back."""

    url: str
    """After redirects."""
    status: int
    content_type: str
    body: bytes
    truncated: bool


def is_public(address: Address) -> bool:
    """Whether an address lies on the public internet, also when IPv4 is wrapped in IPv6."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in ipaddress.IPv6Network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast


async def fetch_page(url: str, *, allowed: Callable[[Address], bool] = is_public) -> Page:
    """Gets a page with GET.

    Raises:
        ToolError: no http address, a place that is not public, too many redirects, no answer.
    """
    try:
        async with asyncio.timeout(MAX_SECONDS):
            for _ in range(MAX_REDIRECTS + 1):
                page, location = await _get(_checked(url), allowed)
                if location is None:
                    return page
                url = urljoin(url, location)
    except TimeoutError as error:
        raise ToolError(f"no whole answer within {MAX_SECONDS:g} s") from error
    raise ToolError(f"more than {MAX_REDIRECTS} redirects")


def _checked(url: str) -> str:
    shown = redact_url_secrets(url)[:200]
    if any(ord(character) <= 32 or ord(character) == 127 for character in url) or len(url) > 4000:
        raise ToolError(f"not a web address: {shown!r}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ToolError(f"not a web address: {shown!r}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ToolError(f"{shown!r} is not an http or https address")
    if parts.username is not None or parts.password is not None:
        raise ToolError("addresses with a user name or password are not fetched")
    if port == 0:
        raise ToolError(f"not a web address: {shown!r}")
    return url


async def _get(url: str, allowed: Callable[[Address], bool]) -> tuple[Page, str | None]:
    """The page, or where it redirects to."""
    import httpcore

    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    headers = [
        ("Host", f"[{host}]" if ":" in host else host if parts.port is None else f"{host}:{port}"),
        ("User-Agent", f"whimbrel/{__version__}"),
        ("Accept", "text/html, text/plain, application/json;q=0.9, */*;q=0.5"),
        ("Accept-Encoding", "identity"),
    ]
    try:
        target = httpcore.URL(
            scheme=parts.scheme, host=host.encode("idna"), port=port, target=_quoted(path).encode("ascii")
        )
        async with (
            httpcore.AsyncConnectionPool(
                network_backend=_checked_backend(allowed), ssl_context=ssl.create_default_context()
            ) as pool,
            pool.stream("GET", target, headers=headers) as response,
        ):
            named = {
                key.lower().decode("latin-1"): value.decode("latin-1") for key, value in response.headers
            }
            if response.status in (301, 302, 303, 307, 308) and named.get("location"):
                return Page(url, response.status, "", b"", False), named["location"]
            if named.get("content-encoding", "identity") not in ("identity", ""):
                raise ToolError(
                    f"the server sends {named['content-encoding'][:40]} although it was asked not to"
                )
            body = bytearray()
            async for chunk in response.aiter_stream():
                body += chunk
                if len(body) > MAX_BYTES:
                    break
            page = Page(
                url,
                response.status,
                named.get("content-type", ""),
                bytes(body[:MAX_BYTES]),
                len(body) > MAX_BYTES,
            )
            return page, None
    except (
        httpcore.NetworkError,
        httpcore.TimeoutException,
        httpcore.ProtocolError,
        OSError,
        UnicodeError,
    ) as error:
        why = str(error) or type(error).__name__
        raise ToolError(f"{parts.scheme}://{host} cannot be fetched: {why}") from error


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path, safe="/?&=%+:;,@!$'()*~-._[]|")


def _checked_backend(allowed: Callable[[Address], bool]) -> httpcore.AsyncNetworkBackend:
    import httpcore

    class Backend(httpcore.AsyncNetworkBackend):
        """Resolves, checks every address, and connects to a checked one."""

        def __init__(self) -> None:
            self._inner = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())

        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,
            local_address: str | None = None,
            socket_options: Iterable[Any] | None = None,
        ) -> httpcore.AsyncNetworkStream:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
            addresses = [str(item[4][0]) for item in found]
            for address in addresses:
                if not allowed(ipaddress.ip_address(address.partition("%")[0])):
                    raise ToolError(f"{host} is {address}, which is not on the public internet")
            failure: Exception | None = None
            for address in addresses:
                try:
                    return await self._inner.connect_tcp(address, port, timeout=timeout)
                except httpcore.ConnectError as error:
                    failure = error
            raise failure or httpcore.ConnectError(f"{host} has no address")

        async def sleep(self, seconds: float) -> None:
            await self._inner.sleep(seconds)

    return Backend()
