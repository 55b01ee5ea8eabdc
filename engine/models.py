"""Model strings to models: ``embedded``, ``vllm:NAME@URL``, ``anthropic:NAME``, ``llama:FILE``, ..."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ..sandbox.base.errors import ConfigError, UsageError
from .chat import ChatModel

FORMS = (
    "embedded, openai:NAME, openai:NAME@http://host/v1, vllm:NAME@http://host:8000/v1, "
    "anthropic:NAME, llama:PATH.gguf"
)

_REMOTE = ("openai", "vllm")
_ADDRESS = re.compile(r"@(?=https?://)")
_KNOWN_BUT_ABSENT = {
    "kimi": "the native engine is not part of this version",
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
    name, *address = _ADDRESS.split(rest, maxsplit=1)
    if prefix == "llama" and rest.strip():
        from .gguf.model import LlamaModel, resolve_file

        return LlamaModel(resolve_file(rest.strip(), os.environ if environ is None else environ))
    if prefix == "anthropic" and name.strip():
        from .anthropic.client import AnthropicModel
        from .anthropic.endpoint import resolve_anthropic

        values = os.environ if environ is None else environ
        return AnthropicModel(resolve_anthropic(name.strip(), address[0] if address else "", values))
    if prefix not in _REMOTE or not name.strip():
        raise UsageError(f"{spec!r} names no model", hint=f"valid forms: {FORMS}")
    from .remote.client import RemoteModel
    from .remote.endpoint import resolve

    url = address[0] if address else ""
    return RemoteModel(resolve(prefix, name.strip(), url, os.environ if environ is None else environ))
