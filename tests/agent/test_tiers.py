"""How hard the model thinks in each step, and why."""

from __future__ import annotations

from typing import Any

import pytest
from whimbrel.app.agent.history import Call
from whimbrel.app.agent.tiers import TierScheduler
from whimbrel.app.agent.tool_calls import Answered
from whimbrel.app.tools.base import PermissionClass
from whimbrel.engine.chat import ToolCallPart, ToolResultPart, Usage

READ, WRITE, EXECUTE = PermissionClass.READ, PermissionClass.WRITE, PermissionClass.EXECUTE


def did(
    name: str, permission: PermissionClass, data: Any, *, error: bool = False, **arguments: Any
) -> Answered:
    part = ToolCallPart(id="a", name=name, arguments="{}")
    result = ToolResultPart(call_id="a", name=name, text="", data=data, is_error=error)
    return Answered(Call(part, arguments), permission, result)


def outcome(*failing: str, frames: int = 1, flaky: tuple[str, ...] = (), errors: int = 0) -> Answered:
    cases = [
        {"id": one, "path": one.partition("::")[0], "frames": [{"path": f"m{n}.py"} for n in range(frames)]}
        for one in failing
    ]
    collection = [{"path": f"t{n}.py"} for n in range(errors)]
    return did("run_tests", EXECUTE, {"tests": cases, "collection_errors": collection, "flaky": list(flaky)})


def edit(*, error: bool = False) -> Answered:
    return did("edit", WRITE, None if error else {"path": "a.py"}, error=error)


LOOK = did("read", READ, {"path": "a.py"})


def told(scheduler: TierScheduler, *steps: list[Answered]) -> list[tuple[str, str]]:
    """(tier, reason) of each step; the last entry is the step after the last results."""
    seen: list[tuple[str, str]] = []
    for step in [*steps, None]:
        tier = scheduler.next()
        seen.append((tier.effort, tier.reason))
        if step is not None:
            scheduler.see(step)
    return seen


def test_planning_and_localisation_are_high_and_the_summary_of_a_success_is_low() -> None:
    seen = told(TierScheduler("auto"), [outcome("t.py::a")], [LOOK], [edit()], [outcome()])
    assert [tier for tier, _ in seen] == ["high", "high", "high", "high", "low"]
    assert seen[0][1] == "planning" and "tests pass" in seen[4][1]


def test_a_test_run_that_still_fails_after_an_edit_escalates_until_one_passes() -> None:
    scheduler = TierScheduler("auto")
    seen = told(
        scheduler, [outcome("t.py::a")], [edit(), outcome("t.py::a")], [LOOK], [edit()], [outcome("t.py::a")], [edit()], [outcome()]
    )  # fmt: skip
    assert [tier for tier, _ in seen] == ["high", "high", "max", "max", "max", "max", "max", "low"]
    assert seen[2][1] == "retry after 1 failed attempt" and seen[5][1] == "retry after 2 failed attempts"


def test_running_tests_again_without_an_edit_or_after_a_failed_one_is_no_failed_attempt() -> None:
    steps = [[outcome("t.py::a")], [edit(error=True)], [outcome("t.py::a")], [outcome("t.py::a")]]
    assert {tier for tier, _ in told(TierScheduler("auto"), *steps)} == {"high"}


def test_only_failures_that_are_the_runs_own_count() -> None:
    old = "t.py::broken_before"
    scheduler = TierScheduler("auto", targets=["t.py::a"])
    seen = told(scheduler, [outcome("t.py::a", old)], [edit()], [outcome(old)])
    assert seen[-1][0] == "low"
    scheduler = TierScheduler("auto", targets=["t.py::a"])
    seen = told(scheduler, [outcome("t.py::a", old)], [edit()], [outcome(old, "t.py::newly_broken")])
    assert seen[-1][0] == "max"
    flaky = told(
        TierScheduler("auto"), [outcome("t.py::a")], [edit()], [outcome("t.py::f", flaky=("t.py::f",))]
    )
    assert flaky[-1][0] == "low"


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (outcome(*(f"t.py::t{n}" for n in range(5))), "5 failing tests"),
        (outcome("a.py::t", "b.py::t", "c.py::t"), "3 failing tests in 3 files"),
        (outcome("a.py::t", frames=4), "a trace through 4 files"),
        (outcome(errors=3), "3 modules that cannot be collected"),
        (outcome("a.py::t", "a.py::u", frames=2), ""),
    ],
)
def test_patching_a_complex_failure_is_max_once_the_code_was_looked_at(failure: Answered, why: str) -> None:
    seen = told(TierScheduler("auto"), [failure], [LOOK])
    assert [tier for tier, _ in seen[:2]] == ["high", "high"]
    assert seen[2] == (
        ("max", f"patching a complex failure: {why}") if why else ("high", "localisation and patching")
    )


def test_tests_run_by_a_shell_command_count_too_and_other_commands_do_not() -> None:
    def ran(command: str, code: int) -> list[Answered]:
        return [did("bash", EXECUTE, {"exit_code": code}, command=command)]

    for command in ("cd x && python -m pytest -q", "npm run test", "cargo test", "make test"):
        assert told(TierScheduler("auto"), [edit()], ran(command, 1))[-1][0] == "max", command
        assert told(TierScheduler("auto"), [edit()], ran(command, 0))[-1][0] == "low", command
    for command in ("grep -r attest .", "cat pytest.ini", "false"):
        assert told(TierScheduler("auto"), [edit()], ran(command, 1))[-1][0] == "high", command


def test_what_the_person_chose_holds_for_every_step() -> None:
    steps = [[outcome("t.py::a")], [edit()], [outcome("t.py::a")], [edit()], [outcome()]]
    assert set(told(TierScheduler("low"), *steps)) == {("low", "chosen by the person")}


def test_an_answer_lost_in_thinking_is_asked_for_once_with_less_thinking_and_more_room() -> None:
    scheduler = TierScheduler("max")
    assert scheduler.lost_answer("length", Usage(output_tokens=20_000))
    tier = scheduler.next()
    assert (tier.effort, tier.output_tokens) == ("low", 40_000)
    assert not scheduler.lost_answer("length", None)
    scheduler.answer_came()
    assert scheduler.next().effort == "max"
    assert scheduler.lost_answer("stop", None) and scheduler.next().output_tokens is None
    assert not TierScheduler("auto").lost_answer("content_filter", None)
