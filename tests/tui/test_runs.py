"""Runs in the interface: what is streamed, asked, stopped, taken over and gone on with."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from textual import events
from textual.widgets import OptionList
from whimbrel.app.agent.events import PermissionAnswer, PermissionRequest
from whimbrel.app.fix.events import JobEvent
from whimbrel.app.permissions.rules import parse_rule
from whimbrel.app.tui.driver import AskedPermission
from whimbrel.app.tui.screens import asking
from whimbrel.app.tui.screens.asking import PermissionDialog, QuestionDialog
from whimbrel.app.tui.screens.confirm import ConfirmScreen

from tests.fix.conftest import Repo
from tests.mock_server import MockServer, Pause, chunk, completion, stream
from tests.tui.conftest import Open, Tui

HOSTILE = "[/red] [foo] [bold]x[/] [@click=app.quit]y[/] \\[z]"


@pytest.fixture
def noted(repo: Repo) -> Repo:
    return repo.write(**{"notes.md": f"{HOSTILE}\n"}).commit()


async def test_an_answer_is_streamed_and_markup_in_it_and_in_results_is_only_text(tui: Open, noted: Repo):
    replies = [
        completion(calls=[("c1", "read", {"path": "notes.md"}), ("c2", "read", {"path": HOSTILE})]),
        completion(text=f"It says `{HOSTILE}`.", reasoning=HOSTILE),
        completion(text="Again."),
    ]
    with MockServer(replies) as server:
        async with tui(model=server.model()) as it:
            await it.type(f"what is in notes.md? {HOSTILE}")
            await it.ended()
            # Everything opened, so that everything is drawn.
            for widget in it.app.main.conversation.children:
                if hasattr(widget, "expanded"):
                    widget.expanded = True
            await it.pilot.pause(0.2)
            assert f"what is in notes.md? {HOSTILE}" in it.said
            assert HOSTILE in it.app.main.conversation.last_answer
            assert "answered: nothing was changed" in it.said
            assert "[foo]" in it.shown
            first = it.app.runs.session_id
            await it.type("and again")
            await it.until(lambda: it.app.main.conversation.last_answer == "Again.")
            await it.until(lambda: not it.app.runs.driver.running)
            # The second turn goes on in the same session, with the first in its history.
            assert it.app.runs.session_id == first
            assert any(HOSTILE in str(m.get("content")) for m in server.requests[-1].messages)
        assert server.script_errors == []


async def test_escape_stops_a_run_what_was_said_stays_and_the_next_prompt_goes_on(tui: Open, noted: Repo):
    wait = threading.Event()
    replies = [
        stream(chunk({"role": "assistant"}), chunk({"content": "Half an answer"}), Pause(wait), done=False),
        completion(text="Done."),
    ]
    with MockServer(replies) as server:
        async with tui(model=server.model()) as it:
            await it.type("go")
            await it.until(lambda: "Half an answer" in it.said)
            await it.pilot.press("escape")
            await it.ended()
            wait.set()
            assert it.app.runs.last["status"] == "cancelled"
            assert it.app.runs.last["output"], "a result file was written all the same"
            await it.type("go on")
            await it.until(lambda: "Done." in it.said)


async def test_leaving_while_something_runs_asks_and_no_is_the_default(tui: Open, noted: Repo):
    wait = threading.Event()
    with MockServer([stream(chunk({"content": "x"}), Pause(wait), done=False)]) as server:
        async with tui(model=server.model()) as it:
            await it.type("go")
            await it.until(lambda: server.requests)
            await it.pilot.press("ctrl+c", "ctrl+c")
            await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
            await it.pilot.press("enter")
            await it.pilot.pause()
            assert it.app.screen is it.app.main and it.app.runs.driver.running
            await it.pilot.press("ctrl+q")
            await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
            await it.pilot.press("y")
            await it.until(lambda: it.app.leaving and not it.app.is_running)
            wait.set()
        assert it.app.runs.driver.wait(10)


def _event(**data: object) -> JobEvent:
    return JobEvent("agent", data=dict(data))


async def test_nothing_of_a_step_that_is_asked_again_stays(tui: Open):
    async with tui() as it:
        main = it.app.main
        main._event(_event(kind="step_started", step=1, effort="high", reason=""))
        main._event(_event(kind="reasoning_delta", text="wrong thought"))
        main._event(_event(kind="text_delta", text="wrong answer"))
        await it.until(lambda: "wrong answer" in it.shown)
        main._event(_event(kind="step_discarded", reason="the stream broke"))
        main._event(_event(kind="text_delta", text="right answer"))
        main._event(_event(kind="run_finished", status="answered", text="", steps=1, usage={}))
        await it.until(lambda: "right answer" in it.shown)
        for voided in ("wrong answer", "wrong thought"):
            assert voided not in it.said and voided not in it.shown
        assert "asking again: the stream broke" in it.said


def _request(subject: str = "git push && rm -rf build", **fields: object) -> PermissionRequest:
    parts = [
        {"shown": "git push", "decision": "ask", "reason": "it reaches outside"},
        {"shown": "rm -rf build", "decision": "allow", "reason": "it stays inside"},
    ]
    return PermissionRequest.model_validate(
        {
            "call_id": "c", "tool": "bash", "permission": "execute", "subject": subject,
            "arguments": {"command": subject}, "reason": "it reaches outside", "parts": parts, "prefix": "git push*", **fields,
        }
    )  # fmt: skip


async def _ask(it: Tui, request: PermissionRequest) -> Future[PermissionAnswer]:
    reply: Future[PermissionAnswer] = Future()
    it.app.main._take(AskedPermission(request, reply))
    await it.until(lambda: isinstance(it.app.screen, PermissionDialog))
    return reply


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "QUIET_S", 0.15)


async def test_keys_typed_ahead_and_the_focus_click_answer_no_request(
    tui: Open, monkeypatch: pytest.MonkeyPatch
):
    now = [100.0]
    monkeypatch.setattr(asking, "time", SimpleNamespace(monotonic=lambda: now[0]))
    async with tui() as it:
        reply = await _ask(it, _request())
        dialog = it.app.screen
        assert isinstance(dialog, PermissionDialog)
        for key in ("1", "enter", "y", "escape", "ctrl+c", "2"):
            await it.pilot.press(key)
            now[0] += 0.4  # never half a second without a key
            await it.pilot.pause(0.12)
        assert dialog.deaf and not reply.done()
        # The pause that ends the quiet period, then the window is left and clicked to the front.
        now[0] += 0.6
        await it.until(lambda: not dialog.deaf)
        options = dialog.query_one(OptionList)
        it.app.post_message(events.AppBlur())
        it.app.post_message(events.AppFocus())
        x, y = options.region.x + 3, options.region.y
        for kind in (events.MouseDown, events.MouseUp):
            it.app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, screen_x=x, screen_y=y))
        await it.pilot.pause(0.1)
        assert not reply.done() and it.app.screen is dialog
        now[0] += 0.6
        await it.until(lambda: not dialog.deaf)
        await it.pilot.press("1")
        await it.until(reply.done)
        assert reply.result() == PermissionAnswer(allowed=True)
        assert it.app.main.prompt.area.text == ""


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["escape"], PermissionAnswer(allowed=False)),
        (["2"], PermissionAnswer(allowed=True, remember=True)),
        (
            ["enter", "down", "down", "down", "enter"],
            PermissionAnswer(allowed=True, remember=True, prefix="git push*"),
        ),
        (["4"], PermissionAnswer(allowed=True, remember=True, store=True)),
        (["5"], PermissionAnswer(allowed=True, remember=True, store=True, prefix="git push*")),
        (["7", *"use 1", "enter"], PermissionAnswer(allowed=False, note="use 1")),
    ],
)
async def test_how_far_a_yes_reaches_is_chosen_and_a_no_may_say_why(
    tui: Open, brief: None, keys: list[str], answer: PermissionAnswer
):
    async with tui() as it:
        reply = await _ask(it, _request())
        dialog = it.app.screen
        assert isinstance(dialog, PermissionDialog)
        await it.until(lambda: not dialog.deaf)
        await it.pilot.press(*keys)
        await it.until(reply.done)
        assert reply.result() == answer


async def test_a_request_taller_than_the_screen_scrolls_and_its_answers_stay_in_sight(tui: Open, brief: None):
    command = "\n".join(f"echo {number}" for number in range(200))
    async with tui(size=(60, 20)) as it:
        reply = await _ask(it, _request(command))
        dialog = it.app.screen
        assert isinstance(dialog, PermissionDialog)
        await it.until(lambda: not dialog.deaf)
        await it.pilot.pause(0.1)
        assert "echo 0" in it.shown and "1 Allow once" in it.shown and "echo 60" not in it.shown
        for _ in range(12):
            await it.pilot.press("pagedown")
        await it.pilot.pause(0.1)
        assert "echo 60" in it.shown and "1 Allow once" in it.shown
        await it.pilot.press("escape")
        await it.until(reply.done)


async def test_a_request_of_a_real_run_is_answered_remembered_and_its_question_too(
    tui: Open, noted: Repo, brief: None
):
    replies = [
        completion(calls=[("c1", "bash", {"command": "echo one"})]),
        completion(calls=[("c2", "bash", {"command": "echo one"}), ("c3", "bash", {"command": "ls"})]),
        completion(calls=[("c4", "ask", {"question": "Which [one]?", "options": ["red", "blue"]})]),
        completion(text="Done."),
    ]
    with MockServer(replies) as server:
        rules = (parse_rule("ask", "bash"),)
        async with tui(model=server.model(), rules=rules) as it:
            await it.type("go")
            await _answer(it, PermissionDialog, "2")  # exactly this, in this run
            await _answer(it, PermissionDialog, "escape")  # only ls is asked about now
            await _answer(it, QuestionDialog, "down", "enter")
            await it.ended()
            assert it.app.runs.last["status"] == "answered", it.app.runs.last
            told = [m["content"] for m in server.requests[-1].messages if m["role"] == "tool"]
            assert "one" in told[0] and "one" in told[1]
            assert "not allowed" in told[2] and "answers: blue" in told[3]
            assert "you denied bash ls" in it.said
        assert server.script_errors == []


async def _answer(it: Tui, kind: type[PermissionDialog | QuestionDialog], *keys: str) -> None:
    await it.until(lambda: isinstance(it.app.screen, kind) and not it.app.screen.deaf)
    await it.pilot.press(*keys)
    await it.pilot.pause()


async def test_a_fault_in_one_event_or_widget_is_a_card_and_the_rest_goes_on(tui: Open, home: dict[str, str]):
    from textual.widget import Widget

    class Broken(Widget):
        def render(self) -> str:
            raise RuntimeError("broken [/red]")

    async with tui() as it:
        it.app.main._take(_event(kind="tool_started"))  # lacks all it should have
        await it.pilot.pause(0.1)
        assert "one event could not be shown" in it.said
        await it.app.main.conversation.mount(Broken())
        await it.until(lambda: "Broken failed: RuntimeError: broken [/red]" in it.said)
        await it.pilot.press(*"still here")
        assert it.app.main.prompt.area.text == "still here"
        it.app._exception = None
    import pathlib

    assert len(list(pathlib.Path(home["WHIMBREL_STATE_DIR"], "crashes").iterdir())) >= 1
