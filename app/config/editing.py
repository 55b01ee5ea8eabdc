"""Changing a settings file without disturbing anything else in it: comments, order, unknown keys."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sandbox.base.errors import ConfigError, UsageError
from ...sandbox.base.files import atomic_write
from .keys import parse_value, split_key
from .layers import read_toml

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def backup_of(path: Path) -> Path:
    """Where the version before the last change lies."""
    return path.with_name(path.name + ".bak")


def set_value(path: Path, name: str, text: str) -> Any:
    """Sets one key and returns its value; everything else in the file stays byte for byte.

    Raises:
        UsageError: no such setting, or a wrong value.
        ConfigError: the file is malformed or cannot be written; it is left as it is.
    """
    try:
        key = split_key(name)
        value = parse_value(key, text)
    except ValueError as error:
        raise UsageError(str(error), hint="`whimbrel config show` lists the settings") from error
    with _changing(path) as document:
        table: Any = document
        for part in key[:-1]:
            if part not in table:
                import tomlkit

                # A section of its own, unless this one is written inline.
                inline = not hasattr(table, "is_super_table") and table is not document
                table[part] = tomlkit.inline_table() if inline else tomlkit.table()
            table = table[part]
        table[key[-1]] = value
    return value


def unset_value(path: Path, name: str) -> bool:
    """Takes one key out; whether it was there. Also keys this version does not know.

    Raises:
        UsageError: not a key.
        ConfigError: the file is malformed or cannot be written.
    """
    try:
        key = split_key(name)
    except ValueError as error:
        raise UsageError(str(error)) from error
    with _changing(path) as document:
        table: Any = document
        for part in key[:-1]:
            table = table.get(part) if hasattr(table, "get") else None
            if table is None:
                return False
        if not hasattr(table, "get") or key[-1] not in table:
            return False
        del table[key[-1]]
    return True


def restore_backup(path: Path) -> Path:
    """Puts the version before the last change back; what was there is kept beside it.

    Returns where the replaced version lies now.

    Raises:
        ConfigError: there is no backup, or it is malformed too.
    """
    backup = backup_of(path)
    with _locked(path):
        if not backup.is_file():
            raise ConfigError(f"there is no backup {backup}", hint=f"repair {path} by hand")
        read_toml(backup)
        replaced = path.with_name(path.name + ".replaced")
        if path.exists():
            _write(replaced, path.read_bytes())
        _write(path, backup.read_bytes())
    return replaced


@contextmanager
def _changing(path: Path) -> Generator[TOMLDocument]:
    """The parsed file; written back, with a backup, when the block ends well."""
    import tomlkit

    with _locked(path):
        read_toml(path)  # a malformed file is refused with its line before anything is touched
        before = path.read_bytes() if path.exists() else b""
        text = before.decode("utf-8-sig")
        document = tomlkit.parse(text)
        yield document
        after = tomlkit.dumps(document).encode("utf-8")
        if before.startswith(b"\xef\xbb\xbf"):
            after = b"\xef\xbb\xbf" + after
        if after == before:
            return
        if before:
            _write(backup_of(path), before)
        _write(path, after)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """One change at a time, also of several processes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = path.with_name(f".{path.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ConfigError(f"{path} cannot be changed: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes) -> None:
    try:
        # An existing file keeps its mode; a new one may name servers and addresses of its owner.
        atomic_write(path, data, mode=None if path.exists() else 0o600)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}", hint="nothing was changed"
        ) from error
