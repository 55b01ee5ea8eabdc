"""One remote model against a scripted server, several steps in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whimbrel.engine.chat import (
    Message,
    ModelNotice,
    ReasoningPart,
    StreamEvent,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    user,
)
from whimbrel.engine.models import load_model
from whimbrel.engine.remote.client import RemoteModel

from ...mock_server import MockServer, Request, Script


class Conversation:
    """``async with Conversation(script, prefix="deepseek") as talk: await talk.step(history)``."""

    def __init__(
        self,
        script: Script,
        prefix: str = "vllm",
        *,
        validators: Sequence[Callable[[Request], str | None]] = (),
        environ: dict[str, str] | None = None,
        name: str = "scripted",
    ) -> None:
        self._name = name
        self.server = MockServer(script, validators=validators)
        self._prefix = prefix
        self._environ = environ or {}
        self.events: list[StreamEvent] = []

    async def __aenter__(self) -> Conversation:
        self.server.__enter__()
        model = load_model(self.server.model(self._name, prefix=self._prefix), environ=self._environ)
        assert isinstance(model, RemoteModel)
        self.model = model
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.model.close()
        self.server.__exit__(None, None, None)

    async def step(self, history: Sequence[Message] = (), **values: Any) -> list[StreamEvent]:
        events = [event async for event in self.model.stream(list(history) or [user("hi")], [], **values)]
        self.events += events
        return events

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, ModelNotice)]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.server.requests]

    @property
    def source(self) -> str:
        return self.model.endpoint.provider


def finished_round(
    *, thinking: str | None = None, field: str = "reasoning_content", source: str = "", text: str = ""
) -> list[Message]:
    """A user's question, a call of the model's, and its result."""
    parts: list[Any] = [] if thinking is None else [ReasoningPart(text=thinking, field=field, source=source)]
    parts += [TextPart(text=text)] if text else []
    parts.append(ToolCallPart(id="a", name="read", arguments='{"path": "x"}'))
    result = ToolResultPart(call_id="a", name="read", text="1\tx")
    return [
        user("look"),
        Message(role="assistant", parts=tuple(parts)),
        Message(role="tool", parts=(result,)),
    ]
