"""What the main job tells its doors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class JobEvent:
    """One line of progress.

    ``kind``: ``phase`` (a phase begins), ``info`` (a fact worth a line), ``progress``
    (replaces the living line), ``warning``, ``agent`` (an agent event as JSON in
    ``data``), ``result`` (the last one).
    """

    kind: str
    text: str = ""
    phase: str = ""
    data: dict[str, Any] = field(default_factory=dict[str, Any])


Listener = Callable[[JobEvent], None]
