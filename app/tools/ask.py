"""The ``ask`` tool: a question to the person. Offered only where somebody can answer.

Data: ``{"question", "answer"}``.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from .base import PermissionClass, Question, ToolArguments, ToolContext, ToolResult


class AskArguments(ToolArguments):
    question: str = Field(min_length=1, max_length=2000)
    options: list[str] = Field(
        default_factory=list, max_length=10, description="Answers to choose from, if it is a choice."
    )


class AskTool:
    name: ClassVar[str] = "ask"
    arguments: ClassVar[type[ToolArguments]] = AskArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    async def run(self, context: ToolContext, arguments: AskArguments) -> ToolResult:
        """Raises ToolError where nobody can answer, or nobody does."""
        if context.ask is None:
            raise ToolError(
                "nobody is there to ask", hint="decide yourself, and say in the answer what you assumed"
            )
        # Calls that only read run side by side; a person answers one question at a time.
        lock: asyncio.Lock = context.scratch.setdefault("ask_lock", asyncio.Lock())
        async with lock:
            answer = (await context.ask(Question(arguments.question, tuple(arguments.options)))).strip()
        if not answer:
            raise ToolError("the person gave no answer", hint="decide yourself, and say what you assumed")
        return ToolResult(f"The person answers: {answer}", {"question": arguments.question, "answer": answer})
