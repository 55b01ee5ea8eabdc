"""Where a remote model lives and which key opens it."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ...sandbox.base.errors import ConfigError
from .dialects import DIALECTS, Dialect
from .learned import CORE
from .prices import VARIABLE, Prices, parse_prices

StoredKey = Callable[[str], str | None]
"""Host (with its port) to the key that a person has stored for it."""


@dataclass(frozen=True)
class Endpoint:
    """One chat-completions server."""

    prefix: str
    """The family, a key of ``DIALECTS``, which chooses key variables and field names."""
    model: str
    base_url: str
    api_key: str | None
    thinking: bool = True
    prices: Prices | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Request fields the person adds to every step."""

    @property
    def dialect(self) -> Dialect:
        return DIALECTS[self.prefix]

    @property
    def provider(self) -> str:
        """Names this model in opaque and reasoning parts, so that they go back to it and to no other.

        Without its address: a server that was started again elsewhere serves the same model.
        """
        return f"{self.prefix}:{self.model}"

    @property
    def is_openai(self) -> bool:
        return self.base_url.startswith("https://api.openai.com/")


def resolve(
    prefix: str,
    model: str,
    url: str,
    environ: Mapping[str, str],
    stored_key: StoredKey | None = None,
    dialect: Dialect | None = None,
) -> Endpoint:
    """Checks the address and takes the key from the environment, else from where the person stored it.

    Args:
        dialect: of a family that is no row of ``DIALECTS``.

    Raises:
        ConfigError: unusable URL, plain HTTP to another machine, a key that is missing, or a bad setting.
    """
    dialect = dialect or DIALECTS[prefix]
    base, host = check_address(url or _default_url(dialect, environ), environ, form=f"{prefix}:NAME")
    names = ("WHIMBREL_API_KEY", *dialect.keys)
    key = next((environ[name].strip() for name in names if environ.get(name, "").strip()), None)
    if key is None and stored_key is not None:
        key = stored_key(host)
    if key is None and dialect.needs_key and urlsplit(base).hostname in dialect.hosts:
        raise ConfigError(
            f"no key for {host}",
            hint=f"set {dialect.keys[0]} or WHIMBREL_API_KEY, or `whimbrel model login {host}`",
        )
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ConfigError("the API key holds characters that cannot be sent", hint="check the key variable")
    thinking = environ.get("WHIMBREL_THINKING", "").strip().lower()
    if thinking not in ("", "on", "off"):
        raise ConfigError("WHIMBREL_THINKING is neither on nor off", hint="leave it out or set it to off")
    return Endpoint(
        prefix,
        model,
        base,
        key,
        thinking=thinking != "off",
        prices=parse_prices(environ.get(VARIABLE, "")),
        extra_body=_extra_body(environ.get("WHIMBREL_EXTRA_BODY", "")),
    )


def check_address(url: str, environ: Mapping[str, str], *, form: str = "") -> tuple[str, str]:
    """The base address (``/v1`` added where it has no path) and the host with its port.

    Raises:
        ConfigError: it cannot be used, or must not.
    """
    base = url.strip().rstrip("/")
    try:
        parts = urlsplit(base)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        shown = f"write {form}@https://host/v1" if form else "write it like https://host/v1"
        raise ConfigError(f"{base!r} is not an http(s) address", hint=shown)
    if parts.username or parts.password:
        raise ConfigError("the model address holds credentials", hint="put the key into WHIMBREL_API_KEY")
    if parts.scheme == "http" and not is_loopback(host) and environ.get("WHIMBREL_ALLOW_HTTP") != "1":
        raise ConfigError(
            f"plain HTTP to {host} would send the key and your code in the clear",
            hint="use https, or --allow-http (WHIMBREL_ALLOW_HTTP=1) on a network you trust",
        )
    return base if parts.path else f"{base}/v1", parts.netloc.lower()


def _default_url(dialect: Dialect, environ: Mapping[str, str]) -> str:
    if not dialect.needs_key or dialect.prefix == "openai":
        # A provider with one home of its own is not moved by a variable meant for servers.
        own = environ.get("WHIMBREL_BASE_URL", "").strip()
        if dialect.prefix == "openai":
            own = own or environ.get("OPENAI_BASE_URL", "").strip()
        return own or dialect.url
    return dialect.url


def _extra_body(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or CORE & set(value):
        raise ConfigError(
            "WHIMBREL_EXTRA_BODY is not a JSON object of request fields",
            hint="""write for example {"thinking_budget": "max"}""",
        )
    return value


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
