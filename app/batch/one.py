"""One issue as one process of its own: started, watched, ended; runs on any node of a cluster too."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

GRACE_S = 20.0
"""A run that is told to end has so long to clean up and write its result."""
_POLL_S = 0.2
_PR_SET_PDEATHSIG = 1


def run_one(
    arguments: Sequence[str], issue: str, output: Path, stop: threading.Event | None = None
) -> dict[str, Any]:
    """Runs ``whimbrel fix-issue`` with ``arguments`` and gives what its result.json says.

    The process ends with its parent, also when that is killed. Returns result.json's content
    with ``seconds`` added; without a result file a record of the same form that says why.

    Raises:
        KeyboardInterrupt: ``stop`` was set, or this process was interrupted; the run was ended.
    """
    output.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", _program(), "fix-issue", *arguments, "--output", str(output)]
    began = time.monotonic()
    # The terminal's size and such stay; a run must not believe it has a terminal.
    with (output / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if issue else subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent(),
        )
        try:
            if process.stdin is not None:
                _feed(process, issue)
            while (code := _poll(process)) is None:
                if stop is not None and stop.is_set():
                    raise KeyboardInterrupt
        except BaseException:
            _end(process)
            raise
    return _result(output, code) | {"seconds": round(time.monotonic() - began, 2)}


def _program() -> str:
    return f"{__package__.rpartition('.')[0] if __package__ else 'whimbrel.app'}.cli"


def _feed(process: subprocess.Popen[bytes], issue: str) -> None:
    # In a thread: an issue larger than a pipe must not block the one who watches for the end.
    stream = process.stdin
    assert stream is not None

    def write() -> None:
        try:
            with stream:
                stream.write(issue.encode("utf-8", "backslashreplace"))
        except OSError:
            return  # it ended before it read everything: its exit code says why

    threading.Thread(target=write, daemon=True).start()


def _poll(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, so that it can clean its sandbox up; SIGKILL to its whole group when it does not."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _end_with_parent() -> Callable[[], None]:
    prctl = ctypes.CDLL(None).prctl
    number = int(signal.SIGTERM)

    def set_signal() -> None:
        # Between fork and exec: a system call on values prepared before.
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)

    return set_signal


def _result(output: Path, code: int) -> dict[str, Any]:
    try:
        result: Any = json.loads((output / "result.json").read_text(encoding="utf-8"))
        if isinstance(result, dict) and result.get("status") != "running":
            return result | {"exit_code": code if code > 0 else result.get("exit_code", 1)}
    except (OSError, ValueError):
        pass  # said below
    tail = ""
    try:
        lines = (output / "log.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        tail = f": {lines[-1][:300]}" if lines else ""
    except OSError:
        pass  # the exit code alone then
    how = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    status = {2: "usage", 10: "config"}.get(code, "internal_error")
    return {
        "status": status,
        "exit_code": code if code > 0 else 1,
        "message": f"no result was written ({how}){tail}",
    }
