"""The append-only session store (SQLite), its single writer, and exports."""

from __future__ import annotations

from .store import SessionEvent, SessionInfo, SessionStore
from .writer import SessionWriter

__all__ = ["SessionEvent", "SessionInfo", "SessionStore", "SessionWriter"]
