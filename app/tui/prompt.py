"""The prompt: several lines, history, completion, large pastes as chips, an external editor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option
from textual.widgets.text_area import Edit, EditResult

from ..talk.images import is_image_name
from .completion import Completer, Completion
from .prompt_chips import Pastes, images_in_paste
from .prompt_history import PromptHistory


class PromptArea(TextArea):
    """The text itself. Enter sends; the rest is said upwards in messages."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", id="prompt.send", priority=False),
        Binding("shift+enter,alt+enter,ctrl+j", "newline", "New line", show=False, id="prompt.newline"),
        Binding("tab", "take", "Complete", show=False),
        Binding("ctrl+w,ctrl+backspace,alt+backspace", "delete_word_left", "Delete word", show=False),
        Binding("ctrl+underscore,ctrl+shift+z", "undo", "Undo", show=False, id="prompt.undo"),
    ]

    class Submitted(Message):
        """The person sends this; chips are expanded, in ``mentions`` only those of images."""

        def __init__(self, text: str, mentions: str) -> None:
            super().__init__()
            self.text = text
            self.mentions = mentions

    class Complete(Message):
        """The completions at the cursor; empty closes the list."""

        def __init__(self, found: Sequence[Completion]) -> None:
            super().__init__()
            self.found = found

    class Step(Message):
        """The completion list is open, and an arrow was pressed in the text."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    class FilesWanted(Message):
        """An ``@`` is being written: the list of files is needed."""

    def __init__(self, completer: Completer, history: PromptHistory, folder: Path, placeholder: str) -> None:
        super().__init__(
            compact=True, tab_behavior="focus", highlight_cursor_line=False, placeholder=placeholder,
            id="prompt",
        )  # fmt: skip
        # A cursor that blinks repaints twice a second for as long as nobody does anything.
        self.cursor_blink = False
        self.pastes = Pastes()
        self._folder = folder
        self.history_of_prompts = history
        self._completer = completer
        self.completing = False
        self.exact = False
        """Whether what is written is one of the completions already."""
        self._from_history = False

    # ------------------------------------------------------------------ what is shown and edited

    def get_line(self, line_index: int) -> Text:
        line = super().get_line(line_index)
        for start, end in self.pastes.spans(line.plain):
            line.stylize("reverse", start, end)
        return line

    def edit(self, edit: Edit) -> EditResult:
        """Widens what touches a part of a chip to the whole chip."""
        (top, bottom) = sorted((edit.from_location, edit.to_location))
        if top == bottom and edit.text:
            at = self.pastes.widen(self.document.get_line(top[0]), top[1], towards_end=True)
            edit.from_location = edit.to_location = (top[0], at)
        elif top != bottom:
            start = self.pastes.widen(self.document.get_line(top[0]), top[1], towards_end=False)
            end = self.pastes.widen(self.document.get_line(bottom[0]), bottom[1], towards_end=True)
            edit.from_location, edit.to_location = (top[0], start), (bottom[0], end)
        return super().edit(edit)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        start, end = self.selection
        chips = [
            self.pastes.chip_for_image(path, self._folder) for path in images_in_paste(text, self._folder)
        ]
        shown = " ".join(chips) + " " if chips and all(chips) else self.pastes.chip_for(text)
        self.insert_text(shown, start, end)

    def insert_text(self, text: str, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Replaces a range and puts the cursor behind it."""
        result = self.replace(text, start, end, maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def set_whole(self, text: str) -> None:
        """Another text in place of this one; the cursor goes to its end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def expanded(self) -> str:
        """The text as the person means it."""
        return self.pastes.expand(self.text)

    # ------------------------------------------------------------------ keys

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.prevent_default()  # a binding's business, not an insertion

    def action_submit(self) -> None:
        if self.completing and not self.exact:
            self.action_take()
            return
        text, mentions = self.expanded(), self.pastes.with_mentions(self.text)
        if not text.strip():
            return
        self.history_of_prompts.add(text)
        self.clear_all()
        self.post_message(self.Submitted(text, mentions))

    def clear_all(self) -> None:
        """Empty, nothing to complete, at the end of the history."""
        self.load_text("")
        self.pastes = Pastes()
        self.history_of_prompts.rest()

    def action_newline(self) -> None:
        start, end = self.selection
        self.insert_text("\n", start, end)

    def action_take(self) -> None:
        """The marked completion; without a list the chip at the cursor is expanded, else focus moves on."""
        if self.completing:
            self.post_message(self.Step(0))
            return
        row, column = self.cursor_location
        line = self.document.get_line(row)
        for start, end in self.pastes.spans(line):
            if start <= column <= end:
                whole = self.pastes.text_of(line[start:end]) or ""
                self.insert_text(whole, (row, start), (row, end))
                return
        self.screen.focus_next()

    def action_cursor_up(self, select: bool = False) -> None:
        if self.completing:
            self.post_message(self.Step(-1))
        elif not select and self.cursor_at_first_line:
            self._recall(self.history_of_prompts.older(self.text))
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if self.completing:
            self.post_message(self.Step(1))
        elif not select and self.cursor_at_last_line:
            self._recall(self.history_of_prompts.newer())
        else:
            super().action_cursor_down(select)

    def _recall(self, text: str | None) -> None:
        if text is None:
            return
        self._from_history = True
        shown = self.pastes.chip_for(text) if len(text) > 4000 else text
        self.set_whole(shown)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if self._from_history:
            self._from_history = False
            self.post_message(self.Complete(()))
            return
        self.look_for_completions()

    def look_for_completions(self) -> None:
        """Asks for what may follow at the cursor."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        if self._completer.wants_files(before) and not self._completer.files:
            self.post_message(self.FilesWanted())
        self.post_message(self.Complete(self._completer.complete(before, first_line=row == 0)))

    def complete_with(self, completion: Completion) -> None:
        """Puts a completion in."""
        row, column = self.cursor_location
        insert = completion.insert
        if insert.startswith("@") and is_image_name(completion.shown):
            chip = self.pastes.chip_for_image(self._folder / completion.shown, self._folder)
            insert = f"{chip} " if chip else insert
        self.insert_text(insert, (row, column - completion.replaces), (row, column))


class Prompt(Vertical):
    """The text with the list of completions above it."""

    def __init__(self, completer: Completer, history: PromptHistory, folder: Path) -> None:
        super().__init__(id="prompt-box")
        self._found: Sequence[Completion] = ()
        self.area = PromptArea(
            completer, history, folder, "Ask, or describe what to change   / commands   @ files"
        )
        self.list = OptionList(id="completions", markup=False)
        self.list.can_focus = False

    def compose(self) -> ComposeResult:
        yield self.list
        yield self.area

    def on_mount(self) -> None:
        self.list.display = False

    def on_prompt_area_complete(self, event: PromptArea.Complete) -> None:
        event.stop()
        self._found = event.found
        self.area.completing = self.list.display = bool(event.found)
        self.area.exact = any(one.shown == self.area.text.strip() for one in event.found)
        self.list.clear_options()
        if event.found:
            width = max(len(one.shown) for one in event.found)
            self.list.add_options(
                Option(Content(f"{one.shown:<{width}}  {one.hint}" if one.hint else one.shown))
                for one in event.found
            )
            self.list.highlighted = 0

    def on_prompt_area_step(self, event: PromptArea.Step) -> None:
        event.stop()
        if event.by > 0:
            self.list.action_cursor_down()
        elif event.by < 0:
            self.list.action_cursor_up()
        else:
            self._take(self.list.highlighted or 0)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take(event.option_index)
        self.area.focus()

    def close_list(self) -> bool:
        """Closes the list of completions; whether it was open."""
        was = self.area.completing
        self.area.completing = self.list.display = False
        return was

    def _take(self, index: int) -> None:
        if 0 <= index < len(self._found):
            self.area.complete_with(self._found[index])
