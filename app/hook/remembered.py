"""Trees whose tests passed a moment ago: the second hook of one commit need not run them again."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any, cast

from ...sandbox.base.errors import ConfigError
from ...sandbox.base.files import atomic_write
from ..paths import state_dir

_KEEP_S = 600.0
_MOST = 50


def key_of(*parts: str) -> str:
    """What decides about the outcome, as one name."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def passed_lately(key: str) -> bool:
    """Whether these tests passed on this tree within the last ten minutes."""
    return time.time() - _load().get(key, 0.0) < _KEEP_S


def remember_passed(key: str) -> None:
    """Notes it; that it cannot be noted costs only time."""
    now = time.time()
    kept = {known: when for known, when in _load().items() if 0 <= now - when < _KEEP_S}
    newest = sorted({**kept, key: now}.items(), key=lambda item: item[1])[-_MOST:]
    try:
        atomic_write(_path(), json.dumps(dict(newest)).encode("ascii"))
    except (OSError, ConfigError):
        return


def _load() -> dict[str, float]:
    try:
        data: Any = json.loads(_path().read_bytes())
    except (OSError, ValueError, ConfigError):
        return {}
    if not isinstance(data, dict):
        return {}
    entries = cast("dict[str, Any]", data)
    return {key: float(when) for key, when in entries.items() if isinstance(when, int | float)}


def _path() -> Path:
    return state_dir() / "hook-passed.json"
