"""After an edit: what the project's own linter or type checker has to say about it, and only what is new.

A tool runs when the project configures it and its environment has it; in the sandbox, on the
changed file, before the edit (for what was there already) and after it. One that is slow or
does not work is off for the rest of the run. Nothing here ever changes a file.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, cast

from ...sandbox.base.errors import ToolError
from ...sandbox.base.render import clean_text
from ...sandbox.protocol import ExecResult, run_to_end
from ..repo.files import open_directory, read_regular
from .base import ToolContext, ToolResult
from .linters import LINTERS, Linter, Problem
from .paths import printable

__all__ = ["lint_after", "lint_before"]

LIMIT_S = 10.0
SLOW_S = 5.0
"""A tool that took longer once is not run again."""
_MAX_FILES = 20
_MAX_SHOWN = 10
_MAX_OUTPUT = 8 << 20
_MAX_CONFIG = 1 << 20
_CONFIGS = (
    "pyproject.toml", "setup.cfg", "tox.ini", ".flake8", "ruff.toml", ".ruff.toml", "mypy.ini", ".mypy.ini",
)  # fmt: skip


@dataclass
class _State:
    """Of one run."""

    commands: dict[str, list[str] | None] = field(default_factory=dict[str, "list[str] | None"])
    """Tool -> how it is started; None = not here, or off."""
    known: dict[tuple[str, str], tuple[bytes, list[Problem]]] = field(
        default_factory=dict[tuple[str, str], tuple[bytes, "list[Problem]"]]
    )
    """(tool, path) -> the content it was last run on, and what it said."""
    before: dict[tuple[str, str], list[Problem]] = field(
        default_factory=dict[tuple[str, str], "list[Problem]"]
    )
    """What was there before the edit that is being made."""
    existing: frozenset[str] = frozenset()
    """Files that were there before it."""


async def lint_before(context: ToolContext, paths: Iterable[str]) -> None:
    """Notes what the tools say about the files as they are now."""
    state, wanted = _state(context), list(paths)
    state.existing = frozenset(path for path in wanted if _content(context, path) is not None)
    state.before = await _all(context, wanted)


async def lint_after(context: ToolContext, paths: Iterable[str], result: ToolResult) -> ToolResult:
    """The result of an edit with the new problems added: to the text, and to the data as ``lint``."""
    if result.is_error or not isinstance(result.data, dict):
        return result
    state = _state(context)
    fresh: list[tuple[str, Problem]] = []
    for key, problems in (await _all(context, paths)).items():
        if key not in state.before and key[1] in state.existing:
            continue  # what it had before is not known
        had = Counter(problem.key for problem in state.before.get(key, ()))
        for problem in problems:
            if had[problem.key] > 0:
                had[problem.key] -= 1
            else:
                fresh.append((key[1], problem))
    found = [
        {
            "path": printable(path),
            "line": one.line,
            "message": clean_text(one.message.encode()),
            "tool": one.tool,
        }
        for path, one in fresh
    ]
    data: dict[str, Any] = {**cast("dict[str, Any]", result.data), "lint": found}
    if not found:
        return ToolResult(result.text, data, result.artifacts)
    lines = [f"{one['path']}:{one['line']}: {one['message']} [{one['tool']}]" for one in found[:_MAX_SHOWN]]
    hidden = len(found) - _MAX_SHOWN
    lines += [f"[{hidden} more]"] if hidden > 0 else []
    text = f"{result.text.rstrip()}\nNew problems, says the project's own checker:\n" + "\n".join(lines)
    return ToolResult(text, data, result.artifacts)


def _state(context: ToolContext) -> _State:
    state: _State = context.scratch.setdefault("lint", _State())
    return state


async def _all(context: ToolContext, paths: Iterable[str]) -> dict[tuple[str, str], list[Problem]]:
    """(tool, path) -> problems, of every tool that works here."""
    found: dict[tuple[str, str], list[Problem]] = {}
    wanted = [path for path in paths if any(linter.fits(path) for linter in LINTERS)][:_MAX_FILES]
    if not context.lint or not wanted:
        return found
    files = _top_files(context)
    for linter in LINTERS:
        if not linter.configured(files):
            continue
        for path in wanted:
            content = _content(context, path)
            if not linter.fits(path) or content is None:
                continue
            problems = await _run(context, linter, path, content)
            if problems is not None:
                found[linter.name, path] = problems
    return found


def _top_files(context: ToolContext) -> dict[str, str]:
    root = context.workspace.root
    try:
        directory = open_directory(root, ".")
    except OSError:
        return {}
    try:
        names = os.listdir(directory)  # noqa: PTH208 - a descriptor
    finally:
        os.close(directory)
    texts = {
        name: (_content(context, name) or b"").decode("utf-8", "replace")
        for name in _CONFIGS
        if name in names
    }
    return dict.fromkeys(names, "") | texts


def _content(context: ToolContext, path: str) -> bytes | None:
    try:
        return read_regular(context.workspace.root, path, _MAX_CONFIG)
    except (OSError, ToolError):
        return None


async def _run(context: ToolContext, linter: Linter, path: str, content: bytes) -> list[Problem] | None:
    """What one tool says about one file, or None when it cannot tell."""
    state = _state(context)
    known = state.known.get((linter.name, path))
    if known is not None and known[0] == content and not linter.whole:
        return known[1]
    if linter.name not in state.commands:
        state.commands[linter.name] = await _find(context, linter)
    command = state.commands[linter.name]
    if command is None:
        return None
    name = f"./{path}" if path.startswith("-") else path
    argv = [*command, *linter.arguments, *([] if linter.whole else [name])]
    result = await _execute(context, argv, linter)
    if result is None or result.timed_out or result.duration_s > SLOW_S:
        state.commands[linter.name] = None
    if result is None or result.timed_out or result.exit_code > 2 or result.total_bytes > _MAX_OUTPUT:
        return None
    output = result.log_path.read_bytes().decode("utf-8", "replace")
    problems = [one for one in linter.read(linter.name, output) if _same(context, one.path, path)]
    if result.exit_code == 2 and not problems:
        return None
    state.known[linter.name, path] = (content, problems)
    return problems


async def _find(context: ToolContext, linter: Linter) -> list[str] | None:
    """How the tool is started here, or None."""
    if linter.python:
        runner = context.tests
        if not runner:
            return None
        # Isolated: a module of the repository must not stand in for the tool.
        command = [runner.environment.python, "-I", "-m", linter.name]
    else:
        command = [f"{context.sandbox.spec.workdir}/node_modules/.bin/{linter.name}"]
    result = await _execute(context, [*command, "--version"], linter)
    return command if result is not None and result.exit_code == 0 and not result.timed_out else None


async def _execute(context: ToolContext, argv: Sequence[str], linter: Linter) -> ExecResult | None:
    """None when there is no time left, or the command cannot start."""
    limit = LIMIT_S
    if context.deadline is not None:
        limit = min(limit, context.deadline - time.monotonic() - LIMIT_S)
    if limit <= 1:
        return None
    try:
        return await run_to_end(
            context.sandbox, argv, env=dict(linter.env), timeout_s=limit, label=f"lint-{linter.name}"
        )
    except ToolError:
        return None


def _same(context: ToolContext, said: str, path: str) -> bool:
    place = PurePosixPath(said)
    if place.is_absolute() and place.is_relative_to(context.sandbox.spec.workdir):
        place = place.relative_to(context.sandbox.spec.workdir)
    return place.as_posix() == path
