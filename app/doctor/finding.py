"""One thing the doctor looked for; plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    OK = "ok"
    LIMITED = "limited"
    """There, but not fully usable as it is."""
    MISSING = "missing"
    UNKNOWN = "unknown"
    """The probe itself failed or took too long; ``detail`` says how."""


@dataclass(frozen=True)
class Finding:
    """What was found about one thing."""

    group: str
    """sandbox, needed, languages, extras, hardware, terminal, machine."""
    name: str
    state: State
    detail: str
    """What is there (version, path) or why it is not usable, one line."""
    cost: str = ""
    """What is lost without it; empty when nothing is."""
    install: str = ""
    """The command that gets it here, or empty when there is none."""
