"""The decisions of the embedded policy: from what was observed to the next step.

run_tests -> locate -> read -> repair -> run_tests -> answer. Every step is decided
from the history alone, so a session can be resumed, forked or replayed anywhere.
A tool that is missing or fails is skipped where the work can go on without it,
and named in the answer where it cannot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..chat import Message, ToolResultPart, ToolSpec
from . import answers
from .observed import Observed, TestsSeen, fields, listed

_PATIENCE = 2
"""Calls of one tool that may stay unanswered (interrupted runs) before the policy gives up."""

_CONTEXT_LINES = 12
"""Lines shown around the most suspicious place."""


@dataclass(frozen=True)
class Call:
    """Say ``remark``, then call the tool ``name``."""

    name: str
    arguments: str
    remark: str


@dataclass(frozen=True)
class Answer:
    """The final text of the run."""

    text: str


class Policy:
    """Decides one step; holds no state between steps."""

    def decide(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Call | Answer:
        seen = Observed.of(history)
        specs = {tool.name: tool for tool in tools}
        baseline = seen.first("run_tests")
        if baseline is None and "run_tests" in specs:
            return self._call(seen, specs, "run_tests", {}, "Running the tests to see what fails.")
        if baseline is not None:
            ended = self._baseline_ends(seen, baseline)
            if ended is not None:
                return ended
        if "repair" not in specs:
            return Answer(answers.missing_tool("repair"))
        failing = TestsSeen.of(baseline).bad if baseline is not None else ()
        return self._look(seen, specs, failing) or self._repair(seen, specs, failing)

    def _baseline_ends(self, seen: Observed, baseline: ToolResultPart) -> Answer | None:
        """The answer when the first test run leaves nothing to repair."""
        if baseline.is_error:
            return Answer(answers.tests_did_not_run(baseline.text))
        tests = TestsSeen.of(baseline)
        if tests.bad:
            return None
        if tests.flaky:
            return Answer(answers.only_flaky(tests))
        if not tests.total:
            return Answer(answers.no_tests(bool(seen.issue)))
        if not tests.complete:
            return Answer(answers.incomplete(tests))
        return Answer(answers.all_pass(tests, bool(seen.issue)))

    def _look(
        self, seen: Observed, specs: Mapping[str, ToolSpec], failing: Sequence[str]
    ) -> Call | Answer | None:
        """The next reading step, or None when there is nothing more to read."""
        if seen.first("repair") is not None:
            return None
        located = seen.first("locate")
        if located is None:
            if "locate" not in specs:
                return None
            return self._call(
                seen, specs, "locate", {"tests": list(failing)}, _count(len(failing), "test") + " to explain."
            )
        places = [] if located.is_error else listed(fields(located), "locations")
        if places and "read" in specs and seen.first("read") is None:
            place = cast("dict[str, Any]", places[0])
            line = int(place["line"])
            wanted = {
                "path": place["path"],
                "start": max(1, line - _CONTEXT_LINES),
                "end": int(place.get("end_line") or line) + _CONTEXT_LINES,
            }
            where = f"{place['path']}:{line}"
            return self._call(seen, specs, "read", wanted, f"Most suspicious: {where}.")
        return None

    def _repair(self, seen: Observed, specs: Mapping[str, ToolSpec], failing: Sequence[str]) -> Call | Answer:
        repaired = seen.first("repair")
        if repaired is None:
            return self._call(
                seen, specs, "repair", {"tests": list(failing)}, "Searching for an edit that makes them pass."
            )
        if repaired.is_error:
            return Answer(answers.repair_failed(repaired.text))
        data = fields(repaired)
        if data.get("status") != "fixed":
            return Answer(answers.unrepaired(data))
        final = seen.after(repaired, "run_tests")
        if final is None:
            if "run_tests" not in specs:
                return Answer(answers.fixed(data, None))
            return self._call(seen, specs, "run_tests", {}, "Checking the patch with the whole suite.")
        if final.is_error:
            return Answer(answers.fixed_unconfirmed(data, final.text))
        return Answer(answers.fixed(data, TestsSeen.of(final)))

    @staticmethod
    def _call(
        seen: Observed, specs: Mapping[str, ToolSpec], name: str, wanted: Mapping[str, Any], remark: str
    ) -> Call | Answer:
        """A call with those of the wanted arguments that the tool's schema knows."""
        if seen.unanswered(name) >= _PATIENCE:
            return Answer(answers.no_result(name))
        known = cast("Mapping[str, Any]", specs[name].parameters.get("properties") or {})
        arguments = {key: value for key, value in wanted.items() if key in known}
        return Call(name, json.dumps(arguments, ensure_ascii=False), remark)


def _count(number: int, noun: str) -> str:
    return f"{number} failing {noun}{'' if number == 1 else 's'}"
