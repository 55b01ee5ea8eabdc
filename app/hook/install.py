"""Putting the hooks where git looks, beside those that are there, and taking them out again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...sandbox.base.errors import ConfigError, UsageError
from ...sandbox.base.files import atomic_write
from .places import HooksFolder
from .script import CHAINED, MARK, hook_script

HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push")
_MANIFEST = ".whimbrel.json"


@dataclass(frozen=True)
class HookState:
    """One hook as it is."""

    name: str
    path: Path
    installed: bool
    earlier: bool
    """Another hook runs before ours."""
    foreign: bool
    """There is a hook, and it is not ours."""


def states(folder: HooksFolder) -> list[HookState]:
    """Every kind of hook, in the order in which git runs them."""
    found: list[HookState] = []
    for name in HOOKS:
        path = folder.path / name
        ours = _is_ours(path)
        there = os.path.lexists(path)
        found.append(HookState(name, path, ours, _chained(folder, name).exists(), there and not ours))
    return found


def install(folder: HooksFolder, names: Sequence[str], options: Sequence[str], *, force: bool) -> list[str]:
    """Installs the hooks; hooks that were there are kept and run first. Returns remarks for the person.

    Raises:
        UsageError: other repositories share the folder, and ``force`` was not given.
        ConfigError: it cannot be written.
    """
    if folder.shared and not force:
        raise UsageError(
            f"core.hooksPath names {folder.path}, which other repositories may share",
            hint="--force installs it for all of them",
        )
    remarks: list[str] = []
    if folder.tracked:
        remarks.append(f"{folder.path} is part of the working tree: git status will show the hooks")
    try:
        made = not folder.path.is_dir()
        folder.path.mkdir(parents=True, exist_ok=True)
        manifest = _load(folder)
        if made:
            manifest["made_folder"] = True
            _save(folder, manifest)
        for name in names:
            if _keep_earlier(folder, name, manifest):
                remarks.append(f"{name}: the hook that was there runs first")
            script = hook_script(name, options, through_shell=folder.husky)
            _put(folder.path / name, script)
    except OSError as error:
        raise ConfigError(
            f"the hooks folder {folder.path} cannot be written: {error.strerror or error}"
        ) from error
    return remarks


def uninstall(folder: HooksFolder, names: Sequence[str]) -> list[str]:
    """Takes our hooks out and puts earlier ones back as they were. Returns those that were taken out.

    Raises:
        ConfigError: it cannot be written.
    """
    gone: list[str] = []
    try:
        manifest = _load(folder)
        for name in names:
            path, earlier = folder.path / name, _chained(folder, name)
            if not _is_ours(path):
                continue
            target = cast("dict[str, str]", manifest.get("links", {})).pop(name, None)
            if target is not None:
                path.unlink()
                path.symlink_to(target)
                earlier.unlink(missing_ok=True)
            elif earlier.exists():
                earlier.replace(path)
            else:
                path.unlink()
            gone.append(name)
            _save(folder, manifest)
        if not any(state.installed for state in states(folder)):
            _clean_up(folder, manifest)
    except OSError as error:
        raise ConfigError(
            f"the hooks folder {folder.path} cannot be written: {error.strerror or error}"
        ) from error
    return gone


def _keep_earlier(folder: HooksFolder, name: str, manifest: dict[str, Any]) -> bool:
    """Copies a foreign hook aside, so that there is a hook at every moment; True when there was one."""
    path, earlier = folder.path / name, _chained(folder, name)
    if not os.path.lexists(path) or _is_ours(path):
        return False
    earlier.parent.mkdir(exist_ok=True)
    earlier.unlink(missing_ok=True)
    if path.is_symlink():
        manifest.setdefault("links", {})[name] = os.fspath(path.readlink())
        earlier.symlink_to(path.parent.resolve() / path.readlink())
    else:
        shutil.copy2(path, earlier)
    # Scripts look for what lies beside them by their own path.
    for beside in folder.path.iterdir():
        if beside.name in (CHAINED, *HOOKS) or beside.name.endswith(".sample"):
            continue
        if not os.path.lexists(earlier.parent / beside.name):
            (earlier.parent / beside.name).symlink_to(Path("..") / beside.name)
    _save(folder, manifest)
    return True


def _put(path: Path, script: bytes) -> None:
    # Beside it first: a link there must be replaced, not followed.
    new = path.with_name(f".{path.name}.whimbrel-new")
    atomic_write(new, script, mode=0o755)
    new.replace(path)


def _clean_up(folder: HooksFolder, manifest: dict[str, Any]) -> None:
    aside = folder.path / CHAINED
    if aside.is_dir():
        for entry in aside.iterdir():
            # What is left of hooks that somebody replaced meanwhile is theirs to look at.
            if entry.is_symlink() or entry.name == _MANIFEST:
                entry.unlink()
        if not any(aside.iterdir()):
            aside.rmdir()
    if manifest.get("made_folder") and folder.path.is_dir() and not any(folder.path.iterdir()):
        folder.path.rmdir()


def _chained(folder: HooksFolder, name: str) -> Path:
    return folder.path / CHAINED / name


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return MARK in file.read(200)
    except OSError:
        return False


def _load(folder: HooksFolder) -> dict[str, Any]:
    try:
        data: Any = json.loads((folder.path / CHAINED / _MANIFEST).read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _save(folder: HooksFolder, manifest: dict[str, Any]) -> None:
    if not manifest:
        return
    (folder.path / CHAINED).mkdir(exist_ok=True)
    atomic_write(folder.path / CHAINED / _MANIFEST, json.dumps(manifest).encode("utf-8"))
