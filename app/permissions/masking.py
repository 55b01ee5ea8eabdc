"""What may not be read is really not there: denied files look empty inside an isolating sandbox."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...sandbox.base.git import Git
from ...sandbox.base.secrets import is_secret_name, register
from ...sandbox.protocol import Mount
from ...sandbox.workspace import Workspace
from .paths import PathPolicy, matches
from .rules import Rule

MAX_MASKS = 64
_MAX_SETTINGS = 1 << 20
_SETTING = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*[=:]\s*(.*)")


@dataclass(frozen=True)
class Guard:
    """The path rules of a run, and how the sandbox enforces them."""

    policy: PathPolicy
    mounts: tuple[Mount, ...] = ()
    notes: tuple[str, ...] = ()


async def guard_paths(
    workspace: Workspace, rules: Iterable[Rule], *, workdir: str, state_dir: Path, isolated: bool
) -> Guard:
    """Finds the denied files of a copy and covers them by an empty one.

    Files that are denied by default only and that git tracks stay as they are: whoever has the
    repository has them, and its tests may need them. Tools and commands still do not show them.
    """
    own = [each for rule in rules for each in rule.path_rules()]
    policy = PathPolicy().with_rules(own).at(workspace.root, (workdir, str(workspace.base.repository)))
    files = await workspace.files()
    readable = set(policy.filtered(files))
    denied = [path for path in files if path not in readable]
    repository = workspace.base.repository
    tracked = await asyncio.to_thread(_tracked, repository, denied) if denied else set[str]()
    # Ignored files are not in the copy, but a test or a log may say what is in them.
    for place in (workspace.root, repository):
        for path in {*denied, *(each.name for each in repository.glob(".env*"))} - tracked:
            learn_secrets(place / path)
    if not denied:
        return Guard(policy)
    asked_for = {path for path in denied if _by_person(policy, path)}
    covered = [path for path in denied if path not in tracked or path in asked_for]
    history = tuple(path for path in denied if path in tracked)
    changed = await asyncio.to_thread(_changed, repository, history) if history else ()
    policy = replace(policy, in_history=history, exposed=tuple(denied), differing=changed)
    if not isolated or not covered:
        return Guard(policy)
    regular = [path for path in covered if _is_regular(workspace.root, path)][:MAX_MASKS]
    notes = [f"{_few(regular)}: empty inside the sandbox, because it may not be read"] if regular else []
    if len(covered) > MAX_MASKS:
        notes.append(f"{len(covered) - MAX_MASKS} more files may not be read, but commands could")
    empty = state_dir / "may-not-be-read"
    empty.write_bytes(b"")
    empty.chmod(0o444)
    mounts = tuple(Mount(empty, f"{workdir}/{path}") for path in regular)
    exposed = tuple(path for path in denied if path not in regular)
    differing = tuple(path for path in history if path in {*changed, *regular})
    policy = replace(policy, masked=tuple(regular), exposed=exposed, differing=differing)
    return Guard(policy, mounts, tuple(notes))


def learn_secrets(path: Path) -> None:
    """Makes the keys in a file of settings (``NAME=value`` lines) secrets of this process.

    Only what looks like a key: values such as ``password`` would tear holes in ordinary text.
    """
    try:
        if not path.is_file() or path.stat().st_size > _MAX_SETTINGS:
            return
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        match = _SETTING.match(line)
        if match is None or not is_secret_name(match[1]):
            continue
        value = match[2].strip().strip("'\"")
        if len(value) >= 20 or (len(value) >= 12 and re.search(r"\d", value)):
            register(match[1], value)


def _by_person(policy: PathPolicy, path: str) -> bool:
    return any(
        not rule.default and rule.access == "read" and rule.outcome != "allow" and matches(rule.pattern, path)
        for rule in policy.rules
    )


def _tracked(repository: Path, paths: Sequence[str]) -> set[str]:
    literal = [f":(literal){path}" for path in paths[:1000]]
    return set(Git(None, repository).run_sync("ls-files", "-z", "--", *literal).fields())


def _changed(repository: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """Those that differ from the last commit; all of them where that cannot be told."""
    literal = [f":(literal){path}" for path in paths[:1000]]
    made = Git(None, repository).run_sync("diff", "--name-only", "-z", "HEAD", "--", *literal, check=False)
    return tuple(made.fields()) if made.exit_code == 0 else tuple(paths)


def _is_regular(root: Path, path: str) -> bool:
    place = root / path
    return place.is_file() and not place.is_symlink()


def _few(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more
