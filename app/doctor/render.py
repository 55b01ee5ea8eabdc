"""A diagnosis as aligned text or as JSON."""

from __future__ import annotations

import textwrap
from typing import Any

from .diagnosis import Diagnosis
from .finding import Finding, State

_TITLES = {
    "needed": "Needed",
    "sandbox": "Sandbox",
    "machine": "Machine",
    "languages": "Languages outside containers",
    "extras": "Python packages",
    "hardware": "Hardware",
    "terminal": "Terminal",
}
_COLOURS = {State.OK: "32", State.LIMITED: "33", State.MISSING: "31", State.UNKNOWN: "35"}
_NAME_WIDTH = 16
_STATE_WIDTH = max(len(state.value) for state in State)


def render(diagnosis: Diagnosis, *, colour: bool = False, width: int = 100) -> str:
    """Readable without colour: the state is a word, columns are aligned, long lines wrapped to ``width``."""
    lines: list[str] = []
    group = ""
    for finding in diagnosis.findings:
        if finding.group != group:
            group = finding.group
            lines += ["", _TITLES[group]] if lines else [_TITLES[group]]
        lines += _lines(finding, colour, width)
    lines += ["", *_wrap(diagnosis.verdict, width)]
    return "\n".join(lines)


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """``{"verdict", "exit_code", "sandbox", "findings": [{"group", "name", "state", "detail", "cost",
    "install"}]}``."""
    return {
        "verdict": diagnosis.verdict,
        "exit_code": diagnosis.exit_code,
        "sandbox": diagnosis.sandbox,
        "findings": [
            {
                "group": finding.group,
                "name": finding.name,
                "state": finding.state.value,
                "detail": finding.detail,
                "cost": finding.cost,
                "install": finding.install,
            }
            for finding in diagnosis.findings
        ],
    }


def _lines(finding: Finding, colour: bool, width: int) -> list[str]:
    state = finding.state.value.ljust(_STATE_WIDTH)
    if colour:
        state = f"\x1b[{_COLOURS[finding.state]}m{state}\x1b[0m"
    indent = " " * (2 + _NAME_WIDTH + 2 + _STATE_WIDTH + 2)
    room = max(30, width - len(indent))
    texts = [finding.detail]
    if finding.state is not State.OK:
        texts += [f"without it: {finding.cost}"] if finding.cost and finding.state is State.MISSING else []
        texts += (
            [f"this means: {finding.cost}"] if finding.cost and finding.state is not State.MISSING else []
        )
        texts += [f"to get it: {finding.install}"] if finding.install else []
    wrapped = [line for text in texts for line in _wrap(text, room)]
    first = f"  {finding.name:<{_NAME_WIDTH}}  {state}  {wrapped[0] if wrapped else ''}".rstrip()
    return [first, *(indent + line for line in wrapped[1:])]


def _wrap(text: str, width: int) -> list[str]:
    # Commands and paths stay in one piece, to be copied.
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
