"""`whimbrel doctor`: what is on this machine, what is missing, and what each missing thing costs.

``diagnose`` asks the machine (every probe has a time limit and cannot fail the whole);
``render`` and ``to_json`` show a diagnosis. Nothing here changes the machine.
"""

from __future__ import annotations

from .diagnosis import Diagnosis, diagnose
from .finding import Finding, State
from .render import render, to_json

__all__ = ["Diagnosis", "Finding", "State", "diagnose", "render", "to_json"]
