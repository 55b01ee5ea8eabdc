"""The ``symbols`` tool: definitions, references and outlines by the syntax of the language.

Data: ``{"action", "symbols": [{"path", "kind", "name", "qualified_name", "line", "end_line",
"signature"}], "references": [{"path", "line", "column", "text"}], "total", "truncated": bool,
"notes": [str]}``; one of the two lists is empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Literal

from pydantic import Field

from ...sandbox.base.errors import ToolError
from ..repo.files import read_regular
from ..repo.patterns import compile_fixed
from ..repo.search import search
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .paths import printable, workspace_path
from .read import similar_names

MAX_BYTES = 2 << 20
MAX_FILES = 2000
MAX_TEXT_CHARS = 40_000


class SymbolsArguments(ToolArguments):
    action: Literal["outline", "definition", "references"] = Field(
        description="outline: what a file defines; definition, references: of a name."
    )
    name: str = Field(default="", description="For definition and references: a name, or Class.method.")
    path: str = Field(default=".", description="File for outline; else file or directory to look in.")
    max_results: int = Field(default=100, ge=1, le=1000)


class SymbolsTool:
    name: ClassVar[str] = "symbols"
    arguments: ClassVar[type[ToolArguments]] = SymbolsArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    async def run(self, context: ToolContext, arguments: SymbolsArguments) -> ToolResult:
        """Raises ToolError for a bad path, or a missing name."""
        path = workspace_path(context, arguments.path)
        root = context.workspace.root
        if not (root / path).exists():
            raise ToolError(f"{printable(path)} does not exist", hint=similar_names(root / path))
        if arguments.action == "outline":
            if not (root / path).is_file():
                raise ToolError(f"{printable(path)} is not a file", hint="give the file to outline")
            return await asyncio.to_thread(_outline, context, path, arguments.max_results)
        name = arguments.name.strip()
        if not name or len(name) > 200 or any(ord(character) < 32 for character in name):
            raise ToolError(f"{arguments.action} needs the name of a function, class, method...")
        files = [
            file
            for file in await context.workspace.files()
            if path in (".", file) or file.startswith(f"{path}/")
        ]
        if not files and (root / path).is_file():
            files = [path]  # an ignored file named outright
        allowed = context.paths.filtered(files)
        holding, notes = await _holding(context, name, allowed)
        if len(allowed) < len(files):
            count = len(files) - len(allowed)
            notes.append(f"{count} file(s) not searched: the permission rules keep them unread")
        work = _definitions if arguments.action == "definition" else _references
        return await asyncio.to_thread(work, context, name, holding, notes, arguments.max_results)


async def _holding(context: ToolContext, name: str, files: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files in which the last part of the name stands at all; the parser reads only these."""
    word = _last(name)
    found = await search(
        context.workspace.root,
        compile_fixed(word, ignore_case=False),
        files,
        log_dir=context.sandbox.spec.state_dir,
        max_results=1_000_000,
    )
    holding = sorted({match.path for match in found.matches})
    notes = list(found.notes)
    if len(holding) > MAX_FILES:
        notes.append(f"{word} is in {len(holding)} files; only {MAX_FILES} were read: narrow it with path")
    return holding[:MAX_FILES], notes


def _last(name: str) -> str:
    for separator in ("::", ".", "#", "\\"):
        name = name.rpartition(separator)[2] or name
    return name


def _outline(context: ToolContext, path: str, limit: int) -> ToolResult:
    from ..repo.symbols import outline

    try:
        data = read_regular(context.workspace.root, path, MAX_BYTES)
    except OSError as error:
        raise ToolError(f"{printable(path)} cannot be read: {error.strerror or error}") from error
    if data is None:
        raise ToolError(f"{printable(path)} is over {MAX_BYTES >> 20} MiB", hint="search it instead")
    found = outline(path, data)
    if found.language is None:
        raise ToolError(
            f"{printable(path)}: no grammar for this kind of file", hint="search or read it instead"
        )
    notes = [found.note] if found.note else []
    lines = [
        f"{symbol.line}-{symbol.end_line}: {symbol.kind} {symbol.qualified_name}  {symbol.signature}"
        for symbol in found.symbols
    ]
    head = f"{printable(path)} ({found.language}): {len(found.symbols)} definitions"
    data_of = [_symbol(symbol) for symbol in found.symbols]
    return _result("outline", [head], lines, data_of, [], notes, limit)


def _definitions(
    context: ToolContext, name: str, files: Sequence[str], notes: list[str], limit: int
) -> ToolResult:
    from ..repo.symbols import definitions

    last = _last(name)
    found = definitions(context.workspace.root, files, last)
    symbols = list(found.symbols)
    if name != last:
        exact = [symbol for symbol in symbols if symbol.qualified_name == name]
        ending = [symbol for symbol in symbols if symbol.qualified_name.endswith(name)]
        symbols = exact or ending
    lines = [
        f"{printable(symbol.path)}:{symbol.line}-{symbol.end_line}: {symbol.kind} {symbol.qualified_name}"
        f"  {symbol.signature}"
        for symbol in symbols
    ]
    head = [] if symbols else [f"No definition of {name} found."]
    return _result(
        "definition",
        head,
        lines,
        [_symbol(symbol) for symbol in symbols],
        [],
        notes + list(found.notes),
        limit,
    )


def _references(
    context: ToolContext, name: str, files: Sequence[str], notes: list[str], limit: int
) -> ToolResult:
    from ..repo.symbols import references

    found: list[dict[str, Any]] = []
    for path in files:
        try:
            data = read_regular(context.workspace.root, path, MAX_BYTES)
        except (OSError, ToolError):
            continue
        for reference in references(path, data or b"", _last(name)):
            found.append({**asdict(reference), "path": printable(path)})
    lines = [f"{one['path']}:{one['line']}: {one['text']}" for one in found]
    head = (
        []
        if found
        else [f"No reference to {_last(name)} found (in code; strings and comments do not count)."]
    )
    if found and _last(name) != name:
        notes = [*notes, f"references are by the name {_last(name)} alone"]
    return _result("references", head, lines, [], found, notes, limit)


def _symbol(symbol: Any) -> dict[str, Any]:
    return {**asdict(symbol), "path": printable(symbol.path)}


def _result(
    action: str,
    head: list[str],
    lines: list[str],
    symbols: list[dict[str, Any]],
    references: list[dict[str, Any]],
    notes: Sequence[str],
    limit: int,
) -> ToolResult:
    shown, room = 0, MAX_TEXT_CHARS
    while shown < min(limit, len(lines)) and room > 0:
        room -= len(lines[shown]) + 1
        shown += 1
    text = [*head, *lines[:shown]]
    if shown < len(lines):
        text.append(f"[{shown} of {len(lines)} shown; narrow it with path]")
    text += [f"[{note}]" for note in notes]
    data = {
        "action": action,
        "symbols": symbols[:shown],
        "references": references[:shown],
        "total": len(lines),
        "truncated": shown < len(lines),
        "notes": list(notes),
    }
    return ToolResult("\n".join(text), data)
