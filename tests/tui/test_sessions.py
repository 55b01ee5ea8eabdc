"""Recorded sessions in the interface: resumed, forked, searched, rewound, watched."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList
from whimbrel.app.sessions import SessionStore
from whimbrel.app.tui.screens.rewind import RewindScreen
from whimbrel.app.tui.screens.sessions import SessionsScreen
from whimbrel.app.tui.screens.watch import WatchScreen
from whimbrel.engine.chat import Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart, user

from tests.fix.conftest import Repo
from tests.tui.conftest import Open


def _say(session, *messages: Message) -> None:
    for message in messages:
        session.append("message", message.model_dump())


def answer(text: str) -> Message:
    return Message(
        role="assistant", parts=(ReasoningPart(text=f"thinking about {text}"), TextPart(text=text))
    )


def record(repo: Repo, title: str, turns: int = 2, *, close: bool = True):
    """A session of ``turns`` questions, each with a call and an answer."""
    store = SessionStore.open()
    session = store.create(title=title, repository=str(repo.root), model="embedded")
    session.append("turn_started", {"model": "embedded"})
    for number in range(turns):
        _say(
            session,
            user(f"question {number} of {title}"),
            Message(
                role="assistant",
                parts=(ToolCallPart(id=f"c{number}", name="read", arguments='{"path": "a.py"}'),),
            ),
            Message(
                role="tool",
                parts=(ToolResultPart(call_id=f"c{number}", name="read", text=f"content {number} [/red]"),),
            ),
            answer(f"answer {number}"),
        )
    if close:
        session.append("run_ended", {"status": "answered", "message": "nothing was changed"})
        session.close("answered")
        store.close()
    return session, store


async def test_a_session_is_found_by_what_was_said_resumed_and_shown_as_it_was(tui: Open, repo: Repo):
    async with tui() as it:
        record(repo, "about apples")
        session, _ = record(repo, "about pears")
        record(repo, "something else")
        await it.pilot.press("f3")
        await it.until(lambda: isinstance(it.app.screen, SessionsScreen))
        await it.pilot.pause()
        assert len(it.app.screen._rows) == 3
        await it.pilot.press(*"pears")
        await it.until(lambda: len(it.app.screen._rows) == 1)
        await it.pilot.press("enter")
        await it.until(lambda: "question 1 of about pears" in it.said)
        await it.pilot.pause(0.2)
        assert it.app.runs.session_id == session.id
        assert "answer 1" in it.shown and "question 1 of about pears" in it.shown
        assert it.app.main.conversation.last_answer == "answer 1"


async def test_two_thousand_results_are_shown_at_once_because_few_of_them_are_made(tui: Open, repo: Repo):
    async with tui() as it:
        session, _ = record(repo, "long", turns=500)
        it.app.main.open_session(session.id)
        await it.until(lambda: "answer 499" in it.shown)
        conversation = it.app.main.conversation
        assert len(conversation.children) < 300 < len(conversation.entries())
        await it.pilot.press("ctrl+f")
        await it.pilot.pause()
        await it.pilot.press(*"question 17 of")
        await it.until(lambda: it.app.screen._rows)
        await it.pilot.press("enter")
        await it.until(lambda: "question 17 of long" in it.shown)


async def test_going_back_to_before_a_turn_takes_it_from_the_conversation_and_into_the_prompt(
    tui: Open, repo: Repo
):
    async with tui() as it:
        session, _ = record(repo, "long", turns=3)
        it.app.main.open_session(session.id)
        await it.until(lambda: "answer 2" in it.said)
        await it.pilot.press("escape", "escape")
        await it.until(lambda: isinstance(it.app.screen, RewindScreen))
        await it.pilot.press("down", "ctrl+w")  # the newest stands first: before question 1, words only
        await it.until(lambda: it.app.screen is it.app.main and "answer 1" not in it.said)
        assert "answer 0" in it.said
        assert it.app.main.prompt.area.text == "question 1 of long"
        store = SessionStore.open()
        assert [e.kind for e in store.events(session.id)][-1] == "rewound"
        store.close()


async def test_a_fork_goes_on_in_a_copy(tui: Open, repo: Repo):
    async with tui() as it:
        session, _ = record(repo, "long")
        await it.pilot.press("f3")
        await it.until(lambda: isinstance(it.app.screen, SessionsScreen))
        await it.pilot.pause()
        await it.pilot.press("ctrl+k")
        await it.until(lambda: it.app.runs.session_id)
        assert it.app.runs.session_id != session.id
        await it.until(lambda: "answer 1" in it.said)


async def test_a_session_that_another_process_runs_is_watched_as_it_grows(tui: Open, repo: Repo):
    async with tui() as it:
        session, store = record(repo, "live", turns=1, close=False)
        await it.pilot.press("f3")
        await it.until(lambda: isinstance(it.app.screen, SessionsScreen))
        await it.pilot.pause()
        assert "running" in it.app.screen._rows[0].text
        await it.pilot.press("enter")
        await it.until(lambda: isinstance(it.app.screen, WatchScreen))
        await it.until(lambda: "answer 0" in it.shown)
        _say(session, user("more?"), answer("and more [/red]"))
        await it.until(lambda: "and more [/red]" in it.shown)
        assert "watching" in it.shown and "running" in it.shown
        await it.pilot.press("escape")
        await it.until(lambda: it.app.screen is it.app.main)
        assert it.app.runs.session_id == "", "watching takes nothing over"
        session.close("answered")
        store.close()


@pytest.mark.parametrize("given", ["none-such", "2"])
async def test_an_unknown_session_is_told_and_the_interface_is_there(tui: Open, given: str):
    async with tui(launch={"resume": given}) as it:
        await it.until(lambda: "no session has an id starting" in it.said)
        assert it.app.main.prompt.area.has_focus


async def test_lists_move_by_arrows_while_the_search_line_has_the_keys(tui: Open, repo: Repo):
    async with tui() as it:
        for number in range(4):
            record(repo, f"number {number}", turns=1)
        await it.pilot.press("f3")
        await it.until(lambda: isinstance(it.app.screen, SessionsScreen))
        await it.pilot.pause()
        await it.pilot.press("down", "down", "up")
        assert it.app.screen.query_one(OptionList).highlighted == 1
