"""The ``edit`` tool: replaces a piece of text in a file, or makes a new file.

Data: ``{"path", "strategy", "changed_lines": [first, last], "sha256", "replacements", "is_test",
"created", "syntax_errors": [{"line", "column", "message"}]}``; ``strategy`` is ``exact``,
``trailing_whitespace``, ``whitespace_folding`` or ``created``. Refusals are error results whose
data has ``"path"`` and ``"reason"``: ``stale``, ``ambiguous`` (with ``"lines"``) or ``not_found``.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from ...sandbox.base.files import TextFile
from ..repo.files import read_regular
from . import edit_answers as answers
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .invisible import real
from .matching import Span, Strategy, find_spans, splice_mixed
from .paths import printable, writable_path
from .read import remember, remembered, similar_names
from .reading import binary_kind

MAX_BYTES = 16 << 20


class EditArguments(ToolArguments):
    path: str = Field(description="File, relative to the repository's top.")
    old: str = Field(description="The text to replace; empty to make a new file.")
    new: str = Field(description="What stands there afterwards; empty to delete.")
    occurrence: int | None = Field(default=None, ge=1, description="Which one, from 1, if there are several.")
    line: int | None = Field(default=None, ge=1, description="Or: the one at or nearest to this line.")
    replace_all: bool = Field(default=False, description="Replace every exact occurrence.")


class EditTool:
    name: ClassVar[str] = "edit"
    arguments: ClassVar[type[ToolArguments]] = EditArguments
    permission: ClassVar[PermissionClass] = PermissionClass.WRITE

    async def run(self, context: ToolContext, arguments: EditArguments) -> ToolResult:
        """Raises ToolError when the file cannot be edited as text at all."""
        path = writable_path(context, arguments.path)
        # Calls of one step may run side by side; two edits of one file must not lose each other.
        lock: asyncio.Lock = context.scratch.setdefault("edit_lock", asyncio.Lock())
        async with lock:
            return await asyncio.to_thread(_edit, context, path, arguments)


def _edit(context: ToolContext, path: str, arguments: EditArguments) -> ToolResult:
    data = _load(context.workspace.root, path)
    old, new = _unix(arguments.old), _unix(arguments.new)
    if data is not None and old != real(old) and old.encode() not in data:
        # Invisible characters are shown as marks; what is meant are the characters themselves.
        old, new = real(old), real(new)
    if "\0" in new:
        raise ToolError("new holds a NUL character, which no text file has")
    if data is None:
        if old:
            hint = similar_names(context.workspace.root / path)
            raise ToolError(
                f"{printable(path)} does not exist", hint=f"{hint}; an empty old makes a new file"
            )
        return _create(context, path, new)
    stale = _stale(context, path, data, old)
    if stale is not None:
        return stale
    file = TextFile.from_bytes(Path(printable(path)), data)
    if not old:
        if file.text:
            lines = file.text.count("\n") + 1
            raise ToolError(
                f"{printable(path)} exists and has {lines} lines", hint="give the old text to replace"
            )
        return _finish(context, path, data, file, "exact", (Span(0, 0, new, 1),))
    if old == new:
        raise ToolError("old and new are the same text; nothing would change")
    strategy, found = find_spans(file.text, old, new)
    if not found:
        return answers.not_found(path, file.text, old)
    chosen = _choose(found, strategy, arguments)
    if not chosen:
        return answers.ambiguous(path, strategy, found, arguments.line)
    return _finish(context, path, data, file, strategy, chosen)


def _load(root: Path, path: str) -> bytes | None:
    """The file's bytes, or None when there is none and one could be made."""
    shown = printable(path)
    parent = root
    for part in Path(path).parts[:-1]:
        parent /= part
        try:
            if not stat.S_ISDIR(os.lstat(parent).st_mode):
                raise ToolError(f"{shown}: {parent.relative_to(root)} is not a directory")
        except FileNotFoundError:
            return None
    try:
        data = read_regular(root, path, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolError(f"{shown} cannot be read: {error.strerror or error}") from error
    if data is None:
        raise ToolError(f"{shown} is over {MAX_BYTES >> 20} MiB, too large to edit as text", hint="use bash")
    kind = binary_kind(data[:65536])
    if kind is not None:
        raise ToolError(f"{shown} is {kind}, not text")
    return data


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _choose(found: Sequence[Span], strategy: Strategy, arguments: EditArguments) -> tuple[Span, ...]:
    """The spans to replace; none when it is not clear which."""
    if arguments.occurrence is not None:
        if arguments.occurrence > len(found):
            raise ToolError(f"old occurs {len(found)} times; there is no occurrence {arguments.occurrence}")
        return (found[arguments.occurrence - 1],)
    if arguments.replace_all and (strategy == "exact" or len(found) == 1):
        return tuple(found)
    if len(found) == 1:
        return tuple(found)
    if arguments.line is not None:
        wanted = arguments.line
        ranked = sorted(found, key=lambda span: abs(span.line - wanted))
        if abs(ranked[0].line - wanted) < abs(ranked[1].line - wanted):
            return (ranked[0],)
    return ()


def _create(context: ToolContext, path: str, new: str) -> ToolResult:
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise ToolError(f"{path!r} has control characters in its name and is not made")
    data = TextFile.from_bytes(Path(printable(path)), b"").with_text(new).to_bytes()
    if len(data) > MAX_BYTES:
        raise ToolError(
            f"the text is over {MAX_BYTES >> 20} MiB, too large to write in one call", hint="use bash"
        )
    context.workspace.write(path, data)
    sha256 = hashlib.sha256(data).hexdigest()
    remember(context, path, sha256)
    return answers.created(path, new, len(data), sha256)


def _finish(
    context: ToolContext, path: str, before: bytes, file: TextFile, strategy: Strategy, spans: Sequence[Span]
) -> ToolResult:
    """Puts the replacements in and writes the file."""
    text = file.text
    for span in sorted(spans, key=lambda span: -span.start):
        text = text[: span.start] + span.replacement + text[span.end :]
    # Also for mixed line ends: this is what refuses text the encoding cannot hold.
    data = file.with_text(text).to_bytes()
    if file.mixed_newlines:
        data = splice_mixed(before, file, spans)
    if data == before:
        raise ToolError("the file already reads like this; nothing would change")
    context.workspace.write(path, data)
    sha256 = hashlib.sha256(data).hexdigest()
    remember(context, path, sha256)
    return answers.edited(path, file.text, text, strategy, spans, sha256)


def _stale(context: ToolContext, path: str, data: bytes, old: str) -> ToolResult | None:
    """A refusal with a fresh view when the file is not what the model last saw."""
    seen = remembered(context, path)
    now = hashlib.sha256(data).hexdigest()
    if seen is None or seen == now:
        return None
    # The model sees the present state now, so the next edit is judged against it.
    remember(context, path, now)
    text = TextFile.from_bytes(Path(printable(path)), data).text
    return answers.stale(path, text, old, now)
