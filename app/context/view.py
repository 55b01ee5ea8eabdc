"""The view: which part of the complete log a model is shown, as small plain data that can be stored.

The log never changes. A view is its first messages (system and the person's goal), a
summary of what is left out, and the messages from some point on, some of them with their
long results cut to a line that names the handle of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...engine.chat import Frozen, ImagePart, Message, Part, TextPart, ToolResultPart

Keep = Callable[[bytes, str], str]

SHORT = 300
"""Characters: a result up to this length is never cut."""


class Cut(Frozen):
    """One message of the log that is shown with less than its whole text."""

    index: int
    characters: int
    """Of each result, half from its start and half from its end; 0: the handle line only."""


class ViewPlan(Frozen):
    """What of the log is shown. The default shows everything."""

    head: int = 0
    """Messages from the start that are shown."""
    tail: int = 0
    """Index of the first message shown after them."""
    summary: str = ""
    """Stands between the two, at the end of the person's first message."""
    cuts: tuple[Cut, ...] = ()

    def cut_at(self) -> dict[int, int]:
        return {cut.index: cut.characters for cut in self.cuts}

    def with_cuts(self, cuts: Iterable[tuple[int, int]]) -> ViewPlan:
        """These cuts as well; a message that has one already keeps the shorter."""
        joined = self.cut_at()
        for index, characters in cuts:
            joined[index] = min(characters, joined.get(index, characters))
        kept = tuple(
            Cut(index=index, characters=joined[index])
            for index in sorted(joined)
            if index < self.head or index >= self.tail
        )
        return self.model_copy(update={"cuts": kept})


def render(log: Sequence[Message], plan: ViewPlan, keep: Keep) -> list[Message]:
    """The messages of a view. What is cut is kept first, so that its handle is good."""
    cuts = plan.cut_at()

    def shown(index: int) -> Message:
        message = log[index]
        return message if index not in cuts else cut(message, cuts[index], keep)

    view = [shown(index) for index in range(plan.head)]
    if plan.summary:
        # In the same message: chat templates of some models refuse two user messages in a row.
        text = TextPart(text=f"\n\n{plan.summary}")
        if view and view[-1].role == "user":
            view[-1] = view[-1].model_copy(update={"parts": (*view[-1].parts, text)})
        else:
            view.append(Message(role="user", parts=(TextPart(text=plan.summary),)))
    view.extend(shown(index) for index in range(plan.tail, len(log)))
    return view


def cut(message: Message, characters: int, keep: Keep) -> Message:
    """The message with long results shortened; of a person's first message the pre-loaded files go.

    Calls, reasoning and what the model or the person wrote stay as they are.
    """
    if message.role in ("assistant", "system"):
        return message
    parts: list[Part] = []
    for position, part in enumerate(message.parts):
        if isinstance(part, ToolResultPart):
            text = _shortened(part.text, characters, keep)
            parts.append(part if text == part.text else part.model_copy(update={"text": text, "data": None}))
        elif isinstance(part, ImagePart):
            parts.append(TextPart(text="[an image that was here is left out]"))
        elif isinstance(part, TextPart) and position < len(message.parts) - 1:
            # By convention what was pre-loaded stands before the person's own words.
            parts.append(TextPart(text=_shortened(part.text, 0, keep) + "\n\n"))
        else:
            parts.append(part)
    return message.model_copy(update={"parts": tuple(parts)})


def last_plan(events: Iterable[tuple[str, Any]]) -> ViewPlan:
    """The view that a stored session ended with, from the kinds and payloads of its events.

    Restorations undo the latest compaction that still stands.
    """
    standing = [ViewPlan()]
    for kind, payload in events:
        if kind == "context_compacted":
            standing.append(ViewPlan.model_validate(payload["view"]))
        elif kind == "context_restored" and len(standing) > 1:
            standing.pop()
    return standing[-1]


def _shortened(text: str, characters: int, keep: Keep) -> str:
    if len(text) <= max(characters + 100, SHORT):
        return text
    handle = keep(text.encode("utf-8", "replace"), "text/plain")
    where = f"read artifact:{handle} shows all of it"
    if not characters:
        return f"[{len(text)} characters left out to save context; {where}]"
    half = characters // 2
    gap = f"[... {len(text) - 2 * half} of {len(text)} characters left out to save context; {where} ...]"
    return f"{text[:half]}\n{gap}\n{text[-half:]}"
