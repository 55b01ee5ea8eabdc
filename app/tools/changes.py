"""Changing text files of the workspace: load, refuse what is stale, write all of several files or none."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...sandbox.base.errors import ToolError
from ...sandbox.base.files import TextFile
from ..repo.files import read_regular
from . import edit_answers as answers
from .base import ToolContext, ToolResult
from .paths import printable
from .read import remember, remembered
from .reading import binary_kind

__all__ = [
    "MAX_BYTES",
    "Change",
    "edit_lock",
    "fitting",
    "load",
    "new_file",
    "put",
    "sha256_of",
    "stale",
    "unix",
]

MAX_BYTES = 16 << 20


@dataclass(frozen=True)
class Change:
    """What becomes of one file."""

    path: str
    before: bytes | None
    """None: there was no such file."""
    after: bytes | None
    """None: it is removed."""
    executable: bool = False
    """Gets the executable bit; existing files keep theirs anyway."""


def edit_lock(context: ToolContext) -> asyncio.Lock:
    """Calls of one step may run side by side; two edits of one file must not lose each other."""
    lock: asyncio.Lock = context.scratch.setdefault("edit_lock", asyncio.Lock())
    return lock


def load(root: Path, path: str) -> bytes | None:
    """The file's bytes, or None when there is none and one could be made.

    Raises:
        ToolError: no text, too large, unreadable, or something else than a directory on the way.
    """
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


def stale(context: ToolContext, path: str, data: bytes, old: str) -> ToolResult | None:
    """A refusal with a fresh view when the file is not what the model last saw."""
    seen = remembered(context, path)
    now = sha256_of(data)
    if seen is None or seen == now:
        return None
    # The model sees the present state now, so the next edit is judged against it.
    remember(context, path, now)
    text = TextFile.from_bytes(Path(printable(path)), data).text
    return answers.stale(path, text, old, now)


def new_file(path: str, text: str) -> bytes:
    """The bytes of a file to be made.

    Raises:
        ToolError: a name or a text that no file should have.
    """
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise ToolError(f"{path!r} has control characters in its name and is not made")
    return fitting(TextFile.from_bytes(Path(printable(path)), b"").with_text(text).to_bytes())


def fitting(data: bytes) -> bytes:
    """The bytes themselves; raises ToolError when a later edit could not load them."""
    if len(data) > MAX_BYTES:
        raise ToolError(
            f"the text is over {MAX_BYTES >> 20} MiB, too large to write in one call", hint="use bash"
        )
    return data


def put(context: ToolContext, changes: Sequence[Change]) -> None:
    """Makes all changes; when one fails, those made before it are put back.

    Raises:
        ToolError: a file could not be written or is another by now; nothing is changed then, or the
            message names what could not be put back.
    """
    # Files are removed last: what can fail has then been written already.
    ordered = sorted(changes, key=lambda change: change.after is None)
    workspace = context.workspace
    done: list[tuple[Change, bool]] = []
    try:
        for change in ordered:
            if load(workspace.root, change.path) != change.before:
                raise ToolError(f"{printable(change.path)} changed while it was being edited")
            was_executable = workspace.is_executable(change.path)
            if change.after is None:
                workspace.remove(change.path)
            else:
                workspace.write(change.path, change.after, executable=change.executable)
            done.append((change, was_executable))
    except ToolError as error:
        lost = [
            change.path
            for change, was_executable in reversed(done)
            if not _put_back(context, change, was_executable)
        ]
        if lost:
            names = ", ".join(map(printable, lost))
            raise ToolError(f"{error.message}; and these could not be put back: {names}") from error
        others = "; the other files are as they were" if len(changes) > 1 else ""
        raise ToolError(error.message + others, hint=error.hint) from error
    for change in changes:
        if change.after is not None:
            remember(context, change.path, sha256_of(change.after))


def _put_back(context: ToolContext, change: Change, was_executable: bool) -> bool:
    with contextlib.suppress(ToolError):
        if change.before is None:
            context.workspace.remove(change.path)
        else:
            context.workspace.write(change.path, change.before, executable=was_executable)
        return True
    return False


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def unix(text: str) -> str:
    """The text with ``\\n`` line ends only."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
