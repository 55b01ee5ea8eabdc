"""The ``read`` tool: lines of a text file, the entries of a directory, or a kept output.

Data for a file or artifact: ``{"path", "start", "end", "total_lines", "total_bytes", "sha256",
"lines": [str]}`` (lines as shown: long ones cut). For a directory: ``{"path", "entries":
[{"name", "kind", "size"}], "total_entries"}``.
"""

from __future__ import annotations

import asyncio
import io
import os
import stat
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from ..repo.files import open_directory, open_regular
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .paths import printable, workspace_path
from .reading import LineRange, read_lines

DEFAULT_LINES = 2000
MAX_ENTRIES = 500
ARTIFACT = "artifact:"


class ReadArguments(ToolArguments):
    path: str = Field(
        description="File or directory, from the repository's top; or artifact:HANDLE of a kept output."
    )
    start: int | None = Field(default=None, ge=1, description="First line, from 1.")
    end: int | None = Field(default=None, ge=1, description="Last line, included.")


class ReadTool:
    name: ClassVar[str] = "read"
    arguments: ClassVar[type[ToolArguments]] = ReadArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    async def run(self, context: ToolContext, arguments: ReadArguments) -> ToolResult:
        """Raises ToolError for what cannot be shown: binary, missing, outside, a pipe..."""
        start = arguments.start or 1
        end = arguments.end if arguments.end is not None else start + DEFAULT_LINES - 1
        if end < start:
            raise ToolError(f"the range {start}-{end} is empty")
        if arguments.path.startswith(ARTIFACT):
            return await self._artifact(context, arguments.path, start, end)
        path = workspace_path(context, arguments.path)
        return await asyncio.to_thread(self._look, context, path, start, end)

    async def _artifact(self, context: ToolContext, path: str, start: int, end: int) -> ToolResult:
        try:
            data = context.fetch(path.removeprefix(ARTIFACT))
        except KeyError as error:
            raise ToolError(f"there is no {path}") from error
        found = await asyncio.to_thread(read_lines, io.BytesIO(data), path, start, end)
        return _result(path, start, end, found)

    def _look(self, context: ToolContext, path: str, start: int, end: int) -> ToolResult:
        root = context.workspace.root
        shown = printable(path)
        try:
            if path == "." or stat.S_ISDIR(os.lstat(root / path).st_mode):
                return _directory(context, path, shown)
            with os.fdopen(open_regular(root, path), "rb", buffering=0) as stream:
                found = read_lines(stream, shown, start, end)
        except FileNotFoundError as error:
            raise ToolError(f"{shown} does not exist", hint=similar_names(root / path)) from error
        except OSError as error:
            raise ToolError(f"{shown} cannot be read: {error.strerror or error}") from error
        remember(context, path, found.sha256)
        return _result(shown, start, end, found)


def remember(context: ToolContext, path: str, sha256: str) -> None:
    """Notes what the model has seen of a file; ``edit`` refuses when the file is another by then."""
    context.scratch.setdefault("files_read", {})[path] = sha256


def remembered(context: ToolContext, path: str) -> str | None:
    """The hash of a file as the model last saw it, or None."""
    files: dict[str, str] = context.scratch.get("files_read", {})
    return files.get(path)


def numbered(found: LineRange) -> str:
    """Lines with their numbers, as the model reads them."""
    width = len(str(found.lines[-1].number)) if found.lines else 1
    return "\n".join(f"{line.number:>{width}}\t{line.shown()}" for line in found.lines)


def _result(path: str, start: int, end: int, found: LineRange) -> ToolResult:
    if found.total_lines and start > found.total_lines:
        raise ToolError(f"{path} has {found.total_lines} lines; line {start} is past its end")
    last = found.lines[-1].number if found.lines else 0
    data = {
        "path": path,
        "start": start if found.lines else 0,
        "end": last,
        "total_lines": found.total_lines,
        "total_bytes": found.total_bytes,
        "sha256": found.sha256,
        "lines": [line.shown() for line in found.lines],
    }
    if not found.total_bytes:
        return ToolResult(f"{path} is empty.", data)
    head = f"{path}, lines {start}-{last} of {found.total_lines} ({found.total_bytes} bytes)"
    parts = [head, numbered(found)]
    if last < min(end, found.total_lines):
        parts.append(f"[stopped after {last}: the text is long; read on from line {last + 1}]")
    elif last < found.total_lines:
        parts.append(f"[{found.total_lines - last} more lines, from {last + 1}]")
    return ToolResult("\n".join(parts), data)


def _directory(context: ToolContext, path: str, shown: str) -> ToolResult:
    entries: list[dict[str, Any]] = []
    hidden = 0
    descriptor = open_directory(context.workspace.root, path)
    try:
        with os.scandir(descriptor) as found:
            for entry in found:
                if entry.name.lower() == ".git":
                    continue
                if not context.paths.readable(os.path.normpath(f"{path}/{entry.name}")):
                    hidden += 1
                    continue
                details = entry.stat(follow_symlinks=False)
                kind = _kind(details.st_mode)
                entries.append({"name": printable(entry.name), "kind": kind, "size": details.st_size})
    finally:
        os.close(descriptor)
    entries.sort(key=lambda item: (item["kind"] != "directory", item["name"]))
    lines = [f"{shown} is a directory with {len(entries)} entries"]
    for item in entries[:MAX_ENTRIES]:
        size = f"  {item['size']} bytes" if item["kind"] == "file" else ""
        mark = {"directory": "/", "file": ""}.get(item["kind"], f"  ({item['kind']})")
        lines.append(f"{item['name']}{mark}{size}")
    if len(entries) > MAX_ENTRIES:
        lines.append(f"[{len(entries) - MAX_ENTRIES} more entries not shown]")
    if hidden:
        lines.append(f"[{hidden} not shown: the permission rules keep them unread]")
    data = {"path": shown, "entries": entries[:MAX_ENTRIES], "total_entries": len(entries)}
    return ToolResult("\n".join(lines), data)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISREG(mode):
        return "file"
    return "link" if stat.S_ISLNK(mode) else "special"


def similar_names(wanted: Path) -> str:
    """Names in the same directory that look alike, for a model that misspelt one."""
    import difflib

    try:
        names = [name for name in os.listdir(wanted.parent) if name.lower() != ".git"]  # noqa: PTH208
    except OSError:
        return "its directory does not exist either; search or read a directory to find the file"
    close = difflib.get_close_matches(wanted.name, names, n=3, cutoff=0.5)
    return (
        f"similar here: {', '.join(map(printable, close))}"
        if close
        else "read the directory to see its files"
    )
