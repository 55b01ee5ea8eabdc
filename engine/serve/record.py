"""What is noted of one request, for the log and the metrics; never what it says."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..chat import Finished, ReasoningDelta, TextDelta, ToolCallArguments, ToolCallStart, Usage
from .backend import GenerationEvent

_SAYS = (TextDelta, ReasoningDelta, ToolCallStart, ToolCallArguments)


@dataclass
class Record:
    """One request from its first byte to its last."""

    id: str
    path: str = ""
    method: str = ""
    began: float = field(default_factory=time.monotonic)
    status: int = 0
    """Of the answer; 499 when the client had gone before there was one."""
    aborted: bool = False
    finish: str = ""
    error: str = ""
    """Code of a failure, also of one inside of a stream."""
    cause: str = ""
    """Type of the exception behind an internal failure."""
    first: float | None = None
    """When the first piece of the answer was there."""
    last: float = 0.0
    usage: Usage | None = None
    pieces: int = 0
    gap: Callable[[float], None] = lambda _: None
    """Gets the seconds between one piece of the answer and the next."""
    generated: bool = False
    """Whether it asked for an answer of the model."""

    def note(self, event: GenerationEvent) -> None:
        now = time.monotonic()
        if isinstance(event, _SAYS):
            if self.first is None:
                self.first = now
            else:
                self.gap(now - self.last)
            self.last = now
            self.pieces += 1
        elif isinstance(event, Usage):
            self.usage = event
        elif isinstance(event, Finished):
            self.finish = event.reason
