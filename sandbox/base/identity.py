"""The fixed unprivileged identity sandboxed commands get when Whimbrel itself runs as root."""

from __future__ import annotations

import os

SANDBOX_UID = 61832
"""Above what distributions give to people (1000-60000). systemd may lend numbers from 61184 up to services
with a dynamic user; one that got this number could reach nothing but the copies runs work on."""
SANDBOX_GID = 61832


def sandbox_identity() -> tuple[int, int]:
    """The (uid, gid) commands run with: the caller's own, or the fixed unprivileged one for root."""
    if os.geteuid() == 0:
        return SANDBOX_UID, SANDBOX_GID
    return os.geteuid(), os.getegid()
