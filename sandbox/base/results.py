"""What running a command gives, whoever ran it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class ExecResult:
    """The outcome of one command.

    ``exit_code`` is the process's own code, or 128 + signal number; when
    ``timed_out`` or ``killed`` is set it is whatever the kill left.
    Sizes are those of the complete output (stdout and stderr interleaved as
    produced), which lies whole in ``log_path``; ``head`` and ``tail`` are
    bounded excerpts in bytes and together are the whole output when
    ``truncated`` is false (then ``tail`` is empty).
    """

    argv: tuple[str, ...]
    cwd: str
    exit_code: int
    duration_s: float
    head: bytes
    tail: bytes
    total_bytes: int
    total_lines: int
    log_path: Path
    log_sha256: str
    timed_out: bool = False
    killed: bool = False
    truncated: bool = False
    note: str = ""
    """One line about anything unusual (limit hit, log capped at N bytes...), or empty."""

    def text(self) -> str:
        """Head and tail decoded for people, with an honest gap line between them."""
        head = self.head.decode("utf-8", "replace")
        if not self.truncated:
            return head
        tail = self.tail.decode("utf-8", "replace")
        hidden = self.total_bytes - len(self.head) - len(self.tail)
        return f"{head}\n[... {hidden} of {self.total_bytes} bytes not shown ...]\n{tail}"


class RunHandle(Protocol):
    """A running command."""

    @property
    def argv(self) -> tuple[str, ...]: ...

    def output(self) -> AsyncIterator[bytes]:
        """Chunks as they arrive (stdout and stderr together). May be consumed at most once.

        Slow consumers lose chunks (never the log); ``wait`` does not need a consumer.
        """
        ...

    async def wait(self) -> ExecResult:
        """Waits for the end (or the timeout given to ``run``); idempotent."""
        ...

    async def kill(self) -> None:
        """Ends the whole process tree of the command; idempotent; returns when it is gone."""
        ...
