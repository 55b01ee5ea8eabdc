"""The ``search`` tool: text in the files of the repository.

Data: ``{"matches": [{"path", "line", "text"}], "truncated": bool, "total_lines", "total_files",
"searched_files", "engine", "notes": [str]}``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from ..repo.patterns import compile_fixed, compile_regex
from ..repo.search import SearchResult, search
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .paths import printable, workspace_path

MAX_TEXT_CHARS = 40_000


class SearchArguments(ToolArguments):
    pattern: str = Field(description="Regular expression, or plain text with fixed.")
    path: str = Field(default=".", description="File or directory to search in.")
    globs: list[str] = Field(
        default_factory=list, description="Only files that match, e.g. *.py, src/**; !tests/ leaves out."
    )
    fixed: bool = Field(default=False, description="Take the pattern as plain text.")
    ignore_case: bool = False
    max_results: int = Field(default=100, ge=1, le=1000)


class SearchTool:
    name: ClassVar[str] = "search"
    arguments: ClassVar[type[ToolArguments]] = SearchArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    async def run(self, context: ToolContext, arguments: SearchArguments) -> ToolResult:
        """Raises ToolError for a bad pattern, glob or path."""
        compile_pattern = compile_fixed if arguments.fixed else compile_regex
        pattern = compile_pattern(arguments.pattern, ignore_case=arguments.ignore_case)
        inside = workspace_path(context, arguments.path)
        files = list(await context.workspace.files())
        root = context.workspace.root
        if inside != ".":
            if not (root / inside).exists():
                raise ToolError(f"{printable(inside)} does not exist")
            below = [path for path in files if path == inside or path.startswith(f"{inside}/")]
            # A file named outright is searched although it is ignored.
            files = below or ([inside] if (root / inside).is_file() else [])
        allowed = [path for path in files if context.paths.readable(path)]
        found = await search(
            root,
            pattern,
            allowed,
            log_dir=context.sandbox.spec.state_dir,
            globs=arguments.globs,
            max_results=arguments.max_results,
        )
        hidden = len(files) - len(allowed)
        if hidden:
            note = f"{hidden} file(s) not searched: the permission rules keep them unread"
            found = replace(found, notes=(*found.notes, note))
        return ToolResult(_text(found), _data(found))


def _data(found: SearchResult) -> dict[str, object]:
    return {
        "matches": [{"path": printable(m.path), "line": m.line, "text": m.text} for m in found.matches],
        "truncated": found.truncated,
        "total_lines": found.total_lines,
        "total_files": found.total_files,
        "searched_files": found.searched_files,
        "engine": found.engine,
        "notes": list(found.notes),
    }


def _text(found: SearchResult) -> str:
    lines: list[str] = []
    room = MAX_TEXT_CHARS
    for match in found.matches:
        cut = f" [... line of {match.line_length} characters ...]" if match.cut else ""
        line = f"{printable(match.path)}:{match.line}: {match.text}{cut}"
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    if not found.total_lines:
        lines.append(f"No match in {found.searched_files} files.")
    elif len(lines) < found.total_lines:
        lines.append(
            f"[{len(lines)} of {found.total_lines} matching lines in {found.total_files} files shown; "
            "narrow the pattern, path or globs]"
        )
    lines += [f"[{note}]" for note in found.notes]
    return "\n".join(lines)
