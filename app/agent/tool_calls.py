"""Runs the tool calls of one step: check, permission, run, and exactly one result each."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from pydantic import ValidationError

from ...engine.chat import ImagePart, ToolResultPart
from ...sandbox.base.errors import WhimbrelError
from ..tools.base import PermissionClass, Progress, Tool, ToolArguments, ToolContext, ToolResult
from ..tools.invisible import flagged
from .events import (
    AgentEvent,
    CommandPart,
    Notice,
    PermissionAnswer,
    PermissionAnswered,
    PermissionAsked,
    PermissionRequest,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from .history import Call, clean_data, clean_text
from .limits import out_of_time
from .permissions import Decision, Permissions, subject_of
from .prompts import delimited

Ask = Callable[[PermissionRequest], Awaitable[PermissionAnswer]]

DEADLINE_GRACE_S = 15.0
"""Tools know the deadline and end by it; one that does not is cancelled this much later."""

MAX_RESULT_CHARACTERS = 100_000
"""Last resort: tools bound their own texts far below this."""


@dataclass(frozen=True)
class Answered:
    """A call with its result, for the history, the limits and the loop."""

    call: Call
    permission: PermissionClass | None
    """None when there is no such tool."""
    result: ToolResultPart
    denied: str = ""
    """Why it was not allowed, or empty."""
    images: tuple[ImagePart, ...] = ()
    """For the model, in a message of their own."""


class ToolCalls:
    """Runs calls against the tools of one run."""

    def __init__(
        self,
        tools: Sequence[Tool],
        context: ToolContext,
        permissions: Permissions,
        emit: Callable[[AgentEvent], None],
        ask: Ask | None,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._context = context
        self._permissions = permissions
        permissions.bind(context)
        self._emit = emit
        self._ask = ask

    async def run(
        self, calls: Sequence[Call], deadline: float | None, record: Callable[[Answered], None]
    ) -> None:
        """Runs the calls in order; neighbours that only read run at the same time.

        ``record`` gets each result in the order of the calls, as soon as that order allows.

        Raises:
            WhimbrelError: what ends the run; results gathered so far are recorded.
            asyncio.CancelledError: running tools have been cancelled and awaited.
        """
        for reads, group in groupby(calls, key=self._only_reads):
            batch = list(group)
            if not reads:
                for call in batch:
                    record(await self._one(call, deadline))
                continue
            # gather waits for every child even when it is cancelled itself, because
            # exceptions are returned: no tool outlives its step.
            results = await asyncio.gather(
                *(self._one(call, deadline) for call in batch), return_exceptions=True
            )
            for result in results:
                if isinstance(result, Answered):
                    record(result)
            for result in results:
                if isinstance(result, BaseException):
                    raise result

    def _only_reads(self, call: Call) -> bool:
        tool = self._tools.get(call.part.name)
        return tool is not None and tool.permission is PermissionClass.READ

    async def _one(self, call: Call, deadline: float | None) -> Answered:
        tool = self._tools.get(call.part.name)
        if tool is None:
            names = ", ".join(self._tools)
            text = f"there is no tool {call.part.name!r}, so nothing was run; the tools are: {names}"
            return self._answer(call, None, ToolResult(text, is_error=True))
        if call.arguments is None:
            return self._answer(call, tool.permission, ToolResult(call.problem, is_error=True))
        try:
            arguments = parse_arguments(tool.arguments, call.arguments)
        except ValidationError as error:
            text = explain_validation(tool, error)
            return self._answer(call, tool.permission, ToolResult(text, is_error=True))
        denied = await self._denied(tool, call)
        if denied:
            text = f"not allowed: {denied}. Go on without it, or say what you would need it for"
            return replace(
                self._answer(call, tool.permission, ToolResult(text, is_error=True)), denied=denied
            )
        self._emit(
            ToolStarted(
                call_id=call.part.id,
                name=tool.name,
                permission=tool.permission.value,
                arguments=clean_data(call.arguments),
            )
        )
        started = time.monotonic()
        result = await self._run_tool(tool, call, arguments, deadline)
        return self._answer(call, tool.permission, result, time.monotonic() - started)

    async def _run_tool(
        self, tool: Tool, call: Call, arguments: ToolArguments, deadline: float | None
    ) -> ToolResult:
        def progress(step: Progress) -> None:
            self._emit(
                ToolProgress(
                    call_id=call.part.id,
                    name=tool.name,
                    phase=step.phase,
                    text=clean_text(step.text),
                    fraction=step.fraction,
                    data=clean_data(step.data),
                )
            )

        context = replace(self._context, progress=progress, deadline=deadline, call_id=call.part.id)
        left = None if deadline is None else max(0.0, deadline - time.monotonic()) + DEADLINE_GRACE_S
        limit = asyncio.timeout(left)
        try:
            async with limit:
                return await tool.run(context, arguments)
        except TimeoutError as error:
            if limit.expired():
                raise out_of_time() from error
            return ToolResult(f"{tool.name} timed out: {error}", is_error=True)
        except WhimbrelError as error:
            if not error.model_sees:
                raise
            return ToolResult(error.one_line(), is_error=True)
        except Exception as error:  # noqa: BLE001 - a fault in one tool is an answer to the model, not the end
            trace = "".join(traceback.format_exception(error))
            handle = self._context.keep(trace.encode("utf-8", "backslashreplace"), "text/plain")
            line = f"{tool.name} failed unexpectedly: {type(error).__name__}: {error}"
            self._emit(
                Notice(level="error", text=clean_text(f"{line} (traceback kept as artifact:{handle})"))
            )
            return ToolResult(line, artifacts=(handle,), is_error=True)

    async def _denied(self, tool: Tool, call: Call) -> str:
        """Why the call must not run, or empty."""
        arguments: dict[str, Any] = call.arguments or {}
        verdict = self._permissions.decide(tool, arguments)
        if verdict.decision is Decision.ALLOW:
            return ""
        if verdict.decision is Decision.DENY:
            return verdict.reason
        request = PermissionRequest(
            call_id=call.part.id,
            tool=tool.name,
            permission=tool.permission.value,
            subject=clean_text(subject_of(arguments)),
            arguments=clean_data(arguments),
            reason=verdict.reason,
            parts=tuple(
                CommandPart.model_validate(
                    {"shown": clean_text(shown), "decision": decision, "reason": clean_text(reason)}
                )
                for shown, decision, reason in self._permissions.parts(tool, arguments)
            ),
        )
        if self._ask is None:
            return f"{verdict.reason}, and nobody is there to ask"
        self._emit(PermissionAsked(request=request))
        answer = await self._ask(request)
        self._emit(PermissionAnswered(request=request, answer=answer))
        if answer.allowed and answer.remember:
            self._permissions.remember(tool, arguments, answer.prefix, store=answer.store)
        return "" if answer.allowed else (answer.note or "the person said no")

    def _answer(
        self, call: Call, permission: PermissionClass | None, result: ToolResult, duration_s: float = 0.0
    ) -> Answered:
        text, artifacts = flagged(clean_text(result.text)), result.artifacts
        if permission is PermissionClass.NETWORK and not result.is_error:
            text = delimited(text, "WEB")
        if len(text) > MAX_RESULT_CHARACTERS:
            handle = self._context.keep(text.encode("utf-8"), "text/plain")
            half = MAX_RESULT_CHARACTERS // 2
            hidden = f"{len(text) - 2 * half} of {len(text)} characters not shown"
            gap = f"[... {hidden}; all of it: artifact:{handle} ...]"
            text, artifacts = f"{text[:half]}\n{gap}\n{text[-half:]}", (*artifacts, handle)
        part = ToolResultPart(
            call_id=call.part.id,
            name=call.part.name,
            text=text or "(no output)",
            data=clean_data(result.data),
            artifacts=artifacts,
            is_error=result.is_error,
        )
        self._emit(ToolFinished.of(part, duration_s))
        return Answered(call, permission, part, images=result.images)


def parse_arguments(model: type[ToolArguments], values: dict[str, Any]) -> ToolArguments:
    """Validates; a list given for a string is joined like a command, a lone string given for a list wrapped.

    Raises:
        ValidationError: of the arguments as the model gave them.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        repaired = dict(values)
        for problem in error.errors(include_url=False):
            name = problem["loc"][0] if len(problem["loc"]) >= 1 else ""
            value = values.get(str(name))
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                if problem["type"] == "string_type":
                    repaired[str(name)] = shlex.join(value)
            elif isinstance(value, str) and problem["type"] in ("list_type", "tuple_type", "dict_type"):
                repaired[str(name)] = _decoded(value, problem["type"])
        if repaired == values:
            raise
        try:
            return model.model_validate(repaired)
        except ValidationError:
            raise error from None


def explain_validation(tool: Tool, error: ValidationError) -> str:
    """One line a model can act on: what is wrong with which argument, and what the tool takes."""
    problems: list[str] = []
    for problem in error.errors(include_url=False):
        where = ".".join(str(item) for item in problem["loc"]) or "arguments"
        given = "" if problem["type"] == "missing" else f" (got {_short(problem['input'])})"
        problems.append(f"{where}: {problem['msg']}{given}")
    schema = tool.arguments.model_json_schema()
    required = set(schema.get("required", ()))
    takes = ", ".join(
        f"{name}{'' if name in required else ' (optional)'}" for name in schema.get("properties", {})
    )
    return f"{tool.name} was not run; {'; '.join(problems)}. It takes: {takes or 'no arguments'}"


def _decoded(value: str, wanted: str) -> Any:
    try:
        decoded = json.loads(value)
    except ValueError:
        decoded = None
    if isinstance(decoded, list | dict):
        return decoded
    return value if wanted == "dict_type" else [value]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
