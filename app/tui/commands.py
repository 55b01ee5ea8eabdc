"""The commands of the prompt and of the palette: a name, what it does, and the action behind it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """``/name`` in the prompt; ``action`` is a method ``action_...`` of the main screen."""

    name: str
    hint: str
    action: str
    argument: bool = False
    """Whether text may follow, which the action takes."""


COMMANDS = (
    Command("fix", "repair what the tests show, or what the text says: /fix [issue]", "fix", argument=True),
    Command("review", "look at what was changed, take or leave each part, apply it", "review"),
    Command("apply", "apply the last result to your files", "apply"),
    Command("undo", "take the last applied changes back", "undo_applied"),
    Command("tests", "the tests of the last run, before and after", "tests"),
    Command("model", "choose the model and how hard it thinks", "model"),
    Command("effort", "low, high, max or auto: /effort high", "effort", argument=True),
    Command("sessions", "resume, fork, search or watch recorded sessions", "sessions"),
    Command("new", "begin a new conversation", "new"),
    Command("rewind", "go back to an earlier turn", "rewind"),
    Command("find", "search in this conversation", "find"),
    Command("copy", "copy the last answer", "copy_answer"),
    Command("sandbox", "which sandbox, its limits and what runs", "sandbox"),
    Command("logs", "the logs of the last run", "logs"),
    Command("settings", "look at settings and change them", "settings"),
    Command("theme", "other colours", "theme"),
    Command("rail", "show or hide the rail", "rail"),
    Command("welcome", "what is on this machine; trust of this repository", "welcome"),
    Command("help", "keys and commands", "help"),
    Command("quit", "leave", "leave"),
)
BY_NAME = {command.name: command for command in COMMANDS}


def split(text: str) -> tuple[Command | None, str, str]:
    """A prompt as (command, argument, problem); all empty where it is no command.

    Only a known name, or one that looks like a slip of it, makes a text that begins with a slash
    a command: paths begin so, too.
    """
    first, _, rest = text.strip().partition(" ")
    if not first.startswith("/") or "\n" in first or "/" in first[1:]:
        return None, "", ""
    command = BY_NAME.get(first[1:])
    if command is None:
        from difflib import get_close_matches

        near = get_close_matches(first[1:], BY_NAME, 1)
        return None, "", f"there is no command {first}" + (f"; did you mean /{near[0]}?" if near else "")
    if rest.strip() and not command.argument:
        return None, "", f"/{command.name} takes nothing behind it"
    return command, rest.strip(), ""
