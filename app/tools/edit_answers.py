"""What the ``edit`` tool says: results and refusals, as text for models and data for programs."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Protocol

from ...sandbox.workspace.names import is_test_path
from ..repo.symbols import SyntaxProblem, syntax_errors
from .base import ToolResult
from .matching import Span, Strategy
from .nearest import around, nearest
from .paths import printable

SAID = {
    "exact": "",
    "trailing_whitespace": ", matched after ignoring trailing white space",
    "whitespace_folding": ", matched after whitespace folding (the replacement was re-indented)",
}
_MAX_LISTED = 50


class Made(Protocol):
    """One replacement that was made in memory."""

    @property
    def strategy(self) -> Strategy: ...
    @property
    def spans(self) -> tuple[Span, ...]: ...


def edited(
    path: str, before: str, after: str, strategy: Strategy, spans: Sequence[Span], sha256: str
) -> ToolResult:
    """The result of replacing ``spans`` of ``before``."""
    first = min(span.line for span in spans)
    end = max(span.end for span in spans) + len(after) - len(before)
    last = after.count("\n", 0, end) + (0 if after[end - 1 : end] == "\n" else 1)
    last = max(first, last)
    problems = new_problems(path, before, after)
    where = f"{len(spans)} places" if len(spans) > 1 else f"line {first}"
    text = f"Edited {printable(path)} at {where}{SAID[strategy]}.{warning(problems)}\n"
    data = _data(path, strategy, (first, last), sha256, len(spans), problems)
    return ToolResult(text + around(after, first, last), data)


def edited_often(path: str, before: str, after: str, made: Sequence[Made], sha256: str) -> ToolResult:
    """The result of several replacements in one file, one after the other."""
    problems = new_problems(path, before, after)
    first, last = changed_lines(before, after)
    notes = [
        f"\nEdit {number}{SAID[one.strategy]}."
        for number, one in enumerate(made, start=1)
        if one.strategy != "exact"
    ]
    text = f"Made {len(made)} edits in {printable(path)}, lines {first}-{last}.{warning(problems)}"
    data = _data(path, "", (first, last), sha256, sum(len(one.spans) for one in made), problems)
    del data["strategy"]
    data["strategies"] = [one.strategy for one in made]
    return ToolResult(f"{text}{''.join(notes)}\n{around(after, first, last)}", data)


def changed_lines(before: str, after: str) -> tuple[int, int]:
    """First and last line (1-based) of ``after`` that are not as in ``before``, with all between."""
    old, new = before.split("\n"), after.split("\n")
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return min(start + 1, len(new)), max(start + 1, len(new) - end)


def refused_part(refusal: ToolResult, which: str, number: int) -> ToolResult:
    """The refusal of one of several edits, of which none was made then."""
    data = {**refusal.data, "edit": number} if isinstance(refusal.data, dict) else {"edit": number}
    return ToolResult(f"{which}: {refusal.text}", data, is_error=True)


def written(path: str, before: str | None, after: str, size: int, sha256: str) -> ToolResult:
    """A whole file was written; ``before`` None: there was none."""
    if before is None:
        return created(path, after, size, sha256)
    problems = new_problems(path, before, after)
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=True) if len(old) + len(new) < 20_000 else None
    same = sum(block.size for block in matcher.get_matching_blocks()) if matcher else None
    kept = f", {same} lines as before" if same is not None else ""
    first, last = changed_lines(before, after)
    text = f"Wrote {printable(path)}: {len(new)} lines instead of {len(old)}{kept}.{warning(problems)}"
    return ToolResult(text, _data(path, "written", (first, last), sha256, 1, problems))


def created(path: str, text: str, size: int, sha256: str) -> ToolResult:
    lines = text.count("\n") + (0 if text.endswith("\n") or not text else 1)
    problems = syntax_errors(path, text.encode("utf-8", "replace"))
    said = f"Made {printable(path)} with {lines} lines ({size} bytes).{warning(problems)}"
    return ToolResult(said, _data(path, "created", (1, max(lines, 1)), sha256, 1, problems))


def stale(path: str, text: str, old: str, sha256: str) -> ToolResult:
    """The file is not what the model saw: how it is now, around the place the edit is about."""
    at = text.find(old) if old else 0
    line = text.count("\n", 0, at) + 1 if at >= 0 else (nearest(text, old) or (1, 0))[0]
    view = around(text, line, line + old.count("\n"), context=20)
    said = (
        f"{printable(path)} has changed on disk since it was read, and was not edited. It is now:\n"
        f"{view}\nCheck the edit against this and repeat it."
    )
    return _refusal(path, "stale", said, sha256=sha256)


def not_found(path: str, text: str, old: str) -> ToolResult:
    lines = [f"The old text is not in {printable(path)}; nothing was changed."]
    close = nearest(text, old)
    if close is not None:
        line, percent = close
        lines.append(f"The nearest lines ({percent} % alike):")
        lines.append(around(text, line, line + old.strip("\n").count("\n")))
    return _refusal(path, "not_found", "\n".join(lines), nearest_line=close[0] if close else None)


def ambiguous(path: str, strategy: Strategy, found: Sequence[Span], line: int | None) -> ToolResult:
    places = [span.line for span in found]
    listed = ", ".join(map(str, places[:_MAX_LISTED]))
    if len(places) > _MAX_LISTED:
        listed += f" and {len(places) - _MAX_LISTED} more"
    how = "" if strategy == "exact" else " when white space is ignored"
    ways = "give more of the surrounding text, occurrence (1 is the first) or line"
    if strategy == "exact":
        ways += ", or replace_all"
    said = f"The old text is in {printable(path)} {len(found)} times{how}, at lines {listed}; "
    said += f"nothing was changed: {ways}."
    if line is not None:
        said += f" Line {line} is equally near to two of them."
    return _refusal(path, "ambiguous", said, lines=places[:_MAX_LISTED])


def ambiguous_hunk(path: str, places: Sequence[int], *, tolerant: bool = False) -> ToolResult:
    """A hunk of a patch fits at several lines."""
    listed = ", ".join(map(str, places[:_MAX_LISTED]))
    how = " when white space is ignored" if tolerant else ""
    said = (
        f"The lines of the hunk are in {printable(path)} {len(places)} times{how}, at lines {listed}: give"
        " more unchanged lines around the change, or a @@ line with the def or class above it."
    )
    return _refusal(path, "ambiguous", said, lines=list(places[:_MAX_LISTED]))


def _refusal(path: str, reason: str, text: str, **more: Any) -> ToolResult:
    return ToolResult(text, {"path": printable(path), "reason": reason, **more}, is_error=True)


def new_problems(path: str, before: str, after: str) -> tuple[SyntaxProblem, ...]:
    """Syntax errors the edit brought; a file that was broken before is judged by their number only."""
    now = syntax_errors(path, after.encode("utf-8", "replace"))
    if not now or len(now) <= len(syntax_errors(path, before.encode("utf-8", "replace"))):
        return ()
    return now


def warning(problems: Sequence[SyntaxProblem]) -> str:
    if not problems:
        return ""
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f" Warning: the file now has a syntax error at {first.line}:{first.column}, {first.message}{more}."


def _data(
    path: str,
    strategy: str,
    lines: tuple[int, int],
    sha256: str,
    replacements: int,
    problems: Sequence[SyntaxProblem],
) -> dict[str, Any]:
    return {
        "path": printable(path),
        "strategy": strategy,
        "changed_lines": list(lines),
        "sha256": sha256,
        "replacements": replacements,
        "is_test": is_test_path(path),
        "created": strategy == "created",
        "syntax_errors": as_data(problems),
    }


def as_data(problems: Sequence[SyntaxProblem]) -> list[dict[str, Any]]:
    """Syntax problems as JSON."""
    return [{"line": found.line, "column": found.column, "message": found.message} for found in problems]
