"""``result.json``: what a run found, did and proved. The schema is documented in docs/result-schema.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...sandbox.base.errors import WhimbrelError
from ...sandbox.base.tokens import mask_json
from ..repo.testing.report import summary_line
from ..repo.testing.testrun import TestRun
from ..version import __version__

SCHEMA_VERSION = 1


@dataclass
class FixResult:
    """Filled in phase by phase; can be written at any moment, also after a failure."""

    run_id: str
    session_id: str = ""
    repository: str = ""
    status: str = "running"
    """``running`` until the verdict: also what a run that was killed leaves behind."""
    exit_code: int = 1
    message: str = "the run is going on, or was killed before it could end"
    hint: str = ""
    base_commit: str | None = None
    base_tree: str = ""
    end_tree: str = ""
    dirty: bool = False
    branch: str | None = None
    patch: str = ""
    """The verified patch (text as in patch.diff), or empty."""
    files: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    test_files_changed: list[str] = field(default_factory=list[str])
    explanation: str = ""
    claimed: str = ""
    """What the model said at the end, verbatim: a claim, not evidence."""
    start: str = "working tree"
    """What ``base_tree`` was made of: the working tree, a commit, or an index (git hooks)."""
    check: dict[str, Any] = field(default_factory=dict[str, Any])
    """Of a run that began with what a change affects; empty otherwise."""
    located: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    reproduction: dict[str, Any] = field(default_factory=dict[str, Any])
    """The test made of the issue, or why there is none; empty where tests failed anyway."""
    target_tests: list[str] = field(default_factory=list[str])
    tests_before: dict[str, Any] = field(default_factory=dict[str, Any])
    tests_after: dict[str, Any] = field(default_factory=dict[str, Any])
    flaky_tests: list[str] = field(default_factory=list[str])
    regressions: list[str] = field(default_factory=list[str])
    attempts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    evidence: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sandbox: dict[str, Any] = field(default_factory=dict[str, Any])
    environment: dict[str, Any] = field(default_factory=dict[str, Any])
    model: str = ""
    effort: str = ""
    seed: int = 0
    context: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a remote model was given in advance and how often its context was compacted."""
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    steps: int = 0
    tiers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Per model step: the thinking tier that was asked for, and why."""
    search: dict[str, Any] = field(default_factory=dict[str, Any])
    timings_s: dict[str, float] = field(default_factory=dict[str, float])
    started_at: str = ""
    applied: bool = False
    output: str = ""
    """Folder of the result files."""
    notes: list[str] = field(default_factory=list[str])

    def end_with(self, error: WhimbrelError) -> None:
        self.status, self.exit_code = error.status, error.exit_code
        self.message, self.hint = " ".join(error.message.split()), " ".join(error.hint.split())

    def note(self, text: str) -> None:
        if text and text not in self.notes:
            self.notes.append(text)

    def to_json(self) -> dict[str, Any]:
        """As written and printed: without secrets, except in the patch, whose bytes are the proof's own."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "patch"}
        return {
            "schema_version": SCHEMA_VERSION,
            "version": __version__,
            **mask_json(values),
            "patch": self.patch,
        }


def run_summary(run: TestRun) -> dict[str, Any]:
    """A run of tests as ``tests_before`` and ``tests_after`` give it."""
    counts = run.report.counts()
    return {
        "command": run.equivalent or " ".join(run.row.argv),
        "exit_code": run.result.exit_code,
        "counts": counts,
        "summary": summary_line(counts),
        "failing": [case.id for case in run.report.failing()][:200],
        "ledger_rows": [row.number for row in (run.rows or (run.row,))],
        "duration_s": round(run.result.duration_s, 3),
    }
