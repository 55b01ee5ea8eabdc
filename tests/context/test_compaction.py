"""Long conversations in small windows: they end right, the goal stays, nothing is lost or done twice."""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.agent.history import History
from whimbrel.app.agent.prompts import opening
from whimbrel.app.context.facts import Facts
from whimbrel.app.context.view import ViewPlan, last_plan, render
from whimbrel.app.tools.base import PermissionClass, ToolContext, ToolResult
from whimbrel.app.tools.registry import default_tools
from whimbrel.engine.chat import ImagePart, Message, TextPart, ToolCallPart, ToolResultPart, user
from whimbrel.engine.models import load_model
from whimbrel.engine.remote.wire import estimate_tokens

from ..agent.scene import PathArguments, Scene, scene, tool
from ..mock_server import MockServer, Request, completion, error, every_call_answered, reasoning_replayed
from .window import Windowed, asks_for_summary

GOAL = "the totals are wrong: GOAL-7311"


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


@pytest.fixture(autouse=True)
def window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHIMBREL_CONTEXT_WINDOW", "16000")


def reading(
    size: int, permission: PermissionClass = PermissionClass.READ, name: str = "read"
) -> tuple[Any, list[str]]:
    """A tool that answers with so many characters, and the paths it was asked for."""
    seen: list[str] = []

    async def action(_: ToolContext, arguments: PathArguments) -> ToolResult:
        seen.append(arguments.path)
        return ToolResult((f"{arguments.path} holds this line\n" * (size // 20))[:size])

    return tool(name, action, permission), seen


def rounds(count: int, final: str = "all read", name: str = "read") -> Any:
    def work(number: int, _: Request) -> dict[str, Any]:
        if number >= count:
            return {"text": final}
        call = (f"c{number}", name, {"path": f"file{number}"})
        return {"reasoning": f"think {number}", "reasoning_field": "reasoning", "calls": [call]}

    return work


async def test_hundreds_of_large_results_in_a_16k_window_end_right_and_the_whole_record_is_kept(
    shop: Scene,
) -> None:
    server = Windowed(16_000, rounds(200))
    read, seen = reading(6000)
    outcome = await shop.play(server, [read], issue=GOAL, validators=[reasoning_replayed("reasoning")])
    assert outcome.status == "answered" and outcome.final_text == "all read", outcome.error
    assert not server.refused
    # What is not shown any more has left memory.
    gc.collect()
    assert sum(isinstance(each, Message) for each in gc.get_objects()) < 100
    assert seen == [f"file{number}" for number in range(200)]
    for request in server.work_requests:
        assert GOAL in request.messages[1]["content"] and request.messages[0]["role"] == "system"
    stored = shop.stored()
    assert len(stored) == 2 + 2 * 200 + 1
    assert all(len(text) == 6000 for _, text, _ in shop.results())
    events = [(event.kind, event.payload) for event in shop.store.events(shop.session.id)]
    compacted = [payload for kind, payload in events if kind == "context_compacted"]
    assert len(compacted) == len(shop.of("context_compacted")) >= 10
    assert all(each["after_tokens"] < 0.6 * each["before_tokens"] for each in compacted)
    # What was shown at the end can be made again from the record alone.
    shown = render(stored[:-1], last_plan(events), shop.session.keep)
    last = server.work_requests[-1].messages
    assert [message.text() for message in shown[:2]] == [message["content"] for message in last[:2]]
    assert len(shown) == len(last)
    # The tokens of summaries were paid for and are counted.
    assert outcome.usage.steps_without_usage == 0
    assert outcome.steps == 201


async def test_a_request_is_a_byte_for_byte_prefix_of_the_next_one_until_the_view_is_compacted(
    shop: Scene,
) -> None:
    server = Windowed(16_000, rounds(24))
    await shop.play(server, [reading(4000)[0]], issue=GOAL)
    breaks = 0
    for earlier, later in pairwise(server.work_requests):
        assert json.dumps(earlier.body["tools"]) == json.dumps(later.body["tools"])
        assert list(earlier.body) == list(later.body)
        head = json.dumps(earlier.messages)[:-1]
        breaks += not json.dumps(later.messages).startswith(head)
    assert breaks == len(shop.of("context_compacted")) > 0


async def test_the_work_per_turn_does_not_grow_each_message_is_counted_once(
    shop: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHIMBREL_CONTEXT_WINDOW", "1000000")
    counted: list[int] = []

    def counting(history: Any, tools: Any) -> int:
        counted.append(len(history))
        return estimate_tokens(history, tools)

    monkeypatch.setattr("whimbrel.engine.remote.client.estimate_tokens", counting)
    await shop.play(Windowed(1_000_000, rounds(60)), [reading(500)[0]], issue=GOAL)
    assert sum(counted) <= len(shop.stored())


async def test_tool_output_that_was_not_sent_yet_counts_and_the_answer_keeps_its_room(shop: Scene) -> None:
    # The first results fill the window almost; the next one would not fit any more.
    sizes = iter([15_000, 14_000, 11_000, 1_000])

    async def action(_: ToolContext, arguments: PathArguments) -> ToolResult:
        return ToolResult("x = 1\n" * (next(sizes) // 6))

    server = Windowed(16_000, rounds(4))
    outcome = await shop.play(server, [tool("read", action)], issue=GOAL)
    assert outcome.status == "answered" and not server.refused
    assert shop.of("context_compacted")[0].reason == "threshold"
    assert all(request.body["max_tokens"] >= 1000 for request in server.work_requests)


async def test_one_result_larger_than_the_window_is_cut_to_its_handle_and_can_be_read_again(
    shop: Scene,
) -> None:
    async def action(_: ToolContext, arguments: PathArguments) -> ToolResult:
        return ToolResult("first line\n" + "é😀 wide\n" * 9000 + "last line")

    server = Windowed(16_000, rounds(1))
    outcome = await shop.play(server, [tool("read", action)], issue=GOAL)
    assert outcome.status == "answered" and not server.refused and not server.summary_requests
    shown = server.work_requests[-1].messages[-1]["content"]
    assert shown.startswith("first line") and shown.endswith("last line")
    handle = shown.split("artifact:")[1].split()[0]
    assert shop.session.fetch(handle).decode().count("wide") == 9000
    json.dumps(server.work_requests[-1].messages, ensure_ascii=False).encode()  # no lone surrogates


@pytest.mark.parametrize(
    ("summary", "asked", "problem"),
    [
        pytest.param({"text": "word " * 12_000}, 2, "cut short", id="as long as its input"),
        pytest.param(completion(text="word " * 8_000), 2, "too long", id="limit ignored by the server"),
        pytest.param({"text": "cut", "finish": "length"}, 2, "cut short", id="always cut"),
        pytest.param({"text": "", "reasoning": "hm"}, 2, "no summary", id="empty"),
        pytest.param(
            {"calls": [("again", "bash", {"path": "file0"})]}, 2, "no summary", id="calls a tool instead"
        ),
        pytest.param(error(400, {"error": {"message": "not today"}}), 1, "could not be asked", id="refused"),
    ],
)
async def test_a_summary_that_does_not_work_is_asked_for_at_most_once_more_and_then_old_results_are_cut(
    shop: Scene, summary: Any, asked: int, problem: str
) -> None:
    server = Windowed(16_000, rounds(8, name="bash"), lambda number, request: summary)
    run, seen = reading(6000, PermissionClass.EXECUTE, "bash")
    outcome = await shop.play(server, [run], issue=GOAL)
    assert outcome.status == "answered" and not server.refused
    assert seen == [f"file{number}" for number in range(8)]
    compacted = shop.of("context_compacted")
    assert compacted[0].method == "trimmed" and problem in compacted[0].text
    assert len(server.summary_requests) <= asked * len(compacted)
    first_cut = next(
        message["content"]
        for message in server.work_requests[-1].messages
        if message["role"] == "tool" or "WERE RUN" in str(message["content"])
    )
    assert "artifact:" in first_cut or "WERE RUN" in first_cut


async def test_a_summary_that_was_cut_is_asked_for_again_with_more_room(shop: Scene) -> None:
    text = "FOUND: the loop starts at one. " * 40

    def summary(number: int, request: Request) -> dict[str, Any]:
        return {"text": text} if number else {"text": text[:50], "finish": "length"}

    server = Windowed(16_000, rounds(8), summary)
    await shop.play(server, [reading(6000)[0]], issue=GOAL)
    first, second = server.summary_requests[:2]
    assert second.body["max_tokens"] > first.body["max_tokens"] >= 1024
    assert "low" in str(first.body) and "tools" not in first.body
    assert text.strip() in server.work_requests[-1].messages[1]["content"]
    assert shop.of("context_compacted")[0].method == "summary"


async def test_nothing_is_run_again_by_a_compaction_and_the_open_round_stays_whole(shop: Scene) -> None:
    run, seen = reading(9000, PermissionClass.EXECUTE, "bash")
    server = Windowed(16_000, rounds(6, name="bash"))
    outcome = await shop.play(server, [run], issue=GOAL, validators=[reasoning_replayed("reasoning")])
    assert outcome.status == "answered"
    assert seen == [f"file{number}" for number in range(6)]
    last = server.work_requests[-1].messages
    assert last[-2]["reasoning"] == "think 5" and last[-2]["tool_calls"][0]["id"] == "c5"
    assert last[-1]["tool_call_id"] == "c5"
    summary = last[1]["content"]
    assert "WERE RUN" in summary and '{"path": "file0"}' in summary and "NOTES" in summary


async def test_files_are_named_with_their_present_state(shop: Scene) -> None:
    async def action(context: ToolContext, arguments: PathArguments) -> ToolResult:
        data = context.workspace.read("shop/total.py") if hasattr(context.workspace, "read") else b""
        return ToolResult("y" * 9000, {"path": arguments.path, "sha256": "0" * 64, "bytes": len(data)})

    def work(number: int, _: Request) -> dict[str, Any]:
        names = ["shop/total.py", "gone.py", "shop/__init__.py", "shop/total.py", "shop/total.py"]
        if number >= len(names):
            return {"text": "done"}
        return {"calls": [(f"c{number}", "read", {"path": names[number]})]}

    server = Windowed(16_000, work)
    await shop.play(server, [tool("read", action)], issue=GOAL)
    summary = server.work_requests[-1].messages[1]["content"]
    assert "- gone.py: read, no longer there" in summary
    assert "- shop/total.py: read, sha256 " in summary and "CHANGED since it was last seen" in summary


def test_the_plan_and_what_the_person_said_later_survive_word_for_word() -> None:
    facts = Facts()
    call = ToolCallPart(id="p", name="todo", arguments="{}")
    result = ToolResultPart(call_id="p", name="todo", text="[ ] step SEVEN")
    facts.take(
        [
            user("and keep the old names"),
            Message(role="assistant", parts=(call,)),
            Message(role="tool", parts=(result,)),
            user("x" * 20_000),
        ]
    )
    text = facts.text(lambda _: None)
    assert "[ ] step SEVEN" in text and len(text) < 8000
    assert "WERE RUN" not in text or "only looked" in text
    facts.said.pop()
    assert "and keep the old names" in facts.text(lambda _: None)


async def test_a_refusal_teaches_the_window_and_is_answered_by_one_compaction(
    shop: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WHIMBREL_CONTEXT_WINDOW")
    server = Windowed(9_000, rounds(30))
    outcome = await shop.play(server, [reading(6000)[0]], issue=GOAL)
    assert outcome.status == "answered", outcome.error
    assert len(server.refused) == 1
    assert shop.of("context_compacted")[0].reason == "overflow"
    windows = [step.window for step in shop.of("step_started")]
    assert (windows[0], windows[-1]) == (None, 9_000)
    assert (
        "max_tokens" not in server.work_requests[0].body and server.work_requests[-1].body["max_tokens"] > 500
    )


async def test_a_server_that_refuses_again_ends_the_run_with_its_error(
    shop: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WHIMBREL_CONTEXT_WINDOW")
    full = error(400, {"error": {"message": "the request exceeds the available context size"}})
    work: list[Request] = []

    def script(request: Request) -> Any:
        if asks_for_summary(request):
            return completion(text="NOTES")
        work.append(request)
        return (
            completion(calls=[(f"c{len(work)}", "read", {"path": f"f{len(work)}"})])
            if len(work) < 6
            else full
        )

    outcome = await shop.play(script, [reading(6000)[0]], issue=GOAL)
    assert outcome.status == "model_error" and "context overflow" in str(outcome.error)
    assert len(work) == 7 and len(json.dumps(work[6].messages)) < len(json.dumps(work[5].messages)) / 2


async def test_a_window_of_4096_tokens_with_the_tools_for_it_still_ends_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHIMBREL_CONTEXT_WINDOW", "4096")
    files = {f"file{number}": "some line of text\n" * 400 for number in range(12)}
    async with scene(tmp_path, files) as small:
        server = Windowed(4096, rounds(12))
        outcome = await small.play(server, default_tools(window=4096), issue=GOAL)
        assert outcome.status == "answered" and outcome.steps == 13 and not server.refused
        assert all(GOAL in request.messages[1]["content"] for request in server.work_requests)


async def test_lone_surrogates_of_an_issue_or_a_summary_are_never_sent(shop: Scene) -> None:
    server = Windowed(16_000, rounds(8), lambda *_: {"text": "cut here: \ud83d"})
    outcome = await shop.play(server, [reading(6000)[0]], issue=f"{GOAL} \udcff \ud83d\ude00")
    assert outcome.status == "answered" and "😀" in server.work_requests[-1].messages[1]["content"]
    for request in [*server.work_requests, *server.summary_requests]:
        json.dumps(request.body, ensure_ascii=False).encode()


async def test_images_never_reach_the_summariser_and_leave_with_what_is_left_out(shop: Scene) -> None:
    image = ImagePart(media_type="image/png", data_base64="iVBORw0KGgo=")
    shown = [
        Message(role="user", parts=(TextPart(text="this is how it looks"), image)),
        Message(role="assistant", parts=(TextPart(text="I see."),)),
        Message(role="user", parts=(TextPart(text="and now go on"),)),
    ]
    answered = Message(role="assistant", parts=(TextPart(text="What is wrong?"),))

    def text_only(request: Request) -> str | None:
        seen = "image_url" in json.dumps(request.messages)
        return "this model takes no images" if seen and asks_for_summary(request) else None

    server = Windowed(16_000, rounds(10))
    with MockServer(server, validators=[every_call_answered, text_only]) as mock:
        model = load_model(mock.model(), environ={})
        agent = shop.make(model, [reading(6000)[0]])
        outcome = await agent.run([*opening(GOAL), answered, *shown])
        await model.close()
    assert outcome.status == "answered" and shop.of("context_compacted")[0].method == "summary"
    assert "image_url" in json.dumps(server.work_requests[0].messages)
    assert "image_url" not in json.dumps(server.work_requests[-1].messages)
    assert "this is how it looks" in server.work_requests[-1].messages[1]["content"]
    assert "[image]" in server.summary_requests[0].messages[1]["content"]


async def test_a_compaction_can_be_undone_and_what_left_memory_comes_back(shop: Scene) -> None:
    history = History(shop.session, [user("goal"), *(user(f"message {number}") for number in range(50))])
    whole = list(history.view)
    history.compact(ViewPlan(head=1, tail=48, summary="short"))
    assert history.view[0].text() == "goal\n\nshort" and len(history.view) == 4
    assert history.messages.in_memory == 4 and len(history.messages) == 51
    history.append(user("later"))
    assert history.undo() and not history.undo()
    assert history.view == [*whole, user("later")]
    kinds = [(event.kind, event.payload) for event in shop.store.events(shop.session.id)]
    assert last_plan(kinds) == ViewPlan() and kinds[-1][0] == "context_restored"
