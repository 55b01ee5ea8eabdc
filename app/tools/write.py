"""The ``write`` tool: a new file, or the whole of an existing one.

Data: as of ``edit``, with the strategy ``created`` or ``written``. A refusal for a file that changed
since it was read is an error result whose data has ``"path"`` and ``"reason": "stale"``.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from ...sandbox.base.files import TextFile
from . import edit_answers as answers
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .changes import Change, edit_lock, fitting, load, new_file, put, sha256_of, stale, unix
from .lint import lint_after, lint_before
from .paths import printable, writable_path


class WriteArguments(ToolArguments):
    path: str = Field(description="File, relative to the repository's top.")
    content: str = Field(description="The whole text of the file.")


class WriteTool:
    name: ClassVar[str] = "write"
    arguments: ClassVar[type[ToolArguments]] = WriteArguments
    permission: ClassVar[PermissionClass] = PermissionClass.WRITE

    async def run(self, context: ToolContext, arguments: WriteArguments) -> ToolResult:
        """Raises ToolError when the path or the text cannot be written."""
        path = writable_path(context, arguments.path)
        async with edit_lock(context):
            await lint_before(context, [path])
            result = await asyncio.to_thread(_write, context, path, arguments.content)
            return await lint_after(context, [path], result)


def _write(context: ToolContext, path: str, content: str) -> ToolResult:
    if "\0" in content:
        raise ToolError("content holds a NUL character, which no text file has")
    text = unix(content)
    before = load(context.workspace.root, path)
    if before is None:
        data = new_file(path, text)
        put(context, [Change(path, None, data)])
        return answers.written(path, None, text, len(data), sha256_of(data))
    refused = stale(context, path, before, "")
    if refused is not None:
        return refused
    file = TextFile.from_bytes(Path(printable(path)), before)
    data = fitting(file.with_text(text).to_bytes())
    if data == before:
        raise ToolError(f"{printable(path)} already reads like this; nothing would change")
    put(context, [Change(path, before, data)])
    return answers.written(path, file.text, text, len(data), sha256_of(data))
