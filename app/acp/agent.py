"""Whimbrel as an agent of the Agent Client Protocol: sessions, prompts, modes, cancellation.

A prompt is a turn of ``whimbrel run``: it works on a copy in a sandbox, and what it changed goes into
the person's files when the person says so in the editor. The protocol's session id is the id of the
stored session, so that an editor finds its conversations again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from acp import PROTOCOL_VERSION, RequestError, helpers
from acp.schema import (
    AgentCapabilities,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    SessionCapabilities,
    SessionListCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    StopReason,
)

from ...sandbox.base.errors import WhimbrelError
from ..fix.apply import apply_result
from ..fix.events import JobEvent
from ..fix.options import FixOptions
from ..sessions import SessionStore
from ..talk.options import TalkOptions
from ..tui.driver import AskedPermission, AskedQuestion, Driver, JobEnded
from ..version import __version__
from .person import EditorPerson
from .prompt import prompt_images, prompt_text
from .sessions import EFFORTS, MODES, config, known_sessions, modes, refused, server_of, stored
from .updates import Translator

_STOPPED: Mapping[str, StopReason] = {
    "answered": "end_turn",
    "cancelled": "cancelled",
    "budget": "max_turn_requests",
    "denied": "refusal",
    "loop": "end_turn",
}
_TICK_S = 0.03
"""Between two looks at what a running turn told."""
_END_S = 20.0
"""So long a turn may take to clean up when the editor has gone."""
_PAGE = 50


@dataclass
class _Session:
    id: str
    repository: Path
    options: FixOptions
    begun: bool = False
    """Whether it is stored: it has had a turn."""
    mode: str = "default"
    effort: str = "auto"
    driver: Driver = field(default_factory=Driver)
    asking: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    busy: bool = False
    """A prompt is not answered yet: its run, or the question about its changes."""
    cancelled: bool = False
    """The editor took the prompt back that is being answered."""
    applying: bool = False
    """The person's files are being changed, which is ended once begun."""
    offering: asyncio.Task[None] | None = None
    """The question whether what was changed goes into the person's files."""


class EditorAgent:
    """The methods that an editor calls; names and parameters are the library's.

    Args:
        options_for: the options of a turn in a folder; raises WhimbrelError where there can be none.
    """

    def __init__(self, options_for: Callable[[Path], FixOptions]) -> None:
        self._options_for = options_for
        self._client: Any = None
        self._sessions: dict[str, _Session] = {}

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **_: Any
    ) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(embedded_context=True, image=True),
                mcp_capabilities=McpCapabilities(),
                session_capabilities=SessionCapabilities(list=SessionListCapabilities()),
            ),
            agent_info=Implementation(name="whimbrel", title="Whimbrel", version=__version__),
        )

    async def authenticate(self, method_id: str, **_: Any) -> None:
        raise refused(f"there is no way to sign in named {method_id!r}; none is needed")

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> NewSessionResponse:
        session = await self._open(SessionStore.new_id(), cwd, mcp_servers)
        return NewSessionResponse(
            session_id=session.id, modes=modes(session.mode), config_options=config(session.effort)
        )

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> LoadSessionResponse:
        events = await asyncio.to_thread(stored, session_id)
        if (known := self._sessions.get(session_id)) is not None and known.busy:
            raise refused("a turn of this session is running")
        session = await self._open(session_id, cwd, mcp_servers)
        session.begun = True
        for update in events:
            await self._client.session_update(session_id, update)
        return LoadSessionResponse(modes=modes(session.mode), config_options=config(session.effort))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> ListSessionsResponse:
        start = int(cursor) if cursor and cursor.isdecimal() else 0
        found = await asyncio.to_thread(known_sessions, cwd)
        after = start + _PAGE
        return ListSessionsResponse(
            sessions=found[start:after], next_cursor=str(after) if after < len(found) else None
        )

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        session = self._find(session_id)
        if mode_id not in {mode.id for mode in MODES}:
            raise refused(f"there is no mode {mode_id!r}")
        session.mode = mode_id
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        session = self._find(session_id)
        if config_id != "effort" or value not in EFFORTS:
            raise refused(f"there is no setting {config_id} with the value {value!r}")
        session.effort = str(value)
        return SetSessionConfigOptionResponse(config_options=config(session.effort))

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> PromptResponse:
        session = self._find(session_id)
        if session.busy:
            raise refused("a turn of this session is running")
        session.busy, session.cancelled = True, False
        try:
            return await self._turn(session, prompt)
        finally:
            session.busy = False

    async def _turn(self, session: _Session, prompt: Sequence[Any]) -> PromptResponse:
        text = prompt_text(prompt, session.repository)
        if not text:
            raise refused("the prompt is empty")
        try:
            images = await asyncio.to_thread(prompt_images, prompt)
        except WhimbrelError as error:
            raise refused(error.one_line()) from error
        if session.driver.running:
            raise refused("a turn of this session is running")
        base = replace(
            session.options, permission_mode=session.mode, effort=session.effort, apply=False, spent_s=0.0
        )
        session.driver.talk(
            TalkOptions(
                base=base,
                prompt=text,
                images=images,
                resume=session.id if session.begun else None,
                new_id="" if session.begun else session.id,
                model_given=True,
            )
        )
        result = await self._follow(session)
        session.begun = session.begun or bool(result.get("session_id"))
        status = str(result.get("status"))
        if status not in _STOPPED:
            raise RequestError(-32603, str(result.get("message") or status), {"status": status,
                               "exit_code": result.get("exit_code"), "hint": result.get("hint")})  # fmt: skip
        if status == "answered":
            session.offering = asyncio.ensure_future(self._offer(session, result))
            try:
                await session.offering
            except asyncio.CancelledError:
                if not session.cancelled:
                    raise
            finally:
                session.offering = None
        elif status != "cancelled":
            await self._say(session, f"\n\n{result.get('message')}")
        return PromptResponse(stop_reason="cancelled" if session.cancelled else _STOPPED[status])

    async def cancel(self, session_id: str, **_: Any) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.busy:
            session.cancelled = True
            session.driver.stop()
            if session.offering is not None and not session.applying:
                session.offering.cancel()

    async def close(self) -> None:
        """Ends every turn that is running, as a cancellation would, and waits for its clean-up."""
        running = [each.driver for each in self._sessions.values() if each.driver.running]
        for driver in running:
            driver.stop()
        await asyncio.gather(*(asyncio.to_thread(driver.wait, _END_S) for driver in running))

    # ------------------------------------------------------------------ a running turn

    async def _follow(self, session: _Session) -> dict[str, Any]:
        """Passes on what the turn tells until it has ended; its result."""
        translator = Translator(str(session.repository))
        person = EditorPerson(self._client, session.id)
        result: dict[str, Any] = {}
        try:
            while True:
                for told in session.driver.drain():
                    if isinstance(told, JobEnded):
                        if told.problem:
                            result = {"status": "cancelled"} if session.driver.stopping else result
                            result = result or {"status": "error", "message": told.problem}
                        return result
                    if isinstance(told, JobEvent):
                        if told.kind == "result":
                            result = told.data
                        for update in translator.updates(told):
                            await self._client.session_update(session.id, update)
                    else:
                        task = asyncio.create_task(_answer(person, told))
                        session.asking.add(task)
                        task.add_done_callback(session.asking.discard)
                await asyncio.sleep(_TICK_S)
        finally:
            for task in session.asking:
                task.cancel()
            session.driver.stop()

    async def _offer(self, session: _Session, result: Mapping[str, Any]) -> None:
        """Puts what was changed into the person's files, if they want that."""
        diff, output = str(result.get("patch") or ""), str(result.get("output") or "")
        if not diff.strip() or not output:
            return
        files = [str(each["path"]) for each in cast("list[dict[str, Any]]", result.get("files") or [])]
        person, call_id = EditorPerson(self._client, session.id), f"apply-{result.get('run_id')}"
        await self._client.session_update(
            session.id,
            helpers.start_tool_call(call_id, "changes in the copy", kind="edit", status="pending"),
        )
        evidence = f"Not verified: {result.get('message')}."
        wanted = await person.apply(call_id, files, diff, evidence)
        problem = ""
        if wanted:
            session.applying = True
            try:
                await apply_result(Path(str(result["repository"])), Path(output))
            except (WhimbrelError, OSError) as error:
                problem = error.one_line() if isinstance(error, WhimbrelError) else str(error)
            finally:
                session.applying = False
        kept = f"Your files are unchanged; the patch is {output}/patch.diff"
        done = "In your files now; `whimbrel undo` takes it back"
        text = (f"Not applied: {problem}. {kept}" if problem else done) if wanted else kept
        await self._client.session_update(
            session.id,
            helpers.update_tool_call(
                call_id,
                status="completed" if wanted and not problem else "failed",
                content=[helpers.tool_content(helpers.text_block(text))],
            ),
        )

    async def _say(self, session: _Session, text: str) -> None:
        await self._client.session_update(session.id, helpers.update_agent_message_text(text))

    # ------------------------------------------------------------------ sessions

    async def _open(self, session_id: str, cwd: str, servers: Sequence[Any] | None) -> _Session:
        if not Path(cwd).is_absolute() or not Path(cwd).is_dir():
            raise refused(f"{cwd} is no absolute path of a folder")
        try:
            options = await asyncio.to_thread(self._options_for, Path(cwd))
            options = replace(options, mcp_servers=tuple(server_of(each) for each in servers or ()))
        except WhimbrelError as error:
            raise refused(error.one_line()) from error
        session = _Session(
            session_id, options.repository, options, mode=options.permission_mode, effort=options.effort
        )
        self._sessions[session_id] = session
        return session

    def _find(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise refused(f"there is no session {session_id}; session/new or session/load opens one")
        return session


async def _answer(person: EditorPerson, asked: AskedPermission | AskedQuestion) -> None:
    """Fills the reply; an editor that fails to answer has said no."""
    if isinstance(asked, AskedPermission):
        from ..agent.events import PermissionAnswer

        allowed = PermissionAnswer(allowed=False, note="the editor gave no answer")
        with contextlib.suppress(RequestError, ConnectionError):
            allowed = await person.permission(asked.request)
        if not asked.reply.done():
            asked.reply.set_result(allowed)
        return
    answer = ""
    with contextlib.suppress(RequestError, ConnectionError):
        answer = await person.question(asked.question)
    if not asked.reply.done():
        asked.reply.set_result(answer)
