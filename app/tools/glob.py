"""The ``glob`` tool: files by name pattern.

Data: ``{"paths": [str], "total", "truncated": bool, "ignored": [str]}``; ``ignored`` are those of
the shown paths that git leaves out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from ..repo.globs import path_filter
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .paths import glob_pattern, printable
from .tree import MAX_ENTRIES, Entry, walk


class GlobArguments(ToolArguments):
    pattern: str = Field(
        description="Such as *.py (in any directory), src/**/*.py, **/conf*.{yml,yaml}; from the top."
    )
    sort: Literal["path", "modified"] = Field(default="path", description="modified: newest first.")
    ignored: bool = Field(default=False, description="Look among ignored files too.")
    max_results: int = Field(default=200, ge=1, le=2000)


class GlobTool:
    name: ClassVar[str] = "glob"
    arguments: ClassVar[type[ToolArguments]] = GlobArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    async def run(self, context: ToolContext, arguments: GlobArguments) -> ToolResult:
        """Raises ToolError for a bad pattern, or one that leads outside."""
        pattern = glob_pattern(context, arguments.pattern)
        files = await context.workspace.files()
        return await asyncio.to_thread(_find, context.workspace.root, files, pattern, arguments)


def _find(root: Path, files: Sequence[str], pattern: str, arguments: GlobArguments) -> ToolResult:
    # A leading "!" is part of a name here: there is nothing to exclude from.
    passes = path_filter([f"\\{pattern}" if pattern.startswith("!") else pattern])
    found: list[Entry] = []
    ignored_files = seen = 0
    for entry in walk(root, ".", files, lambda _path, _depth, ignored: arguments.ignored or not ignored):
        seen += 1
        if entry.kind == "directory" or not passes(entry.path):
            continue
        if entry.ignored and not arguments.ignored:
            ignored_files += 1
        else:
            found.append(entry)
    if arguments.sort == "modified":
        found.sort(key=lambda entry: (-entry.modified_ns, entry.path))
    else:
        found.sort(key=lambda entry: entry.path)
    shown = found[: arguments.max_results]
    lines = [printable(entry.path) + (" (ignored)" if entry.ignored else "") for entry in shown]
    if not found:
        lines.append(f"No file matches {printable(pattern)}.")
    elif len(shown) < len(found):
        lines.append(f"[{len(shown)} of {len(found)} files shown; narrow the pattern]")
    if ignored_files:
        lines.append(f"[{ignored_files} ignored files match too; set ignored to see them]")
    if seen >= MAX_ENTRIES:
        lines.append(f"[only the first {MAX_ENTRIES} entries of the tree were looked at]")
    data = {
        "paths": [printable(entry.path) for entry in shown],
        "total": len(found),
        "truncated": len(shown) < len(found),
        "ignored": [printable(entry.path) for entry in shown if entry.ignored],
    }
    return ToolResult("\n".join(lines), data)
