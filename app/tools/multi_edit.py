"""The ``multi_edit`` tool: several replacements in one file, all of them or none.

Data: ``{"path", "strategies": [str], "changed_lines": [first, last], "sha256", "replacements",
"is_test", "created": false, "syntax_errors", "lint"}`` as of ``edit``. Refusals are error results
whose data has ``"path"``, ``"reason"`` as of ``edit``, and ``"edit"``: which one (from 1) failed.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from . import edit_answers as answers
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .changes import Change, edit_lock, load, put, sha256_of, stale, unix
from .lint import lint_after, lint_before
from .paths import printable, writable_path
from .read import similar_names
from .replacing import Replaced, replace


class OneEdit(ToolArguments):
    old: str = Field(min_length=1, description="The text to replace, as it is after the edits before.")
    new: str = Field(description="What stands there afterwards; empty to delete.")
    occurrence: int | None = Field(default=None, ge=1, description="Which one, from 1, if there are several.")
    line: int | None = Field(default=None, ge=1, description="Or: the one at or nearest to this line.")
    replace_all: bool = Field(default=False, description="Replace every exact occurrence.")


class MultiEditArguments(ToolArguments):
    path: str = Field(description="File, relative to the repository's top.")
    edits: list[OneEdit] = Field(
        min_length=1, max_length=200, description="Made in this order, all of them or none."
    )


class MultiEditTool:
    name: ClassVar[str] = "multi_edit"
    arguments: ClassVar[type[ToolArguments]] = MultiEditArguments
    permission: ClassVar[PermissionClass] = PermissionClass.WRITE

    async def run(self, context: ToolContext, arguments: MultiEditArguments) -> ToolResult:
        """Raises ToolError when the file cannot be edited as text at all."""
        path = writable_path(context, arguments.path)
        async with edit_lock(context):
            await lint_before(context, [path])
            result = await asyncio.to_thread(_edit, context, path, arguments)
            return await lint_after(context, [path], result)


def _edit(context: ToolContext, path: str, arguments: MultiEditArguments) -> ToolResult:
    before = load(context.workspace.root, path)
    if before is None:
        raise ToolError(
            f"{printable(path)} does not exist", hint=similar_names(context.workspace.root / path)
        )
    refused = stale(context, path, before, unix(arguments.edits[0].old))
    if refused is not None:
        return refused
    data = before
    made: list[Replaced] = []
    for number, wanted in enumerate(arguments.edits, start=1):
        which = f"edit {number} of {len(arguments.edits)}"
        try:
            replaced = replace(path, data, wanted)
        except ToolError as error:
            raise ToolError(f"{which}: {error.message}; no edit was made", hint=error.hint) from error
        if isinstance(replaced, ToolResult):
            return answers.refused_part(replaced, f"No edit was made; {which}", number)
        made.append(replaced)
        data = replaced.data
    if data == before:
        raise ToolError("the edits cancel each other out; nothing would change")
    put(context, [Change(path, before, data)])
    return answers.edited_often(path, made[0].before, made[-1].after, made, sha256_of(data))
