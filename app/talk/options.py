"""What a turn was asked to do; plain data, checked once."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ...engine.chat import ImagePart
from ...sandbox.base.errors import UsageError
from ..fix.options import FixOptions

MAX_PROMPT_BYTES = 1 << 20
"""Counted in bytes, not characters."""


@dataclass(frozen=True)
class TalkOptions:
    """``base`` holds what a turn shares with fix-issue: repository, model, sandbox, limits, output."""

    base: FixOptions
    prompt: str
    """The person's words, or ``-`` for standard input."""
    images: tuple[ImagePart, ...] = ()
    """What the person shows with these words; see ``tools.pictures``."""
    resume: str | None = None
    """Id, or a unique beginning of it, of the session to go on with."""
    latest: bool = False
    """Go on with this repository's last session."""
    fork: str | None = None
    """``ID`` or ``ID@SEQ``: go on in a copy of that session, as it was after message SEQ."""
    files: str = "session"
    """``session``: files as the session left them; ``repository``: as they are."""
    new_id: str = ""
    """The id a new session gets; empty: one is made. For doors that must name it before it begins."""
    model_given: bool = True
    """False: a continued session keeps its own model."""


def read_prompt(argument: str) -> str:
    """The prompt itself. Standard input is read for ``-`` only: an open pipe must not make a run wait.

    Raises:
        UsageError: empty, not text, or too large.
    """
    if argument == "-":
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - closed before the start
            raise UsageError("- reads standard input, which is closed")
        data = sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1)
    else:
        data = argument.encode("utf-8", "replace")
    if len(data) > MAX_PROMPT_BYTES:
        raise UsageError(
            f"the prompt is larger than {MAX_PROMPT_BYTES} bytes",
            hint="put large things in a file of the repository",
        )
    if b"\0" in data:
        raise UsageError("the prompt is not text")
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").strip()
    if not text:
        raise UsageError("the prompt is empty", hint="say what to do: whimbrel run 'explain the parser'")
    return text


def split_fork(text: str) -> tuple[str, int | None]:
    """``ID@SEQ`` -> (ID, SEQ).

    Raises:
        UsageError: SEQ is no number.
    """
    name, at, number = text.partition("@")
    if at and not (number.isascii() and number.isdigit()):
        raise UsageError(f"--fork {text}: {number!r} is no message number", hint="for example --fork 2026@12")
    return name, int(number) if at else None
