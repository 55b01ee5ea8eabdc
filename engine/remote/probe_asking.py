"""The questions of a probe as requests: small, patient with refusals, and watched."""

from __future__ import annotations

import base64
import copy
import struct
import zlib
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from ..chat import Finished, ReasoningDelta, TextDelta, ToolCallEnd, Usage
from . import tags
from .dialects import DIALECTS, Dialect
from .failures import Failure, RemoteError
from .learned import THINKING, Learned
from .transport import Transport

_MAX_LESSONS = 8
_REFUSALS = frozenset(
    {Failure.BAD_REQUEST, Failure.UNSUPPORTED_PARAMETER, Failure.SERVER, Failure.CONTEXT_OVERFLOW}
)
"""What a server does that cannot take a request; a few answer 500."""
_CHARACTERS_PER_TOKEN = 4


@dataclass
class Answer:
    """What came back."""

    text: str = ""
    thinking: str = ""
    calls: list[ToolCallEnd] = field(default_factory=list[ToolCallEnd])
    usage: Usage | None = None
    finish: str = ""
    error: RemoteError | None = None

    @property
    def refused(self) -> str:
        """Why the endpoint did not take the question, or empty."""
        return self.error.message.partition(": ")[2][:160] if self.error else ""

    @property
    def prompt_tokens(self) -> int | None:
        return self.usage.input_tokens if self.usage else None

    @property
    def thinking_tokens(self) -> int:
        """As counted by the endpoint, else guessed from the text."""
        counted = self.usage.reasoning_tokens if self.usage else None
        return counted if counted else len(self.thinking) // _CHARACTERS_PER_TOKEN


class Asker:
    """Asks, and remembers across questions what the answers have in common."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._learned = Learned()
        self.dialect: Dialect = transport.endpoint.dialect
        self.lessons: list[str] = []
        self.field = ""
        """Name under which thinking came."""
        self.tags = False
        """Whether think tags came inside the text."""
        self.usage = False
        self.cached = False
        self.answers = 0

    def speak(self, prefix: str) -> None:
        """Uses this family's fields from now on."""
        self.dialect = DIALECTS[prefix]

    @property
    def content(self) -> str:
        """The form of ``content`` beside calls that has not been refused."""
        return self._learned.content

    @property
    def steers_thinking(self) -> bool:
        """Whether any field that steers thinking has not been refused."""
        return bool(THINKING & set(self._learned.apply(dict(self.dialect.tiers.get("low", {})))))

    async def ask(
        self,
        question: str | list[dict[str, Any]],
        *,
        tokens: int,
        tier: str = "low",
        tested: dict[str, Any] | None = None,
    ) -> Answer:
        """One question; a refusal of what is ``tested`` is an answer, too.

        Raises:
            RemoteError: failures that say nothing about the question.
        """
        messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
        tested = tested or {}
        for _ in range(_MAX_LESSONS):
            body = self._body(messages, tokens, tier) | tested
            try:
                return await self._once(body)
            except RemoteError as error:
                lesson = ""
                if error.parameter not in tested:
                    lesson = self._learned.learn(error, body)
                if lesson:
                    self.lessons.append(lesson)
                    continue
                if error.failure not in _REFUSALS:
                    raise
                return Answer(error=error)
        raise RemoteError(Failure.BAD_REQUEST, f"{self._transport.endpoint.base_url} refuses every request")

    def _body(self, messages: list[dict[str, Any]], tokens: int, tier: str) -> dict[str, Any]:
        is_openai = self._transport.endpoint.is_openai
        limit = self._learned.output_limit or ("max_completion_tokens" if is_openai else "max_tokens")
        fields: dict[str, Any] = {
            "stream_options": {"include_usage": True},
            limit: tokens,
            **copy.deepcopy(dict(self.dialect.always)),
            **copy.deepcopy(dict(self.dialect.tiers.get(tier, {}))),
        }
        return {"messages": self._formed(messages), **self._learned.apply(fields)}

    def _formed(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """With the content beside calls in the form that the endpoint takes."""
        formed: list[dict[str, Any]] = []
        for message in messages:
            if message.get("tool_calls"):
                message = {key: value for key, value in message.items() if key != "content"}
                if self._learned.content != "missing":
                    message["content"] = None if self._learned.content == "null" else ""
            formed.append(message)
        return formed

    async def _once(self, body: dict[str, Any]) -> Answer:
        answer = Answer()
        async with aclosing(self._transport.attempt(body)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    answer.text += event.text
                elif isinstance(event, ReasoningDelta):
                    answer.thinking += event.text
                    if event.field == tags.FIELD:
                        self.tags = True
                    else:
                        self.field = event.field
                elif isinstance(event, ToolCallEnd):
                    answer.calls.append(event)
                elif isinstance(event, Usage):
                    answer.usage = event
                elif isinstance(event, Finished):
                    answer.finish = event.reason
        self.answers += 1
        if answer.usage is not None:
            self.usage = self.usage or answer.usage.input_tokens is not None
            self.cached = self.cached or answer.usage.cached_tokens is not None
        return answer


def add_tool() -> dict[str, Any]:
    """A tool that every model understands."""
    number = {"type": "integer"}
    return {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds two whole numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": number, "b": number},
                "required": ["a", "b"],
            },
        },
    }


def add_call() -> dict[str, Any]:
    """A finished call of it, as history holds it."""
    return {
        "id": "call_probe_1",
        "type": "function",
        "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'},
    }


def red_square(size: int = 64) -> str:
    """A red PNG as a data address."""

    def block(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xe0\x10\x10" * size) * size
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n"
        + block(b"IHDR", head)
        + block(b"IDAT", zlib.compress(rows))
        + block(b"IEND", b"")
    )
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
