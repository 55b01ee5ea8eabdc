"""What somebody meets who has never seen the interface: keys before it is there, runs that ended badly, lost files."""

from __future__ import annotations

import pytest
from textual import events
from textual.worker import WorkerFailed
from whimbrel.app.agent.events import RunFinished, UsageTotals
from whimbrel.app.fix.events import JobEvent
from whimbrel.app.tools.base import Question
from whimbrel.app.tui.outcome import outcome_lines
from whimbrel.app.tui.screens import asking
from whimbrel.app.tui.screens.asking import QuestionDialog
from whimbrel.app.tui.screens.welcome import WelcomeScreen
from whimbrel.app.tui.widgets.rail_state import RailState
from whimbrel.sandbox.base.errors import ConfigError

from tests.tui.conftest import Open


async def test_keys_from_before_the_prompt_is_there_reach_it_and_answer_no_first_page(
    tui: Open, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(asking, "QUIET_S", 60.0)
    async with tui() as it:
        it.app._early = []
        for letter in "test":
            await it.app.on_event(events.Key(letter, letter))
        assert it.app.main.prompt.area.text == ""
        await it.app._hear_early_keys()
        await it.until(lambda: it.app.main.prompt.area.text == "test")
        it.app.main.action_welcome()
        await it.until(lambda: isinstance(it.app.screen, WelcomeScreen))
        monkeypatch.setattr(
            WelcomeScreen, "action_trust", lambda _: pytest.fail("trusted by a key typed ahead")
        )
        await it.pilot.press("t")
        assert it.app.screen.deaf


@pytest.mark.parametrize("status", ["cancelled", "loop", "budget", "error", "not_fixed"])
def test_changes_that_cannot_be_applied_are_not_offered(status: str):
    told = "\n".join(
        outcome_lines({"status": status, "message": "m", "files": [{"path": "a"}], "output": "/o"})
    )
    assert "/apply" not in told and "F4" not in told and "not for applying" in told and "/o" in told


async def test_letters_answer_a_question_in_the_persons_own_words(tui: Open):
    async with tui() as it:
        answers: list[object] = []
        it.app.push_screen(QuestionDialog(Question(text="Which?", options=("red", "blue"))), answers.append)
        await it.until(lambda: isinstance(it.app.screen, QuestionDialog) and not it.app.screen.deaf)
        await it.pilot.press("b", "o", "t", "h", "enter")
        await it.until(lambda: answers)
        assert answers == ["both"]


async def test_what_waited_for_a_run_goes_back_into_the_prompt_when_it_is_stopped(tui: Open):
    async with tui() as it:
        it.app.main._queued += [("second thing", "")]
        it.app.main._take_back_queued()
        assert it.app.main.prompt.area.text == "second thing" and not it.app.main._queued


async def test_what_cannot_be_done_beside_the_screen_is_a_card_with_advice(tui: Open):
    async with tui() as it:
        it.app._handle_exception(WorkerFailed(ConfigError("the list [/red] is lost", hint="do this")))
        await it.until(lambda: "the list [/red] is lost" in it.shown and "do this" in it.shown)
        assert it.app.is_running


async def test_a_discarded_step_and_its_retry_are_one_line(tui: Open):
    async with tui() as it:
        view = it.app.main.conversation
        view.discard_step("stream cut")
        view.note("stream cut; trying again in 0.3 s", "warning")
        await it.pilot.pause(0.1)
        assert it.said.count("stream cut") == 1


def test_the_rail_counts_a_whole_job_and_no_time_between_turns():
    now = [0.0]
    rail = RailState(clock=lambda: now[0])
    for began in (0.0, 1000.0):
        now[0] = began
        rail.see(JobEvent("phase", "Set up", phase="set_up"))
        now[0] = began + 5
        rail.see(RunFinished(status="answered", text="", steps=1, usage=UsageTotals(input_tokens=5)))
        assert rail.running, "the agent is done, the job is not"
        now[0] = began + 7
        rail.see(JobEvent("result", data={"status": "answered"}))
        assert rail.elapsed == 7
    assert [leg.took(now[0]) for leg in rail.legs] == [7, 7]
    assert rail.usage.input_tokens == 5
