"""Chooses what of a view stays: which rounds go, and which results are cut so that the rest fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...engine.chat import Message, TextPart, ToolResultPart, user
from .view import ViewPlan, cut

Count = Callable[[Sequence[Message]], int]
"""Tokens of messages."""

_STEPS = (16_000, 6_000, 2_000, 800, 0)
"""Characters left of each result of the open round, tried in turn."""


class Shown:
    """The messages of the present view by their index in the log, and what they cost in other views."""

    def __init__(
        self, view: Sequence[Message], plan: ViewPlan, log: Sequence[Message], count: Count, fixed: int
    ) -> None:
        """``fixed``: tokens of every prompt besides its messages."""
        self._log = log
        self._count = count
        self._fixed = fixed
        self._sizes: dict[tuple[int, int | None], int] = {}
        behind = len(log) - plan.tail
        first = len(view) - behind
        self._view = {plan.tail + offset: view[first + offset] for offset in range(behind)}
        # The summary stands in the last message of the head: the log has it without.
        self._view.update({index: log[index] for index in range(plan.head)})

    def __getitem__(self, index: int) -> Message:
        return self._view[index]

    def indexes(self, plan: ViewPlan) -> list[int]:
        return [*range(plan.head), *range(max(plan.tail, plan.head), len(self._log))]

    def tokens(self, plan: ViewPlan) -> int:
        """Of the prompt with this view."""
        cuts = plan.cut_at()
        total = self._fixed + (self._count([user(plan.summary)]) if plan.summary else 0)
        return total + sum(self._size(index, cuts.get(index)) for index in self.indexes(plan))

    def between(self, start: int, end: int) -> int:
        """Tokens of messages as they are shown now."""
        return sum(self._count([self._view[index]]) for index in range(start, end))

    def has_results(self, index: int) -> bool:
        return any(isinstance(part, ToolResultPart) for part in self._view[index].parts)

    def has_loaded(self, index: int) -> bool:
        """Whether files were pre-loaded before the person's words."""
        message = self._view[index]
        texts = [part for part in message.parts if isinstance(part, TextPart)]
        return message.role == "user" and len(texts) > 1

    def _size(self, index: int, characters: int | None) -> int:
        key = index, characters
        if key not in self._sizes:
            message = self._view[index] if characters is None else self._log[index]
            if characters is not None:
                message = cut(message, characters, _no_handle)
            self._sizes[key] = self._count([message])
        return self._sizes[key]


def head_length(messages: Sequence[Message]) -> int:
    """Messages up to the person's first one, included: they always stay."""
    for index, message in enumerate(messages):
        if message.role == "user":
            return index + 1
        if message.role != "system":
            return index
    return len(messages)


def open_round(shown: Shown, start: int, end: int) -> int:
    """Where the round begins that the next answer goes on with: its calls, reasoning and results stay.

    That is the last message of the model if it has calls; after a final answer, what the
    person said since.
    """
    for index in range(end - 1, start - 1, -1):
        if shown[index].role == "assistant":
            return index if shown[index].tool_calls() else index + 1
    return start


def recent_rounds(shown: Shown, opened: int, start: int, end: int, budget: int) -> int:
    """The earliest round boundary at or before ``opened`` from which everything fits ``budget`` tokens."""
    chosen, size = opened, shown.between(opened, end)
    last = opened
    for index in range(opened - 1, start - 1, -1):
        if shown[index].role != "assistant":
            continue
        size += shown.between(index, last)
        last = index
        if size > budget:
            break
        chosen = index
    return chosen


def squeeze(plan: ViewPlan, shown: Shown, target: int, opened: int) -> ViewPlan:
    """Cuts results until the view fits: old rounds first, then what was pre-loaded, the open round last."""
    if shown.tokens(plan) <= target:
        return plan
    behind = [index for index in shown.indexes(plan) if index >= plan.tail and shown.has_results(index)]
    plan = plan.with_cuts((index, 0) for index in behind if index < opened)
    if shown.tokens(plan) > target:
        plan = plan.with_cuts((index, 0) for index in range(plan.head) if shown.has_loaded(index))
    for characters in _STEPS:
        if shown.tokens(plan) <= target:
            break
        plan = plan.with_cuts((index, characters) for index in behind if index >= opened)
    return plan


def _no_handle(data: bytes, media: str) -> str:
    """Only measured: nothing is kept, the text is as long as with a handle."""
    return "0" * 16
