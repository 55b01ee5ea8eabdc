"""Whether this person sees the interface for the first time."""

from __future__ import annotations

from ...sandbox.base.errors import ConfigError
from ...sandbox.base.files import atomic_write
from ..paths import state_dir


def is_first_run() -> bool:
    """True once; where that cannot be remembered it is never the first time."""
    try:
        mark = state_dir() / "tui-seen"
        if mark.exists():
            return False
        atomic_write(mark, b"", mode=0o600)
    except (OSError, ConfigError):
        return False
    return True
