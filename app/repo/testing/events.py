"""Reads the event stream written inside the sandbox into the uniform report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .problems import Diagnosis, RunProblem, classify_collection_error, most_important, reported_problem
from .report import CollectionError, Outcome, TestCase, TestReport, TraceFrame
from .textclean import clean_text

MAX_REPORT_BYTES = 512 << 20


@dataclass
class Gathered:
    """Everything read from one or more processes of one run."""

    cases: dict[str, TestCase] = field(default_factory=dict[str, TestCase])
    collection_errors: dict[tuple[str, str], CollectionError] = field(
        default_factory=dict[tuple[str, str], CollectionError]
    )
    diagnoses: list[Diagnosis] = field(default_factory=list[Diagnosis])
    coverage: dict[str, dict[str, frozenset[int]]] = field(
        default_factory=dict[str, dict[str, frozenset[int]]]
    )
    values: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    collected: tuple[str, ...] | None = None
    unmatched: tuple[str, ...] = ()
    running: str = ""
    """The test that had started and not finished when the stream ended."""
    collecting: str = ""
    ended: bool = False
    exit_code: int | None = None
    preload: tuple[str, ...] = ()
    elsewhere: tuple[tuple[str, str, str], ...] = ()
    notes: list[str] = field(default_factory=list[str])
    modules: dict[str, tuple[str, bool]] = field(default_factory=dict[str, tuple[str, bool]])
    framework: str = ""
    python: str = ""
    latest: dict[str, str] = field(default_factory=dict[str, str])
    """Outcomes of the latest process alone, for its evidence row."""
    _shared: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])

    def new_process(self) -> None:
        """Forgets what belongs to one process only."""
        self.running = self.collecting = ""
        self.ended = False
        self.exit_code = None
        self.latest = {}

    def read(self, data: bytes) -> None:
        """Adds the events of one process; a torn last line (crash) is left out."""
        for line in data.split(b"\n"):
            if not line:
                continue
            try:
                event = json.loads(line)
            except ValueError:
                self.notes.append("the report from inside has a damaged line")
                continue
            if isinstance(event, dict):
                self._take(event)

    def _take(self, event: Mapping[str, Any]) -> None:
        match event.get("e"):
            case "start":
                self.python = str(event.get("python", ""))
            case "framework":
                self.framework = f"{event.get('name')} {event.get('version')}"
            case "collecting":
                self.collecting = str(event.get("path", ""))
            case "collected":
                self.collecting = ""
                self.collected = tuple(event["ids"])
                self.unmatched = tuple(event["unmatched"])
            case "collection_error":
                self._collection_error(event)
            case "test_start":
                self.running = str(event["id"])
            case "test":
                self.running = ""
                self.add(_case(event))
            case "lines":
                self._lines(event)
            case "values":
                self.values.setdefault(str(event["id"]), event)
            case "problem":
                self.diagnoses.append(reported_problem(str(event["kind"]), str(event["detail"])))
            case "internal_error":
                text = f"{event['exception']}: {event['message']}"
                self.diagnoses.append(Diagnosis(RunProblem.INTERNAL_ERROR, text))
            case "note":
                self.notes.append(str(event["text"]))
            case "modules":
                self.modules = {str(name): (str(a), bool(b)) for name, (a, b) in event["found"].items()}
            case "end":
                self._end(event)
            case _:
                pass

    def add(self, case: TestCase) -> None:
        """Adds a case; when an id occurs more than once the bad outcome is kept."""
        known = self.cases.get(case.id)
        if known is None or (case.outcome.bad and not known.outcome.bad):
            self.cases[case.id] = case
        self.latest[case.id] = self.cases[case.id].outcome.value

    def _collection_error(self, event: Mapping[str, Any]) -> None:
        path = str(event.get("path", ""))
        exception = str(event["exception"])
        self.collection_errors[path, exception] = CollectionError(
            path=path, exception=exception, message=clean_text(str(event["message"])), frames=_frames(event)
        )
        self.diagnoses.append(classify_collection_error(event))

    def _lines(self, event: Mapping[str, Any]) -> None:
        files = self.coverage.setdefault(str(event["id"]), {})
        for path, runs in event["files"].items():
            # Most tests run a file's same lines: equal sets are kept once.
            key = f"{path}:{runs}"
            lines = self._shared.get(key)
            if lines is None:
                lines = frozenset(line for first, last in runs for line in range(first, last + 1))
                self._shared[key] = lines
            files[path] = files[path] | lines if path in files else lines

    def _end(self, event: Mapping[str, Any]) -> None:
        self.ended = True
        self.exit_code = int(event["code"])
        self.preload = tuple(event.get("preload", ()))
        self.elsewhere = tuple((str(a), str(b), str(c)) for a, b, c in event.get("elsewhere", ()))

    def diagnosis(self) -> Diagnosis | None:
        found = list(self.diagnoses)
        if self.elsewhere:
            module, used, expected = self.elsewhere[0]
            text = f"{module} was imported from {used} instead of {expected} of the repository"
            found.append(Diagnosis(RunProblem.IMPORTED_ELSEWHERE, text))
        return most_important(found)

    def report(self, *, complete: bool, notes: Iterable[str] = ()) -> TestReport:
        return TestReport(
            cases=tuple(self.cases.values()),
            collection_errors=tuple(self.collection_errors.values()),
            coverage=self.coverage,
            values=self.values,
            complete=complete,
            note="; ".join(dict.fromkeys([*self.notes, *notes])),
        )


def _frames(event: Mapping[str, Any]) -> tuple[TraceFrame, ...]:
    return tuple(
        TraceFrame(
            path=clean_text(str(path)),
            line=int(line),
            function=str(function),
            code=clean_text(str(code)),
            in_repository=bool(inside),
        )
        for path, line, function, code, inside in event.get("frames") or ()
    )


def _case(event: Mapping[str, Any]) -> TestCase:
    return TestCase(
        id=str(event["id"]),
        outcome=Outcome(event["outcome"]),
        duration_s=float(event["duration"]),
        exception=str(event.get("exception", "")),
        message=clean_text(str(event.get("message", ""))),
        frames=_frames(event),
        output=clean_text(str(event.get("output", ""))),
        path=str(event.get("path", "")),
        line=int(event.get("line", 0)),
    )


_STACK_LINE = re.compile(rb'^  File "(.+)", line (\d+) in (.+)$')


def watchdog_frames(stack: bytes, root: str) -> tuple[TraceFrame, ...]:
    """Frames of the main thread from faulthandler's dump, outermost first; () when there is none."""
    _before, found, rest = stack.rpartition(b"(most recent call first):\n")
    if not found:
        return ()
    frames: list[TraceFrame] = []
    prefix = root.rstrip("/") + "/"
    for line in rest.splitlines():
        match = _STACK_LINE.match(line)
        if not match:
            continue
        path = match[1].decode("utf-8", "replace")
        if any(part in path for part in ("/_pytest/", "/pluggy/", "/unittest/", "/inside/")):
            continue
        inside = path.startswith(prefix) and "site-packages" not in path
        shown = path[len(prefix) :] if inside else path
        frames.append(
            TraceFrame(shown, int(match[2]), match[3].decode("utf-8", "replace"), in_repository=inside)
        )
    return tuple(reversed(frames))
