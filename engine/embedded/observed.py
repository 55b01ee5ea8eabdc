"""What a history says happened since the person last spoke, as plain values.

Only the typed ``data`` of tool results is read; text is for large models and for people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..chat import Message, ToolCallPart, ToolResultPart


@dataclass(frozen=True)
class Observed:
    """The last turn of a history.

    ``calls`` and ``results`` are in order; ``issue`` is the person's last text.
    """

    issue: str
    calls: tuple[ToolCallPart, ...]
    results: tuple[ToolResultPart, ...]

    @classmethod
    def of(cls, history: Sequence[Message]) -> Observed:
        start = 0
        for position, message in enumerate(history):
            if message.role == "user":
                start = position
        issue = history[start].text() if history and history[start].role == "user" else ""
        calls: list[ToolCallPart] = []
        results: list[ToolResultPart] = []
        for message in history[start:]:
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    calls.append(part)
                elif isinstance(part, ToolResultPart):
                    results.append(part)
        return cls(issue.strip(), tuple(calls), tuple(results))

    def first(self, name: str) -> ToolResultPart | None:
        """The first result of a tool, or None."""
        return next((part for part in self.results if part.name == name), None)

    def after(self, earlier: ToolResultPart, name: str) -> ToolResultPart | None:
        """The first result of ``name`` that came after ``earlier``, or None."""
        position = self.results.index(earlier)
        return next((part for part in self.results[position + 1 :] if part.name == name), None)

    def unanswered(self, name: str) -> int:
        """How many calls of a tool never got a result."""
        answered = {part.call_id for part in self.results}
        return sum(1 for call in self.calls if call.name == name and call.id not in answered)


def fields(part: ToolResultPart | None) -> Mapping[str, Any]:
    """A result's data as a mapping; empty when there is none."""
    if part is None or not isinstance(part.data, dict):
        return {}
    return cast("Mapping[str, Any]", part.data)


def listed(data: Mapping[str, Any], key: str) -> list[Any]:
    """A list field of a result's data; empty when absent or of another type."""
    value = data.get(key)
    return cast("list[Any]", value) if isinstance(value, list) else []


@dataclass(frozen=True)
class TestsSeen:
    """The figures of one ``run_tests`` result."""

    total: int
    bad: tuple[str, ...]
    """Ids of failing tests that are not flaky, then paths that could not be collected."""
    flaky: tuple[str, ...]
    complete: bool

    @classmethod
    def of(cls, part: ToolResultPart) -> TestsSeen:
        data = fields(part)
        counts = data.get("counts")
        total = sum(cast("dict[str, int]", counts).values()) if isinstance(counts, dict) else 0
        flaky = tuple(str(each) for each in listed(data, "flaky"))
        bad = [str(each["id"]) for each in listed(data, "tests")]
        bad += [str(each["path"]) for each in listed(data, "collection_errors")]
        steady = tuple(each for each in bad if each not in flaky)
        return cls(total, steady, flaky, bool(data.get("complete", True)))
