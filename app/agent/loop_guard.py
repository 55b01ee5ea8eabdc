"""Notices a model that goes in circles: first a remark to the model, then the end of the run.

Batch work is no loop: many calls with different arguments and good results never count.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from ...engine.chat import (
    ReasoningDelta,
    StepDiscarded,
    StreamEvent,
    TextDelta,
    ToolCallArguments,
    ToolResultPart,
)
from ...sandbox.base.errors import LoopDetected
from ..tools.base import PermissionClass
from .failure_kinds import failure_kind, fields, steady
from .history import Call
from .limits import Limit, RunState

_HINT = "try a stronger model, or say more in the issue"

_WAITING_FACTOR = 4
"""Asking after a background command that still runs is waiting, and may take this much longer."""


class LoopGuard(Limit):
    """Ends runs that repeat themselves.

    Counted: the same call with the same result (forgotten when the tree changes, for a
    test run after an edit is no repetition); the same successful write; one tool giving
    one and the same answer to changing arguments, where that is an error or changes
    nothing; one kind of failure again and again, whatever else is done in between, until
    that tool succeeds; and repeated text within one answer.
    """

    name = "loop-guard"

    def __init__(
        self, *, remark_at: int = 3, stop_at: int = 5, storm_at: int = 12, failures_at: int = 16
    ) -> None:
        self._remark_at = remark_at
        self._stop_at = stop_at
        self._storm_at = storm_at
        self._failures_at = failures_at
        self._failures: dict[str, Counter[str]] = {}
        """Tool -> kind of failure -> how often since it last worked."""
        self._same_result: Counter[str] = Counter()
        self._same_write: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._storm = ("", 0)
        self._streams: dict[str, RepetitionDetector] = {}

    def before_step(self, state: RunState) -> None:
        self._streams = {}

    def on_stream(self, event: StreamEvent) -> None:
        if isinstance(event, StepDiscarded):
            self._streams = {}
            return
        if isinstance(event, TextDelta):
            channel, text, least = "text", event.text, 3000
        elif isinstance(event, ReasoningDelta):
            channel, text, least = "thinking", event.text, 3000
        elif isinstance(event, ToolCallArguments):
            # Files legitimately hold long runs of equal lines; only endless ones are a loop.
            channel, text, least = f"arguments of call {event.id}", event.delta, 20_000
        else:
            return
        detector = self._streams.setdefault(channel, RepetitionDetector(least))
        if detector.feed(text):
            kind = channel.split(" of ")[0]
            raise LoopDetected(f"the model repeats the same {kind} without end", hint=_HINT)

    def after_call(self, call: Call, permission: PermissionClass | None, result: ToolResultPart) -> str:
        arguments = (
            json.dumps(call.arguments, sort_keys=True) if call.arguments is not None else call.part.arguments
        )
        same_call = f"{call.part.name} {_digest(arguments)}"
        answer = _digest(f"{result.is_error} {steady(result.text)}")
        if not result.is_error and permission in (PermissionClass.WRITE, PermissionClass.EXECUTE):
            if same_call not in self._seen:
                # Something new was done to the tree: asking again what was asked before is fair.
                self._seen.add(same_call)
                self._same_result.clear()
            if permission is PermissionClass.WRITE:
                self._same_write[same_call] += 1
        key = f"{same_call} {answer}"
        self._same_result[key] += 1
        repeats = max(self._same_result[key], self._same_write[same_call])
        if fields(result).get("running"):
            repeats = repeats // _WAITING_FACTOR
        storm = self._count_storm(call, permission, result, answer)
        failures = self._count_failures(call.part.name, result)
        if repeats >= self._stop_at:
            raise LoopDetected(
                f"{call.part.name} was called {repeats} times with the same arguments and the same effect",
                hint=_HINT,
            )
        if storm >= self._storm_at:
            raise LoopDetected(
                f"{call.part.name} gave the same answer {storm} times in a row, whatever it was asked",
                hint=_HINT,
            )
        if failures >= self._failures_at:
            raise LoopDetected(
                f"{call.part.name} failed {failures} times in the same way, whatever it was asked", hint=_HINT
            )
        if repeats >= self._remark_at:
            return (
                f"[This exact call has now had this same effect {repeats} times. Repeating it will not"
                " help and ends the run soon; do something else.]"
            )
        if storm == self._storm_at // 2:
            return f"[{call.part.name} has answered the same {storm} times in a row; try another way.]"
        if failures == self._failures_at // 2:
            return (
                f"[{call.part.name} has failed {failures} times in the same way since it last worked;"
                " do something else.]"
            )
        return ""

    def _count_failures(self, name: str, result: ToolResultPart) -> int:
        kind = failure_kind(result)
        if not kind:
            self._failures.pop(name, None)
            return 0
        counts = self._failures.setdefault(name, Counter())
        counts[kind] += 1
        return counts[kind]

    def _count_storm(
        self, call: Call, permission: PermissionClass | None, result: ToolResultPart, answer: str
    ) -> int:
        idle = result.is_error or permission is None or permission is PermissionClass.READ
        key = f"{call.part.name} {answer}" if idle else ""
        self._storm = (key, self._storm[1] + 1) if key and key == self._storm[0] else (key, 1 if key else 0)
        return self._storm[1]


class RepetitionDetector:
    """Finds a stream whose end is one unit again and again.

    ``feed`` turns true once the last ``least`` characters consist of one unit repeated
    (at least eight times). Work is linear in the text: the tail is examined once per
    quarter window.
    """

    MIN_REPEATS = 8

    def __init__(self, least: int) -> None:
        self._least = least
        self._tail = ""
        self._fresh = 0

    def feed(self, text: str) -> bool:
        self._tail = (self._tail + text)[-self._least :]
        self._fresh += len(text)
        if len(self._tail) < self._least or self._fresh < self._least // 4:
            return False
        self._fresh = 0
        return smallest_period(self._tail) * self.MIN_REPEATS <= len(self._tail)


def smallest_period(text: str) -> int:
    """The smallest p with text[i] == text[i + p] for all i (Knuth-Morris-Pratt failure function)."""
    failure = [0] * len(text)
    length = 0
    for position in range(1, len(text)):
        while length and text[position] != text[length]:
            length = failure[length - 1]
        if text[position] == text[length]:
            length += 1
        failure[position] = length
    return len(text) - failure[-1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
