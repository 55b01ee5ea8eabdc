"""Plain mode: lines and nothing else, for screen readers, simple terminals and logs.

No cursor is moved and no colour is used; what is answered is asked for in one line at a time.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ...sandbox.base.errors import WhimbrelError
from ..fix.doors import visible, write_line
from ..fix.events import JobEvent
from .commands import COMMANDS, split
from .driver import AskedPermission, AskedQuestion, JobEnded
from .outcome import outcome_lines
from .runs import Launch, Runs

_LOOK_S = 0.05
_HERE = ("fix", "review", "apply", "undo", "model", "effort", "new", "help", "quit")
"""Commands that make sense without a screen."""


def run_plain(launch: Launch) -> int:
    """Runs until the person leaves; returns the exit code."""
    return PlainTalk(launch).run()


class PlainTalk:
    """One conversation in lines; ``read`` and ``write`` stand for the terminal."""

    def __init__(
        self,
        launch: Launch,
        read: Callable[[str], str] | None = None,
        write: Callable[[str], None] | None = None,
    ) -> None:
        self._runs = Runs(launch, latest=launch.latest, session_id=launch.resume or "")
        self._read = read or input
        self._write = write or _write_lines
        self._answer: list[str] = []
        self._thinking = False

    def run(self) -> int:
        """Raises WhimbrelError when the settings cannot be read."""
        options = self._runs.launch.prepare()
        self._runs.options = options
        self._runs.model_given = options.model != options.settings.model.name
        self._write(f"Whimbrel in {self._runs.launch.repository}, model {options.model}.")
        self._write(
            "Write what to do and press Enter; /fix repairs what the tests show; /help; /quit leaves."
        )
        while True:
            try:
                text = self._read("> ").strip()
            except EOFError:
                break
            except KeyboardInterrupt:
                self._write("(Ctrl-D or /quit leaves)")
                continue
            if not text:
                continue
            command, argument, problem = split(text)
            if problem:
                self._write(problem)
            elif command is None:
                self._say(text)
            elif command.name == "quit":
                break
            else:
                self._command(command.name, argument)
        if self._runs.session_id:
            self._write(f"go on with: whimbrel tui --plain --resume {self._runs.session_id}")
        return 0

    def _say(self, text: str) -> None:
        """A turn, with the images that the text names behind ``@``."""
        from ..talk.images import load_images, mentioned

        found, missing = mentioned(text, self._runs.launch.repository)
        for name in missing:
            self._write(f"there is no image {name}; sent as words")
        try:
            images = load_images(found)
        except WhimbrelError as error:
            self._write(f"not sent: {error.one_line()}")
            return
        if images:
            self._write(f"with {len(images)} image{'s' if len(images) > 1 else ''}")
        self._start(partial(self._runs.talk, text, images))

    def _command(self, name: str, argument: str) -> None:
        if name == "fix":
            self._start(partial(self._runs.fix, argument))
        elif name == "review":
            self._write(str(self._runs.last.get("patch") or "the last run changed nothing"))
        elif name in ("apply", "undo"):
            self._changes(name)
        elif name == "model":
            self._write(f"model {self._runs.model}; another one: whimbrel tui --plain --model NAME")
        elif name == "effort" and argument in ("auto", "low", "high", "max"):
            self._runs.change(effort=argument)
        elif name == "new":
            self._runs.session_id, self._runs.last = "", {}
            self._write("new conversation")
        elif name in ("help", "effort"):
            for each in COMMANDS:
                if each.name in _HERE:
                    self._write(f"/{each.name}: {each.hint}")
        else:
            self._write(f"/{name} needs the screen: start without --plain")

    def _changes(self, name: str) -> None:
        import asyncio

        from ..fix.apply import undo_last
        from .applying import apply_changes

        repository = self._runs.launch.repository
        try:
            if name == "apply":
                files = asyncio.run(apply_changes(repository, self._runs.last))
                self._write(f"applied to your files: {', '.join(files)}")
            else:
                _, when = asyncio.run(undo_last(repository))
                self._write(f"what was applied at {when} is taken back")
        except (WhimbrelError, OSError) as error:
            self._write(error.one_line() if isinstance(error, WhimbrelError) else str(error))

    # ------------------------------------------------------------------ a run

    def _start(self, start: Callable[[], None]) -> None:
        driver = self._runs.driver
        start()
        while True:
            try:
                told = driver.drain()
                for item in told:
                    if isinstance(item, JobEnded):
                        self._flush()
                        if item.problem:
                            self._write(item.problem)
                        return
                    if isinstance(item, AskedPermission):
                        self._permission(item)
                    elif isinstance(item, AskedQuestion):
                        self._question(item)
                    else:
                        self._event(item)
                if not told:
                    time.sleep(_LOOK_S)
            except KeyboardInterrupt:
                self._write("stopping; what was done is kept")
                driver.stop()

    def _event(self, event: JobEvent) -> None:
        if event.kind == "result":
            self._flush()
            self._runs.ended(event.data)
            for line in outcome_lines(event.data):
                self._write(line)
        elif event.kind in ("info", "warning", "phase"):
            self._flush()
            self._write(f"{event.kind}: {event.text}" if event.kind != "info" else event.text)
        elif event.kind == "agent":
            self._agent(event.data)

    def _agent(self, data: dict[str, Any]) -> None:
        kind = data.get("kind")
        if kind == "text_delta":
            self._answer.append(str(data["text"]))
        elif kind == "reasoning_delta":
            if not self._thinking:
                self._write("(thinking)")
            self._thinking = True
        elif kind == "step_discarded":
            self._answer.clear()
            self._thinking = False
            self._write(f"asking again: {data.get('reason', '')}")
        elif kind in ("step_started", "run_finished"):
            self._flush()
        elif kind == "tool_started":
            self._flush()
            from ..agent.permissions import subject_of

            subject = " ".join(subject_of(data.get("arguments") or {}).split())
            self._write(f"tool {data.get('name')} {subject}"[:200])
        elif kind == "tool_finished":
            lines = str(data.get("text", "")).splitlines()
            more = f" (and {len(lines) - 1} more lines)" if len(lines) > 1 else ""
            state = "failed" if data.get("is_error") else "done"
            self._write(f"  {state}: {lines[0] if lines else ''}"[:200] + more)

    def _flush(self) -> None:
        """A whole answer at once: a screen reader reads sentences, not pieces."""
        self._thinking = False
        if self._answer:
            self._write("".join(self._answer))
            self._answer.clear()

    # ------------------------------------------------------------------ asking

    def _permission(self, asked: AskedPermission) -> None:
        from ..agent.events import PermissionAnswer
        from .asking_answers import answers_for

        request = asked.request
        self._write(f"question: may {request.tool} run this? asked because {request.reason}")
        self._write(f"  {request.subject or request.arguments}")
        for part in request.parts:
            self._write(f"  part, {part.decision}: {part.shown} ({part.reason})")
        offered = answers_for(request)
        for number, (text, _) in enumerate(offered, 1):
            self._write(f"  {number} {text}")
        while True:
            given = self._asked_line("number: ")
            if given is None:
                answer = PermissionAnswer(allowed=False)
            elif given.isdigit() and 1 <= int(given) <= len(offered):
                answer = offered[int(given) - 1][1]
            else:
                self._write(f"a number from 1 to {len(offered)}")
                continue
            if answer is None:
                answer = PermissionAnswer(allowed=False, note=self._asked_line("why: ") or "")
            with contextlib.suppress(Exception):  # the run ended meanwhile
                asked.reply.set_result(answer)
            return

    def _question(self, asked: AskedQuestion) -> None:
        self._write(f"the model asks: {asked.question.text}")
        for number, option in enumerate(asked.question.options, 1):
            self._write(f"  {number} {option}")
        given = self._asked_line("answer: ") or ""
        options = asked.question.options
        if given.isdigit() and 1 <= int(given) <= len(options):
            given = options[int(given) - 1]
        with contextlib.suppress(Exception):
            asked.reply.set_result(given)

    def _asked_line(self, prompt: str) -> str | None:
        """One line, written after the question: what was typed ahead is thrown away."""
        with contextlib.suppress(ImportError, OSError, ValueError):
            import termios

            if sys.stdin.isatty():
                termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        try:
            return self._read(prompt).strip()
        except (EOFError, KeyboardInterrupt):
            return None


def _write_lines(text: str) -> None:
    write_line(sys.stdout, visible_lines(text))


def visible_lines(text: str) -> str:
    """Control characters escaped, line ends kept."""
    return "\n".join(visible(line) for line in text.splitlines())
