"""Keys and commands, as they are now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.widget import Widget

from ..commands import COMMANDS
from ..keys import in_use
from .dialog import Dialog, plain

_PROMPT = (
    ("enter", "send, or take the marked completion"),
    ("shift+enter, alt+enter, ctrl+j", "new line"),
    ("up, down", "earlier and later prompts, from the first and last line"),
    ("@", "a file of the repository"),
    ("/", "a command"),
    ("tab", "complete; on a pasted chip: show its text"),
    ("ctrl+w", "delete the word, or the whole chip"),
    ("ctrl+underscore", "undo"),
)


class HelpScreen(Dialog[None]):
    title_text = "Keys and commands"
    hint_text = "Esc closes · keys are changed in the settings: tui.keys.NAME"
    wide = True

    def __init__(self, own: Mapping[str, str]) -> None:
        super().__init__()
        self._own = own

    def body(self) -> Iterable[Widget]:
        rows = [(keys.replace(",", ", "), key.label, key.id) for key, keys in in_use(self._own)]
        wide, room = (max(len(row[column]) for row in rows) for column in (0, 1))
        lines = [f"{keys:<{wide}}  {label:<{room}}  {name}" for keys, label, name in rows]
        yield plain("Everywhere (last column: the name for the settings)", "head")
        yield plain("\n".join(lines))
        yield plain("In the prompt", "head")
        yield plain("\n".join(f"{keys:<{wide}}  {what}" for keys, what in _PROMPT))
        yield plain("Commands", "head")
        yield plain("\n".join(f"/{each.name:<14} {each.hint}" for each in COMMANDS))
        yield plain("Mouse", "head")
        yield plain(
            "The wheel scrolls, a click opens cards and chooses, dragging selects (Ctrl-C copies);\n"
            "with Shift held the terminal selects by itself."
        )
