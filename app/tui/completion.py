"""What may follow at the cursor of a prompt: commands at its beginning, files after an ``@``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SHOWN = 8
MAX_FILES = 50_000
_AT = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")
_COMMAND = re.compile(r"/([\w-]*)$")


@dataclass(frozen=True)
class Completion:
    """One way to go on: ``insert`` replaces the ``replaces`` characters before the cursor."""

    shown: str
    hint: str
    insert: str
    replaces: int


class Completer:
    """Knows the commands, and the files once somebody gave them; pure, so every key may ask it."""

    def __init__(self, commands: Sequence[tuple[str, str]]) -> None:
        self._commands = commands
        self.files: Sequence[str] = ()

    def wants_files(self, before: str) -> bool:
        """Whether an ``@`` is being written."""
        return _AT.search(before) is not None

    def complete(self, before: str, *, first_line: bool) -> list[Completion]:
        """Completions for the line up to the cursor; empty where nothing is meant to be completed."""
        if first_line and (command := _COMMAND.fullmatch(before)):
            return self._commands_for(command[1])
        if found := _AT.search(before):
            typed = found[1]
            chosen = _ranked(typed, self.files) if typed else list(self.files[:_SHOWN])
            return [Completion(name, _kind(name), f"@{quoted(name)} ", len(typed) + 1) for name in chosen]
        return []

    def _commands_for(self, typed: str) -> list[Completion]:
        starts = [one for one in self._commands if one[0].startswith(typed)]
        within = [one for one in self._commands if typed and typed in one[0] and one not in starts]
        return [
            Completion(f"/{name}", hint, f"/{name} ", len(typed) + 1)
            for name, hint in (*starts, *within)[:_SHOWN]
        ]


async def list_files(repository: Path) -> list[str]:
    """Tracked and untracked files that git does not ignore, shallow ones first; empty outside git."""
    from ...sandbox.base.errors import WhimbrelError
    from ...sandbox.base.git import Git

    try:
        found = await Git(None, repository).run(
            "ls-files", "-z", "--cached", "--others", "--exclude-standard"
        )
    except (WhimbrelError, OSError):
        return []
    return sorted(set(found.fields()), key=lambda name: (name.count("/"), name))[:MAX_FILES]


def _kind(name: str) -> str:
    from ..talk.images import is_image_name

    return "image" if is_image_name(name) else ""


def quoted(name: str) -> str:
    """A path as it stands behind ``@``: with quotes where it holds a space."""
    return f'"{name}"' if " " in name else name


def _ranked(typed: str, files: Sequence[str]) -> list[str]:
    """Names that begin so, then paths that hold it, then those that resemble it."""
    wanted = typed.casefold()
    begins: list[str] = []
    holds: list[str] = []
    for name in files:
        folded = name.casefold()
        if folded.startswith(wanted) or folded.rsplit("/", 1)[-1].startswith(wanted):
            begins.append(name)
        elif wanted in folded:
            holds.append(name)
        if len(begins) >= _SHOWN:
            break
    found = [*begins, *holds][:_SHOWN]
    if len(found) < _SHOWN and len(typed) > 2:
        from rapidfuzz import fuzz, process

        seen = set(found)
        near = process.extract(typed, files, scorer=fuzz.partial_ratio, limit=_SHOWN * 2, score_cutoff=80)
        found += [name for name, _, _ in near if name not in seen][: _SHOWN - len(found)]
    return found
