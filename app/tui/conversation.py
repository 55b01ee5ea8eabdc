"""The conversation as it is seen: one widget for each thing said, done or found, newest last.

It holds widgets, not the story: the story is in the session. Which of them are mounted is the
business of ``ConversationView``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.widget import Widget
from textual.widgets import Static

from .widgets.conversation_view import ConversationView, Shelved

if TYPE_CHECKING:
    # The first paint needs none of them, and they cost more than it.
    from ...engine.chat import ImagePart
    from ..agent.events import ToolFinished, ToolProgress, ToolStarted
    from .widgets.reasoning import Reasoning
    from .widgets.streaming_markdown import StreamingMarkdown
    from .widgets.tool_card import ToolCard


_OUTPUTS = 20
"""Results of commands that are kept for the sandbox's page."""


class Line(Static):
    """Text as it is, with a class for its looks; it can leave the screen and be made again."""

    def __init__(self, text: str, looks: str) -> None:
        super().__init__(text, markup=False, classes=looks)
        self.text = text
        self._looks = looks

    def renew(self) -> Callable[[], Widget]:
        text, looks = self.text, self._looks
        return lambda: Line(text, looks)


class UserMessage(Static):
    """What the person said."""

    def __init__(self, text: str) -> None:
        super().__init__(text, markup=False, classes="said")
        self.said = text

    def renew(self) -> Callable[[], Widget]:
        text = self.said
        return lambda: UserMessage(text)


class Conversation(ConversationView):
    """What runs and sessions show themselves in; see ``feed.Shows``."""

    can_focus = True

    def __init__(self) -> None:
        super().__init__(id="conversation")
        self._text: StreamingMarkdown | None = None
        self._reasoning: Reasoning | None = None
        self._cards: dict[str, ToolCard] = {}
        self._step: list[Widget] = []
        """What the step now streaming has put up: a discarded step takes it away."""
        self._pieces: list[str] = []
        self._void: tuple[str, Widget] | None = None
        """Why a step was discarded just now, and the line that says so."""
        self.last_answer = ""
        self._outputs: deque[str] = deque(maxlen=_OUTPUTS)
        self._outputs_ended = 0

    # ------------------------------------------------------------------ what happens

    def say(self, text: str) -> None:
        """The person's words."""
        self.end_step()
        for greeting in self.query_children(".greeting"):
            greeting.remove()
        self._put(UserMessage(text))
        self.anchor()

    def image(self, part: ImagePart, caption: str = "") -> None:
        """A picture that goes with what was just said."""
        self._put(_image(part, caption))

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
        line = Line(f"asking again: {reason}", "note info")
        self._put(line)
        self._void = (reason, line)

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
            card = card_of(event)
            self._put(card)
        card.finish(event)
        if card.started.permission == "execute":
            self._outputs.append(f"$ {_call_words(card.started)}\n{event.text.rstrip()}\n")
            self._outputs_ended += 1

    def picture(self, path: Path) -> None:
        """An image of the repository."""
        from .widgets.image_view import ImageView

        self._put(ImageView(path))

    def note(self, text: str, kind: str = "info") -> None:
        """One line about what goes on; one that says more about a discarded step stands for both."""
        if self._void is not None and self._void[0] and text.startswith(self._void[0]):
            self._void[1].remove()
        self._void = None
        self._put(Line(text, f"note {kind}"))

    def error(self, text: str, hint: str = "") -> None:
        """Something failed: what happened and what to do next."""
        self._put(Line(f"{text}\n{hint}" if hint else text, "error-card"))

    def outcome(self, text: str, *, good: bool) -> None:
        """How the run ended."""
        self.end_step()
        self._put(Line(text, "outcome good" if good else "outcome bad"))

    # ------------------------------------------------------------------ all of it

    def executing(self) -> list[tuple[str, float]]:
        """What runs in the sandbox: a line about each, and for how many seconds."""
        cards = [card for card in self._cards.values() if card.started.permission == "execute"]
        return [(_call_words(card.started), card.running_s) for card in cards]

    def outputs_since(self, number: int) -> tuple[list[str], int]:
        """What ended in the sandbox after the first ``number``, as far as it is kept; and how many by now."""
        new = min(self._outputs_ended - number, len(self._outputs))
        return list(self._outputs)[len(self._outputs) - new :], self._outputs_ended

    def texts(self) -> Iterator[tuple[int, str]]:
        """(number, words) of everything that holds words, newest first."""
        entries = self.entries()
        for index in range(len(entries) - 1, -1, -1):
            if entries[index].text:
                yield index, entries[index].text

    async def show_place(self, index: int) -> None:
        """Scrolls to the entry of that number and marks it for a moment."""
        entries = self.entries()
        if index < len(entries):
            widget = await self.reveal(entries[index])
            if widget is not None:
                widget.add_class("found")
                # A screen that was covered lays out what is new only with its next refresh.
                self.set_timer(0.1, lambda: self.scroll_to_widget(widget, top=True, animate=False))
                self.set_timer(2.0, lambda: widget.remove_class("found"))

    def clear(self) -> None:
        """Nothing is shown; the session is as it was."""
        self._text = self._reasoning = None
        self._cards.clear()
        self._step.clear()
        self.last_answer = ""
        self.remove_children()

    def show_past(self, past: Past) -> None:
        """A recorded conversation in place of what is shown."""
        self.clear()
        self.last_answer = past.last_answer
        self.call_next(self._put_past, past.items)

    def _put_past(self, items: Sequence[Shelved]) -> None:
        self.put_shelved(items)
        self.anchor()

    # ------------------------------------------------------------------ inside

    def _end_reasoning(self) -> None:
        if self._reasoning is not None:
            self._reasoning.finish()
            self._reasoning = None

    def _put(self, widget: Widget, *, step: bool = False) -> None:
        if step:
            self._step.append(widget)
        self.mount(widget)
        self.settle_soon()


class Past:
    """Takes a recorded session as a conversation takes a live run, and makes no widget before it is seen."""

    def __init__(self) -> None:
        self.items: list[Shelved] = []
        self.last_answer = ""
        self._pieces: list[str] = []
        self._thoughts: list[str] = []
        self._open: dict[str, list[ToolFinished]] = {}

    def say(self, text: str) -> None:
        self.end_step()
        self.items.append(Shelved(lambda: UserMessage(text), text, turn=True, height=3 + text.count("\n")))

    def image(self, part: ImagePart, caption: str = "") -> None:
        self.items.append(Shelved(lambda: _image(part, caption), caption, height=14))

    def text(self, piece: str) -> None:
        self._pieces.append(piece)

    def reasoning(self, piece: str) -> None:
        self._thoughts.append(piece)

    def end_step(self) -> None:
        if self._thoughts:
            thought = "".join(self._thoughts)
            self.items.append(Shelved(lambda: _reasoning(thought), thought, height=2))
            self._thoughts.clear()
        if self._pieces:
            answer = self.last_answer = "".join(self._pieces)
            self.items.append(Shelved(lambda: _answer(answer), answer, height=2 + len(answer) // 70))
            self._pieces.clear()

    def discard_step(self, reason: str) -> None:
        self._pieces.clear()
        self._thoughts.clear()

    def tool_started(self, event: ToolStarted) -> None:
        self.end_step()
        results: list[ToolFinished] = []
        self._open[event.call_id] = results
        self.items.append(Shelved(lambda: _card(event, results), _call_words(event), height=1))

    def tool_progress(self, event: ToolProgress) -> None:
        return

    def tool_finished(self, event: ToolFinished) -> None:
        self.end_step()
        results = self._open.pop(event.call_id, None)
        if results is not None:
            results.append(event)
        else:
            self.items.append(Shelved(lambda: _finished(event), event.text, height=1))

    def note(self, text: str, kind: str = "info") -> None:
        self.items.append(Shelved(lambda: Line(text, f"note {kind}"), text, height=1))


def card_of(event: ToolFinished) -> ToolCard:
    """The card of a call whose start was not seen."""
    from ..agent.events import ToolStarted
    from .widgets.tool_card import ToolCard

    return ToolCard(ToolStarted(call_id=event.call_id, name=event.name, permission="", arguments={}))


def _finished(event: ToolFinished) -> Widget:
    card = card_of(event)
    card.finish(event)
    return card


def _card(started: ToolStarted, results: Sequence[ToolFinished]) -> Widget:
    from .widgets.tool_card import ToolCard

    card = ToolCard(started)
    for event in results:
        card.finish(event)
    return card


def _image(part: ImagePart, caption: str) -> Widget:
    import base64

    from .widgets.image_view import ImageView

    return ImageView(base64.b64decode(part.data_base64), caption)


def _answer(text: str) -> Widget:
    from .widgets.streaming_markdown import StreamingMarkdown

    return StreamingMarkdown(text)


def _reasoning(text: str) -> Widget:
    from .widgets.reasoning import Reasoning

    return Reasoning(text)


def _call_words(event: ToolStarted) -> str:
    from ..agent.permissions import subject_of

    return f"{event.name} {' '.join(subject_of(event.arguments).split())}"[:200]
