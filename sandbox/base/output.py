"""Capturing a command's output: bounded in memory, whole on disk, counted truly."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from .results import ExecResult


@dataclass(frozen=True)
class CapturedOutput:
    """What was captured; fields as in ``ExecResult``."""

    head: bytes
    tail: bytes
    total_bytes: int
    total_lines: int
    log_path: Path
    log_sha256: str
    truncated: bool
    note: str

    def result(
        self,
        *,
        argv: tuple[str, ...],
        cwd: str,
        exit_code: int,
        duration_s: float,
        timed_out: bool = False,
        killed: bool = False,
        note: str = "",
    ) -> ExecResult:
        """Joins the output with how the command ended."""
        return ExecResult(
            argv=argv,
            cwd=cwd,
            exit_code=exit_code,
            duration_s=duration_s,
            head=self.head,
            tail=self.tail,
            total_bytes=self.total_bytes,
            total_lines=self.total_lines,
            log_path=self.log_path,
            log_sha256=self.log_sha256,
            timed_out=timed_out,
            killed=killed,
            truncated=self.truncated,
            note="; ".join(part for part in (note, self.note) if part),
        )


class OutputCapture:
    """Takes output piece by piece: keeps head and tail, writes the log, hashes and counts everything.

    The log holds the first ``log_cap_bytes``; beyond that, a line saying how much is missing
    and the tail. A log that cannot be written (full disk) costs the log, never the result.
    """

    def __init__(
        self,
        log_path: Path,
        *,
        head_bytes: int = 32768,
        tail_bytes: int = 32768,
        log_cap_bytes: int = 256 << 20,
    ) -> None:
        self._log_path = log_path
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._cap = log_cap_bytes
        self._head = bytearray()
        self._rest = bytearray()
        self._total = 0
        self._newlines = 0
        self._ends_with_newline = True
        self._hash = hashlib.sha256()
        self._logged = 0
        self._log_error = ""
        self._log: int | None = None
        self._finished: CapturedOutput | None = None
        try:
            log_path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._log = os.open(log_path, flags, 0o600)
        except OSError as error:
            self._log_error = error.strerror or str(error)

    @property
    def total_bytes(self) -> int:
        return self._total

    def feed(self, data: bytes) -> None:
        """Takes the next piece of output."""
        if not data:
            return
        self._hash.update(data)
        self._newlines += data.count(b"\n")
        self._ends_with_newline = data.endswith(b"\n")
        self._total += len(data)
        self._write_log(data[: max(0, self._cap - self._logged)])
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data and self._tail_bytes:
            self._rest += data[-self._tail_bytes :]
            if len(self._rest) > 2 * self._tail_bytes:
                del self._rest[: -self._tail_bytes]

    def _write_log(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._log is not None:
            try:
                written = os.write(self._log, view)
            except OSError as error:
                self._log_error = error.strerror or str(error)
                self._close_log()
                return
            self._logged += written
            view = view[written:]

    def _close_log(self) -> None:
        if self._log is not None:
            descriptor, self._log = self._log, None
            try:
                os.close(descriptor)
            except OSError as error:
                self._log_error = self._log_error or error.strerror or str(error)

    def finish(self) -> CapturedOutput:
        """Closes the log and returns what was captured; idempotent."""
        if self._finished is not None:
            return self._finished
        truncated = self._total > self._head_bytes + self._tail_bytes
        tail = bytes(self._rest[-self._tail_bytes :]) if self._tail_bytes else b""
        notes: list[str] = []
        kept = self._logged
        if self._log is not None and self._total > self._cap:
            missing = max(0, self._total - kept - len(tail))
            gap = f"\n[... {missing} bytes not kept: this log is capped at {self._cap} bytes ...]\n"
            self._write_log(gap.encode() + tail)
            notes.append(
                f"the log is capped: it holds the first {kept} and the last {len(tail)} "
                f"of {self._total} bytes"
            )
        self._close_log()
        if self._log_error:
            notes.append(
                f"the full log could not be written ({self._log_error}): "
                f"it holds {kept} of {self._total} bytes"
            )
        head = bytes(self._head)
        self._finished = CapturedOutput(
            head=head if truncated else head + tail,
            tail=tail if truncated else b"",
            total_bytes=self._total,
            total_lines=self._newlines + (0 if self._ends_with_newline else 1),
            log_path=self._log_path,
            log_sha256=self._hash.hexdigest(),
            truncated=truncated,
            note="; ".join(notes),
        )
        return self._finished
