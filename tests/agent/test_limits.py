"""Runs that must end: budgets, time, loops; and batch work, which must not be taken for one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from whimbrel.app.agent.limits import Limit, MaxCost, MaxSteps, MaxTime, MaxTokens
from whimbrel.app.agent.loop import AgentOutcome
from whimbrel.app.agent.loop_guard import LoopGuard, RepetitionDetector, smallest_period
from whimbrel.app.tools.base import PermissionClass, ToolContext, ToolResult
from whimbrel.app.tools.edit import EditTool
from whimbrel.app.tools.run_tests import RunTestsTool
from whimbrel.app.tools.search import SearchTool

from ..mock_server import Pause, Reply, Request, chunk, completion, stream
from .scene import Echo, PathArguments, Scene, scene, tool

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


def endless(name: str, *arguments: object) -> Iterator[Reply]:
    """Calls the tool in every step, cycling through the arguments."""
    number = 0
    while True:
        number += 1
        yield completion(calls=[(f"c{number}", name, arguments[(number - 1) % len(arguments)])])


async def run_endless(
    shop: Scene, replies: Iterator[Reply], *limits: Limit, tools: list[object]
) -> AgentOutcome:
    def script(_: Request) -> Reply:
        return next(replies)

    return await shop.play(script, tools, limits=limits)  # pyright: ignore[reportArgumentType]


def ended(outcome: AgentOutcome) -> tuple[str, int]:
    assert outcome.error is not None
    return outcome.status, outcome.error.exit_code


async def test_the_step_limit_ends_a_run_with_its_own_exit_code(shop: Scene) -> None:
    replies = (completion(calls=[(f"c{n}", "read", {"path": f"file{n}"})]) for n in range(100))
    outcome = await run_endless(shop, replies, MaxSteps(4), LoopGuard(), tools=[Echo()])
    assert ended(outcome) == ("budget", 6) and outcome.steps == 4
    assert [event.limit for event in shop.of("limit_reached")] == ["budget"]
    assert len(shop.results()) == 4


async def test_the_time_limit_cuts_a_model_that_does_not_answer(shop: Scene) -> None:
    release = threading.Event()
    try:
        outcome = await shop.play(
            [Reply(pieces=[chunk({"content": "thinking about"}), Pause(release)])],
            [Echo()],
            limits=[MaxTime(0.5)],
        )
    finally:
        release.set()
    assert ended(outcome) == ("budget", 6)
    kept = [event for event in shop.store.events(shop.session.id) if event.kind == "partial_step"]
    assert kept[0].payload["parts"][0]["text"] == "thinking about"


async def test_the_deadline_reaches_tools_and_one_that_ignores_it_is_cancelled(
    shop: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whimbrel.app.agent.tool_calls.DEADLINE_GRACE_S", 0.2)
    seen: list[float | None] = []

    async def stubborn(context: ToolContext, _: PathArguments) -> ToolResult:
        seen.append(context.deadline)
        await asyncio.sleep(3600)
        return ToolResult("never")

    before = time.monotonic()
    calls = [("a", "edit", {"path": "x"}), ("b", "edit", {"path": "y"})]
    outcome = await shop.play(
        [completion(calls=calls)], [tool("edit", stubborn, PermissionClass.WRITE)], limits=[MaxTime(0.5)]
    )
    assert ended(outcome) == ("budget", 6)
    assert len(seen) == 1 and seen[0] is not None and before < seen[0] < time.monotonic()
    assert [call for call, _, error in shop.results() if error] == ["a", "b"]


async def test_an_earlier_deadline_of_the_context_wins(shop: Scene) -> None:
    shop.context.deadline = time.monotonic() - 1
    outcome = await shop.play([completion(text="late")], [Echo()], limits=[MaxTime(3600)])
    assert ended(outcome) == ("budget", 6)


async def test_the_token_limit_counts_reported_tokens(shop: Scene) -> None:
    replies = (completion(calls=[(f"c{n}", "read", {"path": str(n)})], usage=(900, 100)) for n in range(9))
    outcome = await run_endless(shop, replies, MaxTokens(2500), tools=[Echo()])
    assert ended(outcome) == ("budget", 6)
    assert outcome.steps == 3 and outcome.usage.tokens == 3000


async def test_tokens_are_estimated_where_the_endpoint_is_silent(shop: Scene) -> None:
    replies = (completion(calls=[(f"c{n}", "read", {"path": str(n)})], usage=None) for n in range(99))
    outcome = await run_endless(shop, replies, MaxTokens(5000), tools=[Echo()])
    assert ended(outcome) == ("budget", 6)
    assert outcome.usage.input_tokens is None
    assert outcome.usage.steps_without_usage == outcome.steps and outcome.usage.estimated_tokens >= 5000


async def test_the_cost_limit_uses_prices_or_says_that_it_cannot_hold(shop: Scene) -> None:
    replies = (completion(calls=[(f"c{n}", "read", {"path": str(n)})], usage=(1000, 0)) for n in range(9))
    priced = await run_endless(
        shop, replies, MaxCost(0.0025, input_price=1.0, output_price=2.0), tools=[Echo()]
    )
    assert ended(priced) == ("budget", 6) and priced.steps == 3
    unpriced = [
        completion(calls=[("a", "read", {"path": "x"})]),
        completion(calls=[("b", "read", {"path": "y"})]),
    ]
    outcome = await shop.play([*unpriced, completion(text="done")], [Echo()], limits=[MaxCost(0.01)])
    assert outcome.status == "answered"
    assert [event.text for event in shop.of("notice")] == [
        "the endpoint reports no cost and no prices are set: the cost limit cannot hold"
    ]


# ------------------------------------------------------------------ loops


async def test_the_same_search_again_and_again_is_remarked_on_and_then_stopped(shop: Scene) -> None:
    outcome = await run_endless(
        shop, endless("search", {"pattern": "total"}), LoopGuard(), tools=[SearchTool()]
    )
    assert ended(outcome) == ("loop", 7)
    assert outcome.steps == 5
    texts = [text for _, text, _ in shop.results()]
    assert "do something else" not in texts[1] and "do something else" in texts[2]


async def test_two_calls_in_turns_are_a_loop_too(shop: Scene) -> None:
    replies = endless("read", {"path": "a"}, {"path": "b"})
    outcome = await run_endless(shop, replies, LoopGuard(), MaxSteps(50), tools=[Echo()])
    assert ended(outcome) == ("loop", 7) and outcome.steps <= 10


async def test_the_same_successful_write_ten_times_is_stopped(shop: Scene) -> None:
    count = 0

    async def write(_: ToolContext, arguments: PathArguments) -> ToolResult:
        nonlocal count
        count += 1
        return ToolResult(f"wrote {arguments.path}, version {count}")

    tools: list[object] = [tool("edit", write, PermissionClass.WRITE)]
    outcome = await run_endless(shop, endless("edit", {"path": "x"}), LoopGuard(), tools=tools)
    assert ended(outcome) == ("loop", 7) and count == 5


async def test_a_storm_of_calls_to_a_tool_that_is_not_there_is_stopped(shop: Scene) -> None:
    replies = (completion(calls=[(f"c{n}", "todo", {"items": [f"item {n}"]})]) for n in range(100))
    outcome = await run_endless(shop, replies, LoopGuard(), MaxSteps(50), tools=[Echo()])
    assert ended(outcome) == ("loop", 7) and outcome.steps == 12


async def test_a_storm_of_notes_that_change_nothing_is_stopped(shop: Scene) -> None:
    async def note(_: ToolContext, __: PathArguments) -> ToolResult:
        return ToolResult("noted")

    replies = (completion(calls=[(f"c{n}", "read", {"path": f"item {n}"})]) for n in range(100))
    outcome = await run_endless(shop, replies, LoopGuard(), MaxSteps(50), tools=[tool("read", note)])
    assert ended(outcome) == ("loop", 7) and outcome.steps == 12


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
async def test_a_sentence_streamed_five_hundred_times_is_cut_while_it_streams(
    shop: Scene, field: str
) -> None:
    sentence = "I should look at the file again to be sure. "
    sent = threading.Event()
    endless_stream = stream(*[chunk({field: sentence})] * 500, Pause(sent), done=False)
    try:
        outcome = await shop.play([endless_stream], [Echo()], limits=[LoopGuard()])
    finally:
        sent.set()
    assert ended(outcome) == ("loop", 7)
    seen = "".join(event.text for event in shop.events if event.kind in ("text_delta", "reasoning_delta"))
    assert len(seen) < len(sentence) * 150


async def test_reading_forty_files_one_by_one_is_no_loop(shop: Scene) -> None:
    replies = [completion(calls=[(f"c{n}", "read", {"path": f"file{n}"})]) for n in range(40)]
    outcome = await shop.play([*replies, completion(text="read all")], [Echo()], limits=[LoopGuard()])
    assert outcome.status == "answered"


async def test_the_same_tests_after_every_edit_are_no_loop(shop: Scene) -> None:
    replies: list[Reply] = []
    for number in range(6):
        edit = {"path": f"notes{number}.txt", "old": "", "new": "x\n"}
        calls = [
            (f"e{number}", "edit", edit),
            (f"t{number}", "run_tests", {"tests": ["tests/test_total.py::test_sum"]}),
        ]
        replies.append(completion(calls=calls))
    outcome = await shop.play(
        [*replies, completion(text="gave up")], [EditTool(), RunTestsTool()], limits=[LoopGuard()]
    )
    assert outcome.status == "answered", outcome.error
    assert len(shop.context.ledger.rows) == 6


def test_long_but_lively_text_is_not_taken_for_repetition() -> None:
    detector = RepetitionDetector(3000)
    table = "".join(f"| {n} | value {n * 7 % 13} | yes |\n" for n in range(2000))
    assert not any(detector.feed(table[start : start + 50]) for start in range(0, len(table), 50))


def test_a_long_unit_counts_only_after_eight_repeats() -> None:
    unit = "".join(chr(97 + n * n % 26) for n in range(399)) + "#"
    fed = RepetitionDetector(3200)
    assert not any(fed.feed(unit) for _ in range(7))
    assert any(fed.feed(unit) for _ in range(8))


@pytest.mark.parametrize(("text", "period"), [("abcabcab", 3), ("aaaa", 1), ("abcd", 4), ("aab" * 5, 3)])
def test_the_smallest_period(text: str, period: int) -> None:
    assert smallest_period(text) == period
