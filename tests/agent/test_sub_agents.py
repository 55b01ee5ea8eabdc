"""A run inside a run: its own history and limits, never more than its parent's, and its failures told."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.agent.limits import MaxSteps, MaxTime, MaxTokens
from whimbrel.app.agent.loop_guard import LoopGuard
from whimbrel.app.agent.permissions import Decision, Permissions, Rule
from whimbrel.app.tools.edit import EditTool
from whimbrel.app.tools.read import ReadTool
from whimbrel.app.tools.search import SearchTool
from whimbrel.app.tools.sub_agent import SubAgentTool

from ..mock_server import Reply, Request, completion
from .scene import Scene, scene

pytestmark = pytest.mark.timeout(120)
TOOLS: list[Any] = [ReadTool(), SearchTool(), EditTool(), SubAgentTool()]


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


def in_child(request: Request) -> bool:
    return "one part of a larger job" in str(request.messages[1]["content"])


def turns(request: Request) -> int:
    return sum(message["role"] == "assistant" for message in request.messages)


def parent(request: Request, **task: Any) -> Reply:
    """Starts one sub-agent, then answers with what came of it."""
    if turns(request):
        return completion(text=f"parent saw: {request.messages[-1]['content']}", usage=(10, 1))
    return completion(calls=[("p1", "sub_agent", {"task": "find the total", **task})], usage=(10, 1))


async def test_a_sub_agent_has_its_own_history_and_its_answer_and_usage_come_back(shop: Scene) -> None:
    requests: list[Request] = []

    def script(request: Request) -> Reply:
        requests.append(request)
        if not in_child(request):
            return parent(request)
        if turns(request):
            return completion(text="It is in shop/total.py:1.", usage=(100, 5))
        return completion(calls=[("c1", "search", {"pattern": "def total"})], usage=(100, 5))

    outcome = await shop.play(script, TOOLS, limits=[LoopGuard()])
    assert "parent saw: It is in shop/total.py:1." in outcome.final_text
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens, outcome.steps) == (220, 12, 4)
    inside = [request for request in requests if in_child(request)]
    assert "it is wrong" not in json.dumps([request.messages for request in inside]), "the issue is not in it"
    offered = {tool["function"]["name"] for tool in inside[0].body["tools"]}
    assert offered == {"read", "search", "edit"}
    # The parent's history holds one call and one result; the child's part is recorded under its call.
    assert [message.role for message in shop.stored()] == ["system", "user", "assistant", "tool", "assistant"]
    kept = [event.payload for event in shop.store.events(shop.session.id) if event.kind == "sub_agent"]
    assert {one["call_id"] for one in kept} == {"p1"}
    roles = [one["event"]["role"] for one in kept if one["kind"] == "message"]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    seen = [event.data["kind"] for event in shop.of("tool_progress") if event.phase == "sub_agent"]
    assert [kind for kind in seen if kind != "usage"] == [
        "step_started", "tool_started", "tool_finished", "step_started", "run_finished",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("task", "reply", "status", "said"),
    [
        ({"max_steps": 2}, {"vary": True}, "budget", "used its 2 steps"),
        ({"max_tokens": 150}, {"vary": True}, "budget", "of 150 tokens"),
        ({}, {"vary": False}, "loop", "5 times with the same arguments"),
    ],
    ids=["steps", "tokens", "the same search again and again"],
)
async def test_a_sub_agent_that_does_not_finish_is_an_error_that_says_why(
    shop: Scene, task: dict[str, Any], reply: dict[str, Any], status: str, said: str
) -> None:
    def script(request: Request) -> Reply:
        if not in_child(request):
            return parent(request, **task)
        word = f"word{turns(request)}" if reply["vary"] else "total"
        return completion(calls=[(f"c{turns(request)}", "search", {"pattern": word})], usage=(100, 0))

    outcome = await shop.play(script, TOOLS, limits=[LoopGuard()])
    assert outcome.status == "answered", "the parent goes on"
    (_, text, is_error), *_ = shop.results()
    assert is_error and "did not finish" in text and said in text
    finished = [event for event in shop.of("tool_finished") if event.name == "sub_agent"]
    assert finished[0].data["status"] == status


async def test_a_model_that_fails_inside_is_told_and_so_is_a_tool_it_cannot_have(shop: Scene) -> None:
    def script(request: Request) -> Reply:
        if in_child(request):
            return Reply(pieces=[b'{"error": {"message": "no such model"}}'], status=404)
        return parent(request)

    await shop.play(script, TOOLS)
    (_, text, is_error), *_ = shop.results()
    assert is_error and "did not finish" in text and "no such model" in text
    await shop.play(lambda request: parent(request, tools=["read", "sub_agent"]), TOOLS)
    _, text, is_error = shop.results()[-1]
    assert is_error and "cannot have sub_agent" in text


async def test_what_it_uses_counts_into_the_limits_of_its_parent(shop: Scene) -> None:
    def script(request: Request) -> Reply:
        if not in_child(request):
            return parent(request)
        return completion(
            calls=[(f"c{turns(request)}", "search", {"pattern": f"w{turns(request)}"})], usage=(100, 0)
        )

    outcome = await shop.play(script, TOOLS, limits=[MaxTokens(450)])
    assert outcome.status == "budget" and 450 <= outcome.usage.tokens <= 600
    outcome = await shop.play(script, TOOLS, limits=[MaxSteps(4)])
    assert outcome.status == "budget" and outcome.steps == 4


async def test_it_has_the_permissions_and_the_deadline_of_its_parent(shop: Scene) -> None:
    def script(request: Request) -> Reply:
        if not in_child(request):
            return parent(request)
        if turns(request):
            return completion(text=f"child saw: {request.messages[-1]['content']}")
        edit = {"path": "shop/total.py", "old": "prices[1:]", "new": "prices"}
        return completion(calls=[("c1", "edit", edit)])

    about = shop.context.sandbox.describe()
    permissions = Permissions.for_sandbox(about, rules=[Rule(Decision.DENY, tool="edit", reason="look only")])
    before = await shop.context.workspace.snapshot()
    await shop.play(script, TOOLS, permissions=permissions)
    assert "look only" in shop.results()[0][1]
    assert await shop.context.workspace.snapshot() == before
    shop.context.deadline = time.monotonic() - 1
    outcome = await shop.play(script, TOOLS, limits=[MaxTime(60)])
    assert outcome.status == "budget", "no time is left for a sub-agent either"


async def test_a_file_it_changed_is_stale_for_its_parent(shop: Scene) -> None:
    edit = {"path": "shop/total.py", "old": "prices[1:]", "new": "prices"}

    def script(request: Request) -> Reply:
        if in_child(request):
            return completion(text="done") if turns(request) else completion(calls=[("c1", "edit", edit)])
        steps = [
            [("p1", "read", {"path": "shop/total.py"})],
            [("p2", "sub_agent", {"task": "repair it"})],
            [("p3", "edit", {**edit, "old": "result = 0", "new": "result = 1"})],
        ]
        return completion(calls=steps[turns(request)]) if turns(request) < 3 else completion(text="over")

    await shop.play(script, TOOLS)
    call, text, is_error = shop.results()[-1]
    assert call == "p3" and is_error and "has changed on disk" in text and "in prices:" in text
