"""Keeps count of what was not allowed, and says when a run cannot succeed because of it."""

from __future__ import annotations

from collections.abc import Sequence

from ...sandbox.base.errors import PermissionDenied
from .tool_calls import Answered

DENIED_STEPS = 2
"""After so many steps in a row in which everything was denied, the run cannot go on."""

_HINT = "allow it with a permission rule, or run where you can be asked"


class Denials:
    """The denials of one run."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self._blocked_steps = 0
        self._something_ran = False

    def after_step(self, answered: Sequence[Answered]) -> None:
        """Raises PermissionDenied when the model only runs into closed doors."""
        denied = [one.denied for one in answered if one.denied]
        self.reasons.extend(denied)
        if len(denied) < len(answered):
            self._blocked_steps, self._something_ran = 0, True
            return
        self._blocked_steps += 1
        if self._blocked_steps >= DENIED_STEPS:
            raise PermissionDenied(f"what the run needs is not allowed: {denied[-1]}", hint=_HINT)

    def at_answer(self) -> None:
        """An answer given after everything asked for was denied is no success: PermissionDenied."""
        if self.reasons and not self._something_ran:
            raise PermissionDenied(f"nothing could be done: {self.reasons[-1]}", hint=_HINT)
