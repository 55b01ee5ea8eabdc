"""Where candidates are tested during the search. What an executor shows is never proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..repo.testing.report import TestReport
from ..repo.testing.runner import TestRunner


class Executor(Protocol):
    """Runs tests on the workspace as it is now."""

    @property
    def overhead_s(self) -> float:
        """Seconds a run may need beyond the tests themselves; added to time limits."""
        ...

    async def run(self, tests: Sequence[str] | None, *, stop_first: bool, timeout_s: float) -> TestReport:
        """The report of some tests (None: all); incomplete when the limit ended it."""
        ...

    async def close(self) -> None: ...


class FreshExecutor:
    """A new process per run, through the test runner: slow and always applicable."""

    def __init__(self, runner: TestRunner, overhead_s: float) -> None:
        self._runner = runner
        self._overhead_s = overhead_s

    @property
    def overhead_s(self) -> float:
        return self._overhead_s

    async def run(self, tests: Sequence[str] | None, *, stop_first: bool, timeout_s: float) -> TestReport:
        run = await self._runner.run(tests, purpose="candidate", fail_fast=stop_first, timeout_s=timeout_s)
        return run.report

    async def close(self) -> None:
        """Nothing is held open."""
