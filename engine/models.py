"""Model strings to models: ``embedded``, ``openai:NAME``, ``vllm:NAME@URL``, ``deepseek:NAME``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ..sandbox.base.errors import ConfigError, UsageError
from .chat import ChatModel

_REMOTE = ("openai", "vllm", "sglang", "llamacpp", "ollama", "deepseek", "kimi-api", "openrouter")
FORMS = (
    "embedded, openai:NAME, vllm:NAME@http://host:8000/v1"
    " (also sglang, llamacpp, ollama, deepseek, kimi-api, openrouter; each with or without @URL)"
)

_ADDRESS = re.compile(r"@(?=https?://)")
_KNOWN_BUT_ABSENT = {
    "llama": "models in process by llama.cpp are not part of this version",
    "kimi": "the native engine is not part of this version",
    "anthropic": "the Anthropic Messages client is not part of this version",
}


def load_model(spec: str, *, environ: Mapping[str, str] | None = None) -> ChatModel:
    """The model a string names; nothing is contacted yet.

    Raises:
        UsageError: the string has none of the valid forms.
        ConfigError: a known kind that is not available, a bad address, or a missing key.
    """
    text = spec.strip()
    if text == "embedded":
        from .embedded.model import EmbeddedModel

        return EmbeddedModel()
    prefix, colon, rest = text.partition(":")
    if prefix in _KNOWN_BUT_ABSENT and colon:
        raise ConfigError(f"{spec!r}: {_KNOWN_BUT_ABSENT[prefix]}", hint=f"use one of {FORMS}")
    name, url = split_address(rest)
    if prefix not in _REMOTE or not name:
        raise UsageError(f"{spec!r} names no model", hint=f"valid forms: {FORMS}")
    from .remote.client import RemoteModel
    from .remote.endpoint import resolve

    if environ is not None:
        return RemoteModel(resolve(prefix, name, url, environ))
    from .remote.credentials import stored_key

    return RemoteModel(resolve(prefix, name, url, os.environ, stored_key))


def split_address(text: str) -> tuple[str, str]:
    """``NAME@URL`` as name and address; the address is empty where there is none."""
    name, *address = _ADDRESS.split(text, maxsplit=1)
    return name.strip(), address[0] if address else ""
