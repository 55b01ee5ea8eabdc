"""Permission requests and questions of the model: answered on purpose or not at all.

Keys that were typed ahead and the click that only brings the window to the front go nowhere:
a dialog listens after half a second in which nothing was pressed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from ...agent.events import PermissionAnswer, PermissionRequest
from ...tools.base import Question
from ..asking_answers import answers_for
from .dialog import Dialog, T, plain

QUIET_S = 0.5
_MARK = {"allow": "✓", "ask": "?", "deny": "✗"}


class Quiet(Dialog[T]):
    """A dialog that comes by itself, and is deaf until its quiet period is over."""

    deaf_hint: ClassVar[str] = "waiting until nothing is typed ..."

    _deaf = True
    _until = 0.0

    def on_mount(self) -> None:
        self.be_quiet()
        self.set_interval(0.1, self._listen_when_quiet)

    @property
    def deaf(self) -> bool:
        """Whether keys and clicks go nowhere."""
        return self._deaf

    def be_quiet(self) -> None:
        """Begins the quiet period (again)."""
        self._deaf, self._until = True, time.monotonic() + QUIET_S
        self.set_focus(None)
        self.hint(self.deaf_hint)

    def _listen_when_quiet(self) -> None:
        if self._deaf and time.monotonic() >= self._until:
            self._deaf = False
            self.hint(self.hint_text)
            self.call_after_refresh(self._fit)
            self.listen()

    def listen(self) -> None:
        """The quiet period is over."""

    def typed_ahead(self) -> None:
        """Something was pressed while deaf: it went nowhere, and the quiet period begins again."""
        self._until = time.monotonic() + QUIET_S


class Asking(Quiet[PermissionAnswer | str]):
    """A request or question of a run; it goes when the run does."""


def choices(texts: Iterable[str]) -> OptionList:
    """A list of answers; nothing in them is markup."""
    return OptionList(*(Option(Content(text)) for text in texts), markup=False)


class PermissionDialog(Asking):
    """What would run, why it is asked, and how far a yes reaches."""

    title_text = "May this run?"
    hint_text = "↑ ↓ Enter, or the number · Esc denies · PgUp PgDn scroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"choose({number})", show=False) for number in range(1, 8)),
        Binding("escape", "deny", "Deny"),
        Binding("pageup", "scroll(-1)", show=False, priority=True),
        Binding("pagedown", "scroll(1)", show=False, priority=True),
    ]

    def __init__(self, request: PermissionRequest) -> None:
        super().__init__()
        self.request = request
        self._answers = answers_for(request)
        self._note = Input(placeholder="why not, or what to do instead (for the model)", id="deny-note")

    def body(self) -> Iterable[Widget]:
        request = self.request
        yield plain(f"{request.tool} ({request.permission})", "asked-tool")
        yield plain(request.subject or str(request.arguments), "asked-subject")
        yield plain(f"asked because {request.reason}", "asked-why")
        if len(request.parts) > 1 or any(part.decision != "ask" for part in request.parts):
            yield plain("understood as", "asked-head")
        for part in request.parts:
            yield plain(f"{_MARK[part.decision]} {part.shown}\n    {part.reason}", f"part {part.decision}")

    def foot(self) -> Iterable[Widget]:
        yield choices(f"{number} {text}" for number, (text, _) in enumerate(self._answers, 1))
        self._note.display = False
        yield self._note

    def listen(self) -> None:
        answers = self.query_one(OptionList)
        answers.focus()
        answers.highlighted = None  # Enter alone is no answer: one is chosen first

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_choose(event.option_index + 1)

    def action_choose(self, number: int) -> None:
        if self._note.has_focus or not 1 <= number <= len(self._answers):
            return
        answer = self._answers[number - 1][1]
        if answer is None:
            self._note.display = True
            self._note.focus()
            self.hint("Enter denies with this note · Esc denies without")
        else:
            self.dismiss(answer)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(PermissionAnswer(allowed=False, note=event.value.strip()))

    def action_deny(self) -> None:
        self.dismiss(PermissionAnswer(allowed=False))

    def action_scroll(self, by: int) -> None:
        self.query_one(".dialog-body").scroll_relative(y=by * 5, animate=False)


class QuestionDialog(Asking):
    """A question of the model: one of its answers, or the person's own words."""

    title_text = "The model asks"
    hint_text = "Enter answers · Esc gives no answer"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "none", "No answer")]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question
        self._input = Input(placeholder="an answer in your own words", id="own-answer", select_on_focus=False)

    def body(self) -> Iterable[Widget]:
        yield plain(self.question.text)

    def foot(self) -> ComposeResult:
        if self.question.options:
            yield choices(self.question.options)
        yield self._input

    def listen(self) -> None:
        if self.question.options:
            self.query_one(OptionList).focus()
        else:
            self._input.focus()

    def on_key(self, event: events.Key) -> None:
        """Letters begin an answer in the person's own words, wherever the mark is."""
        if not self.deaf and event.is_printable and event.character and not self._input.has_focus:
            event.stop()
            self._input.focus()
            self._input.insert_text_at_cursor(event.character)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self.question.options[event.option_index])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)

    def action_none(self) -> None:
        self.dismiss("")
