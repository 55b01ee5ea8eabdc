"""What a server says about itself without its model being asked: lists of models, context windows, prices."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, cast

from .dialects import Dialect, recognise
from .endpoint import Endpoint
from .failures import Failure, RemoteError
from .profile import Fact, Profile
from .transport import Transport

MAX_MODELS = 5_000

_WINDOWS = (
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
    "n_ctx",
)
"""Names under which lists of models give the window, the most specific first."""

_NO_LIST = frozenset({404, 405, 501})


@dataclass(frozen=True)
class Listed:
    """One model of a server's list."""

    name: str
    owner: str = ""
    window: int | None = None
    window_from: str = ""
    prices: tuple[float, float] | None = None
    """US dollars per million input and output tokens."""


async def list_models(transport: Transport) -> list[Listed]:
    """The models a server lists.

    Raises:
        RemoteError: nobody there, no right to ask, no such list, or something else than a chat server.
    """
    value = await transport.document("models")
    entries: Any = value
    if isinstance(value, dict):
        entries = next((value[key] for key in ("data", "models") if isinstance(value.get(key), list)), None)
    if not isinstance(entries, list):
        raise RemoteError(Failure.ADDRESS, f"{transport.endpoint.base_url}/models is no list of models")
    found: list[Listed] = []
    for entry in entries[:MAX_MODELS]:
        if isinstance(entry, dict):
            name = next((entry[key] for key in ("id", "name") if isinstance(entry.get(key), str)), "")
            if name:
                found.append(_listed(name, cast("dict[str, Any]", entry)))
    return found


def has_no_list(error: RemoteError) -> bool:
    """Whether the server is there but keeps no list of models."""
    return any(f"HTTP {status}" in error.message for status in _NO_LIST) and "web page" not in error.message


async def look(transport: Transport) -> Profile:
    """What is known without asking the model; unknown where the server does not tell.

    Raises:
        RemoteError: see ``list_models``; a server without a list is fine.
    """
    endpoint = transport.endpoint
    try:
        listed = await list_models(transport)
    except RemoteError as error:
        if not has_no_list(error):
            raise
        listed = []
    mine = next((model for model in listed if model.name == endpoint.model), None)
    owner = mine.owner if mine else (listed[0].owner if listed else "")
    dialect = family(endpoint, owner)
    window = Fact(how="the server does not tell")
    if mine and mine.window:
        window = Fact(value=mine.window, how=f"{mine.window_from} in its list of models")
    else:
        window = await _window_elsewhere(transport, dialect) or window
    return Profile(
        base_url=endpoint.base_url,
        model=endpoint.model,
        dialect=dialect.prefix,
        made_at=time.time(),
        facts={"context_window": window},
        prices=mine.prices if mine else None,
    )


def family(endpoint: Endpoint, owner: str) -> Dialect:
    """The server's family: as the person said, unless that was only the general form."""
    if endpoint.prefix != "openai" or endpoint.is_openai:
        return endpoint.dialect
    host = endpoint.base_url.partition("://")[2].partition("/")[0].partition(":")[0]
    return recognise(host, owner)


async def _window_elsewhere(transport: Transport, dialect: Dialect) -> Fact | None:
    try:
        if dialect.prefix == "ollama":
            return await _ollama_window(transport)
        if dialect.prefix in ("llamacpp", "openai"):
            settings = await transport.document("props", root=True)
            window = _number(settings.get("default_generation_settings"), "n_ctx") or _number(
                settings, "n_ctx"
            )
            return Fact(value=window, how="n_ctx in /props") if window else None
        if dialect.prefix == "sglang":
            settings = await transport.document("get_server_info", root=True)
            window = _number(settings, "context_length")
            return Fact(value=window, how="context_length in /get_server_info") if window else None
    except (RemoteError, AttributeError):
        return None  # a document that this server does not have
    return None


async def _ollama_window(transport: Transport) -> Fact | None:
    """Ollama cuts prompts silently at the window a model was loaded with, not at what it was trained for."""
    name = transport.endpoint.model
    running = await transport.document("api/ps", root=True)
    for model in running.get("models") or ():
        if name in (model.get("name"), model.get("model")) and _number(model, "context_length"):
            return Fact(value=_number(model, "context_length"), how="context_length in /api/ps (as loaded)")
    shown = await transport.document("api/show", root=True, post={"model": name})
    trained = next(
        (size for key, size in (shown.get("model_info") or {}).items() if key.endswith(".context_length")),
        None,
    )
    return Fact(how=f"trained for {trained}, but the server decides when it loads it (num_ctx)")


def _listed(name: str, entry: dict[str, Any]) -> Listed:
    places: list[tuple[str, Any]] = [
        ("", entry), ("meta.", entry.get("meta")), ("top_provider.", entry.get("top_provider"))
    ]  # fmt: skip
    for key in _WINDOWS:
        for where, values in places:
            window = _number(values, key)
            if window:
                return Listed(name, _owner(entry), window, where + key, _prices(entry))
    return Listed(name, _owner(entry), prices=_prices(entry))


def _owner(entry: dict[str, Any]) -> str:
    owner = entry.get("owned_by")
    return owner if isinstance(owner, str) else ""


def _prices(entry: dict[str, Any]) -> tuple[float, float] | None:
    pricing = entry.get("pricing")
    if not isinstance(pricing, dict):
        return None
    try:
        prompt, completion = float(pricing["prompt"]) * 1e6, float(pricing["completion"]) * 1e6
    except (KeyError, TypeError, ValueError):
        return None
    return (prompt, completion) if 0 <= prompt < 1e6 and 0 <= completion < 1e6 else None


def _number(values: Any, key: str) -> int | None:
    value = values.get(key) if isinstance(values, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40 else None
