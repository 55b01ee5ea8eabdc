"""The long-haul rail tells a run as it goes."""

from collections.abc import Callable

from whimbrel.app.agent.events import (
    ContextCompacted,
    LimitReached,
    PermissionAnswer,
    PermissionAnswered,
    PermissionAsked,
    PermissionRequest,
    RunFinished,
    StepStarted,
    ToolProgress,
    UsageTotals,
)
from whimbrel.app.context.view import ViewPlan
from whimbrel.app.fix.events import JobEvent
from whimbrel.app.tui.widgets.rail import Rail
from whimbrel.app.tui.widgets.rail_state import RailState
from whimbrel.engine.chat import StepDiscarded, Usage

from tests.tui.widgets.stage import HOSTILE, Stage, finished, started, texts


def ticking(step: float = 1.0) -> Callable[[], float]:
    """A clock that moves by ``step`` whenever it is read."""
    now = [0.0]

    def clock() -> float:
        now[0] += step
        return now[0]

    return clock


FAILED = {"counts": {"failed": 2, "passed": 8}}
PASSED = {"counts": {"passed": 10}}


def a_run() -> list[object]:
    """Set-up, tests, locate, read, patch, test, another patch, test, proof."""
    return [
        JobEvent("phase", "Set up", phase="set_up"),
        JobEvent("info", "sandbox bwrap"),
        JobEvent("phase", "Reproduce", phase="reproduce"),
        JobEvent("info", "before: 2 failed"),
        JobEvent("phase", "Work", phase="work"),
        StepStarted(step=1, effort="high", reason="localising", window=100_000),
        Usage(input_tokens=12_000, output_tokens=300, cached_tokens=8_000, cost_usd=0.01),
        started("locate", "1"),
        finished("locate", "", {"locations": [1, 2]}, call_id="1"),
        started("read", "2", path="a.py"),
        started("read", "3", path="b.py"),
        finished("read", call_id="2"),
        finished("read", call_id="3"),
        started("edit", "4", path="a.py"),
        finished("edit", "", {"changed_lines": [3, 4]}, call_id="4"),
        started("run_tests", "5"),
        finished("run_tests", "", FAILED, call_id="5"),
        StepStarted(step=2, effort="max", reason="a retry after a failed attempt"),
        Usage(input_tokens=40_000, output_tokens=1_300, cached_tokens=30_000, cost_usd=0.03),
        started("edit", "6", path="a.py"),
        finished("edit", "", {"changed_lines": [3, 4]}, call_id="6"),
        started("run_tests", "7"),
        finished("run_tests", "", PASSED, call_id="7"),
        JobEvent("phase", "Verify", phase="verify"),
        JobEvent("result", data={"status": "fixed"}),
    ]


def test_a_run_is_told_in_legs_with_attempts_tier_tokens_and_cost() -> None:
    state = RailState(clock=ticking())
    for event in a_run():
        state.see(event)
    assert [(leg.kind, leg.state, leg.attempt) for leg in state.legs] == [
        ("start", "done", 1),
        ("test", "done", 1),
        ("locate", "done", 1),
        ("read", "done", 1),
        ("patch", "done", 1),
        ("test", "bad", 1),
        ("retry", "done", 2),
        ("patch", "done", 2),
        ("test", "done", 2),
        ("verify", "done", 2),
    ]
    assert (state.attempt, state.step, state.effort, state.status) == (2, 2, "max", "fixed")
    assert state.window == 100_000
    assert state.legs[3].calls == 2
    assert (state.usage.input_tokens, state.usage.cached_tokens, state.context) == (52_000, 38_000, 41_300)
    assert round(state.usage.cost_usd or 0, 3) == 0.04
    assert not state.running


def test_the_json_form_of_events_is_told_the_same_way_and_odd_ones_do_no_harm() -> None:
    plain, wrapped = RailState(clock=ticking()), RailState(clock=ticking())
    for event in a_run():
        plain.see(event)
        data = None if isinstance(event, JobEvent) else event.model_dump()  # type: ignore[attr-defined]
        wrapped.see(event if data is None else JobEvent("agent", data=data))
    assert [(leg.kind, leg.detail) for leg in plain.legs] == [(leg.kind, leg.detail) for leg in wrapped.legs]
    assert plain.usage == wrapped.usage
    for odd in ({}, {"kind": "unheard_of"}, {"kind": "tool_started", "name": None}, None, 7, {"kind": None}):
        wrapped.see(odd)
        wrapped.see(JobEvent("agent", data=odd if isinstance(odd, dict) else {}))


def test_a_long_tool_moves_along_the_rail_by_the_phases_it_tells() -> None:
    state = RailState(clock=ticking())
    state.see(started("repair"))
    for phase, text in (
        ("locate", "with coverage"),
        ("patch", "42 of 300"),
        ("verify", "in fresh processes"),
    ):
        state.see(ToolProgress(call_id="1", name="repair", phase=phase, text=text))
    state.see(finished("repair", "", {"status": "fixed"}))
    assert [leg.kind for leg in state.legs] == ["patch", "locate", "patch", "verify"]
    assert all(leg.state == "done" for leg in state.legs)


def test_questions_limits_compaction_and_repeated_steps_are_seen() -> None:
    state = RailState(clock=ticking())
    request = PermissionRequest(
        call_id="1", tool="bash", permission="execute", subject="x", arguments={}, reason=""
    )
    state.see(PermissionAsked(request=request))
    assert state.waiting
    state.see(PermissionAnswered(request=request, answer=PermissionAnswer(allowed=True)))
    assert not state.waiting
    state.see(StepDiscarded(reason="connection lost"))
    compacted = ContextCompacted(
        text="",
        method="summary",
        reason="threshold",
        before_tokens=90_000,
        after_tokens=20_000,
        view=ViewPlan(),
    )
    state.see(compacted)
    state.see(LimitReached(limit="steps", text="the step limit is reached"))
    state.see(RunFinished(status="budget", text="", steps=3, usage=UsageTotals(input_tokens=5)))
    assert [leg.detail for leg in state.legs] == [
        "the step is repeated",
        "context 90,000 → 20,000 tokens",
        "the step limit is reached",
    ]
    assert (state.status, state.usage.input_tokens) == ("budget", 5)


async def test_the_rail_fits_any_place_and_shows_the_newest_legs() -> None:
    app = Stage(lambda: Rail(clock=ticking()))
    async with app.run_test(size=(40, 30)) as pilot:
        rail = app.query_one(Rail)
        for event in a_run():
            rail.see(event)
        for number in range(50):
            rail.see(started(("read", "edit")[number % 2], f"n{number}", path=f"{HOSTILE}{number}"))
            rail.see(finished(("read", "edit")[number % 2], call_id=f"n{number}"))
        for width, height in ((40, 30), (12, 8), (100, 3), (40, 1), (200, 2)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            strips = rail.strips_for(rail.size.width)
            assert len(strips) <= height
            assert all(strip.cell_length <= rail.size.width for strip in strips)
        await pilot.resize_terminal(60, 30)
        await pilot.pause()
        text = "\n".join(texts(rail.strips_for(58)))
        for part in (
            "attempt 2",
            "thinking max",
            "⋮ earlier",
            f"{HOSTILE}49"[:20],
            "52.0k (38.0k cached)",
            "41%",
            "$0.04",
        ):
            assert part in text


async def test_a_rail_at_rest_has_no_clock_and_draws_nothing() -> None:
    app = Stage(lambda: Rail(clock=ticking()))
    async with app.run_test(size=(40, 30)) as pilot:
        rail = app.query_one(Rail)
        assert not rail.ticking
        rail.see(started("read"))
        rail._show()
        assert rail.ticking
        rail.see(RunFinished(status="answered", text="", steps=1, usage=UsageTotals()))
        rail._show()
        assert not rail.ticking
        await pilot.pause()
        drawn = rail.lines_drawn
        for _ in range(5):
            await pilot.pause()
        assert rail.lines_drawn == drawn
