"""Skills: folders with a SKILL.md that says how something is done here, read whole when it is needed."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...sandbox.base.errors import ToolError
from ..invisible import visible, visible_line
from ..paths import config_dir
from .source import SKILL_FOLDERS
from .tree import Refused, WorkingTree

MAX_SKILLS = 50
_MAX_DESCRIPTION = 300
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FIELD = re.compile(r"^(name|description)[ \t]*:[ \t]*(.*(?:\n[ \t]+\S.*)*)$", re.MULTILINE)


@dataclass(frozen=True)
class Skill:
    """One skill and the files of its folder."""

    name: str
    description: str
    origin: str
    """``yours`` or the folder of the repository."""
    files: Mapping[str, bytes]
    """Path within its folder -> content; ``SKILL.md`` among them."""

    def text(self, file: str = "SKILL.md") -> str:
        """A file of the skill for the model.

        Raises:
            ToolError: there is none of that name, or it is no text.
        """
        data = self.files.get(file.removeprefix("./"))
        if data is None:
            raise ToolError(
                f"skill {self.name} has no file {file!r}", hint=f"it has: {', '.join(self.files)}"
            )
        if b"\0" in data:
            raise ToolError(f"{file} of skill {self.name} is no text ({len(data)} bytes)")
        text, removed = visible(data.decode("utf-8-sig", "replace"))
        return (f"[{removed} invisible characters were taken out]\n" if removed else "") + text


async def own_skills() -> tuple[Skill, ...]:
    """Those in the person's own ``skills`` folder."""
    root = config_dir()
    return await _own(root) if (root / "skills").is_dir() else ()


async def _own(root: Path) -> tuple[Skill, ...]:
    tree = WorkingTree(root)
    contents: dict[str, bytes] = {}
    for path in await tree.list("skills"):
        try:
            data = await tree.read(path)
        except Refused:
            continue  # too large: the skill goes without that file
        if data is not None:
            contents[path] = data
    return _skills(contents, ("skills",), "yours")


def repository_skills(contents: Mapping[str, bytes]) -> tuple[Skill, ...]:
    """Those of a trusted repository, from the contents of its survey."""
    return _skills(contents, SKILL_FOLDERS, "")


def together(
    own: tuple[Skill, ...], repository: tuple[Skill, ...], tell: Callable[[str, str], None]
) -> tuple[Skill, ...]:
    """By name; the person's own wins over a namesake of the repository."""
    found = {skill.name: skill for skill in (*repository, *own)}
    names = sorted(found)
    if len(names) > MAX_SKILLS:
        tell("warning", f"{len(names) - MAX_SKILLS} of {len(names)} skills are left out")
    return tuple(found[name] for name in names[:MAX_SKILLS])


def _skills(contents: Mapping[str, bytes], folders: tuple[str, ...], origin: str) -> tuple[Skill, ...]:
    grouped: dict[tuple[str, str], dict[str, bytes]] = {}
    for path in sorted(contents):
        for folder in folders:
            name, _, file = path.removeprefix(f"{folder}/").partition("/")
            if path.startswith(f"{folder}/") and file:
                grouped.setdefault((folder, name), {})[file] = contents[path]
    made: list[Skill] = []
    for (folder, name), files in grouped.items():
        if "SKILL.md" in files and _NAME.fullmatch(name):
            told = _front_matter(files["SKILL.md"].decode("utf-8-sig", "replace"))
            description = visible_line(told.get("description", ""), _MAX_DESCRIPTION)
            given = told.get("name", name)
            shown = given if _NAME.fullmatch(given) else name
            made.append(Skill(shown, description, origin or posixpath.join(folder, name), files))
    return tuple(made)


def _front_matter(text: str) -> dict[str, str]:
    """``name`` and ``description`` between the first two ``---`` lines; values may be quoted or continued."""
    match = re.match(r"\s*---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)", text, re.DOTALL)
    if match is None:
        return {}
    body = match[1].replace("\r\n", "\n")
    found: dict[str, str] = {}
    for key, value in _FIELD.findall(body):
        line = " ".join(value.split()).removeprefix("|").removeprefix(">").removeprefix("-").strip()
        if len(line) > 1 and line[0] == line[-1] and line[0] in "'\"":
            line = line[1:-1]
        found.setdefault(key, line)
    return found
