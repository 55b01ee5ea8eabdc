"""Applying a verified patch to the user's tree, and taking it back."""

from __future__ import annotations

import hashlib
import json
import stat
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import ConfigError, PatchConflict, UsageError
from ...sandbox.base.files import atomic_write
from ...sandbox.base.git import Git
from ...sandbox.workspace import find_repository, tree_of
from ..paths import runs_dir, state_dir


@dataclass(frozen=True)
class LastResult:
    """Where the last result of a repository lies, and what was applied to it."""

    repository: str
    output: str
    """Folder with result.json and patch.diff."""
    applied_patch: str | None = None
    """The patch now in the tree (a copy of its own), or None."""
    applied_at: str = ""


def remember_result(repository: Path, output: Path, *, verified: bool) -> None:
    """Makes this result the one that `whimbrel apply` takes; keeps what `undo` needs.

    A result without a verified patch does not hide an earlier one that has one: `apply`
    checks the tree anyway.
    """
    known = _load(repository)
    if known and not verified and known.output != str(output) and Path(known.output, "patch.diff").is_file():
        return
    record = LastResult(
        str(repository),
        str(output),
        known.applied_patch if known else None,
        known.applied_at if known else "",
    )
    _save(record)


async def apply_result(
    path: Path, output: Path | None = None, part: bytes | None = None
) -> tuple[Path, list[str]]:
    """Applies the verified patch of the last result (or of ``output``) to the working tree.

    ``part``: the part of that patch a person chose; what is left out makes the proof no proof of it.
    The index is not touched. Returns the repository and the changed paths.

    Raises:
        UsageError: no result, or one without a verified patch.
        PatchConflict: the tree is not the one the patch was verified on.
    """
    repository = await find_repository(path)
    known = _load(repository)
    folder = output or (Path(known.output) if known else None)
    if folder is None:
        raise UsageError(f"no result for {repository} yet", hint="run `whimbrel fix-issue` first")
    result = _read_result(folder)
    patch = (folder / "patch.diff").read_bytes() if (folder / "patch.diff").is_file() else b""
    # What a person asked for in a conversation is theirs to apply; it is never called verified.
    if result.get("status") not in ("fixed", "answered") or not patch:
        raise UsageError(
            f"the result in {folder} has no verified patch (status {result.get('status')})",
            hint="unverified attempts are in its attempts/ folder, for `git apply` by hand",
        )
    if result.get("repository") not in (None, "", str(repository)):
        raise UsageError(f"the result in {folder} belongs to {result['repository']}", hint="check --repo")
    now = await tree_of(repository, runs_dir())
    # What a hook proved was never the working tree, which may hold more than what is committed:
    # there git's own check of every hunk decides, and the person was told what was tested.
    if now != result.get("base_tree") and result.get("start") != "index":
        if now == result.get("end_tree"):
            raise PatchConflict("the patch is already in the tree", hint="`whimbrel undo` takes it back")
        raise PatchConflict(
            "the working tree has changed since the run, so the evidence does not hold for it",
            hint=f"run `whimbrel fix-issue` again, or apply by hand: git apply {folder / 'patch.diff'}",
        )
    chosen = patch if part is None else part
    await _git_apply(repository, chosen, reverse=False)
    _save(_applied(repository, folder, chosen))
    return repository, [entry["path"] for entry in result.get("files", [])]


async def undo_last(path: Path) -> tuple[Path, str]:
    """Takes the applied patch back. Refuses when one of its files has changed since.

    Raises:
        UsageError: nothing was applied.
        PatchConflict: the patched files are no longer as the patch left them.
    """
    repository = await find_repository(path)
    known = _load(repository)
    if known is None or known.applied_patch is None:
        raise UsageError(f"no applied patch is recorded for {repository}")
    try:
        patch = Path(known.applied_patch).read_bytes()
    except OSError as error:
        raise ConfigError(f"the applied patch is gone from {known.applied_patch}") from error
    await _git_apply(repository, patch, reverse=True)
    _save(LastResult(known.repository, known.output))
    return repository, known.applied_at


async def _git_apply(repository: Path, patch: bytes, *, reverse: bool) -> None:
    git = Git(None, repository)
    modes = await _modes(git, repository, patch)
    arguments = ["apply", "--whitespace=nowarn", *(["--reverse"] if reverse else [])]
    # git checks every hunk of every file before it writes the first one.
    checked = await git.run(*arguments, "--check", "-", input=patch, check=False)
    if checked.exit_code != 0:
        what = "taken back" if reverse else "applied"
        first = (checked.stderr.strip().splitlines() or ["git gave no reason"])[0]
        raise PatchConflict(
            f"the patch cannot be {what}: {first}", hint="the tree has moved on; nothing was changed"
        )
    await git.run(*arguments, "-", input=patch)
    for file, mode in modes.items():
        # git writes a file anew and knows only its executable bit; the others (read-only, group) stay.
        if file.is_file() and not file.is_symlink():
            now = stat.S_IMODE(file.stat().st_mode)
            if now != mode and bool(now & 0o111) == bool(mode & 0o111):
                file.chmod(mode)


async def _modes(git: Git, repository: Path, patch: bytes) -> dict[Path, int]:
    """Permission bits of the existing regular files that a patch changes."""
    listed = await git.run("apply", "--numstat", "-z", "-", input=patch, check=False)
    files = [repository / field.split("\t", 2)[-1] for field in listed.fields()]
    return {
        file: stat.S_IMODE(file.stat().st_mode) for file in files if file.is_file() and not file.is_symlink()
    }


def _applied(repository: Path, folder: Path, patch: bytes) -> LastResult:
    copy = _records() / f"{hashlib.sha256(patch).hexdigest()[:16]}.diff"
    atomic_write(copy, patch)
    return LastResult(str(repository), str(folder), str(copy), time.strftime("%Y-%m-%d %H:%M:%S"))


def _read_result(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no result.json in {folder}", hint="give the --output folder of a run"
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder / 'result.json'} cannot be read: {error}") from error


def _records() -> Path:
    folder = state_dir() / "results"
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder


def _record_path(repository: Path) -> Path:
    return (
        _records()
        / f"{hashlib.sha256(str(repository).encode('utf-8', 'surrogateescape')).hexdigest()[:24]}.json"
    )


def _load(repository: Path) -> LastResult | None:
    try:
        data = json.loads(_record_path(repository).read_text(encoding="utf-8"))
        return LastResult(**data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"the record {_record_path(repository)} is damaged",
            hint="delete it; results themselves are unharmed",
        ) from error


def _save(record: LastResult) -> None:
    path = _record_path(Path(record.repository))
    atomic_write(path, json.dumps(asdict(record), indent=1).encode("utf-8"))
