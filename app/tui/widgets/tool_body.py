"""What a tool call shows: its subject in one line, and its result as lines by the kind of tool."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from textual.content import Content, Span

from .code_style import language_of
from .expandable import styled
from .markdown_lines import CodeLines
from .plain_text import clean, counted, one_line

__all__ = ["body_of", "outcome_of", "subject_line", "went_badly"]

_SUBJECTS = ("command", "path", "pattern", "url", "task", "question", "name", "revision", "action", "handle")
MAX_DIFF_LINES = 4000
_BAD = {"failed": "✗", "error": "!", "xpassed": "✗"}

Data = Mapping[str, Any]


def subject_line(name: str, arguments: Data) -> str:
    """What the call is about, on one line."""
    if name == "apply_patch":
        return one_line(", ".join(_patched_paths(str(arguments.get("patch", "")))), 200)
    if name == "todo":
        items = _list(arguments.get("items"))
        done = sum(_dict(item).get("status") == "done" for item in items)
        return f"{done} of {len(items)} done"
    if name in ("run_tests", "locate", "repair"):
        return one_line(" ".join(map(str, _list(arguments.get("tests")))), 200)
    for key in _SUBJECTS:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            return one_line(value, 300)
    return one_line(" ".join(f"{key}={value}" for key, value in arguments.items()), 200)


def outcome_of(name: str, data: Any, text: str, *, is_error: bool) -> str:
    """How it went, in two or three words; empty when there is nothing to say."""
    fields = _dict(data)
    if name == "bash" and isinstance(fields.get("exit_code"), int):
        return "timed out" if fields.get("timed_out") else f"exit {fields['exit_code']}"
    if is_error:
        return str(fields.get("reason", "")).replace("_", " ") or "failed"
    if name == "run_tests":
        return ", ".join(f"{count} {kind}" for kind, count in _dict(fields.get("counts")).items())
    if name == "search" and "total_lines" in fields:
        return f"{fields['total_lines']} in {counted(int(fields.get('total_files') or 0), 'file')}"
    if name == "read" and "lines" in fields:
        return f"{fields.get('start')}-{fields.get('end')} of {fields.get('total_lines')}"
    if name == "glob":
        return counted(int(fields.get("total") or 0), "file")
    if name == "repair":
        return str(fields.get("status", "")).replace("_", " ")
    if name == "locate":
        return counted(len(_list(fields.get("locations"))), "place")
    if name in ("edit", "multi_edit", "write") and fields.get("changed_lines"):
        first, last = [*_list(fields["changed_lines"]), 0, 0][:2]
        return "created" if fields.get("created") else f"lines {first}-{last}"
    return ""


def went_badly(name: str, data: Any) -> bool:
    """Whether a call that worked brought bad news: a command that failed, tests that did not pass."""
    fields = _dict(data)
    if name == "run_tests":
        counts = _dict(fields.get("counts"))
        return any(counts.get(kind) for kind in ("failed", "error", "timeout", "collection_error"))
    return name == "bash" and fields.get("exit_code") not in (0, None)


def body_of(name: str, arguments: Data, data: Any, text: str, width: int, *, is_error: bool) -> list[Content]:
    """The result as lines of at most ``width`` cells."""
    fields = _dict(data)
    lines: list[Content] = []
    if not is_error:
        if name in ("edit", "multi_edit", "write", "apply_patch"):
            lines = _changes(name, arguments, width)
        elif name == "read" and fields.get("lines"):
            lines = _code(fields, width)
        elif name == "search" and fields.get("matches"):
            lines = _hits(_list(fields["matches"]), width)
        elif name == "list" and fields.get("entries"):
            lines = [_entry(_dict(entry)) for entry in _list(fields["entries"])]
        elif name == "todo":
            lines = [todo_line(_dict(item)) for item in _list(fields.get("items"))]
        elif name == "run_tests" and "counts" in fields:
            lines = _tests(fields, width)
        elif name == "repair" and fields.get("patches"):
            lines = _patches(_list(fields["patches"]), width)
        elif name == "git" and text.startswith("diff --git"):
            lines = diff_lines(text.split("\n"), width)
    if lines:
        return [line.truncate(width, ellipsis=True) for line in lines]
    return output(text, width, "error" if is_error else "")


def output(text: str, width: int, style: str = "") -> list[Content]:
    """Plain output: cleaned of escapes, folded at the edge."""
    lines: list[Content] = []
    for line in clean(text.rstrip("\n")).split("\n"):
        content = styled(line, style) if style else Content(line)
        lines += [content] if content.cell_length <= width else content.fold(width)
    return lines


def diff_lines(lines: Iterable[str], width: int) -> list[Content]:
    """Lines of a unified diff in their colours."""
    shown: list[Content] = []
    for line in lines:
        bare = clean(line)
        kind = bare[:1]
        if bare.startswith(("+++", "---", "diff ", "index ", "***")):
            style = "muted"
        else:
            style = {"+": "added", "-": "removed", "@": "hunk"}.get(kind, "")
        shown.append(styled(bare, style) if style else Content(bare))
    return shown


def todo_line(item: Data) -> Content:
    """One step of a plan with its mark."""
    status = str(item.get("status", "pending"))
    mark, style = {"done": ("✓", "muted"), "in_progress": ("▸", "active")}.get(status, ("○", ""))
    text = one_line(str(item.get("text", "")))
    return Content(f"{mark} ") + (styled(text, style) if style else Content(text))


# ------------------------------------------------------------ kinds


def _changes(name: str, arguments: Data, width: int) -> list[Content]:
    if name == "apply_patch":
        return diff_lines(str(arguments.get("patch", "")).split("\n"), width)
    if name == "write":
        edits: list[tuple[str, str]] = [("", str(arguments.get("content", "")))]
    elif name == "edit":
        edits = [(str(arguments.get("old", "")), str(arguments.get("new", "")))]
    else:
        each = [_dict(edit) for edit in _list(arguments.get("edits"))]
        edits = [(str(edit.get("old", "")), str(edit.get("new", ""))) for edit in each]
    lines: list[str] = []
    for number, (old, new) in enumerate(edits):
        if number:
            lines.append("@@")
        before, after = old.splitlines(), new.splitlines()
        if len(before) + len(after) > MAX_DIFF_LINES or not before:
            lines += [f"-{line}" for line in before] + [f"+{line}" for line in after]
        else:
            lines += list(difflib.unified_diff(before, after, lineterm="", n=3))[3:]
    return diff_lines(lines, width)


def _code(fields: Data, width: int) -> list[Content]:
    source = [clean(str(line)) for line in _list(fields["lines"])]
    digits = len(str(fields.get("end", len(source))))
    code = CodeLines(source, language_of(str(fields.get("path", ""))))
    first = int(fields.get("start") or 1)
    return [
        styled(f"{number:>{digits}} ", "muted") + line
        for number, line in enumerate(code.lines(1 << 30), start=first)
    ]


def _hits(matches: Sequence[Any], width: int) -> list[Content]:
    lines: list[Content] = []
    rows = [_dict(match) for match in matches]
    for path, group in groupby(rows, key=lambda row: str(row.get("path", ""))):
        lines.append(styled(one_line(path), "name"))
        for row in group:
            lines.append(
                styled(f"{row.get('line', 0):>6} ", "muted") + Content(clean(str(row.get("text", ""))))
            )
    return lines


def _entry(entry: Data) -> Content:
    path = one_line(str(entry.get("path", "")))
    folder = entry.get("kind") == "directory"
    return styled(path + "/", "name") if folder else Content(path)


def _tests(fields: Data, width: int) -> list[Content]:
    lines: list[Content] = []
    for error in map(_dict, _list(fields.get("collection_errors"))):
        lines.append(styled(f"! {one_line(str(error.get('path', '')))}", "error"))
        lines.append(Content("    " + one_line(str(error.get("message", "")), 1000)))
    for case in map(_dict, _list(fields.get("tests"))):
        lines.append(
            styled(f"{_BAD.get(str(case.get('outcome')), '✗')} {one_line(str(case.get('id')))}", "error")
        )
        message = f"{case.get('exception') or ''}: {case.get('message') or ''}".strip(": ")
        lines += [Content(f"    {clean(line)}") for line in message.split("\n")[:12]]
        for frame in map(_dict, _list(case.get("frames"))[-3:]):
            place = f"{frame.get('path')}:{frame.get('line')} {frame.get('function')}"
            lines.append(styled("    " + one_line(place), "muted"))
    flaky = [str(each) for each in _list(fields.get("flaky"))]
    if flaky:
        lines.append(styled(one_line(f"flaky: {', '.join(flaky)}"), "hunk"))
    return lines or [styled("no test is bad", "ok")]


def _patches(patches: Sequence[Any], width: int) -> list[Content]:
    lines: list[Content] = []
    for patch in map(_dict, patches):
        state = "verified" if patch.get("verified") else "not verified"
        lines.append(Content(one_line(f"{patch.get('explanation', '')} ({state})")))
        lines += diff_lines(str(patch.get("diff", "")).rstrip("\n").split("\n"), width)
    return lines


def _patched_paths(patch: str) -> list[str]:
    names: list[str] = []
    for line in patch.split("\n"):
        if line.startswith(("+++ ", "*** Update File: ", "*** Add File: ", "*** Delete File: ")):
            name = line.partition(": ")[2] if line.startswith("*** ") else line[4:].split("\t")[0]
            name = name.removeprefix("b/")
            if name and name != "/dev/null" and name not in names:
                names.append(name)
    return names


def _dict(value: Any) -> Data:
    return cast("Data", value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else []


def mark(text: str, spans: Sequence[tuple[int, int, str]]) -> Content:
    return Content(text, [Span(*span) for span in spans])
