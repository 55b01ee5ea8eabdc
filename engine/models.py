"""Model strings to models: ``embedded``, ``vllm:NAME@URL``, ``anthropic:NAME``, ``llama:FILE``, ..."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ..sandbox.base.errors import UsageError
from .chat import ChatModel

_REMOTE = ("openai", "vllm", "sglang", "llamacpp", "ollama", "deepseek", "kimi-api", "openrouter")
FORMS = (
    "embedded, llama:FILE.gguf, kimi:DIR, openai:NAME, anthropic:NAME, vllm:NAME@http://host:8000/v1"
    " (also sglang, llamacpp, ollama, deepseek, kimi-api, openrouter; each with or without @URL)"
)

# Also what was meant as one and cannot be: it must not end as a part of the name, sent to another place.
_ADDRESS = re.compile(r"@(?=[A-Za-z][A-Za-z0-9+.-]*://|[\w.-]+:\d{1,5}(?:/|$)|[\w.-]+/v1(?:/|$)|\[)")


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
    prefix, _, rest = text.partition(":")
    values = os.environ if environ is None else environ
    if prefix == "llama" and rest.strip():
        from .gguf.model import LlamaModel, resolve_file

        return LlamaModel(resolve_file(rest.strip(), values))
    if prefix == "kimi" and rest.strip():
        from .kimi.opening import resolve_folder

        local = resolve_folder(rest.strip(), values)
        from .kimi.chatmodel import KimiModel

        return KimiModel(local)
    name, url = split_address(rest)
    if prefix not in (*_REMOTE, "anthropic") or not name:
        raise UsageError(f"{spec!r} names no model", hint=f"valid forms: {FORMS}")
    from .remote.credentials import stored_key

    # An environment given is the whole world: the keyring of this machine is not part of it.
    stored = stored_key if environ is None else None
    if prefix == "anthropic":
        from .anthropic.client import AnthropicModel
        from .anthropic.endpoint import resolve_anthropic

        return AnthropicModel(resolve_anthropic(name, url, values, stored))
    from .remote.client import RemoteModel
    from .remote.endpoint import resolve

    return RemoteModel(resolve(prefix, name, url, values, stored))


def split_address(text: str) -> tuple[str, str]:
    """``NAME@URL`` as name and address; the address is empty where there is none."""
    name, *address = _ADDRESS.split(text, maxsplit=1)
    return name.strip(), address[0] if address else ""
