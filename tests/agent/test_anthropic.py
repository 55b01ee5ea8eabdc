"""An agent whose model speaks the Messages API, against a server as strict as the real one."""

from __future__ import annotations

import base64
from pathlib import Path

from whimbrel.app.agent.prompts import opening
from whimbrel.app.tools.base import ToolResult
from whimbrel.engine.chat import ImagePart
from whimbrel.engine.models import load_model

from ..anthropic_mock import SIGNATURE, answer, block, call, model_of, strict, text, thinking
from ..mock_server import MockServer
from .scene import Echo, scene, tool

PIXEL = base64.b64encode(b"not really a picture").decode()


async def test_thinking_calls_and_pictures_of_a_whole_run_are_what_the_strict_server_takes(
    tmp_path: Path,
) -> None:
    hidden = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3="}

    async def show(_context: object, _arguments: object) -> ToolResult:
        return ToolResult("here it is", images=(ImagePart(media_type="image/png", data_base64=PIXEL),))

    replies = [
        answer(
            thinking(0, "which file? "),
            block(1, hidden),
            text(2, "I look."),
            call(3, "toolu_1", "read", {"path": "a.py"}),
            call(4, "toolu_2", "view_image", {"path": "a.png"}),
            reason="tool_use",
        ),
        answer(call(0, "toolu_3", "read", {"path": "b.py"}), reason="tool_use"),
        answer(text(0, "Nothing is wrong."), cache_read_input_tokens=900, input_tokens=100, output_tokens=1),
    ]
    async with scene(tmp_path) as stage:
        with MockServer(replies, validators=[strict]) as server:
            model = load_model(model_of(server), environ={})
            try:
                agent = stage.make(model, [Echo(), tool("view_image", show)])
                outcome = await agent.run(opening("it is wrong"))
            finally:
                await model.close()
        assert outcome.status == "answered" and outcome.final_text == "Nothing is wrong."
        assert outcome.usage.cached_tokens == 900 and outcome.usage.input_tokens == 1020
    second, third = server.requests[1].messages, server.requests[2].messages
    thought, kept, said, *calls = second[1]["content"]
    assert thought == {"type": "thinking", "thinking": "which file? ", "signature": SIGNATURE}
    assert kept == hidden and said["text"] == "I look."
    assert [each["id"] for each in calls] == ["toolu_1", "toolu_2"]
    results = second[2]["content"]
    assert [each["type"] for each in results] == ["tool_result", "tool_result", "text", "image"]
    # The round goes on without new thinking; its first thinking is still sent.
    assert third[1]["content"] == second[1]["content"] and third[3]["content"][0]["id"] == "toolu_3"
    assert all("thinking" in request.body for request in server.requests)
