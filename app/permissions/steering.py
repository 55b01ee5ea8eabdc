"""What in a repository would run by itself or steer the agent, and the hash its trust is bound to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from ...sandbox.base.errors import ConfigError

Kind = Literal["recipe", "instructions", "mcp", "hooks", "skills", "settings"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

MEANING: Final[Mapping[str, str]] = {
    "recipe": "how it is set up, tested and built (recipe, Dockerfile, devcontainer)",
    "instructions": "instructions for agents",
    "mcp": "MCP servers that would be started",
    "hooks": "hooks of this program that would run",
    "skills": "skills: instructions and scripts",
    "settings": "settings of this program",
}

_INSTRUCTIONS = frozenset({"agents.md", "agents.override.md", "claude.md", "gemini.md", ".cursorrules"})
_SKIPPED = frozenset(
    {".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".mypy_cache", "site-packages"}
)
_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "mcp": (".mcp.json", ".whimbrel/mcp.json", ".whimbrel/mcp.toml"),
    "hooks": (".whimbrel/hooks",),
    "skills": (".whimbrel/skills", ".agents/skills", ".claude/skills"),
    "settings": (".whimbrel/settings.toml", ".whimbrel/config.toml", ".whimbrel.toml"),
}
_MAX_FILE: Final = 1 << 20
_MAX_FILES: Final = 500
_MAX_FOLDERS: Final = 50_000


@dataclass(frozen=True)
class Steering:
    """Everything of one kind, as it was when it was read: obey these bytes, do not read again."""

    kind: Kind
    files: Mapping[str, bytes]
    """Repository-relative path -> content."""
    refused: tuple[str, ...] = ()
    """Named, never used: links that lead outside, what is too large or cannot be read."""

    @property
    def digest(self) -> str:
        """Over the kind, names and contents; empty when there is nothing."""
        if not self.files:
            return ""
        digest = hashlib.sha256(self.kind.encode() + b"\0")
        for name in sorted(self.files):
            for part in (os.fsencode(name), self.files[name]):
                digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()

    def ignored_note(self) -> str:
        """The line shown when it is found and not trusted."""
        names = sorted(self.files)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return (
            f"{', '.join(names[:3])}{more} found and ignored: not trusted"
            " (read it, then `whimbrel trust` or --trust)"
        )


def find_steering(repository: Path, kind: Kind) -> Steering:
    """Reads everything of one kind in a repository.

    Raises:
        ConfigError: the recipe is not valid, or there is too much to look at.
    """
    if kind == "recipe":
        return _recipe(repository)
    files: dict[str, bytes] = {}
    refused: list[str] = []
    for name in _instructions(repository) if kind == "instructions" else _below(repository, _PLACES[kind]):
        if len(files) >= _MAX_FILES:
            raise ConfigError(f"more than {_MAX_FILES} files of {MEANING[kind]} in {repository}")
        content = _read(repository, name)
        if content is None:
            refused.append(name)
        else:
            files[name] = content
    return Steering(kind, files, tuple(refused))


def _recipe(repository: Path) -> Steering:
    from ..repo.environment.recipe import load_configuration

    configuration = load_configuration(repository)
    return _Recipe(
        "recipe",
        {name: configuration.digest.encode() for name in configuration.files},
        (),
        configuration.digest,
    )


@dataclass(frozen=True)
class _Recipe(Steering):
    """A recipe has a hash of its own: only its table in pyproject.toml counts."""

    own_digest: str = ""

    @property
    def digest(self) -> str:
        return self.own_digest


def _instructions(repository: Path) -> Iterator[str]:
    for count, (folder, folders, names) in enumerate(os.walk(repository)):
        if count > _MAX_FOLDERS:
            raise ConfigError(
                f"{repository} has more than {_MAX_FOLDERS} folders to look for instructions in"
            )
        folders[:] = sorted(each for each in folders if each not in _SKIPPED)
        for name in sorted(names):
            if name.casefold() in _INSTRUCTIONS:
                yield Path(folder, name).relative_to(repository).as_posix()
        if os.path.relpath(folder, repository) == ".github" and "copilot-instructions.md" in names:
            yield ".github/copilot-instructions.md"


def _below(repository: Path, places: tuple[str, ...]) -> Iterator[str]:
    for place in places:
        path = repository / place
        if path.is_dir() and not path.is_symlink():
            for folder, folders, names in os.walk(path):
                folders.sort()
                links = [each for each in folders if Path(folder, each).is_symlink()]
                for name in sorted([*names, *links]):
                    yield Path(folder, name).relative_to(repository).as_posix()
        elif path.is_symlink() or path.exists():
            yield place


def _read(repository: Path, name: str) -> bytes | None:
    """The content, or None for what is never used: outside, no regular file, too large, unreadable."""
    path = repository / name
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(repository.resolve()) or not real.is_file():
            return None
        if real.stat().st_size > _MAX_FILE:
            return None
        return real.read_bytes()
    except (OSError, RuntimeError):
        return None
