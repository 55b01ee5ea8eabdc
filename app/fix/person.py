"""Who can be asked while a run goes on: given by a door that has a person before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..agent.events import PermissionAnswer, PermissionRequest
    from ..tools.base import Question


class Person(Protocol):
    """Answers in the event loop of the run; a run that is cancelled cancels what it waits for."""

    async def permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Whether a call may run."""
        ...

    async def question(self, question: Question) -> str:
        """The answer to a question of the model; empty when there is none."""
        ...
