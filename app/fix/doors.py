"""Doors of the main job: a living line on a terminal, plain lines in CI, JSON lines for programs.

A door renders events and holds no logic of the job.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Protocol, TextIO

from .events import JobEvent
from .summary import summary_lines


class JobDoor(Protocol):
    """Consumes job events; ``close`` leaves the terminal as it was."""

    def show(self, event: JobEvent) -> None: ...

    def close(self) -> None: ...


def make_door(*, as_json: bool) -> JobDoor:
    """JSON when asked for, a living line when standard error is a terminal, else plain lines."""
    if as_json:
        return JsonDoor(sys.stdout)
    if sys.stderr.isatty() and sys.stdout.isatty():
        return LivingDoor()
    return PlainDoor(sys.stdout)


def write_line(stream: TextIO, text: str) -> None:
    """Writes and flushes; a reader that went away (``| head``) silences the door, never the job."""
    try:
        # Odd file names hold lone surrogates, and a locale may be narrow: both are shown escaped.
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except BrokenPipeError:
        # What is still buffered would fail once more at exit: it goes nowhere instead.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class JsonDoor:
    """One JSON object a line; the last one is ``{"event": "result", ...}``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, event: JobEvent) -> None:
        line: dict[str, Any] = {"event": event.kind}
        if event.phase:
            line["phase"] = event.phase
        if event.text:
            line["text"] = event.text
        if event.data:
            line["data"] = event.data
        write_line(self._stream, json.dumps(line, ensure_ascii=True, default=str))

    def close(self) -> None:
        return


class PlainDoor:
    """Timestamped plain lines; progress at most one line in five seconds."""

    QUIET_S = 5.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start = time.monotonic()
        self._last = 0.0

    def show(self, event: JobEvent) -> None:
        now = time.monotonic()
        if event.kind == "agent":
            return
        if event.kind == "result":
            self._write("\n".join(summary_lines(event.data)))
            return
        if event.kind == "progress" and now - self._last < self.QUIET_S:
            return
        self._last = now
        elapsed = now - self._start
        mark = {"phase": "==", "warning": "!!", "info": "  ", "progress": "  "}.get(event.kind, "  ")
        self._write(f"[{elapsed:6.1f}s] {mark} {event.text}")

    def _write(self, text: str) -> None:
        write_line(self._stream, text)

    def close(self) -> None:
        return


class LivingDoor:
    """One living line per phase on a terminal; finished phases stay as one line each."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.status import Status

        self._console = Console(highlight=False, stderr=False)
        self._status: Status | None = None
        self._phase = ""
        self._began = time.monotonic()

    def show(self, event: JobEvent) -> None:
        from rich.markup import escape

        if event.kind == "agent":
            return
        if event.kind == "result":
            self._end_phase()
            for line in summary_lines(event.data):
                self._console.print(line, markup=False, style=_style_of(line), soft_wrap=True)
        elif event.kind == "phase":
            self._end_phase()
            self._phase, self._began = event.text, time.monotonic()
            self._status = self._console.status(escape(event.text))
            self._status.start()
        elif event.kind == "progress":
            if self._status is not None:
                self._status.update(escape(f"{self._phase}: {event.text}"))
        else:
            style = "yellow" if event.kind == "warning" else "dim"
            self._console.print(f"  {event.text}", markup=False, style=style, soft_wrap=True)

    def _end_phase(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
            took = time.monotonic() - self._began
            self._console.print(f"* {self._phase} ({took:.1f} s)", markup=False, soft_wrap=True)

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _style_of(line: str) -> str:
    if line.startswith("+") and not line.startswith("+++"):
        return "green"
    if line.startswith("-") and not line.startswith("---"):
        return "red"
    if line.startswith(("Located", "Attempts", "Patch", "Tests", "Result", "Notes")):
        return "bold"
    return ""
