"""Our side of the process of ``child.py``: requests in, answers to whoever asked.

A thread reads what the process says, because tokens are counted by callers that cannot wait in an
event loop. The process ends with this one: it stops when its input does.
"""

from __future__ import annotations

import contextlib
import json
import queue
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from ...sandbox.base.process import base_environment
from ...sandbox.base.spawn import spawn

Receiver = Callable[[dict[str, Any]], None]
GONE = "gone"
"""The ``kind`` of failure when the process is no more."""

_PATIENCE_S = 5.0


class Worker:
    """One process with one model."""

    def __init__(self, path: Path, *, window: int, threads: int) -> None:
        """Starts it; loading goes on in the background.

        Raises:
            ToolError: the interpreter cannot be started.
        """
        settings = json.dumps({"path": str(path), "window": window, "threads": threads})
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._popen, self._tree = spawn(
            [sys.executable, "-P", "-m", "whimbrel.engine.gguf.child", settings],
            cwd="/",
            env=base_environment({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            user=None,
            group=None,
            rlimits={resource.RLIMIT_CORE: (0, 0)},
        )
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._receivers: dict[int, Receiver] = {}
        self._last = 0
        self._reason = ""
        """Why there is no process any more."""
        self._thread = threading.Thread(target=self._listen, name="whimbrel-gguf", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def gone(self) -> bool:
        return bool(self._reason)

    def expect(self, receiver: Receiver) -> int:
        """A number for a request, whose answers go to ``receiver``, in a thread of ours."""
        with self._lock:
            self._last += 1
            number, reason = self._last, self._reason
            if not reason:
                self._receivers[number] = receiver
        if reason:
            receiver({"failed": reason, "kind": GONE})
        return number

    def send(self, number: int, request: dict[str, Any]) -> None:
        """Sends the request; where the process has gone, the thread below tells the receiver."""
        self._send({**request, "id": number})

    def call(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any] | None:
        """The first answer to a request, or None when none comes in time."""
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        number = self.expect(answers.put)
        try:
            self.send(number, request)
            return answers.get(timeout=timeout_s)
        except queue.Empty:
            return None
        finally:
            self.forget(number)

    def abort(self, number: int) -> None:
        """Says that nobody wants the rest of an answer; returns at once."""
        self.forget(number)
        self.halt(number)

    def halt(self, number: int) -> None:
        """Ends an answer after the token it is at; how it ended is still told."""
        self._send({"do": "abort", "id": number})

    def forget(self, number: int) -> None:
        with self._lock:
            self._receivers.pop(number, None)

    def close(self) -> None:
        """Ends the process; may be called again."""
        with contextlib.suppress(OSError, ValueError):
            cast(Any, self._popen.stdin).close()
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            self._tree.kill_now()
            self._thread.join(_PATIENCE_S)

    def _send(self, request: dict[str, Any]) -> None:
        line = json.dumps(request).encode() + b"\n"
        with self._writing, contextlib.suppress(OSError, ValueError):
            stream = cast(Any, self._popen.stdin)
            stream.write(line)
            stream.flush()

    def _listen(self) -> None:
        reason = ""
        for line in cast(Any, self._popen.stdout):
            try:
                answer = json.loads(line)
            except ValueError:
                break
            if "id" not in answer:
                reason = str(answer.get("failed") or "")
                continue
            with self._lock:
                receiver = self._receivers.get(answer["id"])
            if receiver is not None:
                receiver(answer)
        code = self._popen.wait()
        cast(Any, self._popen.stdout).close()
        self._tree.close()
        with self._lock:
            self._reason = reason or self._why(code)
            waiting, self._receivers = list(self._receivers.values()), {}
        for receiver in waiting:
            receiver({"failed": self._reason, "kind": GONE})

    def _why(self, code: int) -> str:
        """What is known of a process that ended without a word."""
        with self._errors as errors:
            errors.seek(0)
            lines = errors.read(1 << 20).decode("utf-8", "replace").strip().splitlines()
        said = f": {' '.join(lines[-1].split())[:200]}" if lines else ""
        how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        memory = " (perhaps there was not enough memory)" if code == -9 else ""
        return f"the process that runs the model {how}{memory}{said}"
