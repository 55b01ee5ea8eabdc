"""The scheduler of thinking tiers: one tier per step, and why.

Routing and summing up need little thought, planning and localisation more, and a complex
failure or a retry after a failed attempt the most. What is judged is data of tool results,
never their text. Tiers change seldom within a run, because on many servers a change
costs the prefix cache.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ...engine.chat import ChatModel, Effort, FinishReason, Usage
from ..tools.base import PermissionClass
from .tool_calls import Answered

EffortChoice = Literal["auto", "low", "high", "max"]
Task = Literal["routing", "planning", "patching"]
"""Kinds of steps: small ones (summing up), finding out what to do, and doing it."""

MANY_TESTS = 5
MANY_FILES = 3
DEEP_TRACE = 4
RAISED_LIMIT = 16_384
"""Output tokens for a second try when thinking used up the first one's."""

_TEST_COMMAND = re.compile(
    r"(?:^|[\s;&|/])(?:pytest|unittest|tox|nox|ctest|vitest|jest)(?=[\s;&|)]|$)"
    r"|(?:npm|yarn|pnpm|cargo|go|node|mvn|make|dotnet|gradle\w*) (?:--?)?(?:run )?test\b"
)


@dataclass(frozen=True)
class Tier:
    """How hard the model thinks in one step."""

    effort: Effort
    reason: str
    task: Task = "planning"
    output_tokens: int | None = None
    """Raised output limit, where one was too small; None: the endpoint's own."""


@dataclass(frozen=True)
class TaskModel:
    """What is asked at one kind of step; None: the run's own."""

    model: ChatModel | None = None
    effort: Effort | None = None
    """Where the scheduler chooses; a tier that the person pinned stays."""


class TierScheduler:
    """Of one run: ``see`` what the tools gave, then ask for the ``next`` tier."""

    def __init__(
        self,
        effort: EffortChoice,
        targets: Sequence[str] = (),
        tasks: Mapping[Task, TaskModel] | None = None,
    ) -> None:
        """``targets``: test ids that must pass in the end, when known."""
        self._tasks = dict(tasks or {})
        self._pinned: Effort | None = None if effort == "auto" else effort
        self._targets = frozenset(targets)
        self._baseline: frozenset[str] | None = None
        """What failed before the first edit."""
        self._begun = False
        self._edited = False
        self._untested = False
        self._green = False
        self._looked = False
        self._failed_attempts = 0
        self._complex = ""
        self._lost: Tier | None = None
        self._task: Task = "planning"

    def next(self) -> Tier:
        """The tier of the step that begins now."""
        first, self._begun = not self._begun, True
        if self._lost is not None:
            return self._lost
        tier = self._judged(first)
        self._task = tier.task
        if self._pinned is not None:
            return Tier(self._pinned, "chosen by the person", tier.task)
        wanted = self._tasks.get(tier.task, TaskModel()).effort
        return replace(tier, effort=wanted, reason=f"set for {tier.task}: {tier.reason}") if wanted else tier

    def _judged(self, first: bool) -> Tier:
        if self._green and self._edited:
            return Tier(
                "low", "the tests pass after the edit: what is left is to check and sum up", "routing"
            )
        if self._failed_attempts:
            times = "attempt" if self._failed_attempts == 1 else "attempts"
            return Tier("max", f"retry after {self._failed_attempts} failed {times}", "patching")
        if self._complex and self._looked:
            return Tier("max", f"patching a complex failure: {self._complex}", "patching")
        if first:
            return Tier("high", "planning")
        if self._untested:
            return Tier("high", "testing the patch", "patching")
        return Tier("high", "localisation and patching", "patching" if self._edited else "planning")

    def see(self, answered: Sequence[Answered]) -> None:
        """Takes note of the results of one step."""
        for one in answered:
            data = one.result.data
            if one.result.is_error or not isinstance(data, dict):
                continue
            self._see_result(one, cast("dict[str, Any]", data))

    def lost_answer(self, reason: FinishReason, usage: Usage | None) -> bool:
        """The step gave thinking only. True: ask once more, with less thinking and more room."""
        if self._lost is not None or reason == "content_filter":
            return False
        limit = None
        if reason == "length":
            spent = (usage.output_tokens if usage else None) or 0
            limit = max(RAISED_LIMIT, 2 * spent)
        self._lost = Tier("low", "the thinking before left no room for an answer", self._task, limit)
        return True

    def answer_came(self) -> None:
        """The step gave an answer: a lost one before it is forgotten."""
        self._lost = None

    # ------------------------------------------------------------ what results mean

    def _see_result(self, one: Answered, data: dict[str, Any]) -> None:
        name = one.call.part.name
        if name == "run_tests" and "tests" in data:
            self._see_tests(data)
        elif name == "bash" and isinstance(data.get("exit_code"), int):
            command = str((one.call.arguments or {}).get("command", ""))
            if _TEST_COMMAND.search(command):
                self._tested(bad=data["exit_code"] != 0)
        elif name == "repair":
            if data.get("status") == "fixed":
                self._changed()
        elif one.permission is PermissionClass.WRITE:
            self._changed()
        elif one.permission is PermissionClass.READ:
            self._looked = True

    def _changed(self) -> None:
        self._edited, self._untested, self._green = True, True, False

    def _see_tests(self, data: dict[str, Any]) -> None:
        tests = [test for test in data.get("tests") or () if isinstance(test, dict)]
        errors = list(data.get("collection_errors") or ())
        flaky = set(data.get("flaky") or ())
        failing = frozenset(str(test.get("id")) for test in tests) - flaky
        if self._baseline is None and not self._edited:
            self._baseline = failing
        mine = failing & self._targets
        new = failing - self._baseline if self._baseline is not None else frozenset[str]()
        known = bool(self._targets) and (self._baseline is None or bool(self._baseline & self._targets))
        bad = bool(mine or new) if known else bool(failing)
        if bad or errors:
            self._complex = _complexity(tests, errors)
        self._tested(bad=bad or bool(errors))

    def _tested(self, *, bad: bool) -> None:
        if self._untested:
            self._failed_attempts = self._failed_attempts + 1 if bad else 0
        self._untested = False
        self._green = not bad


def _complexity(tests: list[dict[str, Any]], errors: list[Any]) -> str:
    """Why a failure is complex, or an empty string."""
    files = {str(test.get("path") or str(test.get("id")).partition("::")[0]) for test in tests}
    deep = max((len({frame.get("path") for frame in test.get("frames") or ()}) for test in tests), default=0)
    if len(files) >= MANY_FILES:
        return f"{len(tests)} failing tests in {len(files)} files"
    if len(tests) >= MANY_TESTS:
        return f"{len(tests)} failing tests"
    if deep >= DEEP_TRACE:
        return f"a trace through {deep} files"
    return f"{len(errors)} modules that cannot be collected" if len(errors) >= MANY_FILES else ""
