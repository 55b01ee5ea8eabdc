"""Histories as plain data, the way chat templates expect them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..chat import ImagePart, Message, ReasoningPart, ToolCallPart, ToolResultPart, ToolSpec
from ..unseen import NO_IMAGE


def plain_messages(history: Sequence[Message], source: str = "") -> list[dict[str, Any]]:
    """One entry per message; thinking in ``reasoning_content``, which templates take or leave.

    Thinking of other models than ``source`` is left out.
    """
    plain: list[dict[str, Any]] = []
    for message in history:
        results = [part for part in message.parts if isinstance(part, ToolResultPart)]
        plain += [
            {"role": "tool", "name": part.name, "tool_call_id": part.call_id, "content": part.text}
            for part in results
        ]
        images = sum(isinstance(part, ImagePart) for part in message.parts)
        text = "\n".join([*([message.text()] if message.text() else []), *[NO_IMAGE] * images])
        if message.role == "tool":
            if text:
                plain.append({"role": "user", "content": text})
            continue
        entry: dict[str, Any] = {"role": message.role, "content": text}
        thought = "".join(
            part.text
            for part in message.parts
            if isinstance(part, ReasoningPart) and part.source in ("", source)
        )
        if thought:
            entry["reasoning_content"] = thought
        if calls := message.tool_calls():
            entry["tool_calls"] = [_call(part) for part in calls]
        plain.append(entry)
    return plain


def plain_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def _call(part: ToolCallPart) -> dict[str, Any]:
    try:
        arguments = json.loads(part.arguments, strict=False)
    except (ValueError, RecursionError):
        arguments = {}
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": arguments}}
