"""Our messages as the plain data that the format is defined over, and back-stops for what clients send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from ...chat import (
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
)
from .syntax import PromptError

Plain: TypeAlias = Mapping[str, Any]
"""A message in the form of the OpenAI API: role, content (text or parts), tool_calls, ..."""

ROLES = ("system", "user", "assistant", "tool")


class WrittenArguments(str):
    """Arguments exactly as a model wrote them: no JSON object is no error, it is shown as it stands."""

    __slots__ = ()


def plain_history(history: Sequence[Message | Plain], source: str = "") -> list[Plain]:
    """The history as plain messages; those that are plain already are checked and passed on.

    Thinking of other models than ``source`` is left out, opaque parts of other providers too.

    Raises:
        PromptError: a message without a role that exists, or with content of a kind that does not.
    """
    plain: list[Plain] = []
    for message in history:
        if isinstance(message, Message):
            plain += _converted(message, source)
        else:
            plain.append(_checked(message))
    return plain


def plain_tools(tools: Sequence[ToolSpec | Plain]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        if isinstance(tool, ToolSpec)
        else dict(tool)
        for tool in tools
    ]


def _converted(message: Message, source: str) -> list[Plain]:
    results: list[dict[str, Any]] = []
    content: list[dict[str, Any]] = []
    thought: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            image = {"type": "image", "image": part}
            # A picture that a tool returned belongs to its result.
            (results[-1]["content"] if results else content).append(image)
        elif isinstance(part, ReasoningPart):
            thought += [part.text] if part.source in ("", source) else []
        elif isinstance(part, ToolCallPart):
            function = {"name": part.name, "arguments": WrittenArguments(part.arguments)}
            calls.append({"id": part.id, "type": "function", "function": function})
        elif isinstance(part, ToolResultPart):
            text = {"type": "text", "text": part.text}
            results.append(
                {"role": "tool", "name": part.name, "tool_call_id": part.call_id, "content": [text]}
            )
    if message.role == "tool":
        # Text of a tool message that belongs to no result: the model must see it, and only a person speaks.
        return [*results, *([{"role": "user", "content": content}] if content else [])]
    entry: dict[str, Any] = {"role": message.role, "content": content}
    if thought:
        entry["reasoning_content"] = "".join(thought)
    if calls:
        entry["tool_calls"] = calls
    return [*results, entry] if content or thought or calls or not results else list(results)


def _checked(message: Any) -> Plain:
    if not isinstance(message, Mapping):
        raise PromptError("a message of the conversation is no object")
    entry = cast(Plain, message)
    role = entry.get("role")
    if role == "developer":
        return {**entry, "role": "system"}
    if role not in ROLES:
        raise PromptError(f"a message has the role {role!r}", hint=f"roles are {', '.join(ROLES)}")
    return entry


def content_parts(message: Plain) -> list[str | Plain]:
    """The content in order: texts, and image items as they came.

    Raises:
        PromptError: content that is neither text nor a list of text and image items.
    """
    content = message.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if not isinstance(content, Sequence):
        raise PromptError("a message's content is neither text nor a list of parts")
    parts: list[str | Plain] = []
    for item in cast(Sequence[Any], content):
        entry = cast(Plain, item) if isinstance(item, Mapping) else {}
        kind = entry.get("type")
        if isinstance(item, str):
            parts.append(item)
        elif kind in ("text", "input_text", "output_text") and isinstance(entry.get("text"), str):
            parts.append(cast(str, entry["text"]))
        elif kind in ("image", "image_url"):
            parts.append(entry)
        else:
            raise PromptError(f"a part of a message is of the kind {kind!r}, which the model cannot take")
    return parts


def reasoning(message: Plain) -> str:
    """Thinking of an assistant message: one field or, where that is empty, the other; blanks are none."""
    text = message.get("reasoning_content") or message.get("reasoning") or ""
    if not isinstance(text, str):
        raise PromptError("a message's reasoning is no text")
    return text if text.strip() else ""


def tool_calls(message: Plain) -> list[tuple[str, str, Any]]:
    """(id, name, arguments) of an assistant message's calls.

    Raises:
        PromptError: a call without a function name.
    """
    found: list[tuple[str, str, Any]] = []
    for call in cast(Sequence[Any], message.get("tool_calls") or ()):
        entry = cast(Plain, call) if isinstance(call, Mapping) else {}
        function = entry.get("function")
        fields = cast(Plain, function) if isinstance(function, Mapping) else {}
        name = fields.get("name")
        if not isinstance(name, str):
            raise PromptError("a tool call of the conversation has no function name")
        found.append((str(entry.get("id") or ""), name, fields.get("arguments")))
    return found
