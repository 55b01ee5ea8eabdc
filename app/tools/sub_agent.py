"""The ``sub_agent`` tool: another agent with a fresh history does one part of the work.

Data: ``{"status", "steps", "tokens", "tools": [str], "denied": [str], "artifact": str | None}``;
``status`` is ``answered``, or that of the error that ended it (budget, loop, model_error, ...): then
the result is an error.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from ...sandbox.base.errors import (
    Cancelled,
    ConfigError,
    EnvironmentBroken,
    SandboxUnavailable,
    Terminated,
    ToolError,
)
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult

MAX_ANSWER_CHARS = 20_000
_NOT_INSIDE = ("sub_agent", "ask")


class SubAgentArguments(ToolArguments):
    task: str = Field(
        min_length=1, max_length=20_000, description="All it needs to know; it sees nothing else."
    )
    tools: list[str] | None = Field(default=None, description="Tools it may use; left out: all of yours.")
    max_steps: int = Field(default=30, ge=1, le=200, description="Questions to the model at most.")
    max_tokens: int | None = Field(default=None, ge=1, description="Tokens at most.")
    max_seconds: float | None = Field(default=None, gt=0, description="Seconds at most.")


class SubAgentTool:
    name: ClassVar[str] = "sub_agent"
    arguments: ClassVar[type[ToolArguments]] = SubAgentArguments
    # Starting one touches nothing; each of its calls is checked by itself.
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    async def run(self, context: ToolContext, arguments: SubAgentArguments) -> ToolResult:
        """A sub-agent that fails is an error result that says why.

        Raises:
            ToolError: there is no such tool to give it, or sub-agents cannot run here.
            WhimbrelError: what ends the whole run, such as a sandbox that died.
        """
        from ..agent.children import ChildTask

        children = context.children
        if children is None:
            raise ToolError("no sub-agent can run here")
        known = [tool.name for tool in children.tools if tool.name not in _NOT_INSIDE]
        wanted = known if arguments.tools is None else list(dict.fromkeys(arguments.tools))
        wrong = [name for name in wanted if name not in known]
        if wrong:
            raise ToolError(
                f"a sub-agent cannot have {', '.join(wrong)}", hint=f"the tools are: {', '.join(known)}"
            )
        task = ChildTask(
            arguments.task, tuple(wanted), arguments.max_steps, arguments.max_tokens, arguments.max_seconds
        )
        outcome = await children.run(task, context)
        error = outcome.error
        if isinstance(error, SandboxUnavailable | EnvironmentBroken | ConfigError | Cancelled | Terminated):
            raise error
        answer = outcome.final_text.strip()
        handle = None
        if len(answer) > MAX_ANSWER_CHARS:
            handle = context.keep(answer.encode("utf-8", "replace"), "text/plain")
            gap = f"\n[... of {len(answer)} characters; all of it: artifact:{handle}]"
            answer = answer[:MAX_ANSWER_CHARS] + gap
        data = {
            "status": outcome.status,
            "steps": outcome.steps,
            "tokens": outcome.usage.tokens,
            "tools": wanted,
            "denied": list(outcome.denied),
            "artifact": handle,
        }
        artifacts = (handle,) if handle else ()
        if error is not None:
            text = (
                f"The sub-agent did not finish, after {outcome.steps} steps: {error.one_line()}. It gave no"
                " answer; what it changed in files is there. Do it yourself, or give a smaller task."
            )
            return ToolResult(text, data, artifacts, is_error=True)
        return ToolResult(
            answer or "The sub-agent gave an empty answer.", data, artifacts, is_error=not answer
        )
