"""Thinking that a server leaves in the text, and other shapes of content."""

from __future__ import annotations

import pytest
from whimbrel.app.agent.history import StepBuilder
from whimbrel.engine.chat import Message, ReasoningDelta, TextDelta, TextPart, user

from ...mock_server import Reply, chunk, stream
from .asking import Conversation


def spoken(*pieces: object) -> Reply:
    return stream(*(chunk({"content": piece}) for piece in pieces), chunk(finish="stop"))


@pytest.mark.parametrize(
    ("pieces", "thought", "said"),
    [
        (["<think>so</think>5"], "so", "5"),
        (list("\n<think>a < b</think>\n\n5"), "a < b", "\n\n5"),
        (["<thi", "nk>x</th", "ought></think", ">done"], "x</thought>", "done"),
        (["<think>cut off"], "cut off", ""),
        (["<think></think>5"], "", "5"),
        (["a <think>b</think>"], "", "a <think>b</think>"),
        (["<thing>", "x"], "", "<thing>x"),
        (["<th"], "", "<th"),
        ([[{"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}, {"type": "text", "text": "5"}]], "so", "5"),
        ([[{"type": "text", "text": "5"}, "odd", {"type": "image"}], None], "", "5"),
    ],
)  # fmt: skip
async def test_thinking_is_kept_out_of_the_text(pieces: list[object], thought: str, said: str) -> None:
    async with Conversation([spoken(*pieces)]) as talk:
        events = await talk.step()
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == thought
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == said


async def test_thinking_in_tags_goes_back_inside_the_text_and_to_its_own_model_only() -> None:
    async with Conversation([spoken("<think>so</think>", "5"), spoken("x"), spoken("y")]) as talk:
        builder = StepBuilder()
        for event in await talk.step():
            builder.feed(event)
        history = [user("q"), builder.message(), user("again")]
        await talk.step(history)
        assert talk.bodies[1]["messages"][1] == {"role": "assistant", "content": "<think>so</think>5"}
        talk.model.thinking = False
        await talk.step(history)
        assert talk.bodies[2]["messages"][1] == {"role": "assistant", "content": "5"}
    async with Conversation([spoken("x")], name="another") as other:
        await other.step(history)
        assert other.bodies[0]["messages"][1] == {"role": "assistant", "content": "5"}


async def test_half_a_surrogate_pair_anywhere_in_the_history_is_sent_as_a_replacement_character() -> None:
    history = [
        Message(role="system", parts=(TextPart(text="a\ud83d"),)),
        user("b\udc00"),
        Message(role="assistant", parts=(TextPart(text="c\ud83d"),)),
    ]
    async with Conversation([spoken("fine")]) as talk:
        await talk.step([*history, user("d")])
        assert [message["content"] for message in talk.bodies[0]["messages"]] == [
            "a\ufffd",
            "b\ufffd",
            "c\ufffd",
            "d",
        ]
