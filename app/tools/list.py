"""The ``list`` tool: the tree of a directory.

Data: ``{"path", "entries": [{"path", "kind", "size", "ignored"}], "shown", "total_files",
"total_bytes", "ignored"}``; ``size`` of a directory is the bytes of the tracked and new files in it,
and the totals count these too, shown or not; ``ignored`` counts the entries left out.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .paths import printable, workspace_path
from .read import similar_names
from .tree import Entry, walk

MAX_SHOWN = 400


class ListArguments(ToolArguments):
    path: str = Field(default=".", description="Directory, from the repository's top.")
    depth: int = Field(default=2, ge=1, le=20, description="Levels to show.")
    ignored: bool = Field(default=False, description="Show ignored files and directories too.")


class ListTool:
    name: ClassVar[str] = "list"
    arguments: ClassVar[type[ToolArguments]] = ListArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    async def run(self, context: ToolContext, arguments: ListArguments) -> ToolResult:
        """Raises ToolError for a path that is no directory."""
        path = workspace_path(context, arguments.path)
        root = context.workspace.root
        if not (root / path).is_dir():
            there = (root / path).exists()
            raise ToolError(
                f"{printable(path)} {'is not a directory' if there else 'does not exist'}",
                hint="read shows files" if there else similar_names(root / path),
            )
        files = await context.workspace.files()
        return await asyncio.to_thread(_list, root, path, files, arguments)


def _list(root: Path, path: str, files: Sequence[str], arguments: ListArguments) -> ToolResult:
    below = [file for file in files if path == "." or file.startswith(f"{path}/")]
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for file in below:
        size = _size(root, file)
        parent = file
        while parent:
            parent = parent.rpartition("/")[0]
            counts[parent] += 1
            sizes[parent] += size
    shown: list[Entry] = []
    hidden = ignored = 0

    def enter(_path: str, depth: int, is_ignored: bool) -> bool:
        return depth < arguments.depth and (arguments.ignored or not is_ignored)

    for entry in walk(root, path, below, enter):
        if entry.ignored and not arguments.ignored:
            ignored += 1
        elif len(shown) < MAX_SHOWN:
            shown.append(entry)
        else:
            hidden += 1
    top = "" if path == "." else path
    lines = [f"{printable(path)}/  {counts[top]} files, {sizes[top]} bytes"]
    first = 0 if path == "." else path.count("/") + 1
    for entry in shown:
        indent = "  " * (entry.path.count("/") - first + 1)
        lines.append(f"{indent}{_line(entry, counts, sizes)}")
    if hidden:
        lines.append(f"[{hidden} more entries not shown; list a directory below, or less depth]")
    if ignored:
        lines.append(f"[{ignored} ignored entries left out]")
    data = {
        "path": printable(path),
        "entries": [
            {
                "path": printable(entry.path),
                "kind": entry.kind,
                "size": sizes[entry.path] if entry.kind == "directory" else entry.size,
                "ignored": entry.ignored,
            }
            for entry in shown
        ],
        "shown": len(shown),
        "total_files": counts[top],
        "total_bytes": sizes[top],
        "ignored": ignored,
    }
    return ToolResult("\n".join(lines), data)


def _line(entry: Entry, counts: Counter[str], sizes: Counter[str]) -> str:
    name = printable(entry.path.rpartition("/")[2])
    mark = " (ignored)" if entry.ignored else ""
    if entry.kind == "directory":
        if entry.ignored:
            return f"{name}/{mark}"
        return f"{name}/  {counts[entry.path]} files, {sizes[entry.path]} bytes"
    if entry.kind == "link":
        return f"{name} -> {printable(entry.target)}{mark}"
    return f"{name}  {entry.size} bytes{mark}" if entry.kind == "file" else f"{name} (special){mark}"


def _size(root: Path, file: str) -> int:
    try:
        details = os.lstat(root / file)
    except OSError:
        return 0
    return details.st_size if stat.S_ISREG(details.st_mode) else 0
