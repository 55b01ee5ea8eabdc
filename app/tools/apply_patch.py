"""The ``apply_patch`` tool: a patch of one or several files, all of it or nothing.

Data: ``{"files": [{"path", "action": "add|update|delete|move", "from": str | None, "strategies":
[str], "changed_lines": [first, last] | None, "sha256": str | None, "is_test", "syntax_errors"}],
"lint"}``. Refusals are error results whose data has ``"path"``, ``"reason"`` (``stale``,
``not_found``, ``ambiguous``) and, where one hunk is to blame, ``"edit"``: its number from 1.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from ...sandbox.base.files import TextFile
from ...sandbox.workspace.names import is_test_path
from . import edit_answers as answers
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .changes import Change, edit_lock, load, new_file, put, sha256_of, stale
from .hunks import place_hunks
from .lint import lint_after, lint_before
from .patch_text import FilePatch, parse_patch
from .paths import printable, writable_path
from .read import similar_names
from .replacing import spliced

MAX_PATCH_CHARS = 4 << 20
MAX_FILES = 200


class ApplyPatchArguments(ToolArguments):
    patch: str = Field(min_length=1, max_length=MAX_PATCH_CHARS, description="The whole patch.")


class ApplyPatchTool:
    name: ClassVar[str] = "apply_patch"
    arguments: ClassVar[type[ToolArguments]] = ApplyPatchArguments
    permission: ClassVar[PermissionClass] = PermissionClass.WRITE

    async def run(self, context: ToolContext, arguments: ApplyPatchArguments) -> ToolResult:
        """Raises ToolError for a patch that makes no sense or cannot be written; nothing is changed then."""
        files = parse_patch(arguments.patch)
        if len(files) > MAX_FILES:
            raise ToolError(f"the patch changes {len(files)} files; at most {MAX_FILES} in one call")
        paths = touched_paths(context, files)
        async with edit_lock(context):
            await lint_before(context, paths)
            result = await asyncio.to_thread(_apply, context, files)
            return await lint_after(context, paths, result)


def touched_paths(context: ToolContext, files: list[FilePatch]) -> list[str]:
    """Every path that a patch reads or writes, checked. Raises ToolError."""
    named = [path for file in files for path in (file.path, file.target) if path is not None]
    return list(dict.fromkeys(writable_path(context, path) for path in named))


@dataclass
class _Plan:
    """What the patch makes of each file, in memory."""

    context: ToolContext
    before: dict[str, bytes | None] = field(default_factory=dict[str, "bytes | None"])
    now: dict[str, bytes | None] = field(default_factory=dict[str, "bytes | None"])
    executable: dict[str, bool] = field(default_factory=dict[str, bool])
    said: list[str] = field(default_factory=list[str])
    files: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def get(self, path: str) -> bytes | None:
        if path not in self.now:
            self.before[path] = self.now[path] = load(self.context.workspace.root, path)
            self.executable[path] = self.context.workspace.is_executable(path)
        return self.now[path]

    def changes(self) -> list[Change]:
        return [
            Change(path, self.before[path], data, self.executable[path])
            for path, data in self.now.items()
            if data != self.before[path]
            or (data is not None and self.executable[path] != self.context.workspace.is_executable(path))
        ]


def _apply(context: ToolContext, files: list[FilePatch]) -> ToolResult:
    plan = _Plan(context)
    for file in files:
        refused = _one(plan, file)
        if refused is not None:
            text = f"{refused.text}\nNo file was changed."
            return ToolResult(text, refused.data, is_error=True)
    changes = plan.changes()
    if not changes:
        raise ToolError("the files already read like this; nothing would change")
    put(context, changes)
    for entry in plan.files:
        data = plan.now[entry["path"]]
        entry["sha256"] = sha256_of(data) if data is not None else None
    return ToolResult("\n".join(plan.said), {"files": plan.files})


def _one(plan: _Plan, file: FilePatch) -> ToolResult | None:
    """Makes the change of one file in the plan; a refusal when it does not fit."""
    path = writable_path(plan.context, file.path)
    shown = printable(path)
    data = plan.get(path)
    if file.action == "add":
        if data is not None:
            raise ToolError(f"{shown} exists already; no file was changed", hint="update it instead")
        hunk = file.hunks[0] if file.hunks else None
        text = "\n".join(hunk.new) + ("" if hunk.new_open else "\n") if hunk and hunk.new else ""
        if "\0" in text:
            raise ToolError("the patch holds a NUL character, which no text file has")
        plan.now[path] = new_file(path, text)
        plan.executable[path] = bool(file.executable)
        made = answers.created(path, text, len(plan.now[path] or b""), "")
        _note(plan, "add", path, None, made.text, made.data["changed_lines"], made.data["syntax_errors"])
        return None
    if data is None:
        hint = similar_names(plan.context.workspace.root / path)
        raise ToolError(f"{shown} does not exist; no file was changed", hint=hint)
    if plan.before[path] == data:
        refused = stale(plan.context, path, data, "\n".join(file.hunks[0].old) if file.hunks else "")
        if refused is not None:
            return refused
    if file.action == "delete":
        text = TextFile.from_bytes(Path(shown), data).text
        if file.hunks and [line for hunk in file.hunks for line in hunk.old] != text.removesuffix("\n").split(
            "\n"
        ):
            return answers.not_found(path, text, "\n".join(file.hunks[0].old))
        plan.now[path] = None
        _note(plan, "delete", path, None, f"Deleted {shown}.", None, [])
        return None
    return _update(plan, file, path, data)


def _update(plan: _Plan, file: FilePatch, path: str, data: bytes) -> ToolResult | None:
    shown = printable(path)
    target = writable_path(plan.context, file.target) if file.target is not None else path
    if target != path and plan.get(target) is not None:
        raise ToolError(f"{printable(target)} exists already; no file was changed")
    if file.executable is False and plan.executable[path]:
        raise ToolError(f"the patch takes the executable bit of {shown}, which only bash can (chmod -x)")
    if not file.hunks and target == path and file.executable is None:
        raise ToolError(f"the patch has no hunk for {shown}; no file was changed", hint="send it whole")
    after, strategies, lines, problems = data, [], None, []
    said = f"Updated {shown}" if target == path else f"Moved {shown} to {printable(target)}"
    if file.hunks:
        text_file = TextFile.from_bytes(Path(shown), data)
        placed = place_hunks(path, text_file.text, file.hunks)
        if isinstance(placed, ToolResult):
            return placed
        if any("\0" in line for hunk in file.hunks for line in hunk.new):
            raise ToolError("the patch holds a NUL character, which no text file has")
        replaced = spliced(path, data, text_file, "exact", [one.span for one in placed])
        after, strategies = replaced.data, [one.strategy for one in placed]
        lines = list(answers.changed_lines(replaced.before, replaced.after))
        problems = answers.new_problems(target, replaced.before, replaced.after)
        places = [f"line {one.span.line}{answers.SAID[one.strategy]}" for one in placed]
        said += f", {len(placed)} hunk{'s' if len(placed) > 1 else ''}: {'; '.join(places)}"
    if target != path:
        plan.now[path] = None
        plan.executable[target] = plan.executable[path]
    plan.now[target] = after
    plan.executable[target] = plan.executable[target] or bool(file.executable)
    action = "update" if target == path else "move"
    origin = shown if target != path else None
    _note(
        plan, action, target, origin, f"{said}.{answers.warning(problems)}", lines, answers.as_data(problems),
        strategies,
    )  # fmt: skip
    return None


def _note(
    plan: _Plan,
    action: str,
    path: str,
    origin: str | None,
    said: str,
    lines: list[int] | None,
    problems: list[dict[str, Any]],
    strategies: list[Any] | None = None,
) -> None:
    plan.said.append(said)
    plan.files.append(
        {
            "path": printable(path),
            "action": action,
            "from": origin,
            "strategies": strategies or [],
            "changed_lines": lines,
            "sha256": None,
            "is_test": is_test_path(path),
            "syntax_errors": problems,
        }
    )
