"""Turns what happens in a run into metrics and spans; sees events, changes nothing.

What leaves: names of tools and models, counts, times, outcomes. Never prompts, paths,
commands, results or keys.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...engine.chat import (
    Finished,
    ReasoningDelta,
    StepDiscarded,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from ..agent.events import AgentEvent, PermissionAnswered, StepStarted, ToolFinished, ToolStarted
from ..config.model import Telemetry
from ..evidence import EvidenceRow
from . import traces as names
from .metrics import Metrics
from .settings import TelemetrySettings
from .traces import Traces

_PIECES = (TextDelta, ReasoningDelta, ToolCallStart, ToolCallArguments)
_ATTEMPTS = ("edit", "multi_edit", "apply_patch", "write", "repair")
_UNKNOWN = "unknown"


class RunTelemetry:
    """The measurements of one run. Without settings it does nothing at all."""

    def __init__(
        self,
        model: str,
        *,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        settings: TelemetrySettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # An address in a model string (openai:NAME@http://host) is nobody's business.
        self._model = model.partition("@")[0]
        self._metrics, self._traces = metrics, traces
        self._settings = settings or TelemetrySettings()
        self._clock = clock
        self._asked: float | None = None
        self._last_piece: float | None = None
        self._attempts = 0
        self._denied: set[str] = set()
        self._known: frozenset[str] = frozenset()
        self._running: set[str] = set()
        """Call ids."""
        self._tools: dict[str, Any] = {}
        """Call id to span."""
        self._step: Any = None
        self._usage: Usage | None = None
        self._root: Any = None
        if traces is not None:
            self._root = traces.begin(
                "invoke_agent whimbrel",
                attributes={
                    names.OPERATION: "invoke_agent",
                    names.AGENT: "whimbrel",
                    names.MODEL: self._model,
                },
            )

    # ------------------------------------------------------------------ what is seen

    def offered(self, tools: Iterable[str]) -> None:
        """The names of the tools that exist in this run."""
        self._known = frozenset(tools)

    def agent_event(self, event: AgentEvent) -> None:
        """Takes one event, at the moment it happens."""
        if self._metrics is None and self._traces is None:
            return
        if isinstance(event, _PIECES):
            self._piece()
        elif isinstance(event, StepStarted):
            self._begin_step(event)
        elif isinstance(event, StepDiscarded):
            self._last_piece = None
        elif isinstance(event, Usage):
            self._tokens(event)
        elif isinstance(event, Finished):
            self._end_step(event.reason)
        elif isinstance(event, ToolStarted):
            self._begin_tool(event)
        elif isinstance(event, PermissionAnswered):
            if not event.answer.allowed:
                self._denied.add(event.request.call_id)
        elif isinstance(event, ToolFinished):
            self._end_tool(event)

    def evidence(self, row: EvidenceRow) -> None:
        """Takes one recorded command, when it is over."""
        if self._metrics is not None:
            self._metrics.sandbox_seconds.labels(row.sandbox_kind, row.purpose).observe(row.duration_s)
        if self._traces is not None:
            span = self._traces.begin(
                f"sandbox {row.purpose}",
                self._root,
                ago_s=row.duration_s,
                attributes={"whimbrel.sandbox": row.sandbox_kind, "process.exit_code": row.exit_code},
            )
            self._traces.end(span, failed="timeout" if row.timed_out else "")

    def finish(self, status: str, phases: Mapping[str, float]) -> str:
        """Ends the run's measurements and sends them. Returns what went wrong with that, or ""."""
        problem = ""
        metrics, traces = self._metrics, self._traces
        self._metrics = self._traces = None
        if metrics is not None:
            metrics.runs.labels(status).inc()
            metrics.attempts.labels(status).observe(self._attempts)
            for phase, seconds in phases.items():
                metrics.phase_seconds.labels(phase).observe(seconds)
            if self._settings.metrics_file is not None:
                try:
                    metrics.write(self._settings.metrics_file)
                except OSError as error:
                    problem = f"metrics could not be written to {self._settings.metrics_file}: {error}"
            metrics.close()
        if traces is not None:
            for span in (self._step, *self._tools.values()):
                if span is not None:
                    traces.end(span, failed=status)
            traces.end(
                self._root,
                failed="" if status in ("fixed", "answered", "nothing_to_fix") else status,
                attributes={names.STATUS: status, "whimbrel.attempts": self._attempts},
            )
            traces.close()
        return problem

    # ------------------------------------------------------------------ one step

    def _begin_step(self, event: StepStarted) -> None:
        self._asked, self._last_piece, self._usage = self._clock(), None, None
        if self._metrics is not None:
            self._metrics.steps.labels(self._model, event.effort).inc()
        if self._traces is not None:
            if self._step is not None:
                self._traces.end(self._step, failed="discarded")
            self._step = self._traces.begin(
                f"chat {self._model}",
                self._root,
                attributes={names.OPERATION: "chat", names.MODEL: self._model, names.EFFORT: event.effort},
            )

    def _piece(self) -> None:
        now = self._clock()
        if self._metrics is not None:
            if self._asked is not None:
                self._metrics.first_token.labels(self._model).observe(now - self._asked)
            elif self._last_piece is not None:
                self._metrics.between_tokens.labels(self._model).observe(now - self._last_piece)
        self._asked, self._last_piece = None, now

    def _tokens(self, usage: Usage) -> None:
        self._usage = usage
        if self._metrics is None:
            return
        for kind in ("input", "output", "cached", "reasoning"):
            count = getattr(usage, f"{kind}_tokens")
            if count is not None:
                self._metrics.tokens.labels(self._model, kind).inc(count)

    def _end_step(self, reason: str) -> None:
        if self._traces is None or self._step is None:
            return
        usage = self._usage or Usage()
        self._traces.end(
            self._step,
            attributes={
                names.INPUT_TOKENS: usage.input_tokens,
                names.OUTPUT_TOKENS: usage.output_tokens,
                names.CACHED_TOKENS: usage.cached_tokens,
                names.FINISH: (reason,),
            },
        )
        self._step = None

    # ------------------------------------------------------------------ one tool call

    def _begin_tool(self, event: ToolStarted) -> None:
        self._running.add(event.call_id)
        if self._traces is not None:
            self._tools[event.call_id] = self._traces.begin(
                f"execute_tool {self._named(event.name)}",
                self._root,
                attributes={
                    names.OPERATION: "execute_tool",
                    names.TOOL: self._named(event.name),
                    names.CALL_ID: event.call_id,
                },
            )

    def _end_tool(self, event: ToolFinished) -> None:
        name = self._named(event.name)
        if event.call_id not in self._running:
            # Refused by a rule or a person, unknown, malformed, or the run ended before its turn.
            outcome = "denied" if event.call_id in self._denied else "not_run"
        else:
            self._running.discard(event.call_id)
            outcome = "error" if event.is_error else "ok"
        if not event.is_error and event.name in _ATTEMPTS:
            self._attempts += 1
        if self._metrics is not None:
            self._metrics.tool_calls.labels(name, outcome).inc()
            if outcome in ("ok", "error"):
                self._metrics.tool_seconds.labels(name).observe(event.duration_s)
        span = self._tools.pop(event.call_id, None)
        if span is not None and self._traces is not None:
            self._traces.end(span, failed="" if outcome == "ok" else f"tool_{outcome}")

    def _named(self, tool: str) -> str:
        """A model can ask for any name; only those of real tools become labels."""
        return tool if tool in self._known else _UNKNOWN


def open_telemetry(model: str, section: Telemetry) -> RunTelemetry:
    """The telemetry that the environment or the settings ask for, usually none.

    Raises:
        ConfigError: it asks for something that cannot be: see TelemetrySettings, Metrics, Traces.
    """
    settings = TelemetrySettings.of(section, os.environ)
    if not settings.anything:
        return RunTelemetry(model)
    wants_metrics = settings.metrics_file is not None or settings.metrics_port is not None
    return RunTelemetry(
        model,
        metrics=Metrics(port=settings.metrics_port) if wants_metrics else None,
        traces=Traces(settings.endpoint) if settings.traces else None,
        settings=settings,
    )
