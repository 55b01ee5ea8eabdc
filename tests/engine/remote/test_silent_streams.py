"""A stream that ends without a word: the server is asked once more, without a stream, why."""

from __future__ import annotations

import pytest
from whimbrel.engine.remote.failures import Failure, RemoteError

from ...mock_server import Reply, completion, error
from .asking import Conversation

SILENT = Reply(pieces=[])
OVERFLOW = error(
    400,
    {"error": {"message": "This model's maximum context length is 4096 tokens.", "code": "context_length_exceeded"}},
)  # fmt: skip


async def test_the_reason_is_found_with_a_question_for_one_token() -> None:
    async with Conversation([SILENT, OVERFLOW]) as talk:
        with pytest.raises(RemoteError) as caught:
            await talk.step()
    assert caught.value.failure is Failure.CONTEXT_OVERFLOW
    asked = talk.bodies[1]
    assert asked["stream"] is False and asked["max_tokens"] == 1 and "stream_options" not in asked
    assert asked["messages"] == talk.bodies[0]["messages"] and asked["model"] == talk.bodies[0]["model"]


async def test_without_a_reason_it_is_a_cut_stream_and_tried_again() -> None:
    async with Conversation([SILENT, completion(text="."), completion(text="whole")]) as talk:
        await talk.step()
    assert any("trying again" in notice for notice in talk.notices)
