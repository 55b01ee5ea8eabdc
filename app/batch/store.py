"""What is done already: results.jsonl, one line per issue, appended and synced as each one ends."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import ConfigError, UsageError
from ...sandbox.base.secrets import redact_json
from .tasks import Task

RESULTS = "results.jsonl"


class ResultStore:
    """The results of one output folder, written by one batch at a time.

    Raises:
        UsageError: another batch writes there.
        ConfigError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(
                f"cannot write to {folder}: {error.strerror}", hint="choose another --output"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise UsageError(
                f"another batch is writing to {folder}", hint="wait for it, or choose another --output"
            ) from error
        self.results = self._read()
        """The last line of each id."""

    def done(self, task: Task, again: tuple[str, ...]) -> bool:
        """Whether the task as it is now has a result that is not to be made again."""
        known = self.results.get(task.id)
        return known is not None and known.get("task") == task.digest and known.get("status") not in again

    def add(self, task: Task, result: dict[str, Any], *, node: str = "") -> dict[str, Any]:
        """Appends the line of a task; it is on the disk when this returns. Raises ConfigError."""
        patch = f"runs/{task.folder}/patch.diff" if result.get("patch") else ""
        line = {
            "id": task.id,
            "task": task.digest,
            "status": result.get("status", "internal_error"),
            "exit_code": result.get("exit_code", 1),
            "seconds": result.get("seconds", 0.0),
            "message": result.get("message", ""),
            "patch": patch,
            "base_commit": result.get("base_commit"),
            "model": result.get("model", ""),
            "steps": result.get("steps", 0),
            "usage": result.get("usage") or {},
            "output": f"runs/{task.folder}",
            **({"node": node} if node else {}),
        }
        line = redact_json(line)
        try:
            with (self.folder / RESULTS).open("ab") as file:
                file.write(json.dumps(line, ensure_ascii=True).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ConfigError(
                f"the result of {task.id} cannot be written to {self.folder}: {error.strerror}",
                hint="free some space and run the same command again; what is done is not done twice",
            ) from error
        self.results[task.id] = line
        return line

    def close(self) -> None:
        os.close(self._lock)

    def _read(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        path = self.folder / RESULTS
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return found
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines():
            try:
                value: Any = json.loads(line)
            except ValueError:
                continue  # damaged: its issue is done again
            if isinstance(value, dict) and isinstance(value.get("id"), str):
                found[value["id"]] = value
        if whole < len(data):
            # A line cut by a crash: the next one must not be glued to it.
            with path.open("r+b") as file:
                file.truncate(whole)
        return found
