"""Pieces of Messages-API answers for ``MockServer``, and a validator as strict as the real server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from .mock_server import MockServer, Reply, Request, sse

SIGNATURE = "EqQBCgIYAhIM/+=="


def event(kind: str, **values: Any) -> bytes:
    return b"event: " + kind.encode() + b"\n" + sse({"type": kind, **values})


def begin(**usage: int) -> bytes:
    counts = usage or {"input_tokens": 10, "output_tokens": 1}
    return event(
        "message_start", message={"id": "msg_1", "role": "assistant", "content": [], "usage": counts}
    )


def block(index: int, start: dict[str, Any], deltas: Iterable[dict[str, Any]] = ()) -> bytes:
    pieces = [event("content_block_start", index=index, content_block=start)]
    pieces += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join([*pieces, event("content_block_stop", index=index)])


def text(index: int, whole: str) -> bytes:
    return block(
        index, {"type": "text", "text": ""}, [{"type": "text_delta", "text": c} for c in _cut(whole)]
    )


def thinking(index: int, whole: str, signature: str = SIGNATURE) -> bytes:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _cut(whole)]
    deltas += [{"type": "signature_delta", "signature": signature}] if signature else []
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, deltas)


def call(index: int, call_id: str, name: str, arguments: Any) -> bytes:
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _cut(raw)]
    return block(index, {"type": "tool_use", "id": call_id, "name": name, "input": {}}, deltas)


def end(reason: str = "end_turn", output: int = 20, **usage: int) -> bytes:
    counts = {"output_tokens": output, **usage}
    delta = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=delta, usage=counts) + event("message_stop")


def answer(*pieces: bytes, reason: str = "end_turn", **usage: int) -> Reply:
    return Reply(pieces=[begin(**usage), event("ping"), *pieces, end(reason)])


def refusal(status: int, kind: str, message: str, **headers: str) -> Reply:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    named = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return Reply(pieces=[body], status=status, headers=named)


def model_of(server: MockServer, name: str = "scripted") -> str:
    return f"anthropic:{name}@{server.url}"


def strict(request: Request) -> str | None:
    """What the real server refuses with 400, in the order in which it looks."""
    body = request.body
    if request.path != "/v1/messages" or "anthropic-version" not in request.headers:
        return "wrong path or no version"
    budget = body.get("thinking", {}).get("budget_tokens", 0)
    if budget and not 1024 <= budget < body["max_tokens"]:
        return "`max_tokens` must be greater than `thinking.budget_tokens`"
    for tool in body.get("tools", ()):
        schema = tool["input_schema"]
        if schema.get("type") != "object" or {"oneOf", "anyOf", "allOf"} & set(schema):
            return "tools.0.input_schema: top level must be an object without alternatives"
    messages = body["messages"]
    if not messages or messages[0]["role"] != "user" or messages[-1]["role"] != "user":
        return "messages: first and last message must use the user role"
    if json.dumps(body).count('"cache_control"') > 4:
        return "a maximum of 4 blocks with cache_control may be provided"
    seen: set[str] = set()
    for number, message in enumerate(messages):
        if number and message["role"] == messages[number - 1]["role"]:
            return f"messages.{number}: roles must alternate"
        if not message["content"]:
            return f"messages.{number}: content is empty"
        problem = _blocks(message, messages[number - 1] if number else None, seen)
        if problem:
            return f"messages.{number}: {problem}"
    return None


def _blocks(message: dict[str, Any], before: dict[str, Any] | None, seen: set[str]) -> str | None:
    open_ids = [each["id"] for each in (before or {"content": []})["content"] if each["type"] == "tool_use"]
    given = [each.get("tool_use_id") for each in message["content"] if each["type"] == "tool_result"]
    first = [each["type"] for each in message["content"][: len(given)]]
    if message["role"] == "user" and (sorted(given) != sorted(open_ids) or set(first) - {"tool_result"}):
        return f"`tool_use` ids {open_ids} need their `tool_result` blocks first, found {given}"
    for each in message["content"]:
        if each["type"] == "text" and not each["text"].strip():
            return "text content blocks must contain non-whitespace text"
        if each["type"] == "thinking" and (not each["signature"] or "cache_control" in each):
            return "thinking.signature: Field required"
        if each["type"] == "tool_use":
            if each["id"] in seen:
                return "`tool_use` ids must be unique"
            seen.add(each["id"])
            if not re.fullmatch(r"[a-zA-Z0-9_-]+", each["id"]) or not isinstance(each["input"], dict):
                return "tool_use: bad id or input"
    return None


def _cut(whole: str, size: int = 7) -> list[str]:
    return [whole[start : start + size] for start in range(0, len(whole), size)]
