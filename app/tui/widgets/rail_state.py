"""What the long-haul rail knows: the legs of a run, made of its events. No pixels here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ...agent.events import (
    ContextCompacted,
    LimitReached,
    PermissionAnswered,
    PermissionAsked,
    RunFinished,
    StepStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    UsageTotals,
)
from ...agent.events import Notice as AgentNotice
from ...fix.events import JobEvent
from .plain_text import one_line
from .tool_body import outcome_of, subject_line, went_badly

__all__ = ["Leg", "RailState"]

LEG_OF = {
    "locate": "locate", "search": "locate", "glob": "locate", "list": "locate", "symbols": "locate",
    "read": "read", "git": "read", "view_image": "read", "web_fetch": "read",
    "edit": "patch", "multi_edit": "patch", "write": "patch", "apply_patch": "patch", "repair": "patch",
    "run_tests": "test", "bash": "run", "sub_agent": "delegate", "ask": "ask",
}  # fmt: skip
"""Which part of the journey a tool belongs to; others make no leg."""
_JOB_LEGS = {"set_up": "start", "check": "test", "reproduce": "test", "verify": "verify"}
_INNER = {"locate": "locate", "patch": "patch", "test": "test", "verify": "verify"}
"""Phases a long tool tells of itself."""
MOST_LEGS = 2000


@dataclass
class Leg:
    """A stretch of one kind of work."""

    kind: str
    """start, locate, read, patch, test, run, verify, retry, delegate, ask or note."""
    began: float
    ended: float | None = None
    calls: int = 0
    detail: str = ""
    state: str = "running"
    """running, done or bad."""
    attempt: int = 1

    def took(self, now: float) -> float:
        return (self.ended if self.ended is not None else now) - self.began


@dataclass
class RailState:
    """Fed with events, read by the rail. ``version`` moves whenever something visible did."""

    clock: Callable[[], float] = time.monotonic
    window: int | None = None
    """Tokens of the model's context, where known."""
    legs: list[Leg] = field(default_factory=list[Leg])
    attempt: int = 1
    step: int = 0
    effort: str = ""
    reason: str = ""
    usage: UsageTotals = field(default_factory=UsageTotals)
    context: int | None = None
    """Tokens of the last prompt and its answer."""
    status: str = ""
    """How the run ended; empty while it goes on."""
    waiting: bool = False
    """A question is open."""
    began: float | None = None
    ended: float | None = None
    version: int = 0
    _in_job: bool = False
    """A job goes on: its agent's end is not its own."""
    _turn: int = 0
    """Where in ``legs`` this run begins: it goes on with no leg of an earlier one."""
    _tests_bad: bool = False
    _open: dict[str, Leg] = field(default_factory=dict[str, Leg])
    """Legs by the calls that run in them."""
    _arguments: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    @property
    def running(self) -> bool:
        return self.began is not None and self.ended is None

    @property
    def elapsed(self) -> float:
        if self.began is None:
            return 0.0
        return (self.ended if self.ended is not None else self.clock()) - self.began

    def see(self, event: object) -> None:
        """One event of a job, of its agent, or the JSON form of one."""
        if isinstance(event, JobEvent):
            self._see_job(event)
        elif isinstance(event, Mapping):
            self._see_json(cast("Mapping[str, Any]", event))
        else:
            self._see_agent(event)

    # ------------------------------------------------------------ jobs

    def _see_job(self, event: JobEvent) -> None:
        if event.kind == "agent":
            self._see_json(event.data)
        elif event.kind == "phase":
            self._begin()
            if not self._in_job:
                self._in_job = True
                self.usage, self.step, self.attempt = UsageTotals(), 0, 1
                self._turn, self._tests_bad = len(self.legs), False
            self._close_all()
            kind = _JOB_LEGS.get(event.phase)
            if kind:
                self._leg(kind, one_line(event.text, 80))
        elif event.kind in ("info", "progress", "warning"):
            leg = self.legs[-1] if self.legs else None
            if leg is not None and leg.state == "running":
                leg.detail = one_line(event.text, 120)
                self.version += 1
        elif event.kind == "result":
            self.end(str(event.data.get("status", "done")))

    def _see_json(self, data: Mapping[str, Any]) -> None:
        model = _MODELS.get(str(data.get("kind", "")))
        if model is None:
            if data.get("kind") == "usage":
                self._see_usage(data)
            return
        try:
            self._see_agent(model.model_validate(dict(data)))
        except ValueError:  # written by another version: the rail shows less, and lives
            return

    # ------------------------------------------------------------ agents

    def _see_agent(self, event: object) -> None:
        self._begin()
        if isinstance(event, StepStarted):
            self.step, self.effort, self.reason = event.step, event.effort, one_line(event.reason, 120)
            self.window = event.window or self.window
        elif isinstance(event, ToolStarted):
            self._tool_started(event)
        elif isinstance(event, ToolProgress):
            self._tool_progress(event)
        elif isinstance(event, ToolFinished):
            self._tool_finished(event)
        elif isinstance(event, PermissionAsked):
            self.waiting = True
        elif isinstance(event, PermissionAnswered):
            self.waiting = False
        elif isinstance(event, ContextCompacted):
            self._note(f"context {event.before_tokens:,} → {event.after_tokens:,} tokens")
        elif isinstance(event, LimitReached):
            self._note(event.text, bad=True)
        elif isinstance(event, AgentNotice):
            if event.level != "error":
                return
            self._note(event.text, bad=True)
        elif isinstance(event, RunFinished):
            self.usage = event.usage
            if not self._in_job:
                self.end(event.status)
        elif getattr(event, "kind", "") == "usage":
            self._see_usage(cast("Any", event).model_dump())
        elif getattr(event, "kind", "") == "step_discarded":
            self._note("the step is repeated")
        else:
            return
        self.version += 1

    def _see_usage(self, data: Mapping[str, Any]) -> None:
        from ....engine.chat import Usage

        usage = Usage.model_validate(dict(data))
        self.usage = self.usage.plus(usage, 0)
        if usage.input_tokens is not None:
            self.context = usage.input_tokens + (usage.output_tokens or 0)
        self.version += 1

    def _tool_started(self, event: ToolStarted) -> None:
        kind = LEG_OF.get(event.name)
        if kind is None:
            return
        if (
            kind == "patch"
            and self._tests_bad
            and any(leg.kind == "patch" for leg in self.legs[self._turn :])
        ):
            self.attempt += 1
            self._tests_bad = False
            leg = self._leg("retry", f"attempt {self.attempt}")
            leg.ended, leg.state = leg.began, "done"
        leg = self._leg(kind, subject_line(event.name, event.arguments))
        leg.calls += 1
        self._open[event.call_id] = leg
        self._arguments[event.call_id] = event.arguments

    def _tool_progress(self, event: ToolProgress) -> None:
        leg = self._open.get(event.call_id)
        if leg is None:
            return
        kind = _INNER.get(event.phase) if event.name == "repair" else None
        if kind is not None and kind != leg.kind:
            leg.ended, leg.state = self.clock(), "done"
            leg = self._leg(kind, "")
            leg.calls += 1
            self._open[event.call_id] = leg
        leg.detail = one_line(event.text, 120)

    def _tool_finished(self, event: ToolFinished) -> None:
        leg = self._open.pop(event.call_id, None)
        arguments = self._arguments.pop(event.call_id, {})
        if leg is None:
            return
        bad = event.is_error or went_badly(event.name, event.data)
        outcome = outcome_of(event.name, event.data, event.text, is_error=event.is_error)
        if leg.kind == "test":
            self._tests_bad = bad
            leg.detail = outcome
        else:
            subject = subject_line(event.name, arguments)
            leg.detail = " · ".join(part for part in (subject, outcome) if part) or leg.detail
        if leg not in self._open.values():
            leg.ended, leg.state = self.clock(), "bad" if bad else "done"

    # ------------------------------------------------------------ legs

    def _begin(self) -> None:
        if self.began is None or self.ended is not None:
            # The next turn of a conversation goes on with the same rail.
            self.began, self.ended, self.status = self.clock(), None, ""

    def _leg(self, kind: str, detail: str) -> Leg:
        last = self.legs[-1] if len(self.legs) > self._turn else None
        if last is not None and last.kind == kind and kind != "retry" and last.attempt == self.attempt:
            if last.ended is not None:
                last.began += self.clock() - last.ended  # what lay between was no work of this kind
            last.ended, last.state, last.detail = None, "running", detail or last.detail
            self.version += 1
            return last
        leg = Leg(kind, self.clock(), detail=detail, attempt=self.attempt)
        self.legs.append(leg)
        self._turn = max(0, self._turn - max(0, len(self.legs) - MOST_LEGS))
        del self.legs[:-MOST_LEGS]
        self.version += 1
        return leg

    def _note(self, text: str, *, bad: bool = False) -> None:
        now = self.clock()
        self.legs.append(Leg("note", now, now, detail=one_line(text, 200), state="bad" if bad else "done"))
        self.version += 1

    def _close_all(self) -> None:
        for leg in self.legs[-20:]:
            if leg.state == "running":
                leg.ended, leg.state = self.clock(), "done"
        self._open.clear()

    def end(self, status: str) -> None:
        """Nothing runs any more; ``status`` says how it ended."""
        self._close_all()
        self._in_job = False
        self.ended, self.status, self.waiting = self.clock(), status, False
        self.version += 1


_MODELS: dict[str, Any] = {
    model.model_fields["kind"].default: model
    for model in (
        StepStarted, ToolStarted, ToolProgress, ToolFinished, PermissionAsked, PermissionAnswered,
        ContextCompacted, LimitReached, AgentNotice, RunFinished,
    )
}  # fmt: skip
