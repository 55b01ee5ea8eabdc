"""What happened in a part of a conversation, by its calls and their typed data: no model is asked.

It stands beside every summary, so that files, commands and the person's own words
do not depend on how well somebody summarises.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ...engine.chat import Message, TextPart, ToolCallPart, ToolResultPart
from ...sandbox.base.errors import ToolError
from ..repo.files import read_regular

Present = Callable[[str], str | None]
"""The hash of a file of the working copy as it is now; None: there is none that can be read."""

_LOOKS = frozenset({"read", "search", "list", "glob", "symbols", "locate", "todo", "view_image"})
"""Tools whose calls change nothing: counted, not listed."""
_MOST_FILES = 60
_MOST_BYTES = 16 << 20
_MOST_CALLS = 40
_MOST_SAID = 6000


@dataclass
class Facts:
    """Of the part that is left out; can be carried on to the next compaction."""

    files: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """Path to (hash as the model last saw it, number of edits); latest last."""
    calls: list[str] = field(default_factory=list[str])
    """One line for each call that ran or changed something, oldest first."""
    looked: int = 0
    said: list[str] = field(default_factory=list[str])
    """Later messages of the person, verbatim."""
    dropped_calls: int = 0

    def take(self, messages: Iterable[Message]) -> None:
        """Adds what these messages show."""
        open_calls: dict[str, ToolCallPart] = {}
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    open_calls[part.id] = part
                elif isinstance(part, ToolResultPart):
                    self._take_result(open_calls.pop(part.call_id, None), part)
                elif isinstance(part, TextPart) and message.role == "user" and part.text.strip():
                    self.said.append(part.text.strip())
        self.dropped_calls += max(0, len(self.calls) - _MOST_CALLS)
        self.calls = self.calls[-_MOST_CALLS:]

    def text(self, present: Present) -> str:
        """For the model, bounded."""
        blocks: list[str] = []
        if self.said:
            blocks.append("The person also said, word for word:\n" + _bounded(self.said, _MOST_SAID))
        if self.files:
            shown = list(self.files.items())[-_MOST_FILES:]
            lines = [_file_line(path, seen, edits, present(path)) for path, (seen, edits) in shown]
            if len(self.files) > len(shown):
                lines.insert(0, f"- [{len(self.files) - len(shown)} files seen earlier are not listed]")
            blocks.append("Files seen or changed so far, and their state now:\n" + "\n".join(lines))
        if self.calls or self.looked:
            lines = list(self.calls)
            if self.dropped_calls:
                lines.insert(0, f"- [{self.dropped_calls} earlier calls are not listed]")
            if self.looked:
                lines.append(f"- {self.looked} calls that only looked (read, search, ...)")
            blocks.append(
                "Calls that WERE RUN and whose effects stand (do not repeat them because they are"
                " listed here):\n" + "\n".join(lines)
            )
        return "\n\n".join(blocks)

    def _take_result(self, call: ToolCallPart | None, result: ToolResultPart) -> None:
        data = cast("dict[str, Any]", result.data) if isinstance(result.data, dict) else {}
        edits = result.name != "read" and not result.is_error
        for path, sha in _paths(data):
            _, before = self.files.pop(path, ("", 0))
            self.files[path] = (sha, before + (1 if edits else 0))
        if result.name in _LOOKS:
            self.looked += 1
            return
        arguments = _arguments(call)
        outcome = _outcome(result, data)
        kept = f" (artifact:{result.artifacts[0]})" if result.artifacts else ""
        self.calls.append(f"- {result.name} {arguments}: {outcome}{kept}")


def hasher(root: Path) -> Present:
    """``Present`` for the files below ``root``; what cannot be read as a regular file is not there."""

    def present(path: str) -> str | None:
        try:
            data = read_regular(root, path, _MOST_BYTES)
        except (ToolError, OSError, ValueError):
            return None
        return None if data is None else hashlib.sha256(data).hexdigest()

    return present


def _paths(data: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Files that a result's data names with their hash: of one file, or a list of them."""
    listed: Any = data.get("files")
    entries: list[Any] = [data, *(cast("list[Any]", listed) if isinstance(listed, list) else [])]
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        values = cast("dict[str, Any]", entry)
        path, sha = values.get("path"), values.get("sha256")
        if isinstance(path, str) and isinstance(sha, str) and not path.startswith("artifact:"):
            yield path, sha


def _file_line(path: str, seen: str, edits: int, now: str | None) -> str:
    if now is None:
        state = "no longer there"
    else:
        state = f"sha256 {now[:12]} " + ("as last seen" if now == seen else "CHANGED since it was last seen")
    done = f"edited {edits} times, " if edits > 1 else "edited, " if edits else "read, "
    return f"- {path}: {done}{state}"


def _arguments(call: ToolCallPart | None) -> str:
    if call is None:
        return ""
    try:
        values: Any = json.loads(call.arguments)
    except ValueError:
        return ""
    if not isinstance(values, dict):
        return ""
    shown = {
        key: value if not isinstance(value, str) else _one_line(value, 160)
        for key, value in cast("dict[str, Any]", values).items()
    }
    return _one_line(json.dumps(shown, ensure_ascii=False), 300)


def _outcome(result: ToolResultPart, data: Mapping[str, Any]) -> str:
    first = _one_line(result.text.split("\n", 1)[0], 160)
    code = data.get("exit_code")
    known = f"exit code {code}, " if isinstance(code, int) and "exit code" not in first else ""
    return f"{'ERROR, ' if result.is_error else ''}{known}{first}"


def _bounded(texts: Sequence[str], most: int) -> str:
    """The latest texts in full as far as they fit."""
    kept: list[str] = []
    room = most
    for text in reversed(texts):
        if len(text) > room:
            kept.append(text[:room] + " [...]" if room > 200 else "[earlier messages are not repeated here]")
            break
        kept.append(text)
        room -= len(text)
    return "\n---\n".join(reversed(kept))


def _one_line(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."
