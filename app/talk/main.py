"""Running a turn to its exit code, and its doors: print mode and JSON lines."""

from __future__ import annotations

import asyncio
import sys

from ...sandbox.base.errors import WhimbrelError
from ..fix.doors import JobDoor, JsonDoor, write_line
from ..fix.events import JobEvent
from ..fix.main import run_job
from ..fix.rundir import new_run_id
from .options import TalkOptions
from .turn import Turn


def run_turn(
    options: TalkOptions, *, as_json: bool, debug: bool = False, refused: WhimbrelError | None = None
) -> int:
    """Runs the turn and returns the process's exit code. A result file is written in every case."""
    door: JobDoor = JsonDoor(sys.stdout) if as_json else PrintDoor()
    try:
        return asyncio.run(run_job(Turn(options, new_run_id(), door.show), door, debug, refused))
    finally:
        door.close()


class PrintDoor:
    """The answer on standard output and nothing else there; what goes on, on standard error."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def show(self, event: JobEvent) -> None:
        if event.kind in ("info", "warning"):
            self._told.add(event.text)
            write_line(sys.stderr, f"{'note: ' if event.kind == 'warning' else ''}{event.text}")
        elif event.kind == "agent" and event.data.get("kind") == "tool_started":
            write_line(sys.stderr, f"- {_call(event)}")
        elif event.kind == "result":
            self._result(event)

    def _result(self, event: JobEvent) -> None:
        result = event.data
        if result.get("answer"):
            write_line(sys.stdout, str(result["answer"]))
        for note in result["notes"]:
            if note not in self._told:
                write_line(sys.stderr, f"note: {note}")
        if result["status"] != "answered":
            hint = f" ({result['hint']})" if result.get("hint") else ""
            write_line(sys.stderr, f"whimbrel: {result['message']}{hint}")
        elif result["files"]:
            paths = ", ".join(file["path"] for file in result["files"][:5])
            more = len(result["files"]) - 5
            write_line(sys.stderr, f"changed: {paths}{f' and {more} more' if more > 0 else ''}")
            write_line(sys.stderr, f"not verified: {result['message']}")
            done = "in your files now; take it back with: whimbrel undo"
            write_line(sys.stderr, done if result["applied"] else f"patch: {result['output']}/patch.diff")
        if result.get("session_id"):
            write_line(sys.stderr, f"go on with: whimbrel run --resume {result['session_id']} PROMPT")

    def close(self) -> None:
        return


def _call(event: JobEvent) -> str:
    """A tool's name and what it is about, on one line that drives no terminal."""
    from ..agent.permissions import subject_of
    from ..sessions.export import one_line

    subject = one_line(subject_of(event.data.get("arguments") or {}))
    return f"{event.data.get('name')} {subject}"[:160].rstrip()
