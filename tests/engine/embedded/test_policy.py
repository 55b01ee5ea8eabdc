"""The embedded model drives whole runs through the ChatModel protocol, from the history alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from whimbrel.engine.chat import (
    Finished,
    Message,
    TextDelta,
    TextPart,
    ToolCallEnd,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    user,
)
from whimbrel.engine.embedded import EmbeddedModel


def spec(name: str, *properties: str) -> ToolSpec:
    return ToolSpec(name, name, {"type": "object", "properties": {each: {} for each in properties}})


TOOLS = [
    spec("run_tests", "tests"),
    spec("locate", "tests"),
    spec("read", "path", "start", "end"),
    spec("repair", "tests"),
]
FAILING = {
    "counts": {"failed": 1, "passed": 3},
    "exit_code": 1,
    "complete": True,
    "tests": [{"id": "tests/test_a.py::test_x", "outcome": "failed"}],
    "collection_errors": [],
    "flaky": [],
}
GREEN = {**FAILING, "counts": {"passed": 4}, "exit_code": 0, "tests": []}
LOCATED = {
    "locations": [{"path": "a.py", "function": "f", "line": 40, "end_line": 41, "score": 1, "reasons": []}]
}
PATCH = {
    "diff": "",
    "path": "a.py",
    "line": 40,
    "family": "comparison",
    "explanation": "`f` in a.py compared with the wrong operator: line 40 was `a < b` and is now `a <= b`. "
    "The test tests/test_a.py::test_x saw it: AssertionError.",
    "verified": True,
    "ledger_rows": [7],
}
REPAIRED = {
    "status": "fixed",
    "limit": None,
    "candidates_tried": 5,
    "candidates_generated": 90,
    "patches": [PATCH],
    "alternatives": [],
    "phases": {},
}


class Conversation:
    """Plays the loop's part: asks the model, answers its calls from a script, keeps the history."""

    def __init__(self, issue: str = "It is broken.", tools: list[ToolSpec] | None = None) -> None:
        self.history: list[Message] = [user(issue)]
        self.tools = TOOLS if tools is None else tools
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def step(self) -> tuple[str, ToolCallPart | None]:
        text, call, finished = "", None, None
        async for event in EmbeddedModel().stream(self.history, self.tools):
            assert finished is None, "nothing comes after the end"
            if isinstance(event, TextDelta):
                text += event.text
            elif isinstance(event, ToolCallEnd):
                call = ToolCallPart(id=event.id, name=event.name, arguments=event.arguments)
            elif isinstance(event, Finished):
                finished = event.reason
        assert finished == ("tool_calls" if call else "stop")
        parts = (TextPart(text=text), call) if call else (TextPart(text=text),)
        self.history.append(Message(role="assistant", parts=parts))
        return text, call

    async def play(self, script: Mapping[str, list[Any]]) -> str:
        """Runs to the final answer; a string in the script stands for a tool error."""
        left = {name: list(results) for name, results in script.items()}
        for _ in range(20):
            text, call = await self.step()
            if call is None:
                return text
            self.calls.append((call.name, json.loads(call.arguments)))
            result = left[call.name].pop(0)
            failed = isinstance(result, str)
            part = ToolResultPart(
                call_id=call.id,
                name=call.name,
                text=result if failed else "text that no program reads",
                data=None if failed else result,
                is_error=failed,
            )
            self.history.append(Message(role="tool", parts=(part,)))
        raise AssertionError("the policy never came to an end")

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


async def test_a_fix_goes_through_tests_locate_read_repair_tests_and_ends_in_the_explanation():
    talk = Conversation()
    answer = await talk.play(
        {"run_tests": [FAILING, GREEN], "locate": [LOCATED], "read": [{"lines": []}], "repair": [REPAIRED]}
    )
    assert talk.names() == ["run_tests", "locate", "read", "repair", "run_tests"]
    assert answer == PATCH["explanation"]
    assert dict(talk.calls[1:3]) == {
        "locate": {"tests": ["tests/test_a.py::test_x"]},
        "read": {"path": "a.py", "start": 28, "end": 53},
    }


async def test_arguments_that_a_tool_does_not_know_are_not_sent():
    talk = Conversation(tools=[spec("run_tests"), spec("locate"), spec("read", "path"), spec("repair")])
    await talk.play(
        {"run_tests": [FAILING, GREEN], "locate": [LOCATED], "read": [{"lines": []}], "repair": [REPAIRED]}
    )
    assert talk.calls[1:4] == [("locate", {}), ("read", {"path": "a.py"}), ("repair", {})]


async def test_the_same_history_gives_the_same_step():
    talk = Conversation()
    first = [event async for event in EmbeddedModel().stream(talk.history, talk.tools)]
    second = [event async for event in EmbeddedModel().stream(talk.history, talk.tools)]
    assert first == second


async def test_passing_tests_and_an_issue_are_reported_as_not_reproduced():
    talk = Conversation("Rounding is wrong for negative numbers.")
    answer = await talk.play({"run_tests": [GREEN]})
    assert answer.startswith("Not reproduced")
    assert "4 tests ran, none failed" in answer


async def test_passing_tests_without_an_issue_leave_nothing_to_fix():
    answer = await Conversation("").play({"run_tests": [GREEN]})
    assert answer == "Nothing to fix: 4 tests ran and none failed."


async def test_a_flaky_failure_is_not_repaired():
    flaky = {**FAILING, "flaky": ["tests/test_a.py::test_x"]}
    talk = Conversation()
    answer = await talk.play({"run_tests": [flaky]})
    assert talk.names() == ["run_tests"]
    assert "flaky" in answer and "tests/test_a.py::test_x" in answer


async def test_no_tests_at_all_are_said_to_be_none():
    none = {**GREEN, "counts": {}}
    assert (await Conversation("x").play({"run_tests": [none]})).startswith(
        "Not reproduced: no tests were found"
    )


async def test_a_run_cut_short_is_not_taken_for_green():
    cut = {**GREEN, "complete": False}
    assert "cut short" in await Conversation("x").play({"run_tests": [cut]})


async def test_a_file_that_cannot_be_collected_is_something_to_repair():
    broken = {**GREEN, "collection_errors": [{"path": "tests/test_b.py", "exception": "NameError"}]}
    talk = Conversation()
    await talk.play(
        {"run_tests": [broken, GREEN], "locate": [{"locations": []}], "repair": [REPAIRED]},
    )
    assert talk.calls[2] == ("repair", {"tests": ["tests/test_b.py"]})


async def test_denied_permission_to_run_tests_ends_the_run_with_the_reason():
    talk = Conversation()
    answer = await talk.play({"run_tests": ["running commands was denied by the person"]})
    assert talk.names() == ["run_tests"]
    assert answer.startswith("Not fixed") and "denied by the person" in answer


async def test_a_failing_locate_does_not_stop_the_repair():
    talk = Conversation()
    answer = await talk.play({"run_tests": [FAILING, GREEN], "locate": ["no coverage"], "repair": [REPAIRED]})
    assert talk.names() == ["run_tests", "locate", "repair", "run_tests"]
    assert answer == PATCH["explanation"]


async def test_a_failing_repair_is_reported_and_not_repeated():
    talk = Conversation()
    answer = await talk.play({"run_tests": [FAILING], "locate": [{"locations": []}], "repair": ["denied"]})
    assert talk.names().count("repair") == 1
    assert answer.startswith("Not fixed") and "denied" in answer


async def test_without_a_repair_tool_the_answer_names_it():
    talk = Conversation(tools=[spec("run_tests")])
    answer = await talk.play({"run_tests": [FAILING]})
    assert "repair is not available" in answer


async def test_without_a_test_tool_repair_is_tried_and_the_missing_check_is_said():
    talk = Conversation(tools=[spec("repair", "tests")])
    answer = await talk.play({"repair": [REPAIRED]})
    assert talk.names() == ["repair"]
    assert "was not run again" in answer


async def test_an_ambiguous_result_names_the_alternatives_and_claims_no_fix():
    other = {**PATCH, "line": 44, "family": "constant"}
    ambiguous = {**REPAIRED, "status": "ambiguous", "alternatives": [other]}
    talk = Conversation()
    answer = await talk.play({"run_tests": [FAILING], "locate": [{"locations": []}], "repair": [ambiguous]})
    assert answer.startswith("Not fixed: 2 different edits")
    assert "a.py:40 (comparison)" in answer and "a.py:44 (constant)" in answer


async def test_a_single_doubtful_edit_is_shown_and_not_called_a_choice_between_several():
    doubtful = {**REPAIRED, "status": "ambiguous", "alternatives": []}
    talk = Conversation()
    answer = await talk.play({"run_tests": [FAILING], "locate": [{"locations": []}], "repair": [doubtful]})
    assert answer.startswith("Not fixed: one edit makes every test pass (a.py:40 (comparison))")


@pytest.mark.parametrize(
    ("limit", "said"), [("time", "ended at its time limit"), (None, "the search space was exhausted")]
)
async def test_an_unsuccessful_search_says_how_far_it_went(limit: str | None, said: str):
    failed = {**REPAIRED, "status": "not_fixed", "patches": [], "candidates_tried": 812, "limit": limit}
    talk = Conversation()
    answer = await talk.play({"run_tests": [FAILING], "locate": [{"locations": []}], "repair": [failed]})
    assert "812 candidate edits tried" in answer and said in answer


async def test_tests_that_still_fail_after_a_fix_are_named():
    still = {**FAILING, "tests": [{"id": "tests/test_z.py::test_other", "outcome": "failed"}]}
    talk = Conversation()
    answer = await talk.play(
        {"run_tests": [FAILING, still], "locate": [{"locations": []}], "repair": [REPAIRED]}
    )
    assert "1 test still fails: tests/test_z.py::test_other" in answer


async def test_a_second_request_starts_over():
    talk = Conversation()
    await talk.play({"run_tests": [GREEN]})
    talk.history.append(user("And now?"))
    talk.calls.clear()
    await talk.play({"run_tests": [GREEN]})
    assert talk.names() == ["run_tests"]


async def test_calls_that_never_got_a_result_do_not_repeat_for_ever():
    talk = Conversation()
    for _ in range(2):
        await talk.step()  # interrupted each time: the call stays unanswered
    text, call = await talk.step()
    assert call is None and "never gave a result" in text


def test_tokens_are_estimated_from_the_size_of_the_history():
    model = EmbeddedModel()
    short, long = [user("x")], [user("x" * 30_000)]
    assert model.count_tokens(long, []) - model.count_tokens(short, []) >= 30_000 // 4
    assert model.count_tokens(short, TOOLS) > model.count_tokens(short, [])
