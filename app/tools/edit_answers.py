"""What the ``edit`` tool says: results and refusals, as text for models and data for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...sandbox.workspace.names import is_test_path
from ..repo.symbols import SyntaxProblem, syntax_errors
from .base import ToolResult
from .matching import Span, Strategy
from .nearest import around, nearest
from .paths import printable

_SAID = {
    "exact": "",
    "trailing_whitespace": ", matched after ignoring trailing white space",
    "whitespace_folding": ", matched after whitespace folding (the replacement was re-indented)",
}
_MAX_LISTED = 50


def edited(
    path: str, before: str, after: str, strategy: Strategy, spans: Sequence[Span], sha256: str
) -> ToolResult:
    """The result of replacing ``spans`` of ``before``."""
    first = min(span.line for span in spans)
    end = max(span.end for span in spans) + len(after) - len(before)
    last = after.count("\n", 0, end) + (0 if after[end - 1 : end] == "\n" else 1)
    last = max(first, last)
    problems = _new_problems(path, before, after)
    where = f"{len(spans)} places" if len(spans) > 1 else f"line {first}"
    text = f"Edited {printable(path)} at {where}{_SAID[strategy]}.{_warning(problems)}\n"
    data = _data(path, strategy, (first, last), sha256, len(spans), problems)
    return ToolResult(text + around(after, first, last), data)


def created(path: str, text: str, size: int, sha256: str) -> ToolResult:
    lines = text.count("\n") + (0 if text.endswith("\n") or not text else 1)
    problems = syntax_errors(path, text.encode("utf-8", "replace"))
    said = f"Made {printable(path)} with {lines} lines ({size} bytes).{_warning(problems)}"
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


def _refusal(path: str, reason: str, text: str, **more: Any) -> ToolResult:
    return ToolResult(text, {"path": printable(path), "reason": reason, **more}, is_error=True)


def _new_problems(path: str, before: str, after: str) -> tuple[SyntaxProblem, ...]:
    """Syntax errors the edit brought; a file that was broken before is judged by their number only."""
    now = syntax_errors(path, after.encode("utf-8", "replace"))
    if not now or len(now) <= len(syntax_errors(path, before.encode("utf-8", "replace"))):
        return ()
    return now


def _warning(problems: Sequence[SyntaxProblem]) -> str:
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
        "syntax_errors": [
            {"line": found.line, "column": found.column, "message": found.message} for found in problems
        ],
    }
