"""The conversation as it is seen: one widget for each thing said, done or found, newest last.

It holds widgets, not the story: the story is in the session. So the oldest widgets may leave
when there are many, and come back from the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

if TYPE_CHECKING:
    # The first paint needs none of them, and they cost more than it.
    from ..agent.events import ToolFinished, ToolProgress, ToolStarted
    from .widgets.reasoning import Reasoning
    from .widgets.streaming_markdown import StreamingMarkdown
    from .widgets.tool_card import ToolCard

MAX_WIDGETS = 400
"""More than this, and the oldest quarter leaves."""


class UserMessage(Static):
    """What the person said; ``place`` is its number in the session, where it has one."""

    def __init__(self, text: str, place: int = 0) -> None:
        super().__init__(text, markup=False, classes="said")
        self.said = text
        self.place = place


class Note(Static):
    """One line about what goes on."""

    def __init__(self, text: str, kind: str = "info") -> None:
        super().__init__(text, markup=False, classes=f"note {kind}")


class ErrorCard(Static):
    """Something that failed: what happened and what to do next."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(f"{text}\n{hint}" if hint else text, markup=False, classes="error-card")


class Outcome(Static):
    """How a run ended."""

    def __init__(self, text: str, good: bool) -> None:
        super().__init__(text, markup=False, classes=f"outcome {'good' if good else 'bad'}")


class Earlier(Static):
    """Stands for what is not shown; a click or Enter brings some of it back."""

    can_focus = True
    BINDINGS: ClassVar[list[BindingType]] = [("enter", "more", "Show earlier")]

    class More(Message):
        """Earlier messages are wanted."""

    def __init__(self) -> None:
        super().__init__("earlier messages are in the session · click or press Enter to show some",
                         markup=False, classes="earlier")  # fmt: skip

    def action_more(self) -> None:
        self.post_message(self.More())

    def on_click(self) -> None:
        self.action_more()


class Conversation(VerticalScroll):
    """Widgets in order; follows the end as long as the person has not scrolled away from it."""

    can_focus = True

    def __init__(self) -> None:
        super().__init__(id="conversation")
        self._text: StreamingMarkdown | None = None
        self._reasoning: Reasoning | None = None
        self._cards: dict[str, ToolCard] = {}
        self._step: list[Widget] = []
        """What the step now streaming has put up: a discarded step takes it away."""
        self.last_answer = ""
        self._pieces: list[str] = []

    def compose(self) -> ComposeResult:
        return []

    def on_mount(self) -> None:
        self.anchor()

    # ------------------------------------------------------------------ what happens

    def say(self, text: str, place: int = 0) -> None:
        """The person's words."""
        self.end_step()
        self._put(UserMessage(text, place))
        self.anchor()

    def text(self, piece: str) -> None:
        """More of the answer that is being written."""
        self._end_reasoning()
        if self._text is None:
            from .widgets.streaming_markdown import StreamingMarkdown

            self._text = StreamingMarkdown()
            self._pieces = []
            self._put(self._text, step=True)
        self._pieces.append(piece)
        self._text.append(piece)

    def reasoning(self, piece: str) -> None:
        """More thinking."""
        if self._reasoning is None:
            from .widgets.reasoning import Reasoning

            self._reasoning = Reasoning()
            self._put(self._reasoning, step=True)
        self._reasoning.append(piece)

    def end_step(self) -> None:
        """What was streaming is complete."""
        self._end_reasoning()
        if self._text is not None:
            self._text.finish()
            self.last_answer = "".join(self._pieces)
            self._text = None
        self._step.clear()

    def discard_step(self, reason: str) -> None:
        """What this step streamed is void; nothing of it stays."""
        for widget in (self._text, self._reasoning):
            if widget is not None:
                widget.discard()
        for widget in self._step:
            widget.remove()
        self._text = self._reasoning = None
        self._step.clear()
        self.note(f"asking again: {reason}")

    def tool_started(self, event: ToolStarted) -> None:
        """A call runs."""
        from .widgets.tool_card import ToolCard

        self.end_step()
        card = ToolCard(event)
        self._cards[event.call_id] = card
        self._put(card)

    def tool_progress(self, event: ToolProgress) -> None:
        """A step inside a running call."""
        card = self._cards.get(event.call_id)
        if card is not None:
            card.progress(event)

    def tool_finished(self, event: ToolFinished) -> None:
        """A call ended, also one that never ran."""
        self.end_step()
        card = self._cards.pop(event.call_id, None)
        if card is None:
            from ..agent.events import ToolStarted
            from .widgets.tool_card import ToolCard

            started = ToolStarted(call_id=event.call_id, name=event.name, permission="", arguments={})
            card = ToolCard(started)
            self._put(card)
        card.finish(event)

    def note(self, text: str, kind: str = "info") -> None:
        """One line about what goes on."""
        self._put(Note(text, kind))

    def error(self, text: str, hint: str = "") -> None:
        """Something failed."""
        self._put(ErrorCard(text, hint))

    def outcome(self, widget: Widget) -> None:
        """How the run ended."""
        self.end_step()
        self._put(widget)

    @property
    def running(self) -> Mapping[str, str]:
        """Calls that run now: their ids and one line about each."""
        return _Running(self._cards)

    # ------------------------------------------------------------------ looking around

    def turns(self) -> list[UserMessage]:
        """The person's messages that are shown."""
        return list(self.query(UserMessage))

    def jump(self, by: int) -> None:
        """To the turn before or after the one at the top."""
        self._go(self.turns(), by)

    def _go(self, places: list[Any], by: int) -> None:
        tops = [(place.virtual_region.y, place) for place in places]
        now = round(self.scroll_y)
        if by < 0:
            before = [place for top, place in tops if top < now]
            target = before[-1] if before else None
        else:
            after = [place for top, place in tops if top > now]
            target = after[0] if after else None
        if target is not None:
            self.release_anchor()
            self.scroll_to_widget(target, top=True, animate=False)
        elif by > 0:
            self.scroll_end(animate=False)
            self.anchor()

    def texts(self) -> Iterator[tuple[Widget, str]]:
        """Every widget that holds words, with them; newest first."""
        for child in reversed(self.children):
            text = text_of(child)
            if text:
                yield child, text

    def show_place(self, widget: Widget) -> None:
        """Scrolls to a widget and marks it for a moment."""
        self.release_anchor()
        self.scroll_to_widget(widget, top=True, animate=False)
        widget.add_class("found")
        self.set_timer(2.0, lambda: widget.remove_class("found"))

    def clear(self) -> None:
        """Nothing is shown; the session is as it was."""
        self._text = self._reasoning = None
        self._cards.clear()
        self._step.clear()
        self.last_answer = ""
        self.remove_children()

    def put_first(self, widgets: list[Widget]) -> None:
        """Earlier things, above what is shown."""
        self.mount_all(widgets, before=0) if self.children else self.mount_all(widgets)

    # ------------------------------------------------------------------ inside

    def _end_reasoning(self) -> None:
        if self._reasoning is not None:
            self._reasoning.finish()
            self._reasoning = None

    def _put(self, widget: Widget, *, step: bool = False) -> None:
        if step:
            self._step.append(widget)
        self.mount(widget)
        if len(self.children) > MAX_WIDGETS:
            self._shed()

    def _shed(self) -> None:
        busy: set[Widget] = {*self._step, *self._cards.values()}
        old = [child for child in self.children[: MAX_WIDGETS // 4] if child not in busy]
        self.remove_children([child for child in old if not isinstance(child, Earlier)])
        if not self.query(Earlier):
            self.mount(Earlier(), before=0)


class _Running(Mapping[str, str]):
    """A live view: what it holds changes while it is looked at."""

    def __init__(self, cards: Mapping[str, ToolCard]) -> None:
        self._cards = cards

    def __getitem__(self, call_id: str) -> str:
        from ..agent.permissions import subject_of

        started = self._cards[call_id].started
        return f"{started.name} {' '.join(subject_of(started.arguments).split())}"[:200]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._cards))

    def __len__(self) -> int:
        return len(self._cards)


def text_of(widget: Widget) -> str:
    """The words a widget of the conversation shows."""
    if isinstance(widget, UserMessage):
        return widget.said
    if isinstance(widget, Note | ErrorCard | Outcome):
        return str(widget.content)
    return str(getattr(widget, "source", "") or getattr(widget, "text", ""))
