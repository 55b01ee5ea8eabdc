"""Whole servers with habits, for probes: what they answer follows from what they are asked."""

from __future__ import annotations

import json
from typing import Any

from ...mock_server import Reply, Request, completion, error

LIST = {
    "object": "list",
    "data": [{"id": "big", "object": "model", "owned_by": "vllm", "max_model_len": 40_960}],
}
WORDS_PER_LEVEL = {"low": 100, "high": 300, "max": 900}


def refuse(message: str, status: int = 400) -> Reply:
    return error(status, {"error": {"message": message}})


def able(request: Request) -> Reply:
    """A thinking model behind a server that does all: it counts prompts by characters."""
    body = request.body
    if body.get("thinking_budget") not in (None, "low", "high", "max"):
        return refuse("thinking_budget must be one of low, high, max")
    for message in body["messages"]:
        if message.get("tool_calls") and "reasoning" not in message:
            return refuse("the reasoning in the thinking mode must be passed back")
    tokens = 20 + len(json.dumps(body["messages"])) // 4
    usage = (tokens, 10)
    thought = "word " * WORDS_PER_LEVEL[body.get("reasoning_effort", "high")]
    if "thinking_token_budget" in body:
        thought = "word " * body["thinking_token_budget"]
    values: dict[str, Any] = {"reasoning": thought, "reasoning_field": "reasoning", "usage": usage}
    last = body["messages"][-1]
    if last["role"] == "tool":
        return completion(text="5", **values)
    if body.get("tools"):
        calls = [("c1", "add", {"a": 2, "b": 3}), ("c2", "add", {"a": 40, "b": 2})]
        return completion(calls=calls, **values)
    if "structured_outputs" in body:
        return completion(text='{"colour": "teal", "n": 1}', **values)
    if isinstance(last["content"], list):
        return completion(text="Red.", **values)
    return completion(text="17", **values)


def poor(request: Request) -> Reply:
    """A small model that knows text and nothing else, behind a server that says 500 for bad requests."""
    body = request.body
    if body.get("tools"):
        return refuse("1 validation error: tools: Extra inputs are not permitted", 500)
    if any(isinstance(message["content"], list) for message in body["messages"]):
        return refuse("content must be a string")
    if "response_format" in body or "structured_outputs" in body:
        return completion(text="Hello Ann!", usage=None)
    for field in ("reasoning_effort", "chat_template_kwargs", "thinking_budget"):
        if field in body:
            return refuse(f"Unknown field: {field}")
    return completion(text="17", usage=None)
