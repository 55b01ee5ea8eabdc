"""What is left of a fault: its traceback in a file, without secrets and without local variables."""

from __future__ import annotations

import os
import time
import traceback
from pathlib import Path


def write_crash(error: Exception) -> Path | None:
    """The traceback in the state folder; None where that cannot be written."""
    from ...sandbox.base.errors import WhimbrelError
    from ...sandbox.base.files import atomic_write
    from ...sandbox.base.secrets import redact
    from ..paths import state_dir

    text = redact("".join(traceback.format_exception(error)))
    try:
        folder = state_dir() / "crashes"
        folder.mkdir(exist_ok=True, mode=0o700)
        path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
        atomic_write(path, text.encode("utf-8", "backslashreplace"), mode=0o600)
    except (OSError, WhimbrelError):
        return None
    return path
