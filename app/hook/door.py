"""What a hook says: nothing while all is well, and then what fails and what helps."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..fix.doors import JobDoor, PlainDoor, visible, write_line
from ..fix.events import JobEvent

_TESTS_SHOWN = 10
_PATCH_LINES = 80


def say(text: str) -> None:
    """One or more lines on standard error: git shows them everywhere, also in clients without a terminal."""
    for line in text.splitlines() or [""]:
        write_line(sys.stderr, visible(line))


class HookDoor:
    """Keeps the result; shows progress only when asked to."""

    def __init__(self, *, verbose: bool) -> None:
        self.result: dict[str, Any] = {}
        self._inner: JobDoor | None = PlainDoor(sys.stderr) if verbose else None

    def show(self, event: JobEvent) -> None:
        if event.kind == "result":
            self.result = event.data
        elif self._inner is not None:
            self._inner.show(event)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()


def failure_text(result: Mapping[str, Any], what: str, *, stops: bool) -> str:
    """The failing tests, what was wrong, the patch and what to do with it."""
    check: Mapping[str, Any] = result.get("check") or {}
    failing: list[str] = list(check.get("failing") or [])
    count = "1 test fails" if len(failing) == 1 else f"{len(failing)} tests fail"
    lines = [f"whimbrel: {count} with {what}:"]
    messages = {each.get("id"): each.get("message", "") for each in check.get("details") or []}
    for test in failing[:_TESTS_SHOWN]:
        said = " ".join(str(messages.get(test, "")).split())[:160]
        lines.append(f"  {test}{': ' + said if said else ''}")
    if len(failing) > _TESTS_SHOWN:
        lines.append(f"  ... and {len(failing) - _TESTS_SHOWN} more")
    patch = str(result.get("patch") or "")
    if result.get("status") == "fixed" and patch:
        lines += _proposal(result, patch)
    else:
        lines.append(f"no patch: {result.get('message', '')}")
        if result.get("attempts") and result.get("output"):
            lines.append(f"attempts, not verified: {result['output']}/attempts")
    if stops:
        lines.append("stopped; to go on without the tests: WHIMBREL_SKIP=1")
    return "\n".join(lines)


def _proposal(result: Mapping[str, Any], patch: str) -> list[str]:
    lines = ["this patch makes them pass, proved with all tests in fresh processes:"]
    if result.get("explanation"):
        lines.append(str(result["explanation"]))
    shown = patch.encode("utf-8", "replace").decode("utf-8").splitlines()
    lines += ["", *shown[:_PATCH_LINES]]
    if len(shown) > _PATCH_LINES:
        lines.append(f"[... {len(shown) - _PATCH_LINES} more lines in {result.get('output')}/patch.diff ...]")
    lines.append("")
    if result.get("applied"):
        lines.append("it is in your files now, not staged: look at it, add it, and try again")
        return lines
    if result.get("output"):
        repository = str(result.get("repository"))
        take = f"whimbrel apply --repo {shlex.quote(repository)}"
        if not (Path(repository) / ".git").exists():
            # Only git's own variables lead to the repository; git itself knows how to read them.
            take = f"git apply {shlex.quote(str(result['output']))}/patch.diff"
        lines.append(f"to take it: {take}   (then add it, and try again)")
        lines.append(f"it lies in {result['output']}/patch.diff")
    return lines
