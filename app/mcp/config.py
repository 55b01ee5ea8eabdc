"""Which servers there are: plain entries of the person's and, after trust, of the repository's files."""

from __future__ import annotations

import ipaddress
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

from ...sandbox.base.errors import ConfigError
from ...sandbox.base.git import redact_url_secrets
from ...sandbox.base.secrets import redact
from ..paths import config_dir

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OWN_KEYS: Final = ("trust", "allow", "enabled", "insecure")
"""Only the person's own configuration may say these."""
_KEYS: Final = frozenset(
    {"command", "args", "env", "cwd", "url", "headers", "type", "timeout", "start_timeout", *_OWN_KEYS}
)


@dataclass(frozen=True)
class McpServer:
    """One server: a program to start, or an address."""

    name: str
    origin: str
    """The file that names it."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Besides PATH and HOME, all the program gets."""
    cwd: str = ""
    """Relative to the copy of the repository that the run works on (``.`` is the copy itself). Empty:
    an empty directory for the person's own servers, the copy for those of a repository."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    by_person: bool = True
    """From the person's own configuration, not from the repository."""
    trust: bool = False
    """The person believes what it says of its tools (readOnlyHint)."""
    allow: bool = False
    """Its tools may be called without asking."""
    enabled: bool = True
    timeout_s: float = 120.0
    """For one call."""
    start_timeout_s: float = 20.0

    @property
    def kind(self) -> str:
        return "http" if self.url else "stdio"

    def shown(self) -> str:
        """For people: what is started or reached, without values of variables and headers."""
        text = self.url if self.url else " ".join((self.command, *self.args))
        return redact(redact_url_secrets(text))


def own_servers(environ: Mapping[str, str]) -> tuple[McpServer, ...]:
    """The entries ``[mcp.NAME]`` of the person's ``config.toml``.

    Raises:
        ConfigError: the file is not TOML, or an entry is wrong; names file and key.
    """
    path = config_dir() / "config.toml"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    return _from_toml(data, str(path), environ, by_person=True)


def repository_servers(
    contents: Mapping[str, bytes], tell: Callable[[str, str], None] | None = None
) -> tuple[McpServer, ...]:
    """The entries of a trusted repository's ``.mcp.json`` and ``.whimbrel/config.toml``.

    A file that cannot be used is told and left out whole: it must not keep the person from working.

    Raises:
        ConfigError: see ``own_servers``; only without ``tell``.
    """
    found: dict[str, McpServer] = {}
    for file in (".mcp.json", ".whimbrel/config.toml"):
        try:
            found |= _of_repository({file: contents[file]} if file in contents else {})
        except ConfigError as error:
            if tell is None:
                raise
            tell("warning", f"no MCP server of {file} is used: {error.one_line()}")
    return tuple(found.values())


def _of_repository(contents: Mapping[str, bytes]) -> dict[str, McpServer]:
    found: dict[str, McpServer] = {}
    if ".mcp.json" in contents:
        try:
            value: Any = json.loads(contents[".mcp.json"].decode("utf-8-sig"))
        except ValueError as error:
            raise ConfigError(f".mcp.json is not valid JSON: {error}") from error
        table: Any = cast("dict[str, Any]", value).get("mcpServers") if isinstance(value, dict) else None
        if not isinstance(table, dict):
            raise ConfigError(".mcp.json must hold an object mcpServers")
        entries = cast("dict[str, Any]", table)
        found |= {
            name: _entry(name, entry, ".mcp.json", {}, by_person=False) for name, entry in entries.items()
        }
    if ".whimbrel/config.toml" in contents:
        source = ".whimbrel/config.toml"
        for server in _from_toml(contents[source], source, {}, by_person=False):
            found[server.name] = server
    return found


def _from_toml(
    data: bytes, source: str, environ: Mapping[str, str], *, by_person: bool
) -> tuple[McpServer, ...]:
    try:
        table: Any = tomllib.loads(data.decode("utf-8-sig")).get("mcp", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from error
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: mcp must be a table of servers, [mcp.NAME]")
    entries = cast("dict[str, Any]", table)
    return tuple(_entry(name, entry, source, environ, by_person=by_person) for name, entry in entries.items())


def _entry(name: str, entry: Any, source: str, environ: Mapping[str, str], *, by_person: bool) -> McpServer:
    where = f"{source}: mcp.{name}"
    if not _NAME.fullmatch(name) or "__" in name:
        raise ConfigError(f"{where}: a server's name is up to 32 letters, digits, - and single _")
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} must be a table")
    table = cast("dict[str, Any]", entry)
    unknown = sorted(set(table) - _KEYS)
    if unknown and by_person:
        raise ConfigError(f"{where}.{unknown[0]} is not known", hint=f"known: {', '.join(sorted(_KEYS))}")
    reader = _Reader(table, where)
    command, url = reader.text("command"), reader.text("url")
    if bool(command) == bool(url):
        raise ConfigError(f"{where} needs either command or url")

    def filled(values: Mapping[str, str], key: str) -> dict[str, str]:
        return {k: _filled(v, f"{where}.{key}.{k}", environ, by_person=by_person) for k, v in values.items()}

    server = McpServer(
        name,
        source,
        command=command,
        args=reader.texts("args"),
        env=filled(reader.table("env"), "env"),
        cwd=reader.text("cwd"),
        url=url,
        headers=filled(reader.table("headers"), "headers"),
        by_person=by_person,
        trust=by_person and reader.flag("trust", False),
        allow=by_person and reader.flag("allow", False),
        enabled=not by_person or reader.flag("enabled", True),
        timeout_s=reader.seconds("timeout", McpServer.timeout_s),
        start_timeout_s=reader.seconds("start_timeout", McpServer.start_timeout_s),
    )
    if url:
        _check_url(server, where, insecure=by_person and reader.flag("insecure", False))
    return server


def _check_url(server: McpServer, where: str, *, insecure: bool) -> None:
    try:
        parts = urlsplit(server.url)
        host = parts.hostname or ""
    except ValueError:
        host, parts = "", urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{where}.url is not an http(s) address")
    if parts.username or parts.password:
        raise ConfigError(f"{where}.url holds credentials", hint="put them into headers, as ${VARIABLE}")
    if parts.scheme == "http" and not _loopback(host) and not insecure:
        raise ConfigError(
            f"{where}: plain HTTP to {host} would send everything in the clear",
            hint="use https, or insecure = true on a network you trust",
        )


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _filled(value: str, where: str, environ: Mapping[str, str], *, by_person: bool) -> str:
    """``${NAME}`` from the environment, so that files hold no keys; never for a repository's entry."""

    def put(match: re.Match[str]) -> str:
        if not by_person:
            raise ConfigError(
                f"{where} asks for the variable {match[1]}: only your own configuration may pass them on",
                hint="copy the entry into your config.toml",
            )
        if match[1] not in environ:
            raise ConfigError(f"{where} needs the variable {match[1]}, which is not set")
        return environ[match[1]]

    return _VARIABLE.sub(put, value)


class _Reader:
    """Takes values out of one entry, naming the key in every complaint."""

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self._table = table
        self._where = where

    def text(self, key: str) -> str:
        value = self._table.get(key, "")
        if not isinstance(value, str) or "\0" in value:
            raise ConfigError(f"{self._where}.{key} must be a string")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value: Any = self._table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
            raise ConfigError(f"{self._where}.{key} must be a list of strings")
        return tuple(cast("list[str]", value))

    def table(self, key: str) -> dict[str, str]:
        value: Any = self._table.get(key, {})
        if not isinstance(value, dict) or not all(
            isinstance(item, str) for item in cast("dict[str, Any]", value).values()
        ):
            raise ConfigError(f"{self._where}.{key} must be a table of strings")
        return cast("dict[str, str]", value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._table.get(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"{self._where}.{key} must be true or false")
        return value

    def seconds(self, key: str, default: float) -> float:
        value = self._table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
            raise ConfigError(f"{self._where}.{key} must be seconds, up to 3600")
        return float(value)
