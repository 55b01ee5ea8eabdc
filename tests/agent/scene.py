"""A repository, its copy in a real sandbox, a session, and an agent whose model is scripted over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from whimbrel.app.agent.events import AgentEvent
from whimbrel.app.agent.limits import Limit
from whimbrel.app.agent.loop import Agent, AgentOutcome
from whimbrel.app.agent.permissions import Permissions
from whimbrel.app.agent.prompts import opening
from whimbrel.app.agent.tiers import EffortChoice
from whimbrel.app.agent.tool_calls import Ask
from whimbrel.app.sessions import SessionStore, SessionWriter
from whimbrel.app.tools.base import PermissionClass, Tool, ToolArguments, ToolContext, ToolResult
from whimbrel.engine.chat import ChatModel, Message
from whimbrel.engine.models import load_model

from ..mock_server import MockServer, Script, arguments_are_json, every_call_answered
from ..repair.project import opened

SHOP: Mapping[str, str | bytes] = {
    "shop/__init__.py": "",
    "shop/total.py": (
        "def total(prices):\n    result = 0\n"
        "    for price in prices[1:]:\n        result += price\n    return result\n"
    ),
    "tests/test_total.py": (
        "from shop.total import total\n\n\n"
        "def test_sum():\n    assert total([1, 2, 3]) == 6\n\n\n"
        "def test_nothing():\n    assert total([]) == 0\n"
    ),
}


@dataclass
class Scene:
    """One run's surroundings."""

    context: ToolContext
    store: SessionStore
    session: SessionWriter
    events: list[AgentEvent] = field(default_factory=list[Any])
    agent: Agent | None = None
    server: MockServer | None = None

    def make(
        self,
        model: ChatModel,
        tools: Sequence[Tool],
        *,
        limits: Sequence[Limit] = (),
        permissions: Permissions | None = None,
        ask: Ask | None = None,
    ) -> Agent:
        self.agent = Agent(
            model,
            tools,
            self.context,
            session=self.session,
            limits=limits,
            permissions=permissions or Permissions.for_sandbox(self.context.sandbox.describe()),
            on_event=self.events.append,
            ask=ask,
        )
        return self.agent

    async def play(
        self,
        script: Script,
        tools: Sequence[Tool],
        *,
        validators: Sequence[Any] = (),
        issue: str = "it is wrong",
        effort: EffortChoice = "high",
        **values: Any,
    ) -> AgentOutcome:
        """Runs the agent against a scripted strict server; the server's view is in ``self.server``."""
        strict = (every_call_answered, arguments_are_json, *validators)
        with MockServer(script, validators=strict) as self.server:
            model = load_model(self.server.model(), environ={})
            try:
                return await self.make(model, tools, **values).run(opening(issue), effort=effort)
            finally:
                await model.close()

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.kind == kind]

    def stored(self) -> list[Message]:
        """The messages in the session, in order."""
        events = self.store.events(self.session.id)
        return [Message.model_validate(event.payload) for event in events if event.kind == "message"]

    def results(self) -> list[tuple[str, str, bool]]:
        """(call id, text, error) of every result the last request carried."""
        parts = [part for message in self.stored() for part in message.parts if part.kind == "tool_result"]
        return [(part.call_id, part.text, part.is_error) for part in parts]


@asynccontextmanager
async def scene(
    base: Path, files: Mapping[str, str | bytes] = SHOP, *, kind: str = "host"
) -> AsyncIterator[Scene]:
    store = SessionStore.open(base / "session-state")
    session = store.create(title="a test", repository=str(base / "repository"), model="scripted")
    async with opened(base, files, kind=kind) as context:
        context.keep, context.fetch = session.keep, session.fetch
        context.ledger.listen(session.evidence)
        yield Scene(context, store, session)
    session.close("ended")
    store.close()


class PathArguments(ToolArguments):
    path: str
    count: int = 1


def tool(
    name: str,
    action: Callable[[ToolContext, Any], Awaitable[ToolResult]],
    permission: PermissionClass = PermissionClass.READ,
    arguments: type[ToolArguments] = PathArguments,
) -> Tool:
    """A tool of this test; the name must be one of the product's, whose description it borrows."""

    class TestTool:
        async def run(self, context: ToolContext, values: Any) -> ToolResult:
            return await action(context, values)

    made: Any = type(
        "TestTool", (TestTool,), {"name": name, "arguments": arguments, "permission": permission}
    )
    return made()


class Echo:
    """Answers with its argument; counts how often."""

    name: ClassVar[str] = "read"
    arguments: ClassVar[type[ToolArguments]] = PathArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def run(self, context: ToolContext, arguments: PathArguments) -> ToolResult:
        self.seen.append(arguments.path)
        return ToolResult(f"content of {arguments.path}", {"path": arguments.path})
