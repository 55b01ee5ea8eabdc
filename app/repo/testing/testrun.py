"""What one run of tests was and showed."""

from __future__ import annotations

from dataclasses import dataclass

from ....sandbox.protocol import ExecResult
from ...evidence import EvidenceRow
from .problems import RunProblem
from .report import TestReport


@dataclass(frozen=True)
class TestRun:
    """One run of tests: one process, or several when tests crashed it."""

    report: TestReport
    result: ExecResult
    """Of the last process."""
    row: EvidenceRow
    """Of the first process; ``rows`` holds all."""
    rows: tuple[EvidenceRow, ...] = ()
    problem: RunProblem | None = None
    """What stood in the way, if anything; see ``RunProblem.environment``."""
    problem_detail: str = ""
    equivalent: str = ""
    """The command a person would type for the same run."""
    collected: tuple[str, ...] = ()
    """Ids in the order they were going to run."""
    preload: tuple[str, ...] = ()
    """Modules outside the repository that the run imported (what a fork server imports ahead)."""
    elsewhere: tuple[tuple[str, str, str], ...] = ()
    """(module, imported file, the repository's file) of modules imported from outside the copy."""
    side_effects: tuple[str, ...] = ()
    """Files of the repository that the tests changed; they were put back after the run."""

    __test__ = False

    @property
    def blocked(self) -> bool:
        """No test ran, for reasons outside the code under repair."""
        return self.problem is not None and self.problem.environment and not self.report.cases
