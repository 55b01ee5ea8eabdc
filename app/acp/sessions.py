"""What an editor may see and choose: stored sessions, modes, settings, servers of its own."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from acp import RequestError, helpers
from acp.schema import (
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionInfo,
    SessionMode,
    SessionModeState,
)

from ...sandbox.base.errors import UsageError, WhimbrelError
from ..mcp.config import McpServer
from ..sessions import SessionStore
from ..sessions.replay import replay

MODES = (
    SessionMode(id="default", name="Default", description="Asks before it reaches out of the sandbox."),
    SessionMode(id="plan", name="Plan", description="Reads only: nothing is written or run."),
    SessionMode(id="read-only", name="Read only", description="Runs things, changes no file."),
    SessionMode(id="bypass", name="No questions", description="Asks nothing; what is forbidden stays so."),
)
EFFORTS = ("auto", "low", "high", "max")


def server_of(given: Any) -> McpServer:
    """An MCP server of the editor, started like one of the person's own settings.

    Raises:
        UsageError: it is of a kind that was not offered.
    """
    if getattr(given, "command", None) is None:
        raise UsageError(f"the MCP server {given.name} is no program to start", hint="use a stdio server")
    return McpServer(
        name="".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in given.name)[:32]
        or "mcp",
        origin="the editor",
        command=given.command,
        args=tuple(given.args),
        env={each.name: each.value for each in given.env},
    )


def modes(current: str) -> SessionModeState:
    """The modes a session can be in."""
    return SessionModeState(current_mode_id=current, available_modes=list(MODES))


def config(effort: str) -> list[Any]:
    """The settings an editor may show."""
    return [
        SessionConfigOptionSelect(
            id="effort",
            name="Thinking",
            description="How long the model thinks before each step.",
            category="thought_level",
            type="select",
            current_value=effort,
            options=[SessionConfigSelectOption(value=each, name=each) for each in EFFORTS],
        )
    ]


def stored(session_id: str) -> list[Any]:
    """What was said in a stored session, as updates."""
    try:
        store = SessionStore.open(notice=lambda _: None)
        try:
            info = store.find(session_id)
            said = replay(store.events(info.id)).said if info.id == session_id else ()
        finally:
            store.close()
    except WhimbrelError as error:
        raise refused(error.one_line()) from error
    found: list[Any] = []
    for each in said:
        text = each.message.text().strip()
        if text and each.message.role == "user":
            found.append(helpers.update_user_message_text(text))
        elif text and each.message.role == "assistant":
            found.append(helpers.update_agent_message_text(text))
    return found


def known_sessions(cwd: str | None) -> list[SessionInfo]:
    """Stored sessions, newest first; with ``cwd`` those of the repository it lies in."""
    try:
        store = SessionStore.open(notice=lambda _: None)
        try:
            sessions = store.sessions()
        finally:
            store.close()
    except WhimbrelError as error:
        raise refused(error.one_line()) from error
    return [
        SessionInfo(
            session_id=each.id,
            cwd=each.repository,
            title=each.title,
            updated_at=datetime.datetime.fromtimestamp(each.updated, datetime.UTC).isoformat(),
        )
        for each in sessions
        if cwd is None or cwd == each.repository or Path(cwd).is_relative_to(each.repository)
    ]


def refused(message: str) -> RequestError:
    """The answer to a request that makes no sense; the message is for the person."""
    return RequestError(-32602, message)
