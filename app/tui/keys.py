"""Every key of the interface in one table: the footer, the help page and the settings read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from textual.binding import Binding


@dataclass(frozen=True)
class Key:
    """``id`` is the name under which ``tui.keys`` gives it other keys."""

    id: str
    keys: str
    action: str
    label: str
    footer: bool = False
    priority: bool = False

    def binding(self) -> Binding:
        return Binding(
            self.keys, self.action, self.label, show=self.footer, priority=self.priority, id=self.id
        )


MAIN = (
    Key("stop", "escape", "stop", "Stop", footer=True),
    Key("help", "f1", "help", "Help", footer=True, priority=True),
    Key("model", "f2", "model", "Model", footer=True, priority=True),
    Key("sessions", "f3", "sessions", "Sessions", footer=True, priority=True),
    Key("review", "f4", "review", "Review", footer=True, priority=True),
    Key("settings", "f5", "settings", "Settings", priority=True),
    Key("logs", "f6", "logs", "Logs", priority=True),
    Key("sandbox", "f7", "sandbox", "Sandbox", priority=True),
    Key("theme", "f8", "theme", "Theme", priority=True),
    Key("rail", "f9,ctrl+b", "rail", "Show or hide the rail", priority=True),
    Key("palette", "ctrl+p", "palette", "Commands", footer=True, priority=True),
    Key("find", "ctrl+f", "find", "Search", footer=True, priority=True),
    Key("earlier-turn", "alt+up,ctrl+up", "jump(-1)", "Turn before", priority=True),
    Key("later-turn", "alt+down,ctrl+down", "jump(1)", "Turn after", priority=True),
    Key("copy", "ctrl+y", "copy_answer", "Copy the last answer", priority=True),
    Key("editor", "ctrl+g", "editor", "Write in $EDITOR", priority=True),
    Key("page-up", "shift+pageup,ctrl+pageup", "page(-1)", "Scroll up", priority=True),
    Key("page-down", "shift+pagedown,ctrl+pagedown", "page(1)", "Scroll down", priority=True),
    Key("cancel", "ctrl+c", "interrupt", "Copy, clear, stop; twice: quit", priority=True),
    Key("quit", "ctrl+d,ctrl+q", "leave", "Quit", priority=True),
    Key("suspend", "ctrl+z", "app.suspend_process", "To the shell", priority=True),
)
"""Keys of the conversation; dialogs have their own and show them."""


def bindings(keys: Iterable[Key] = MAIN) -> list[Binding]:
    """As Textual wants them."""
    return [key.binding() for key in keys]


def keymap(given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The person's own keys, and what is wrong with them in one line each."""
    known = {key.id for key in MAIN} | {"prompt.send", "prompt.newline", "prompt.undo"}
    good: dict[str, str] = {}
    problems: list[str] = []
    for name, keys in given.items():
        if name not in known:
            problems.append(f"tui.keys.{name}: there is no such key; see the help page (F1)")
        elif not keys.strip():
            problems.append(f"tui.keys.{name}: empty; give a key such as ctrl+k")
        else:
            good[name] = ",".join(part.strip() for part in keys.split(","))
    return good, problems


def in_use(given: Mapping[str, str]) -> list[tuple[Key, str]]:
    """Each key of the table with the keys that count now."""
    return [(key, given.get(key.id, key.keys)) for key in MAIN]
