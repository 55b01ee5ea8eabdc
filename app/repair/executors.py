"""Where candidates are tested during the search. What an executor shows is never proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..repo.testing.report import TestReport
from ..repo.testing.runner import TestRunner
from ..repo.testing.zygote import Zygote

_FORK_OVERHEAD_S = 1.0
"""Importing the project and starting the framework in a forked child, on a busy machine."""


class Executor(Protocol):
    """Runs tests on the workspace as it is now."""

    async def run(self, tests: Sequence[str], *, stop_first: bool, limit_s: float) -> TestReport:
        """The report of some tests; incomplete when a limit ended it.

        ``limit_s`` is for the tests themselves; the executor adds what starting costs.
        """
        ...

    async def close(self) -> None: ...


class FreshExecutor:
    """A new process per run, through the test runner: slow and always applicable.

    Args:
        overhead_s: seconds that starting a process and collecting tests may take.
    """

    def __init__(self, runner: TestRunner, overhead_s: float) -> None:
        self._runner = runner
        self._overhead_s = overhead_s

    async def run(self, tests: Sequence[str], *, stop_first: bool, limit_s: float) -> TestReport:
        limit = limit_s + self._overhead_s
        run = await self._runner.run(tests, purpose="candidate", fail_fast=stop_first, timeout_s=limit)
        return run.report

    async def close(self) -> None:
        """Nothing is held open."""


class ForkExecutor:
    """Forks of a server that has the installed packages imported; the project is imported anew.

    Args:
        overhead_s: as for ``FreshExecutor``; used where the server cannot fork.
    """

    def __init__(self, zygote: Zygote, overhead_s: float) -> None:
        self._zygote = zygote
        self._overhead_s = overhead_s

    @classmethod
    async def start(cls, runner: TestRunner, overhead_s: float) -> ForkExecutor:
        """Starts the server; it says itself when runs have to be fresh processes."""
        zygote = Zygote()
        await zygote.start(runner)
        return cls(zygote, overhead_s)

    @property
    def note(self) -> str:
        """One line when not everything could be preloaded or forked, else empty."""
        return self._zygote.note

    async def run(self, tests: Sequence[str], *, stop_first: bool, limit_s: float) -> TestReport:
        overhead = _FORK_OVERHEAD_S if self._zygote.forks else self._overhead_s
        result = await self._zygote.run(tests, timeout_s=limit_s + overhead, fail_fast=stop_first)
        return result.report

    async def close(self) -> None:
        await self._zygote.close()
