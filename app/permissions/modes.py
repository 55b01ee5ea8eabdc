"""How much a run may do without asking: one word for a set of defaults."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal["default", "plan", "read-only", "accept-edits", "bypass"]
MODES: tuple[str, ...] = get_args(Mode)

MEANING: dict[str, str] = {
    "default": "what the sandbox makes safe is allowed, the rest is asked",
    "plan": "nothing that writes or runs anything",
    "read-only": "nothing is changed: no edits, only commands that are known to just read; tests run",
    "accept-edits": "edits and tests without a question, every other command that does more than read is asked",
    "bypass": "nothing is asked; what is denied stays denied",
}
