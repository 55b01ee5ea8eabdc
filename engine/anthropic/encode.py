"""Histories and tools in the form of the Messages API, which is stricter about order than others.

Roles alternate, the first message is the user's, every ``tool_use`` has its ``tool_result`` at the
beginning of the very next message, ids are plain words and never used twice, text is never empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..chat import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
)

THINKING_FIELD = "thinking"
"""``ReasoningPart.field`` of thinking that came from this form."""

Block = dict[str, Any]

_GO_ON = "Continue."
_NO_RESULT = "no result: the run was interrupted before this call"
_EMPTY = "(empty)"
_COMBINATORS = ("oneOf", "anyOf", "allOf", "not")
_CACHE = {"cache_control": {"type": "ephemeral"}}


def encode_history(
    history: Sequence[Message], provider: str, *, unsigned: bool = False
) -> tuple[list[Block], list[dict[str, Any]]]:
    """``(system, messages)``.

    Args:
        provider: whose opaque parts go along; those of others stay behind.
        unsigned: whether thinking without a signature goes back too (other servers of this form).
    """
    system: list[Block] = []
    messages: list[dict[str, Any]] = []
    ids = _Ids()
    for message in history:
        if message.role == "system" and not messages:
            system += [_text(text) for part in message.parts if (text := _said(part))]
            continue
        if message.role == "assistant":
            role, blocks = "assistant", _assistant(message, provider, ids, unsigned)
        else:
            role, blocks = "user", _user(message, ids)
        if not blocks:
            continue
        last = messages[-1] if messages else None
        if last is None or last["role"] != role:
            messages.append({"role": role, "content": blocks})
        elif role == "assistant" and _calls(last):
            # Between a call and what the assistant says next there is always a result.
            messages += [{"role": "user", "content": []}, {"role": role, "content": blocks}]
        else:
            last["content"] += blocks
    _answer_calls(messages)
    if not messages or messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": [_text(_GO_ON)]})
    if messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": [_text(_GO_ON)]})
    return system, messages


def encode_tools(tools: Sequence[ToolSpec]) -> list[Block]:
    """The ``tools`` array, in the order given (prefix caches match bytes)."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": _schema(tool.parameters)}
        for tool in tools
    ]


def mark_for_cache(system: list[Block], tools: list[Block], messages: list[dict[str, Any]]) -> None:
    """Sets the four breakpoints: system, tools, and the last two user messages.

    Two, because a cached prefix is looked for only some twenty blocks before a breakpoint, and one
    round of many calls is longer than that.
    """
    for blocks in (system, tools):
        if blocks:
            blocks[-1] = {**blocks[-1], **_CACHE}
    marked = 0
    for message in reversed(messages):
        if message["role"] == "user" and marked < 2:
            message["content"][-1] = {**message["content"][-1], **_CACHE}
            marked += 1


def open_round_without_thinking(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether calls are being answered in a turn that has no thinking at all.

    The API then refuses a request with thinking switched on (another model had the turn before).
    """
    calling = False
    for message in reversed(messages):
        first = message["content"][0]["type"]
        if message["role"] == "user" and first != "tool_result":
            break
        if message["role"] == "assistant":
            calling = True
            if first in ("thinking", "redacted_thinking"):
                return False
    return calling


def without_thinking(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same messages with all thinking left out."""
    kept: list[dict[str, Any]] = []
    for message in messages:
        blocks = [
            block for block in message["content"] if block["type"] not in ("thinking", "redacted_thinking")
        ]
        kept.append({**message, "content": blocks or [_text(_EMPTY)]})
    return kept


class _Ids:
    """Call ids as the API takes them; a call's id may come again in a later step of some servers."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._now: dict[str, str] = {}

    def new(self, original: str) -> str:
        base = re.sub(r"[^A-Za-z0-9_-]", "_", original)[:48] or "call"
        name, number = base, 1
        while name in self._used:
            number += 1
            name = f"{base}_{number}"
        self._used.add(name)
        self._now[original] = name
        return name

    def of(self, original: str) -> str:
        return self._now.get(original, "")


def _assistant(message: Message, provider: str, ids: _Ids, unsigned: bool) -> list[Block]:
    blocks: list[Block] = []
    thought = ""
    for part in message.parts:
        if isinstance(part, ReasoningPart):
            thought = part.text if part.field == THINKING_FIELD else ""
        elif isinstance(part, OpaquePart):
            if part.provider == provider and isinstance(part.payload, dict):
                block = _opaque(cast(Block, part.payload), thought, unsigned)
                blocks += [block] if block else []
            thought = ""
        elif isinstance(part, ToolCallPart):
            blocks.append(
                {
                    "type": "tool_use",
                    "id": ids.new(part.id),
                    "name": re.sub(r"[^A-Za-z0-9_-]", "_", part.name)[:128] or "unnamed_tool",
                    "input": _object(part.arguments),
                }
            )
        elif text := _said(part):
            blocks.append(_text(text))
    return blocks


def _opaque(payload: Block, thought: str, unsigned: bool) -> Block | None:
    if payload.get("type") != "thinking":
        return payload
    signature = str(payload.get("signature") or "")
    if not signature and not unsigned:
        return None
    return {"type": "thinking", "thinking": thought, "signature": signature}


def _user(message: Message, ids: _Ids) -> list[Block]:
    """Blocks of a user or tool message; an image after a tool's result belongs into that result."""
    blocks: list[Block] = []
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            blocks.append(_result(part, ids.of(part.call_id)))
        elif isinstance(part, ImagePart):
            last = blocks[-1] if blocks else None
            if message.role == "tool" and last is not None and last["type"] == "tool_result":
                last["content"].append(_image(part))
            else:
                blocks.append(_image(part))
        elif text := _said(part):
            blocks.append(_text(text))
    return blocks


def _result(part: ToolResultPart, call_id: str) -> Block:
    block: Block = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": [_text(part.text if part.text.strip() else _EMPTY)],
    }
    if part.is_error:
        block["is_error"] = True
    return block


def _answer_calls(messages: list[dict[str, Any]]) -> None:
    """Brings each call's result to the front of the next message; a missing one says that it is."""
    number = 0
    while number < len(messages):
        message = messages[number]
        number += 1
        if message["role"] == "user":
            # Those that belong to the calls before it have been taken out: the rest belong to none.
            continue
        calls = _calls(message)
        following: dict[str, Any] | None = messages[number] if number < len(messages) else None
        if calls and following is None:
            following = {"role": "user", "content": []}
            messages.append(following)
        if following is None:
            continue
        given: dict[str, Block] = {}
        rest: list[Block] = []
        for block in following["content"]:
            if block["type"] == "tool_result" and block["tool_use_id"] in calls:
                given.setdefault(block["tool_use_id"], block)
            else:
                rest += block["content"] if block["type"] == "tool_result" else [block]
        missing = {"content": [_text(_NO_RESULT)], "is_error": True}
        first = [given.get(call) or {"type": "tool_result", "tool_use_id": call, **missing} for call in calls]
        following["content"] = first + rest
    if messages and messages[0]["role"] == "user":
        blocks = messages[0]["content"]
        messages[0]["content"] = [
            inner
            for block in blocks
            for inner in (block["content"] if block["type"] == "tool_result" else [block])
        ]


def _calls(message: Mapping[str, Any]) -> list[str]:
    return [block["id"] for block in message["content"] if block["type"] == "tool_use"]


def _said(part: Part) -> str:
    """Text that is more than blanks, which is all that the API takes."""
    return part.text if isinstance(part, TextPart) and part.text.strip() else ""


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _image(part: ImagePart) -> Block:
    source = {"type": "base64", "media_type": part.media_type, "data": part.data_base64}
    return {"type": "image", "source": source}


def _object(arguments: str) -> dict[str, Any]:
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """At its top the API takes an object and no alternatives; what is below stays as it is."""
    schema = {key: value for key, value in parameters.items() if key not in _COMBINATORS}
    schema["type"] = "object"
    return schema
