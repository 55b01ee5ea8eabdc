"""The report of a plain command: JUnit XML where it wrote one, else exit code and what its output shows."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Any

from ....sandbox.base.results import ExecResult
from ..cilog import read_ci_log
from ..stacktrace import Trace, parse_traces
from .endings import how_it_ended
from .events import Gathered
from .problems import Diagnosis, RunProblem
from .report import CollectionError, Outcome, TestCase, TraceFrame
from .textclean import clean_text

COMMAND_ID = "command"
"""Id of the one case of a command whose output names no tests."""
FROM_OUTPUT = "failing tests and traces were read from the command's output"
_OUTPUT_LIMIT = 16000


def read_command(
    gathered: Gathered, result: ExecResult, junit: bytes, root: str, base: str
) -> Diagnosis | None:
    """Fills ``gathered`` from the end of a command; returns what stood in the way, if anything."""
    text = _whole_output(result)
    if junit.strip():
        for case in junit_cases(junit, root):
            gathered.add(case)
        if gathered.cases:
            return _timed_out(result)
        gathered.notes.append("the JUnit report holds no test")
    if result.timed_out:
        gathered.add(_whole(Outcome.TIMEOUT, result, text, (), "the run's time limit ended the command"))
        return _timed_out(result)
    if result.exit_code == 127:
        return Diagnosis(RunProblem.COMMAND_NOT_FOUND, _last_line(text) or "the command was not found")
    if result.exit_code == 126:
        return Diagnosis(RunProblem.COMMAND_NOT_FOUND, _last_line(text) or "the command cannot be executed")
    if result.exit_code == 0:
        gathered.add(_whole(Outcome.PASSED, result, text, (), ""))
        return None
    _read_output(gathered, result, text)
    return None


def _read_output(gathered: Gathered, result: ExecResult, text: str) -> None:
    log = read_ci_log(text)
    gathered.notes.append(FROM_OUTPUT)
    for test in log.tests:
        trace = _trace_of(test.id, log.traces)
        gathered.add(
            TestCase(
                id=test.id,
                outcome=Outcome.FAILED if test.kind == "failed" else Outcome.ERROR,
                exception=trace.exception if trace else "",
                message=test.message or (trace.message if trace else ""),
                frames=_frames(trace),
                path=test.id.split("::")[0] if "::" in test.id else "",
            )
        )
    for path in log.broken_files:
        trace = next((one for one in log.traces if path in one.test), None)
        gathered.collection_errors[path, ""] = CollectionError(
            path, trace.exception if trace else "", trace.message if trace else "", _frames(trace)
        )
    if not log.tests:
        trace = log.traces[-1] if log.traces else None
        message = f"ended with {how_it_ended(result.exit_code)}"
        if trace and trace.exception:
            message = f"{message}: {trace.exception}: {trace.message}".rstrip(": ")
        gathered.add(_whole(Outcome.FAILED, result, text, _frames(trace), message, trace))


def _trace_of(test_id: str, traces: tuple[Trace, ...]) -> Trace | None:
    name = test_id.replace("::", ".").rsplit(".", 1)[-1]
    bare = name.split("[", 1)[0]
    for trace in traces:
        if trace.test and trace.test.rsplit(".", 1)[-1] in (name, bare):
            return trace
    for trace in traces:
        if any(frame.function == bare for frame in trace.frames):
            return trace
    return None


def _frames(trace: Trace | None) -> tuple[TraceFrame, ...]:
    return trace.all_frames() if trace else ()


def _whole(
    outcome: Outcome,
    result: ExecResult,
    text: str,
    frames: tuple[TraceFrame, ...],
    message: str,
    trace: Trace | None = None,
) -> TestCase:
    return TestCase(
        id=COMMAND_ID,
        outcome=outcome,
        duration_s=result.duration_s,
        exception=trace.exception if trace else "",
        message=message,
        frames=frames,
        output=clean_text(text[-_OUTPUT_LIMIT:]),
    )


def _timed_out(result: ExecResult) -> Diagnosis | None:
    if result.timed_out:
        return Diagnosis(RunProblem.TIMED_OUT, "the run's time limit ended the command")
    return None


def _whole_output(result: ExecResult, limit: int = 8 << 20) -> str:
    """The complete log when it is not huge: the summary of a long run may lie in its middle."""
    if not result.truncated:
        return result.text()
    try:
        with result.log_path.open("rb") as file:
            data = file.read(limit)
    except OSError:
        # The log is on the host's disk and may be gone; head and tail remain.
        return result.text()
    return data.decode("utf-8", "replace") + ("" if len(data) < limit else result.text())


def _last_line(text: str) -> str:
    lines = clean_text(text).strip().splitlines()
    return lines[-1] if lines else ""


def _local(tag: str) -> str:
    return tag.rsplit("}", 1)[-1]


def junit_cases(data: bytes, root: str) -> Iterator[TestCase]:
    """The cases of a JUnit XML report; a damaged one gives what could be read before the damage."""
    parser = ElementTree.XMLPullParser(["end"])
    try:
        parser.feed(data.replace(b"\0", b""))
        parser.close()
    except ElementTree.ParseError:
        # A command that was killed leaves a torn file; the elements before the tear are whole.
        pass
    events: Iterator[Any] = parser.read_events()
    while True:
        try:
            _event, element = next(events)
        except (StopIteration, ElementTree.ParseError):
            return
        if _local(element.tag) == "testcase":
            yield _junit_case(element, root)


def _junit_case(element: ElementTree.Element, root: str) -> TestCase:
    name, classname = element.get("name", ""), element.get("classname", "")
    outcome, kind, message, detail = Outcome.PASSED, "", "", ""
    output: list[str] = []
    for child in element:
        match _local(child.tag):
            case "failure" | "error" as tag:
                outcome = Outcome.FAILED if tag == "failure" else Outcome.ERROR
                kind, message = child.get("type", ""), child.get("message", "")
                detail = child.text or ""
            case "skipped":
                outcome, message = Outcome.SKIPPED, child.get("message", "")
            case "system-out" | "system-err":
                output.append(child.text or "")
            case _:
                pass
    traces = parse_traces(detail) if detail else ()
    trace = traces[-1] if traces else None
    if trace and trace.exception and kind in ("", "failure", "error"):
        kind = trace.exception
    line = element.get("line", "")
    return TestCase(
        id=f"{classname}::{name}" if classname else name,
        outcome=outcome,
        duration_s=_number(element.get("time", "")),
        exception=kind.rsplit(".", 1)[-1],
        message=clean_text(message or detail.strip().split("\n", 1)[0]),
        frames=tuple(_relative(frame, root) for frame in _frames(trace)),
        output=clean_text("\n".join(output)[-_OUTPUT_LIMIT:]),
        path=element.get("file", ""),
        line=int(line) if line.isdigit() else 0,
    )


def _relative(frame: TraceFrame, root: str) -> TraceFrame:
    prefix = root.rstrip("/") + "/"
    if not frame.path.startswith(prefix):
        return frame
    return TraceFrame(frame.path.removeprefix(prefix), frame.line, frame.function, frame.code, True)


def _number(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        # Some writers leave the time out or localise it.
        return 0.0
