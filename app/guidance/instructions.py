"""Instruction files (AGENTS.md, else CLAUDE.md) with the files they import.

``@path`` names a file of the same repository whose text takes its place at the end; a path that
leads out of the repository is left as it stands and told. Code spans and blocks import nothing.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from ..invisible import visible
from .tree import Refused, Tree

INSTRUCTION_NAMES = ("AGENTS.md", "CLAUDE.md")
"""The first that exists in a folder counts."""
MAX_CHARACTERS = 32_000
"""Of one instruction file with its imports, as the model gets it."""
_MAX_DEPTH = 4
_MAX_IMPORTS = 20
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(
    r"(?<![\w@/.`])@\{?([~\w./\\-][\w./\\~ -]{0,300}?)\}?(?=[\s,;:)\]}]|\.?(?:\s|$)|$)", re.MULTILINE
)


@dataclass(frozen=True)
class Instructions:
    """What one folder says."""

    path: str
    text: str
    notices: tuple[str, ...] = ()
    """One line each: invisible characters, refused imports, cuts."""

    @property
    def folder(self) -> str:
        return posixpath.dirname(self.path)


async def read_instructions(tree: Tree, folder: str) -> Instructions | None:
    """The instructions of a folder ("" is the root); None when it has none."""
    for name in INSTRUCTION_NAMES:
        path = posixpath.join(folder, name)
        try:
            data = await tree.read(path)
        except Refused as error:
            return Instructions(path, "", (f"{path} is not used: {error.message}",))
        if data is not None:
            return await _Reader(tree).whole(path, data)
    return None


class _Reader:
    """One instruction file; every file is taken in once."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._seen: set[str] = set()
        self._notices: list[str] = []

    async def whole(self, path: str, data: bytes) -> Instructions:
        text = await self._text(path, data, 0)
        if len(text) > MAX_CHARACTERS:
            self._notices.append(
                f"{path}: {len(text) - MAX_CHARACTERS} of {len(text)} characters are left out"
            )
            text = text[:MAX_CHARACTERS]
        return Instructions(path, text.strip(), tuple(self._notices))

    async def _text(self, path: str, data: bytes, depth: int) -> str:
        self._seen.add(path)
        text, removed = visible(data.decode("utf-8-sig", "replace"))
        if removed:
            self._notices.append(
                f"{path}: {removed} invisible characters were taken out: look at who wrote them"
            )
        parts = [text.strip()]
        for name in _imports(text):
            imported = await self._imported(name, posixpath.dirname(path), depth)
            if imported:
                parts.append(imported)
        return "\n\n".join(parts)

    async def _imported(self, name: str, folder: str, depth: int) -> str:
        from .tree import inside

        try:
            path = inside(name, relative_to=folder)
            if path in self._seen:
                return ""
            data = await self._tree.read(path)
        except Refused as error:
            self._notices.append(f"import refused: {error.message}")
            return ""
        if data is None:
            return ""  # an address or a name that only looks like a path
        if depth >= _MAX_DEPTH or len(self._seen) > _MAX_IMPORTS:
            self._notices.append(f"import of {path} left out: too many imports")
            return ""
        return f"[{path}]\n{await self._text(path, data, depth + 1)}"


def _imports(text: str) -> list[str]:
    """Names after ``@`` outside of code that may be paths."""
    found = (match[1].rstrip(". ") for match in _IMPORT.finditer(_CODE.sub(" ", text)))
    return [name for name in dict.fromkeys(found) if name and ("/" in name or "." in name or "\\" in name)]
