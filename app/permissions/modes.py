"""How much a run may do without asking: one word for a set of defaults (docs/permissions.md)."""

from __future__ import annotations

MODES = ("default", "plan", "read-only", "accept-edits", "bypass")
