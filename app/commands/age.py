"""How long this process has been running."""

from __future__ import annotations

import os
from pathlib import Path

_LONGEST_START_S = 10.0


def process_age_s() -> float:
    """Seconds since it was started; 0 where the system does not say, or it does more than one command."""
    try:
        fields = (
            Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        )
        uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        age = uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
    return age if 0 < age <= _LONGEST_START_S else 0.0
