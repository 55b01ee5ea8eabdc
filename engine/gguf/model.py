"""``llama:PATH.gguf``: a model that llama.cpp runs on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import ConfigError, ModelError, ToolError
from ..chat import (
    Capabilities,
    Effort,
    Finished,
    FinishReason,
    Message,
    ModelNotice,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    ToolSpec,
    Usage,
)
from ..remote.failures import Failure, RemoteError
from ..remote.wire import estimate_tokens
from .files import UnusableModel, facts, wheel_model
from .library import lacking_library
from .messages import plain_messages, plain_tools
from .tags import Piece, TagParser, read_call
from .worker import Worker

WHEEL = "smollm2"
"""``llama:smollm2`` is the model of the ``local`` extra."""
CONTEXT, THREADS = "WHIMBREL_LLAMA_CONTEXT", "WHIMBREL_LLAMA_THREADS"
"""Variables: tokens of context at most, and threads."""

_WINDOW = 32768
"""Without the variable: more would take memory that nobody asked for."""
_UNKNOWN_WINDOW = 4096
_MOST_THREADS = 8
THINKING: dict[Effort, int] = {"low": 256, "high": 4096, "max": 16384}
"""Tokens of thinking, after which it is closed."""
_ANSWER = 4096
_COUNT_S = 60.0


@dataclass(frozen=True)
class Local:
    """A model file and how it is run."""

    name: str
    path: Path
    window: int
    threads: int


def resolve_file(name: str, environ: Mapping[str, str]) -> Local:
    """Checks the file and the settings; nothing native is started.

    Raises:
        ConfigError: the extra is missing, the file is none that can be used, or a variable is no number.
    """
    if lacking_library() is not None:
        raise ConfigError(
            f"llama:{name} needs llama.cpp, which is not installed", hint="run `make local` once"
        )
    if name == WHEEL:
        path = wheel_model()
        if path is None:
            raise ConfigError("the model smollm2 is not installed", hint="run `make local` once")
    else:
        path = Path(name).expanduser().absolute()
    try:
        known = facts(path)
    except UnusableModel as error:
        raise ConfigError(str(error), hint="name a GGUF file of a language model") from error
    window = min(known.context_length or _UNKNOWN_WINDOW, _number(environ, CONTEXT) or _WINDOW)
    threads = _number(environ, THREADS) or min(_MOST_THREADS, _processors())
    return Local(f"llama:{name}", path, window, threads)


class UnusableForm(ModelError):
    """The answer cannot be held to the form that was asked for."""


class LlamaModel:
    """Implements ChatModel; the process is started when it is needed, and again after it has died."""

    def __init__(self, local: Local, *, call_first: bool = False) -> None:
        """``call_first``: every answer must be a call of a tool (the grammar holds from the first token)."""
        self._local = local
        self._call_first = call_first
        self._worker: Worker | None = None

    @property
    def name(self) -> str:
        return self._local.name

    @property
    def context_window(self) -> int | None:
        return self._local.window

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(tools=True, parallel_tools=True, images=False, effort=True, deterministic=True)

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._worker is None or self._worker.gone else self._worker.pid

    def count_tokens(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """Exact: the tokens of the prompt as the model's own template makes it."""
        try:
            answer = self._running().call({"do": "count", **self.conversation(history, tools)}, _COUNT_S)
        except ModelError:
            answer = None
        if answer is None or "tokens" not in answer:
            # Why it fails is told by the next step, which fails for the same reason.
            return estimate_tokens(history, tools)
        return int(answer["tokens"])

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await asyncio.to_thread(worker.close)

    async def stream(
        self,
        history: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        effort: Effort = "high",
        max_output_tokens: int | None = None,
        seed: int | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """See ChatModel. Leaving the stream early stops the model after the token it is at."""
        thinking = THINKING[effort]
        request = {
            "do": "answer",
            **self.conversation(history, tools),
            "seed": secrets.randbits(31) if seed is None else seed,
            "most_tokens": thinking + _ANSWER if max_output_tokens is None else max_output_tokens,
            "answer_tokens": _ANSWER if max_output_tokens is None else max_output_tokens,
            "thinking_tokens": thinking,
            "call_first": self._call_first and bool(tools),
        }
        cut = False

        def watch(answer: dict[str, Any]) -> None:
            nonlocal cut
            cut = bool(answer.get("done", {}).get("thinking_cut"))

        async with aclosing(self.answer(request, f"call_{len(history)}", watch=watch)) as events:
            async for event in events:
                if cut and isinstance(event, Usage):
                    yield ModelNotice(text=f"thinking was ended after {thinking} tokens (effort {effort})")
                yield event

    async def answer(
        self,
        request: dict[str, Any],
        prefix: str,
        *,
        watch: Callable[[dict[str, Any]], None] = lambda _: None,
        halted: Callable[[], bool] = lambda: False,
    ) -> AsyncGenerator[StreamEvent]:
        """Asks the process (see ``child``) and turns what it says into events.

        Args:
            prefix: of the ids of calls.
            watch: sees everything the process says before it becomes events.
            halted: asked after each event; True ends the answer after the token it is at.
        """
        loop = asyncio.get_running_loop()
        answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        def receive(answer: dict[str, Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has gone down meanwhile
                loop.call_soon_threadsafe(answers.put_nowait, answer)

        worker = self._running()
        number = worker.expect(receive)
        over = ended = False
        reader = _Reader(self.name, prefix)
        try:
            # A long history does not fit into the pipe while the process is still starting.
            await asyncio.to_thread(worker.send, number, request)
            while not over:
                answer = await answers.get()
                over = "done" in answer or "failed" in answer
                if "failed" in answer:
                    raise _failure(self.name, answer)
                watch(answer)
                for event in reader.events(answer):
                    yield event
                if not (over or ended) and halted():
                    ended = True
                    worker.halt(number)
        finally:
            if not over:
                worker.abort(number)
            worker.forget(number)
        yield Usage(
            input_tokens=reader.done["input_tokens"],
            output_tokens=reader.done["output_tokens"],
            cached_tokens=reader.done["cached_tokens"],
            reasoning_tokens=reader.done["thinking_tokens"],
        )
        yield Finished(reason=reader.reason())

    def conversation(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> dict[str, Any]:
        """The part of a request that makes the prompt."""
        return {"messages": plain_messages(history, self.name), "tools": plain_tools(tools)}

    def _running(self) -> Worker:
        if self._worker is None or self._worker.gone:
            local = self._local
            try:
                self._worker = Worker(local.path, window=local.window, threads=local.threads)
            except ToolError as error:
                raise ModelError(f"{self.name}: {error.message}") from error
        return self._worker


class _Reader:
    """From what the process says to stream events."""

    def __init__(self, source: str, prefix: str) -> None:
        self._source = source
        self._prefix = prefix
        self._parser = TagParser()
        self._calls = 0
        self.done: dict[str, Any] = {}

    def events(self, answer: dict[str, Any]) -> Iterator[StreamEvent]:
        if "thinking" in answer:
            self._parser = TagParser(thinking=answer["thinking"])
        elif "text" in answer:
            for piece in self._parser.feed(answer["text"]):
                yield from self._piece(piece)
        elif "done" in answer:
            self.done = answer["done"]
            for piece in self._parser.finish():
                yield from self._piece(piece)

    def reason(self) -> FinishReason:
        reason = self.done["reason"]
        if reason == "stop" and self._calls:
            return "tool_calls"
        return {"stop": "stop", "length": "length", "aborted": "cancelled"}[reason]  # pyright: ignore[reportReturnType]

    def _piece(self, piece: Piece) -> Iterator[StreamEvent]:
        if piece.kind == "text":
            yield TextDelta(text=piece.text)
        elif piece.kind == "reasoning":
            yield ReasoningDelta(text=piece.text, source=self._source)
        else:
            # Numbered by place, not by chance: the same question gives the same answer.
            name, arguments = read_call(piece.text)
            call_id = f"{self._prefix}_{self._calls}"
            self._calls += 1
            yield ToolCallStart(id=call_id, name=name)
            yield ToolCallArguments(id=call_id, delta=arguments)
            yield ToolCallEnd(id=call_id, name=name, arguments=arguments if arguments.strip() else "{}")


def _failure(name: str, answer: dict[str, Any]) -> ModelError:
    reason = str(answer["failed"])
    if answer.get("kind") == "overflow":
        return RemoteError(Failure.CONTEXT_OVERFLOW, f"{name}: {reason}")
    if answer.get("kind") == "form":
        return UnusableForm(f"{name}: {reason}")
    return ModelError(f"{name}: {reason}")


def _processors() -> int:
    """Those this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _number(environ: Mapping[str, str], variable: str) -> int | None:
    text = environ.get(variable, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 24):
        raise ConfigError(f"{variable} is {text[:40]!r}, which is no number of use")
    return int(text)
