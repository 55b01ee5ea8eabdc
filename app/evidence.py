"""The evidence ledger: one row per execution; every claim the product makes cites rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class EvidenceRow:
    """One execution of a command on one state of the tree."""

    number: int
    purpose: str
    """baseline, tool, candidate, verification, flaky-check, ..."""
    argv: tuple[str, ...]
    cwd: str
    sandbox_kind: str
    image_digest: str | None
    tree: str
    """Git tree hash of the workspace when the command started."""
    fresh_process: bool
    """False when the execution happened in a forked helper (then it proves nothing alone)."""
    exit_code: int
    timed_out: bool
    duration_s: float
    outcomes: Mapping[str, str] = field(default_factory=dict[str, str])
    """test id -> outcome value; empty when the command was not a test run."""
    log_sha256: str = ""
    log_path: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"argv": list(self.argv), "outcomes": dict(self.outcomes)}


class EvidenceLedger:
    """Append-only list of rows, mirrored to whoever listens (the session store, the doors)."""

    def __init__(self, listeners: Iterable[Callable[[EvidenceRow], None]] = ()) -> None:
        self._rows: list[EvidenceRow] = []
        self._listeners = list(listeners)

    @property
    def rows(self) -> tuple[EvidenceRow, ...]:
        return tuple(self._rows)

    def listen(self, listener: Callable[[EvidenceRow], None]) -> None:
        """Later rows also go to this listener."""
        self._listeners.append(listener)

    def next_number(self) -> int:
        return len(self._rows) + 1

    def record(self, **values: Any) -> EvidenceRow:
        """Appends a row; ``number`` is assigned here. Keyword arguments are EvidenceRow fields."""
        row = EvidenceRow(number=self.next_number(), **values)
        self._rows.append(row)
        for listener in self._listeners:
            listener(row)
        return row

    def find_fresh(self, argv: tuple[str, ...], tree: str) -> EvidenceRow | None:
        """The latest complete fresh-process row of the same command on the same tree."""
        for row in reversed(self._rows):
            if row.argv == argv and row.tree == tree and row.fresh_process and not row.timed_out:
                return row
        return None
