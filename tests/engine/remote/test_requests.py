"""What goes out to a server, judged by servers of opposite tastes."""

from __future__ import annotations

import json
from collections.abc import Callable

from whimbrel.app.agent.prompts import opening
from whimbrel.engine.chat import Message, TextPart, ToolCallPart, ToolResultPart, ToolSpec
from whimbrel.engine.models import load_model

from ...mock_server import MockServer, Request, completion

CALL = Message(
    role="assistant", parts=(ToolCallPart(id="a", name="read", arguments='{"path": "x"}'),)
)  # fmt: skip
RESULT = Message(role="tool", parts=(ToolResultPart(call_id="a", name="read", text="1\tx"),))
ANSWER = Message(role="assistant", parts=(TextPart(text=""),))


async def asked(
    history: list[Message], tools: list[ToolSpec], *rules: Callable[[Request], str | None]
) -> Request:
    """The request as the server got it; a rule that finds fault refuses it."""
    with MockServer([completion(text="fine")], validators=rules) as server:
        model = load_model(server.model(), environ={})
        try:
            async for _ in model.stream(history, tools, effort="low"):
                pass
        finally:
            await model.close()
        return server.requests[0]


def refuses_empty_text_beside_calls(request: Request) -> str | None:
    empty = [
        message for message in request.messages if message.get("tool_calls") and message["content"] == ""
    ]
    return "content must not be empty" if empty else None


def demands_the_key(request: Request) -> str | None:
    return None if all("content" in message for message in request.messages) else "content is missing"


async def test_content_beside_calls_is_null_which_every_server_takes() -> None:
    history = [*opening("a bug"), CALL, RESULT, ANSWER]
    request = await asked(history, [], refuses_empty_text_beside_calls, demands_the_key)
    assert request.messages[2]["content"] is None


def knows_few_roles(request: Request) -> str | None:
    odd = {message["role"] for message in request.messages} - {"system", "user", "assistant", "tool"}
    return f"unknown roles {odd}" if odd else None


async def test_only_roles_that_every_template_knows_are_sent() -> None:
    request = await asked([*opening("a bug"), CALL, RESULT], [], knows_few_roles)
    assert [message["role"] for message in request.messages] == ["system", "user", "assistant", "tool"]
    assert isinstance(request.messages[2]["tool_calls"][0]["function"]["arguments"], str)


async def test_arguments_may_have_any_names() -> None:
    names = ["kind", "type", "id", "name", "role", "parts", "arguments"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    arguments = {name: name for name in names}
    with MockServer([completion(calls=[("a", "odd", arguments)])]) as server:
        model = load_model(server.model(), environ={})
        try:
            tool = ToolSpec(name="odd", description="d", parameters=schema)
            ends = [
                event
                async for event in model.stream([*opening("x")], [tool])
                if event.kind == "tool_call_end"
            ]
        finally:
            await model.close()
    assert server.requests[0].body["tools"][0]["function"]["parameters"] == schema
    assert [json.loads(end.arguments) for end in ends] == [arguments]
