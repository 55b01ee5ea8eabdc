"""The folder a run writes its result to: claimed before the run, filled after it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import ConfigError, UsageError
from ...sandbox.base.files import atomic_write
from ...sandbox.base.git import Git
from .result import FixResult

IGNORE_FILE = ".gitignore"
_ATTEMPTS = ("final.diff", "left-out.diff", "search-*.diff")


def prepare_output(folder: Path, result: FixResult) -> None:
    """Makes the folder and leaves ``result`` in it as the truth so far, in place of an older result.

    So a folder that cannot be written costs seconds, not a whole run, and whatever ends the
    process, no result of an earlier run can be taken for this one's. A new folder gets a
    ``.gitignore`` of its own: inside a repository it must not become part of the tree.

    Raises:
        UsageError: the folder holds files of others that a result would replace, or that lie in a repository.
        ConfigError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            atomic_write(folder / IGNORE_FILE, b"*\n")
        elif not _is_ours(folder):
            _refuse_foreign(folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    write_result(result, folder, {})


def write_result(result: FixResult, folder: Path, attempts: dict[str, str]) -> None:
    """Writes ``result.json``, ``patch.diff`` (verified patches only), the issue's test and the attempts.

    Each file is replaced atomically. A patch left by an earlier run in the same folder
    is removed first, so that ``patch.diff`` never belongs to another result.

    Raises:
        ConfigError: the folder cannot be written (full disk, permissions).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        patch_path = folder / "patch.diff"
        if result.patch:
            # git's own bytes went through surrogateescape, so odd encodings come out unchanged.
            atomic_write(patch_path, result.patch.encode("utf-8", "surrogateescape"))
        else:
            patch_path.unlink(missing_ok=True)
        _write_reproduction(result, folder)
        attempts_dir = folder / "attempts"
        for pattern in _ATTEMPTS:
            for old in attempts_dir.glob(pattern):
                old.unlink()
        for name, diff in sorted(attempts.items()):
            attempts_dir.mkdir(exist_ok=True)
            atomic_write(attempts_dir / f"{name}.diff", diff.encode("utf-8", "surrogateescape"))
        text = json.dumps(result.to_json(), indent=2, ensure_ascii=True, default=str)
        atomic_write(folder / "result.json", (text + "\n").encode("utf-8"))
    except OSError as error:
        raise _unwritable(folder, error) from error


def _write_reproduction(result: FixResult, folder: Path) -> None:
    """``reproduction.diff``: the test made of the issue, beside the patch and never in it."""
    path = folder / "reproduction.diff"
    diff = str(result.reproduction.get("diff") or "")
    if diff:
        atomic_write(path, diff.encode("utf-8", "surrogateescape"))
    else:
        path.unlink(missing_ok=True)


def discard_output(folder: Path) -> None:
    """Takes back what ``prepare_output`` and a failed ``write_result`` left: half a result is none."""
    for name in ("result.json", "patch.diff", "reproduction.diff"):
        with contextlib.suppress(OSError):
            (folder / name).unlink(missing_ok=True)


def _is_ours(folder: Path) -> bool:
    """Whether a run of Whimbrel wrote its result here before."""
    try:
        data: Any = json.loads((folder / "result.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and "schema_version" in data and "run_id" in data


def _refuse_foreign(folder: Path) -> None:
    for name in ("result.json", "patch.diff"):
        if (folder / name).exists():
            raise UsageError(
                f"{folder / name} is not a result of Whimbrel and would be replaced",
                hint="give another --output",
            )
    if not any((place / ".git").exists() for place in (folder, *folder.parents)):
        return
    ignored = Git(None, folder).run_sync("check-ignore", "--quiet", "result.json", check=False)
    if ignored.exit_code == 1:
        raise UsageError(
            f"--output {folder} lies in a repository, and a result there would become part of its tree",
            hint="give a new folder, one that git ignores, or one outside",
        )


def _unwritable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot write the result to {folder}: {error.strerror or error}",
        hint="free some space or give another --output",
    )
