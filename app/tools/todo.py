"""The ``todo`` tool: the model's plan, replaced as a whole by each call.

Data: ``{"items": [{"text", "status"}]}``; doors show it from the event of the finished call.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from .base import PermissionClass, ToolArguments, ToolContext, ToolResult


class TodoItem(ToolArguments):
    text: str = Field(min_length=1, max_length=500)
    status: Literal["pending", "in_progress", "done"] = "pending"


class TodoArguments(ToolArguments):
    items: list[TodoItem] = Field(max_length=100, description="The whole plan, in order.")


class TodoTool:
    name: ClassVar[str] = "todo"
    arguments: ClassVar[type[ToolArguments]] = TodoArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    async def run(self, context: ToolContext, arguments: TodoArguments) -> ToolResult:
        """Always the same text: a plan changes nothing, and the loop guard sees calls that only plan."""
        items = [item.model_dump() for item in arguments.items]
        context.scratch["todo"] = items
        return ToolResult("The plan is noted. Go on with its next step.", {"items": items})
