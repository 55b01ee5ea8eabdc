"""Where a remote model lives and which key opens it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...sandbox.base.errors import ConfigError

OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True)
class Endpoint:
    """One chat-completions server."""

    prefix: str
    """``openai`` or ``vllm``: the family, which chooses key variables and field names."""
    model: str
    base_url: str
    api_key: str | None

    @property
    def provider(self) -> str:
        """Names this endpoint in opaque parts, so that they go back to it and nowhere else."""
        return f"{self.prefix}@{urlsplit(self.base_url).netloc}"

    @property
    def is_openai(self) -> bool:
        return self.base_url.startswith("https://api.openai.com/")


def resolve(prefix: str, model: str, url: str, environ: Mapping[str, str]) -> Endpoint:
    """Checks the address and takes the key from the environment, the only place for keys.

    Raises:
        ConfigError: unusable URL, plain HTTP to another machine, or a key that is missing.
    """
    base = (url or environ.get("WHIMBREL_BASE_URL", "").strip() or _default_url(prefix, environ)).rstrip("/")
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{base!r} is not an http(s) address", hint=f"write {prefix}:NAME@https://host/v1")
    if parts.username or parts.password:
        raise ConfigError("the model address holds credentials", hint="put the key into WHIMBREL_API_KEY")
    if (
        parts.scheme == "http"
        and not _is_loopback(parts.hostname)
        and environ.get("WHIMBREL_ALLOW_HTTP") != "1"
    ):
        raise ConfigError(
            f"plain HTTP to {parts.hostname} would send the key and your code in the clear",
            hint="use https, or set WHIMBREL_ALLOW_HTTP=1 on a network you trust",
        )
    if not parts.path:
        base += "/v1"
    names = ("WHIMBREL_API_KEY", f"{prefix.upper()}_API_KEY")
    key = next((environ[name].strip() for name in names if environ.get(name, "").strip()), None)
    endpoint = Endpoint(prefix, model, base, key)
    if key is None and endpoint.is_openai:
        raise ConfigError("no key for api.openai.com", hint="set OPENAI_API_KEY or WHIMBREL_API_KEY")
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ConfigError("the API key holds characters that cannot be sent", hint="check the key variable")
    return endpoint


def _default_url(prefix: str, environ: Mapping[str, str]) -> str:
    if prefix == "vllm":
        return "http://127.0.0.1:8000/v1"
    return environ.get("OPENAI_BASE_URL", "").strip() or OPENAI_URL


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
