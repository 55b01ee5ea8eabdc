"""What may run, who is asked, and what happens when the answer is no."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.agent.events import PermissionAnswer, PermissionRequest
from whimbrel.app.agent.permissions import Decision, Permissions, Rule
from whimbrel.app.tools.base import PermissionClass, ToolContext, ToolResult
from whimbrel.sandbox.protocol import SandboxDescription

from ..mock_server import completion
from .scene import Echo, PathArguments, Scene, scene, tool

ISOLATED = SandboxDescription(kind="bwrap", isolated=True)
HOST = SandboxDescription(kind="host", isolated=False)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


async def done(_: ToolContext, arguments: PathArguments) -> ToolResult:
    return ToolResult(f"did {arguments.path}")


READ = Echo()
WRITE = tool("edit", done, PermissionClass.WRITE)
RUN = tool("bash", done, PermissionClass.EXECUTE)
FETCH = tool("search", done, PermissionClass.NETWORK)


@pytest.mark.parametrize(
    ("description", "chosen", "decisions"),
    [
        (ISOLATED, True, "allow allow allow ask"),
        (HOST, True, "allow allow allow ask"),
        (HOST, False, "allow allow ask ask"),
    ],
)
def test_defaults_follow_the_sandbox(description: SandboxDescription, chosen: bool, decisions: str) -> None:
    permissions = Permissions.for_sandbox(description, chosen=chosen)
    verdicts = [permissions.decide(one, {"path": "x"}) for one in (READ, WRITE, RUN, FETCH)]
    assert " ".join(verdict.decision.value for verdict in verdicts) == decisions


def test_deny_beats_ask_beats_allow_whatever_their_order() -> None:
    rules = [
        Rule(Decision.ALLOW, tool="edit"),
        Rule(Decision.ASK, permission=PermissionClass.WRITE, subject="docs/*"),
        Rule(Decision.DENY, subject="*.lock", reason="lock files are generated"),
    ]
    permissions = Permissions.for_sandbox(ISOLATED, rules=rules)
    assert permissions.decide(WRITE, {"path": "src/a.py"}).decision is Decision.ALLOW
    assert permissions.decide(WRITE, {"path": "docs/a.md"}).decision is Decision.ASK
    verdict = permissions.decide(WRITE, {"path": "docs/poetry.lock"})
    assert (verdict.decision, verdict.reason) == (Decision.DENY, "lock files are generated")


@pytest.mark.parametrize(
    "command",
    ["git log; touch x", "git log && touch x", "git log $(touch x)", "git log > x", "git log\ntouch x"],
)
def test_an_allowed_command_does_not_carry_others_with_it(command: str) -> None:
    rules = [Rule(Decision.ALLOW, tool="bash", subject="git log*")]
    permissions = Permissions.for_sandbox(HOST, rules=rules, chosen=False)
    assert permissions.decide(RUN, {"command": "git log --oneline"}).decision is Decision.ALLOW
    assert permissions.decide(RUN, {"command": command}).decision is Decision.ASK


async def test_a_question_with_nobody_to_ask_is_a_denial_and_ends_the_run_with_its_own_code(
    shop: Scene,
) -> None:
    replies = [
        completion(calls=[(f"c{n}", "search", {"path": f"https://example.invalid/{n}"})]) for n in range(9)
    ]
    outcome = await shop.play(replies, [FETCH])
    assert outcome.status == "denied" and outcome.error is not None and outcome.error.exit_code == 5
    assert "nobody is there to ask" in outcome.error.one_line()
    assert outcome.steps == 2
    assert shop.of("tool_started") == [] and shop.of("permission_asked") == []
    assert all(error and text.startswith("not allowed") for _, text, error in shop.results())


async def test_an_answer_after_nothing_was_allowed_is_no_success(shop: Scene) -> None:
    outcome = await shop.play(
        [completion(calls=[("a", "search", {"path": "u"})]), completion(text="sorry")], [FETCH]
    )
    assert outcome.status == "denied" and outcome.denied == (
        "it reaches outside the sandbox, and nobody is there to ask",
    )


async def test_a_model_that_finds_another_way_goes_on(shop: Scene) -> None:
    calls = [("a", "search", {"path": "u"}), ("b", "read", {"path": "x"})]
    outcome = await shop.play([completion(calls=calls), completion(text="done")], [FETCH, Echo()])
    assert outcome.status == "answered" and len(outcome.denied) == 1


async def test_a_person_is_asked_once_and_their_answer_remembered_for_exactly_that(shop: Scene) -> None:
    asked: list[PermissionRequest] = []

    async def ask(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request)
        return PermissionAnswer(allowed=True, remember=True)

    def call(call_id: str, path: str) -> Any:
        return completion(calls=[(call_id, "search", {"path": path})])

    outcome = await shop.play(
        [call("a", "one"), call("b", "one"), call("c", "two"), completion(text="done")], [FETCH], ask=ask
    )
    assert outcome.status == "answered"
    assert [(request.subject, request.permission) for request in asked] == [
        ("one", "network"),
        ("two", "network"),
    ]
    texts = [text.splitlines() for _, text, _ in shop.results()]
    assert [lines[1] for lines in texts] == ["did one", "did one", "did two"]
    assert all(lines[0].startswith("<<<WEB ") for lines in texts)
    assert [event.kind for event in shop.events if event.kind.startswith("permission")] == [
        "permission_asked",
        "permission_answered",
    ] * 2


async def test_a_refusal_is_told_to_the_model_in_the_persons_words(shop: Scene) -> None:
    async def ask(_: PermissionRequest) -> PermissionAnswer:
        return PermissionAnswer(allowed=False, note="use the local mirror")

    calls = [("a", "search", {"path": "u"}), ("b", "read", {"path": "x"})]
    await shop.play([completion(calls=calls), completion(text="ok")], [FETCH, Echo()], ask=ask)
    assert "use the local mirror" in shop.results()[0][1]


@pytest.mark.parametrize("description", [HOST, ISOLATED])
def test_a_very_long_command_is_asked_about_whatever_allows_it(description: SandboxDescription) -> None:
    rules = [Rule(Decision.ALLOW, tool="bash", subject="git log*")]
    permissions = Permissions.for_sandbox(description, rules=rules)
    short, long = "git log " + "x" * 9_000, "git log " + "x" * 12_000
    assert permissions.decide(RUN, {"command": short}).decision is Decision.ALLOW
    verdict = permissions.decide(RUN, {"command": long})
    assert verdict.decision is Decision.ASK and "12008 characters" in verdict.reason
