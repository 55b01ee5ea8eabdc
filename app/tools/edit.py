"""The ``edit`` tool: replaces a piece of text in a file, or makes a new file.

Data: ``{"path", "strategy", "changed_lines": [first, last], "sha256", "replacements", "is_test",
"created", "syntax_errors": [{"line", "column", "message"}], "lint": [{"path", "line", "message",
"tool"}]}`` (``lint``: only what the edit brought, where a linter ran); ``strategy`` is ``exact``,
``trailing_whitespace``, ``whitespace_folding`` or ``created``. Refusals are error results whose
data has ``"path"`` and ``"reason"``: ``stale``, ``ambiguous`` (with ``"lines"``) or ``not_found``.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from . import edit_answers as answers
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .changes import MAX_BYTES, Change, edit_lock, load, new_file, put, sha256_of, stale, unix
from .lint import lint_after, lint_before
from .paths import printable, writable_path
from .read import similar_names
from .replacing import replace

__all__ = ["MAX_BYTES", "EditArguments", "EditTool"]


class EditArguments(ToolArguments):
    path: str = Field(description="File, relative to the repository's top.")
    old: str = Field(description="The text to replace; empty to make a new file.")
    new: str = Field(description="What stands there afterwards; empty to delete.")
    occurrence: int | None = Field(default=None, ge=1, description="Which one, from 1, if there are several.")
    line: int | None = Field(default=None, ge=1, description="Or: the one at or nearest to this line.")
    replace_all: bool = Field(default=False, description="Replace every exact occurrence.")


class EditTool:
    name: ClassVar[str] = "edit"
    arguments: ClassVar[type[ToolArguments]] = EditArguments
    permission: ClassVar[PermissionClass] = PermissionClass.WRITE

    async def run(self, context: ToolContext, arguments: EditArguments) -> ToolResult:
        """Raises ToolError when the file cannot be edited as text at all."""
        path = writable_path(context, arguments.path)
        async with edit_lock(context):
            await lint_before(context, [path])
            result = await asyncio.to_thread(_edit, context, path, arguments)
            return await lint_after(context, [path], result)


def _edit(context: ToolContext, path: str, arguments: EditArguments) -> ToolResult:
    data = load(context.workspace.root, path)
    if data is None:
        if arguments.old:
            hint = similar_names(context.workspace.root / path)
            raise ToolError(
                f"{printable(path)} does not exist", hint=f"{hint}; an empty old makes a new file"
            )
        if "\0" in arguments.new:
            raise ToolError("new holds a NUL character, which no text file has")
        made = new_file(path, arguments.new)
        put(context, [Change(path, None, made)])
        return answers.created(path, unix(arguments.new), len(made), sha256_of(made))
    refused = stale(context, path, data, unix(arguments.old))
    if refused is not None:
        return refused
    replaced = replace(path, data, arguments)
    if isinstance(replaced, ToolResult):
        return replaced
    put(context, [Change(path, data, replaced.data)])
    return answers.edited(
        path,
        replaced.before,
        replaced.after,
        replaced.strategy,
        replaced.spans,
        sha256_of(replaced.data),
    )
