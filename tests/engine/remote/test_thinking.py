"""Whether an endpoint heeds what it is told about thinking, and that a person hears of it once."""

from __future__ import annotations

import time

from whimbrel.engine.remote.profile import Fact, Profile

from ...mock_server import Reply, chunk, completion, stream, usage_chunk
from .asking import Conversation


def thinking(tokens: int | None, characters: int = 100) -> Reply:
    details = {} if tokens is None else {"completion_tokens_details": {"reasoning_tokens": tokens}}
    return stream(
        chunk({"reasoning": "w" * characters}), chunk({"content": "x"}, finish="stop"), usage_chunk(9, 9, **details)
    )  # fmt: skip


def profile_of(talk: Conversation, **facts: object) -> Profile:
    endpoint = talk.model.endpoint
    known = {name: Fact(value=value, how="in this test") for name, value in facts.items()}
    return Profile(
        base_url=endpoint.base_url, model=endpoint.model, dialect="vllm", made_at=time.time(), facts=known
    )


async def test_much_thinking_at_the_low_tier_is_told_once_counted_or_guessed() -> None:
    for reply in (thinking(9000), thinking(None, 60_000)):
        async with Conversation([reply, reply]) as talk:
            await talk.step(effort="low")
            await talk.step(effort="low")
            (notice,) = talk.notices
            assert "seems to ignore the thinking tier" in notice


async def test_much_thinking_at_a_higher_tier_and_little_at_low_are_no_news() -> None:
    async with Conversation([thinking(60_000), thinking(60_000), thinking(3000)]) as talk:
        await talk.step(effort="max")
        await talk.step(effort="high")
        await talk.step(effort="low")
        assert talk.notices == []


async def test_a_hard_cap_goes_only_to_endpoints_that_a_probe_saw_keep_it_and_leaves_room_to_answer() -> None:
    async with Conversation([completion(text="x"), thinking(2000), thinking(9000)]) as talk:
        await talk.step(effort="low")
        assert "thinking_token_budget" not in talk.bodies[0]
        talk.model.use_profile(profile_of(talk, thinking_token_budget=True))
        await talk.step(effort="high", max_output_tokens=6000)
        assert talk.bodies[1]["thinking_token_budget"] == 6000 - 4096
        await talk.step(effort="low")
        assert talk.bodies[2]["thinking_token_budget"] == 2048
        (notice,) = talk.notices
        assert "ignores the thinking budget: 9000 tokens where 2048 were allowed" in notice


async def test_thinking_that_was_switched_off_and_goes_on_is_told() -> None:
    async with Conversation([thinking(None, 500)]) as talk:
        talk.model.thinking = False
        await talk.step()
        assert len(talk.notices) == 1 and "switched off" in talk.notices[0]


async def test_what_a_probe_found_decides_how_steps_are_asked_for() -> None:
    async with Conversation([completion(text="x")] * 2) as talk:
        talk.model.use_profile(
            profile_of(
                talk, context_window=8192, tools=True, images=False, effort=False, reasoning_field="reasoning",
                thinking_budget=False, reasoning_returned="required", reasoning_input="reasoning_content",
                empty_content="empty",
            )
        )  # fmt: skip
        assert talk.model.context_window == 8192
        can = talk.model.capabilities
        assert (can.tools, can.images, can.effort, can.reasoning, can.parallel_tools) == (
            True,
            False,
            False,
            True,
            None,
        )
        from .asking import finished_round

        await talk.step(finished_round(thinking="hm", field="reasoning", source=talk.source))
        await talk.step(finished_round())
        first, second = talk.bodies
        assert first["messages"][1]["reasoning_content"] == "hm" and "reasoning" not in first["messages"][1]
        assert second["messages"][1]["reasoning_content"] == "" and second["messages"][1]["content"] == ""
        assert "thinking_budget" not in first
        assert len(talk.notices) == 1 and "does not heed the thinking tier" in talk.notices[0]
