"""The ``skill`` tool: reads one of the skills listed at the start, and the files of its folder.

Data: ``{"name", "file", "files": [str]}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from ..guidance.skills import Skill
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult


class SkillArguments(ToolArguments):
    name: str = Field(description="Name of the skill.")
    file: str = Field(default="SKILL.md", description="Another file of the skill's folder.")


class SkillTool:
    name: ClassVar[str] = "skill"
    arguments: ClassVar[type[ToolArguments]] = SkillArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = {skill.name: skill for skill in skills}

    async def run(self, context: ToolContext, arguments: SkillArguments) -> ToolResult:
        """Raises ToolError for a skill or file that is not there."""
        skill = self._skills.get(arguments.name)
        if skill is None:
            raise ToolError(f"there is no skill {arguments.name!r}", hint=f"known: {', '.join(self._skills)}")
        text = skill.text(arguments.file)
        others = [file for file in skill.files if file != arguments.file]
        if others and arguments.file == "SKILL.md":
            text += f"\n\n[other files of this skill: {', '.join(others)}]"
        return ToolResult(text, {"name": skill.name, "file": arguments.file, "files": list(skill.files)})
