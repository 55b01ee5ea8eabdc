"""Messages and tools in the form of OpenAI-compatible chat completions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..chat import (
    ImagePart,
    Message,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
)
from . import tags
from .decode import REASONING_FIELDS

_HALF = re.compile("[\ud800-\udfff]")
_IMAGE_TOKENS = 1600
_BYTES_PER_TOKEN = 3.0
"""Conservative: English prose and code have about four bytes a token."""


@dataclass(frozen=True)
class ReplyForm:
    """How an endpoint wants the model's own earlier answers."""

    thinking: bool = True
    """False: no thinking is sent, neither text nor opaque parts."""
    field: str = "reasoning_content"
    """Name of thinking that has none at this endpoint yet."""
    renamed: bool = False
    """Whether thinking goes out as ``field`` whatever name it came with."""
    must_return: bool = False
    """Whether a message with calls needs the field, an empty one where nothing was thought."""
    content: Literal["null", "empty", "missing"] = "null"
    """Beside calls without text."""


def encode_messages(
    history: Sequence[Message], provider: str, form: ReplyForm | None = None
) -> list[dict[str, Any]]:
    """The ``messages`` array. Reasoning goes back under the name it came with, empty text included.

    Thinking of another model is no thinking of this one: it is left out, except beside calls
    where the endpoint insists on some; there it goes out as text under this endpoint's name.
    """
    form = form or ReplyForm()
    encoded: list[dict[str, Any]] = []
    for message in history:
        if message.role == "assistant":
            encoded.append(_assistant(message, provider, form))
        elif message.role == "tool":
            encoded.extend(
                {"role": "tool", "tool_call_id": part.call_id, "content": _sendable(part.text)}
                for part in message.parts
                if isinstance(part, ToolResultPart)
            )
        else:
            encoded.append({"role": message.role, "content": _content(message)})
    return encoded


def encode_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """The ``tools`` array, in the order given (prefix caches match bytes)."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def estimate_tokens(history: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
    """A conservative estimate from sizes; endpoints rarely offer their tokenizer."""
    size = sum(len(tool.description) + len(str(tool.parameters)) + 40 for tool in tools)
    images = 0
    for message in history:
        size += 16
        for part in message.parts:
            if isinstance(part, ImagePart):
                images += 1
            elif isinstance(part, TextPart | ReasoningPart | ToolResultPart):
                size += len(part.text.encode("utf-8", "replace")) + 16
            elif isinstance(part, ToolCallPart):
                size += len(part.arguments.encode("utf-8", "replace")) + len(part.name) + 48
            else:
                size += len(str(part.payload))
    return images * _IMAGE_TOKENS + int(size / _BYTES_PER_TOKEN) + 1


def _assistant(message: Message, provider: str, form: ReplyForm) -> dict[str, Any]:
    text = _sendable(message.text())
    if form.thinking:
        text = _tagged(message, provider) + text
    calls = message.tool_calls()
    encoded: dict[str, Any] = {"role": "assistant"}
    # Null, not "", beside calls: some servers refuse an empty string there, few refuse null.
    if text or not calls or form.content != "missing":
        encoded["content"] = text if text or not calls or form.content == "empty" else None
    for part in message.parts if form.thinking else ():
        if isinstance(part, ReasoningPart):
            own = part.source in ("", provider) and part.field in REASONING_FIELDS
            if own or (calls and form.must_return):
                name = part.field if own and not form.renamed else form.field
                encoded[name] = encoded.get(name, "") + _sendable(part.text)
        elif isinstance(part, OpaquePart) and part.provider == provider and isinstance(part.payload, dict):
            encoded.update(part.payload)
    if calls and form.thinking and form.must_return and not any(name in encoded for name in REASONING_FIELDS):
        encoded[form.field] = ""
    if calls:
        encoded["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    return encoded


def _tagged(message: Message, provider: str) -> str:
    """Thinking that came inside the text, as it came."""
    inside = [
        part.text
        for part in message.parts
        if isinstance(part, ReasoningPart) and part.field == tags.FIELD and part.source in ("", provider)
    ]
    return f"{tags.OPEN}{_sendable(''.join(inside))}{tags.CLOSE}" if inside else ""


def _sendable(text: str) -> str:
    """Half of a surrogate pair cannot be sent; servers and encoders refuse the whole request for it."""
    return (
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if _HALF.search(text)
        else text
    )


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return _sendable(message.text())
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            content.append({"type": "text", "text": _sendable(part.text)})
        elif isinstance(part, ImagePart):
            url = f"data:{part.media_type};base64,{part.data_base64}"
            content.append({"type": "image_url", "image_url": {"url": url}})
    return content
