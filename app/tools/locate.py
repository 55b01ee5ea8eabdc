"""The ``locate`` tool: suspicious places of the failing tests.

Data: ``{"locations": [{"path", "function", "line", "end_line", "score", "reasons": [str]}]}``.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import ClassVar

from pydantic import Field

from .base import PermissionClass, Progress, ToolArguments, ToolContext, ToolResult


class LocateArguments(ToolArguments):
    tests: list[str] = Field(
        default_factory=list, description="Ids of failing tests to explain; empty: all that fail."
    )
    limit: int = Field(default=10, ge=1, le=100, description="How many places to give.")


class LocateTool:
    name: ClassVar[str] = "locate"
    arguments: ClassVar[type[ToolArguments]] = LocateArguments
    permission: ClassVar[PermissionClass] = PermissionClass.EXECUTE

    async def run(self, context: ToolContext, arguments: LocateArguments) -> ToolResult:
        """Ranks functions; no failing test gives an empty list."""
        from ..repair.baseline import take_baseline
        from ..repair.localise import localise

        context.progress(Progress("locate", "running the tests with coverage"))
        baseline = (await take_baseline(context)).narrowed(arguments.tests or context.target_tests)
        if not baseline.targets:
            return ToolResult("No test fails, so there is nothing to locate.", {"locations": []})
        localisation = localise(context, baseline)
        readable = [place for place in localisation.locations if context.paths.readable(place.path)]
        shown = readable[: arguments.limit]
        lines = [
            f"{place.path}:{place.line} {place.function} ({place.score:.2f}): {'; '.join(place.reasons)}"
            for place in shown
        ]
        hidden = len(readable) - len(shown)
        if hidden:
            lines.append(f"[{hidden} more places not shown]")
        lines += localisation.notes
        data = {"locations": [{**asdict(place), "reasons": list(place.reasons)} for place in shown]}
        return ToolResult("\n".join(lines) or "No line of the project was run by the failing tests.", data)
