"""Host side of the fork server: quick runs for search, never evidence for a claim.

A forked run starts from an interpreter that has pytest and the installed packages
imported; only the project's own modules are imported anew. What search finds this
way is confirmed by ``TestRunner.run`` in fresh processes.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .adapters import RunRequest, forkable, launch_request
from .endings import lost_test
from .events import Gathered
from .messages import Messages
from .report import Outcome, TestReport

if TYPE_CHECKING:
    from .runner import TestRunner

START_LIMIT_S = 120.0
ANSWER_GRACE_S = 10.0
START_ALLOWANCE_S = 2.0

Overlay = Mapping[str, Sequence[tuple[int, int, str]]]
"""Repository-relative path -> edits (see inside/overlay.py)."""

# Fork and threads do not mix: numeric libraries are asked not to start any.
SINGLE_THREADED = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
# These replace parts of the standard library when the project asks, and must come first.
_MUST_COME_FIRST = frozenset({"gevent", "eventlet"})


@dataclass(frozen=True)
class ZygoteResult:
    """One run of some tests on the present state of the workspace."""

    report: TestReport
    crashed: bool
    """The process died before its end."""
    timed_out: bool
    """The limit of the whole request ended it."""
    duration_s: float
    forked: bool = True
    """False when it ran in a fresh process because forking is unsafe here."""
    exit_code: int = 0
    log: str = ""
    """Last part of what the process printed."""
    kinds: frozenset[str] = frozenset()
    """With an overlay: what the run did outside of its process (see inside/watching.py)."""

    @property
    def good(self) -> bool:
        """It came to its end, ran something, and nothing was bad."""
        whole = not self.crashed and not self.timed_out and not self.report.collection_errors
        return whole and bool(self.report.cases) and not self.report.failing()


class Zygote:
    """A fork server inside the sandbox; one request at a time.

    Start after a first plain run: that run's imports are what it preloads.
    """

    def __init__(self, *, memory_bytes: int | None = None) -> None:
        self._memory_bytes = memory_bytes
        self._runner: TestRunner | None = None
        self._messages: Messages | None = None
        self._numbers = itertools.count(1)
        self._lock = asyncio.Lock()
        self._config_path = ""
        self.forks = False
        """Whether requests run in forked children."""
        self.note = ""
        """One line when something could not be preloaded or forking is off, else empty."""

    async def start(self, runner: TestRunner) -> None:
        """Starts the server; falls back to fresh processes (``forks`` false) where fork is unsafe.

        Raises:
            EnvironmentBroken: the interpreter does not start.
            SandboxDied: the sandbox went away.
        """
        self._runner = runner
        if not forkable(runner.adapter):
            self.note = "plain commands run in fresh processes"
            return
        wanted = list(runner.preload)
        tops = {name.split(".", 1)[0] for name in wanted}
        clash = tops & _MUST_COME_FIRST
        if clash:
            wanted = []
            self.note = (
                f"{', '.join(sorted(clash))} must be imported by the project itself; nothing is preloaded"
            )
        attempts = [wanted, []] if wanted else [[]]
        for names in attempts:
            reason = await self._start_with(runner, names)
            if not reason:
                self.forks = True
                return
            self.note = reason
            await self._stop_channel()
        self.note = f"runs use fresh processes: {self.note}"

    async def run(
        self,
        ids: Sequence[str],
        *,
        timeout_s: float,
        fail_fast: bool = True,
        tree: str = "",
        overlay: Overlay | None = None,
    ) -> ZygoteResult:
        """Runs the tests on the workspace as it is now.

        Args:
            ids: test ids; a file, class or folder selects what is below it.
            timeout_s: limit of each test; the whole request gets a quarter and two seconds more.
            fail_fast: stop at the first bad test.
            tree: the workspace's tree hash; when given, an evidence row is recorded
                (marked as forked: it proves nothing alone).
            overlay: edits that only this run sees; needs ``forks``.

        Raises:
            SandboxDied: the sandbox went away.
        """
        async with self._lock:
            runner = self._runner
            if runner is None:
                raise RuntimeError("Zygote.run before start")
            if not self.forks:
                return await self._run_fresh(runner, ids, timeout_s, fail_fast)
            if self._messages is None:
                await self.start(runner)
                if not self.forks:
                    return await self._run_fresh(runner, ids, timeout_s, fail_fast)
            chosen = tuple(dict.fromkeys(ids))
            return await self._run_forked(runner, chosen, timeout_s, fail_fast, tree, overlay or {})

    async def close(self) -> None:
        """Ends the server and everything it forked; idempotent."""
        await self._stop_channel()
        runner, self._runner = self._runner, None
        self.forks = False
        if runner is not None and self._config_path:
            await runner.remove_inside([self._config_path])
            self._config_path = ""

    async def _start_with(self, runner: TestRunner, names: list[str]) -> str:
        """Starts the helper; returns why forking would be unsafe, or ""."""
        place = await runner.place()
        self._config_path = f"{place.base}/zygote-{next(self._numbers)}.json"
        config = {"root": runner.workdir, "framework": runner.adapter.name, "preload": names}
        await runner.sandbox.write(self._config_path, json.dumps(config).encode("ascii"))
        scratch = f"{place.base}/zygote.scratch"
        env = {**SINGLE_THREADED, **runner.variables(scratch)}
        channel = await runner.sandbox.open_channel(
            [runner.environment.python, f"{place.inside}/zygote.py", self._config_path], env=env
        )
        self._messages = Messages(channel)
        hello = await self._messages.receive(START_LIMIT_S)
        if hello is None:
            errors = self._messages.errors()
            return f"the fork server does not start ({errors[-1] if errors else 'no output'})"
        if hello["threads"] > 1:
            return f"importing the installed packages starts {hello['threads'] - 1} threads"
        if hello["project_modules"]:
            return f"the installed packages import {hello['project_modules'][0]} of the repository"
        if hello["failed"]:
            self.note = f"{len(hello['failed'])} modules could not be preloaded"
        return ""

    async def _run_forked(
        self,
        runner: TestRunner,
        ids: tuple[str, ...],
        timeout_s: float,
        fail_fast: bool,
        tree: str,
        overlay: Overlay,
    ) -> ZygoteResult:
        started = time.monotonic()
        request = await self._request(runner, ids, timeout_s, fail_fast)
        body = launch_request(request, runner.adapter)
        # The test's own limit comes first, as it names the line that was running; start-up
        # of the framework and what the tests do outside of tests get something on top.
        wall_s = timeout_s * 1.25 + START_ALLOWANCE_S
        limits = {
            "wall_s": wall_s,
            "cpu_s": int(wall_s * max(1.0, runner.sandbox.spec.limits.cpus)) + 1,
            "memory_bytes": self._memory_bytes or runner.sandbox.spec.limits.memory_bytes,
        }
        assert self._messages is not None
        await self._messages.send({"request": body, "limits": limits, "overlay": overlay})
        answer = await self._messages.receive(wall_s + ANSWER_GRACE_S)
        if answer is None:
            await self._stop_channel()
            lost = "the fork server ended or stopped answering; the next request starts a new one"
            return ZygoteResult(
                TestReport((), complete=False, note=lost), True, False, time.monotonic() - started
            )
        result = _result(answer, runner.workdir)
        if tree:
            runner.record_fork(ids, tree, result)
        return result

    async def _request(
        self, runner: TestRunner, ids: tuple[str, ...], timeout_s: float, fail_fast: bool
    ) -> RunRequest:
        request = await runner.request(ids, coverage=False, fail_fast=fail_fast)
        limit = min(runner.test_timeout_s, timeout_s)
        return replace(request, name=f"fork-{next(self._numbers)}", test_timeout_s=limit, survey=False)

    async def _run_fresh(
        self, runner: TestRunner, ids: Sequence[str], timeout_s: float, fail_fast: bool
    ) -> ZygoteResult:
        run = await runner.run(ids, purpose="candidate", fail_fast=fail_fast, timeout_s=timeout_s)
        crashed = any(case.outcome is Outcome.CRASHED for case in run.report.cases)
        return ZygoteResult(
            run.report,
            crashed=crashed,
            timed_out=run.result.timed_out,
            duration_s=run.result.duration_s,
            forked=False,
            exit_code=run.result.exit_code,
            log=run.result.text()[-4000:],
        )

    async def _stop_channel(self) -> None:
        messages, self._messages = self._messages, None
        if messages is not None:
            await messages.close()


def _result(answer: dict[str, Any], root: str) -> ZygoteResult:
    gathered = Gathered()
    gathered.read(answer["report"].encode("utf-8", "replace"))
    timed_out, code = bool(answer["timed_out"]), int(answer["exit_code"])
    crashed = not gathered.ended and not timed_out
    if not gathered.ended and gathered.running:
        case = lost_test(
            gathered.running,
            exit_code=code,
            run_timed_out=timed_out,
            duration_s=float(answer["duration_s"]),
            stack=answer["stack"].encode("utf-8", "replace"),
            log=answer["log"],
            root=root,
        )
        crashed = case.outcome is Outcome.CRASHED
        gathered.add(case)
    complete = gathered.ended and all(one in gathered.cases for one in gathered.collected or ())
    return ZygoteResult(
        gathered.report(complete=complete),
        crashed=crashed,
        timed_out=timed_out,
        duration_s=float(answer["duration_s"]),
        exit_code=code,
        log=answer["log"],
        kinds=frozenset(answer.get("kinds", ())),
    )
