"""Host side of the warm process: tests collected once, one fork per candidate.

Never evidence for a claim: what a search finds this way is confirmed in fresh processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....sandbox.base.errors import SandboxDied
from .adapters import forkable, launch_request
from .messages import Messages
from .runner import TestRunner
from .zygote import SINGLE_THREADED

_START_LIMIT_S = 180.0
_ANSWER_GRACE_S = 30.0
_WALL_FACTOR = 3.0
_WALL_EXTRA_S = 7.0

Edits = Mapping[str, Sequence[tuple[int, int, str]]]
"""Repository-relative path -> ``(start, end, text)`` of each edit; empty for the program as it is."""


@dataclass(frozen=True)
class Stage:
    """Tests that have to pass before the next stage runs; ``cpu_s`` is processor time for all of them."""

    tests: tuple[str, ...]
    cpu_s: float
    stop_first: bool = True


@dataclass(frozen=True)
class Answer:
    """How one candidate did."""

    refused: str = ""
    """Why this process cannot make the edit; then nothing ran."""
    mode: str = ""
    """``swap`` (code exchanged), ``import`` (imported anew in the fork), ``none`` (no edit)."""
    stages: tuple[Mapping[str, str], ...] = ()
    """Per stage begun: test id -> outcome."""
    ended: bool = False
    """It came to its end by itself."""
    stopped: str = ""
    """``cpu`` or ``wall`` when a limit ended it."""
    duration_s: float = 0.0
    reached: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bad test -> the line of its own at which it ended, where that is known."""
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Test id -> what it shares with other processes (inside/watching.py); "" for what belongs to no test."""

    def marked(self, *kinds: str) -> frozenset[str]:
        """Tests that did something of these kinds."""
        return frozenset(test for test, seen in self.marks.items() if set(kinds) & set(seen))


@dataclass(frozen=True)
class ProbedCall:
    """One call with what each version did: (fingerprint, shown); the first is the program as it is."""

    test: str
    text: str
    neighbour: bool
    """Whether the arguments were changed a little from what the test gave."""
    results: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Probe:
    """Calls of some tests, compared over several versions."""

    made: tuple[bool, ...]
    """Per version asked for: whether it takes part (results hold only those that do, after the original)."""
    calls: tuple[ProbedCall, ...]


class WarmServer:
    """The warm process of one sandbox. ``start`` first; several ``run`` may be in flight."""

    def __init__(self, *, workers: int = 2, memory_bytes: int | None = None) -> None:
        self._workers = workers
        self._memory_bytes = memory_bytes
        self._messages: Messages | None = None
        self._runner: TestRunner | None = None
        self._files: list[str] = []
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any] | None]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._index: dict[str, int] = {}
        self._ids: tuple[str, ...] = ()
        self.note = ""
        """Why it cannot be used, else empty."""

    @property
    def ready(self) -> bool:
        return self._messages is not None

    @property
    def ids(self) -> tuple[str, ...]:
        """The tests it has collected."""
        return self._ids

    async def start(self, runner: TestRunner, files: Sequence[str] = ()) -> bool:
        """Collects the tests; False, with a note, where forking from there is impossible.

        Args:
            files: the test files to collect; none: all.

        Raises:
            SandboxDied: the sandbox went away.
        """
        self._runner = runner
        if not forkable(runner.adapter):
            self.note = "plain commands run in fresh processes"
            return False
        place = await runner.place()
        request = replace(
            await runner.request(tuple(files) or None, coverage=False, fail_fast=False),
            name="warm",
            survey=False,
        )
        stem = f"{place.base}/warm"
        config = {
            "root": runner.workdir,
            "scratch": f"{stem}.scratch",
            "workers": self._workers,
            "request": launch_request(request, runner.adapter),
        }
        self._files = [f"{stem}.json", f"{stem}.scratch", f"{stem}.report", f"{stem}.report.stack"]
        await runner.sandbox.write(f"{stem}.json", json.dumps(config).encode("ascii"))
        channel = await runner.sandbox.open_channel(
            [runner.environment.python, f"{place.inside}/serve.py", f"{stem}.json"],
            env={**SINGLE_THREADED, **runner.variables(f"{stem}.scratch")},
        )
        self._messages = Messages(channel)
        hello = await self._messages.receive(_START_LIMIT_S)
        self.note = self._objection(hello)
        if self.note or hello is None:
            await self.close()
            return False
        self._ids = tuple(hello["ids"])
        self._index = {test: index for index, test in enumerate(self._ids)}
        self._reader = asyncio.create_task(self._read())
        return True

    async def run(self, edits: Edits, stages: Sequence[Stage]) -> Answer | None:
        """Runs the stages with the edits of all files; None when the process has gone.

        Unknown tests are left out. A stage after one with a bad test does not run.
        """
        answer = await self._ask(edits, stages, {})
        return None if answer is None else self._answer(answer)

    async def probe(
        self,
        versions: Sequence[Edits],
        stage: Stage,
        sources: Sequence[str],
        *,
        most: int = 300,
        seed: int = 0,
    ) -> Probe | None:
        """How versions behave on the calls a stage's tests make, and on neighbouring ones.

        Args:
            versions: the edits of each.
            stage: the tests; its processor time is for everything together.
            sources: the repository's files that are no tests: calls into these count.
            most: calls at most.
            seed: for the choice of neighbours.
        """
        asked = [_plain(edits) for edits in versions]
        extra = {"probe": {"versions": asked, "sources": list(sources), "most": most, "seed": seed}}
        answer = await self._ask({}, [stage], extra)
        if answer is None or "refused" in answer:
            return None
        calls = tuple(
            ProbedCall(
                self._ids[index] if 0 <= index < len(self._ids) else "",
                str(text),
                bool(neighbour),
                tuple((str(mark), str(shown)) for mark, shown in results),
            )
            for index, text, neighbour, results in answer["probed"]
        )
        return Probe(tuple(bool(each) for each in answer["versions"]), calls)

    async def _ask(
        self,
        edits: Edits,
        stages: Sequence[Stage],
        extra: Mapping[str, Any],
    ) -> dict[str, Any] | None:
        messages, runner = self._messages, self._runner
        if messages is None or runner is None:
            return None
        number = next(self._numbers)
        asked = [
            {
                "tests": [self._index[test] for test in stage.tests if test in self._index],
                "stop_first": stage.stop_first,
                "cpu_s": max(0.05, stage.cpu_s),
            }
            for stage in stages
        ]
        future: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            await messages.send(
                {
                    "id": number,
                    "edits": _plain(edits),
                    "stages": asked,
                    "memory_bytes": self._memory_bytes or runner.sandbox.spec.limits.memory_bytes or 0,
                    **extra,
                }
            )
            wall = sum(stage.cpu_s * _WALL_FACTOR + _WALL_EXTRA_S for stage in stages)
            async with asyncio.timeout(wall * (len(self._waiting) + 1) + _ANSWER_GRACE_S):
                answer = await future
        except TimeoutError:
            answer = None
        except asyncio.CancelledError:
            # Whatever runs for it would keep the workers from what comes next.
            self._forget(messages, number)
            raise
        finally:
            self._waiting.pop(number, None)
        if answer is None:
            await self.close()
        return answer

    def _forget(self, messages: Messages, number: int) -> None:
        task = asyncio.get_running_loop().create_task(_tell(messages, {"cancel": number}))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def close(self) -> None:
        """Ends the process and everything it forked; idempotent."""
        messages, self._messages = self._messages, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
        if messages is not None:
            await messages.close()
        await asyncio.gather(*self._telling, return_exceptions=True)
        self._lose_all()
        runner, self._runner = self._runner, None
        if runner is not None and self._files:
            files, self._files = self._files, []
            await runner.remove_inside(files)

    def _objection(self, hello: Mapping[str, Any] | None) -> str:
        if hello is None:
            errors = self._messages.errors() if self._messages is not None else []
            return f"the warm process does not start ({errors[-1] if errors else 'no output'})"
        if not hello["hello"]:
            return "the tests could not be collected in the warm process"
        if hello["threads"] > 1:
            return f"importing the project starts {hello['threads'] - 1} threads"
        if hello["shared"]:
            return f"importing the project opens {hello['shared']}, which forked processes would share"
        if not hello["ids"]:
            return "the warm process found no tests"
        return ""

    async def _read(self) -> None:
        messages = self._messages
        try:
            while messages is not None:
                answer = await messages.receive()
                if answer is None:
                    break
                future = self._waiting.get(int(answer["id"]))
                if future is not None and not future.done():
                    future.set_result(answer)
        finally:
            # However it ended: nobody waits for an answer that cannot come.
            self._lose_all()

    def _lose_all(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)

    def _answer(self, answer: Mapping[str, Any]) -> Answer:
        if "refused" in answer:
            return Answer(refused=str(answer["refused"]))
        stages = tuple(
            {self._ids[index]: str(outcome) for index, outcome in stage if 0 <= index < len(self._ids)}
            for stage in answer["stages"]
        )
        marks = {
            self._ids[int(index)] if int(index) >= 0 else "": tuple(kinds)
            for index, kinds in answer["marks"].items()
        }
        return Answer(
            mode=str(answer["mode"]),
            stages=stages,
            ended=bool(answer["ended"]),
            stopped=str(answer["stopped"]),
            duration_s=float(answer["duration_s"]),
            reached={self._ids[int(index)]: int(line) for index, line in answer["reached"].items()},
            marks=marks,
        )


def _plain(edits: Edits) -> dict[str, list[list[Any]]]:
    return {path: [list(edit) for edit in each] for path, each in edits.items()}


async def _tell(messages: Messages, message: dict[str, Any]) -> None:
    with contextlib.suppress(SandboxDied):
        # The next request reports that.
        await messages.send(message)
