"""Doors of the main job: a living line on a terminal, plain lines in CI, JSON lines for programs.

A door renders events and holds no logic of the job.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from .events import JobEvent
from .summary import summary_lines

if TYPE_CHECKING:
    from rich.text import Text


class JobDoor(Protocol):
    """Consumes job events; ``close`` leaves the terminal as it was."""

    def show(self, event: JobEvent) -> None: ...

    def close(self) -> None: ...


def make_door(*, as_json: bool) -> JobDoor:
    """JSON when asked for, a living line when both streams are a capable terminal, else plain lines."""
    if as_json:
        return JsonDoor(sys.stdout)
    if _living(sys.stdout) and _living(sys.stderr) and os.environ.get("TERM", "dumb") not in ("", "dumb"):
        return LivingDoor()
    return PlainDoor(sys.stdout)


def _living(stream: TextIO | None) -> bool:
    # A standard stream that was closed before the start is None.
    return stream is not None and stream.isatty()


def write_line(stream: TextIO | None, text: str) -> None:
    """Writes and flushes. A reader that went away, a full disk or a closed stream silences the
    door, never the job."""
    if stream is None:
        return
    try:
        # Odd file names hold lone surrogates, and a locale may be narrow: both are shown escaped.
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except OSError:
        # What is still buffered would fail once more at exit: it goes nowhere instead.
        silence(stream)


def silence(stream: TextIO) -> None:
    """From now on nothing that is written to ``stream`` can fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class JsonDoor:
    """One JSON object a line; the last one is ``{"event": "result", ...}``."""

    def __init__(self, stream: TextIO | None) -> None:
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

    def __init__(self, stream: TextIO | None) -> None:
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
        self._details: list[tuple[str, str]] = []
        """Lines of the phase that is going on, with their styles; they go below its finished line."""
        self._began = time.monotonic()

    def show(self, event: JobEvent) -> None:
        if event.kind == "agent":
            return
        try:
            self._show(event)
        except OSError:
            # The terminal was closed: the job goes on to its result, unseen.
            silence(sys.stdout)

    def _show(self, event: JobEvent) -> None:
        if event.kind == "result":
            self._end_phase()
            for line in summary_lines(event.data, width=self._console.width):
                self._print(line, _style_of(line))
        elif event.kind == "phase":
            self._end_phase()
            self._phase, self._began = event.text, time.monotonic()
            self._status = self._console.status(self._living_line(""))
            self._status.start()
        else:
            if event.kind != "progress":
                self._details.append((f"  {event.text}", "yellow" if event.kind == "warning" else "dim"))
            if self._status is not None:
                self._status.update(self._living_line(event.text))

    def _living_line(self, text: str) -> Text:
        """Phase and progress cut to what fits: a line that wraps would not be one line."""
        from rich.text import Text

        line = Text(visible(f"{self._phase}: {text}" if text else self._phase))
        # The spinner and the space behind it take two cells; a last cell stays free.
        line.truncate(max(8, self._console.width - 3), overflow="ellipsis")
        return line

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(visible(text), markup=False, emoji=False, style=style, soft_wrap=True)

    def _end_phase(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
            took = time.monotonic() - self._began
            self._print(f"* {self._phase} ({took:.1f} s)")
        for text, style in self._details:
            self._print(text, style)
        self._details.clear()

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def visible(text: str) -> str:
    """Control characters shown escaped: file names and test output must not drive the terminal."""
    escaped = "".join(
        character
        if character == "\t" or (character.isprintable() or character == " ")
        else character.encode("unicode_escape", "backslashreplace").decode("ascii")
        for character in text
    )
    return escaped.encode("utf-8", "backslashreplace").decode("utf-8")


def _style_of(line: str) -> str:
    if line.startswith("+") and not line.startswith("+++"):
        return "green"
    if line.startswith("-") and not line.startswith("---"):
        return "red"
    if line.startswith(("Located", "Attempts", "Patch", "Tests", "Result", "Notes")):
        return "bold"
    return ""
