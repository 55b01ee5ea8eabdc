"""The application: themes, keys, lifecycle. What is said and done is the main screen's business."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events, work
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.worker import WorkerFailed

from .collecting import CalmCollector
from .crash import write_crash
from .driver import AskedPermission
from .hangup import HangupWatch
from .keys import keymap
from .runs import Launch, Runs
from .screens.main import MainScreen
from .themes import NAMES, OWN, chosen
from .widgets.image_view import ask_terminal, worth_asking

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.dom import DOMNode

    from ..config.model import Tui
    from .driver import AskedQuestion

_MAX_CRASHES = 8
_STOP_S = 15.0
"""So long a run may take to end in order when the interface leaves; it keeps what was done."""


class WhimbrelApp(App[int]):
    """``run`` gives the exit code of the process."""

    CSS_PATH = "whimbrel.tcss"
    TITLE = "Whimbrel"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = ""
    BINDINGS: ClassVar[list[BindingType]] = []
    ESCAPE_TO_MINIMIZE = False

    def __init__(self, launch: Launch) -> None:
        super().__init__()
        self.launch = launch
        self.repository: Path = launch.repository
        self.runs = Runs(launch, latest=launch.latest)
        self.main = MainScreen(self.runs)
        self.own_keys: dict[str, str] = {}
        self.leaving = False
        self.settings: Tui | None = None
        self._crashes = 0
        self._swallow_up = False
        self._early: list[events.Event] | None = []
        """Keys from before the prompt could take them; None: it can."""
        for theme in OWN:
            self.register_theme(theme)
        self.theme = chosen(launch.theme)

    def get_default_screen(self) -> Screen[None]:
        return self.main

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Refused outside the main thread, and where a parent wants it ignored it stays so.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    loop.add_signal_handler(number, self._signalled, number)
        self.app_resume_signal.subscribe(self, self._repaint)
        if not self.is_headless and HangupWatch.possible():
            HangupWatch(partial(self._hung_up, loop), self._end_now).start()

    def _hung_up(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and so does the program
            loop.call_soon_threadsafe(self._signalled, signal.SIGHUP)

    def _end_now(self) -> None:
        """The terminal is gone and the interface did not end: its run does, then the process."""
        self.runs.driver.stop()
        self.runs.driver.wait(_STOP_S)
        os._exit(128 + signal.SIGHUP)

    def release_input(self) -> None:
        """Ends the thread that reads keys, which an interface that broke in the middle leaves running."""
        ended = getattr(self._driver, "exit_event", None)
        if ended is not None:
            ended.set()

    def _repaint(self, _: object) -> None:
        """Back from the shell: nothing of what was on the screen is there any more."""
        self.screen.refresh(layout=True)

    def _signalled(self, number: signal.Signals) -> None:
        self.run_worker(self.leave(128 + number), exclusive=False)

    # ------------------------------------------------------------------ getting ready

    @work
    async def prepare(self, again: bool = False) -> None:
        """Reads the settings beside the first paint; prompts wait for that, keys do not."""
        from ...sandbox.base.errors import WhimbrelError

        runs = self.runs
        await self._hear_early_keys()
        try:
            options = await asyncio.to_thread(self.launch.prepare)
            await asyncio.to_thread(load_widgets)
        except WhimbrelError as error:
            self.main.conversation.error(error.message, error.hint)
            if not again:  # what was chosen before still counts
                runs.problem = error.one_line()
                runs.ready.set()
            return
        if again and runs.options is not None:
            # From the next run on; model and effort stay as they were chosen here.
            runs.options = replace(options, model=runs.model, effort=runs.effort)
            self._use(options.settings.tui)
            return
        runs.options, runs.problem = options, ""
        if not self.is_headless:
            CalmCollector().start(self)
        await self.main.put_up_rail()
        runs.model_given = options.model != options.settings.model.name
        self._use(options.settings.tui)
        runs.ready.set()
        self.main.show_state()
        await self._begin()

    async def _begin(self) -> None:
        """Where it starts: in a session that goes on, or on the first-run page."""
        from ...sandbox.base.errors import WhimbrelError

        launch = self.launch
        try:
            if launch.attach:
                from .screens.watch import WatchScreen

                self.push_screen(WatchScreen(launch.attach))
            elif launch.resume:
                self.main.open_session(launch.resume)
            elif launch.latest:
                from ..sessions import SessionStore

                store = SessionStore.open()
                try:
                    session_id = store.latest(str(self.repository)).id
                finally:
                    store.close()
                self.main.open_session(session_id)
        except WhimbrelError as error:
            self.main.conversation.error(error.message, error.hint)
            return
        from .first_run import is_first_run

        begun = launch.attach or launch.resume or launch.latest or self.main.prompt.area.text
        if not begun and not self.runs.driver.running and is_first_run():
            self.main.action_welcome()

    def _use(self, settings: Tui) -> None:
        """Colours, keys and habits as the settings want them."""
        self.settings = settings
        if not self.launch.theme and settings.theme:
            self.theme = chosen(settings.theme)
        self.own_keys, problems = keymap(settings.keys)
        self.set_keymap(self.own_keys)
        for problem in problems:
            self.notify(problem, severity="warning", markup=False)
        self.main.set_class(not settings.rail, "no-rail")

    def submit(self, text: str) -> None:
        """As if it was typed in the prompt."""
        self.main.submit(text)

    # ------------------------------------------------------------------ asking

    async def ask_person(self, asked: AskedPermission | AskedQuestion) -> None:
        """Shows the dialog and hands the answer over; a question that was taken back is not shown."""
        if asked.reply.done():
            return
        from .screens.asking import PermissionDialog, QuestionDialog

        self.ring("a question waits")
        if isinstance(asked, AskedPermission):
            from ..agent.events import PermissionAnswer

            answer = await self.push_screen_wait(PermissionDialog(asked.request))
            given = answer if isinstance(answer, PermissionAnswer) else PermissionAnswer(allowed=False)
            with contextlib.suppress(Exception):  # the run ended meanwhile
                asked.reply.set_result(given)
        else:
            text = await self.push_screen_wait(QuestionDialog(asked.question))
            with contextlib.suppress(Exception):
                asked.reply.set_result(text if isinstance(text, str) else "")

    def close_dialogs(self) -> None:
        """The run that asked is over."""
        from .screens.asking import Asking

        if isinstance(self.screen, Asking):
            self.screen.dismiss(None)

    async def on_event(self, event: events.Event) -> None:
        if self._early is not None and isinstance(event, events.Key | events.Paste):
            self._early.append(event)
        elif not self._deaf_to(event):
            await super().on_event(event)

    async def _hear_early_keys(self) -> None:
        """What was typed while the interface came up goes where it was meant to go."""
        early, self._early = self._early or [], None
        for event in early:
            await super().on_event(event)

    def _deaf_to(self, event: events.Event) -> bool:
        """Whether a key or click goes nowhere because a question has only just appeared."""
        fresh = isinstance(event, events.InputEvent | events.Paste | events.AppFocus)
        if not fresh or event.is_forwarded or not self.screen_stack:
            return False
        from .screens.asking import Quiet

        screen = self.screen
        if isinstance(event, events.MouseUp) and self._swallow_up:
            self._swallow_up = False
            return True
        if not isinstance(screen, Quiet):
            return False
        if isinstance(event, events.AppFocus):
            screen.be_quiet()
            return False
        if not screen.deaf or not isinstance(event, events.Key | events.MouseDown | events.Paste):
            return False
        self._swallow_up = isinstance(event, events.MouseDown)
        screen.typed_ahead()
        return True

    # ------------------------------------------------------------------ telling

    def tell_end(self, status: str, seconds: float) -> None:
        """A long run ended: told outside the screen, too."""
        settings = self.settings
        if settings is not None and seconds >= settings.notify_after:
            self.ring(f"{self.repository.name}: {status or 'ended'}")

    def ring(self, text: str) -> None:
        """The bell, or the desktop's own notification by way of the terminal (OSC 9)."""
        how = self.settings.notify if self.settings is not None else "bell"
        if how == "bell":
            self.bell()
        elif how == "desktop" and self._driver is not None:
            clean = "".join(char for char in text if char.isprintable())
            self._driver.write(f"\x1b]9;Whimbrel: {clean}\x07")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        from functools import partial

        from .commands import COMMANDS

        if isinstance(screen, ModalScreen):
            return
        for command in COMMANDS:
            yield SystemCommand(
                command.name.capitalize(), command.hint, partial(self.main.do, command.action)
            )
        for name in NAMES:
            yield SystemCommand(f"Theme {name}", "colours", partial(setattr, self, "theme", name))

    # ------------------------------------------------------------------ the end, and what goes wrong

    async def action_quit(self) -> None:
        """Ctrl-Q from anywhere, dialogs included: asks where something runs."""
        self.main.action_leave()

    async def leave(self, code: int) -> None:
        """Ends the run in order, then the interface; the terminal is as it was."""
        if self.leaving:
            return
        self.leaving = True
        driver = self.runs.driver
        if driver.running:
            self.main.status.phase("Stopping; what was done is kept")
            driver.stop()
            await asyncio.to_thread(driver.wait, _STOP_S)
        self.exit(code)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """An action that meets a full disk, a lost file or the like says so, and nothing else ends."""
        from ...sandbox.base.errors import WhimbrelError

        try:
            return await super().run_action(action, default_namespace, namespaces)
        except (WhimbrelError, OSError) as error:
            self.tell_problem(error)
            return True

    def tell_problem(self, error: Exception) -> None:
        """What could not be done and what to do next, as a card."""
        from ...sandbox.base.errors import WhimbrelError

        known = isinstance(error, WhimbrelError)
        self.main.conversation.error(error.message if known else str(error), error.hint if known else "")

    def _handle_exception(self, error: Exception) -> None:
        """A fault of one part costs that part; the conversation and what runs go on."""
        if isinstance(error, WorkerFailed) and not self.leaving and self._fault_beside(error.error):
            return
        self._crashes += 1
        part = None if self.leaving or self._crashes > _MAX_CRASHES else self._broken_part(error)
        if part is None:
            place = write_crash(error)
            self.runs.driver.stop()
            if self.is_headless:
                super()._handle_exception(error)  # tests want to see it
                return
            # Textual's own report shows every local variable, secrets included.
            where = f" (traceback: {place})" if place else ""
            self._return_code = 1
            line = f"whimbrel: internal error: {type(error).__name__}: {error}{where}"
            self.panic(Text(line, no_wrap=True, overflow="ignore"))
            return
        part.display = False
        self.screen.refresh(layout=True)
        self.note_crash(error, f"the part of the screen that shows {type(part).__name__} failed")

    def _fault_beside(self, error: BaseException) -> bool:
        """Whether it is told and done with: what failed ran beside the screen, which is whole."""
        from ...sandbox.base.errors import WhimbrelError

        if not self.main.is_mounted or not isinstance(error, WhimbrelError | OSError):
            return False
        self.tell_problem(error)
        return True

    def _broken_part(self, error: Exception) -> Widget | None:
        """The widget of the conversation or the rail that an error came out of; None: not only of that."""
        owners = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
        names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
        if not self.main.is_mounted:
            return None
        if names and names[0] == "_process_messages_loop" and isinstance(owners[0], Screen | App):
            return None  # it hears no messages any more
        places = {self.main.conversation, self.main.query_one("#rail-place")}
        for owner in reversed(owners):
            if isinstance(owner, Widget) and places.intersection(owner.ancestors):
                return owner
        return None

    def note_crash(self, error: Exception, what: str) -> None:
        """An error card, and the traceback in a file."""
        place = write_crash(error)
        hint = f"the run and its session go on; traceback: {place}" if place else "the run goes on"
        self.main.conversation.error(f"{what}: {type(error).__name__}: {error}", hint)


def load_widgets() -> None:
    """What the first event will need; on a thread, so that no key waits for it."""
    from ..agent import permissions as _permissions
    from .widgets import plan_view, rail, reasoning, streaming_markdown, tool_card

    _ = (_permissions, plan_view, rail, reasoning, streaming_markdown, tool_card)


def run_tui(launch: Launch) -> int:
    """Runs the interface to its end and returns the exit code."""
    app = WhimbrelApp(launch)
    if "TEXTUAL_DRIVER" not in os.environ and worth_asking(os.environ):
        ask_terminal()
    try:
        code = app.run(inline=launch.inline, inline_no_clear=True)
    finally:
        app.release_input()
        app.runs.driver.stop()
        app.runs.driver.wait(_STOP_S)
    if app.runs.session_id and "TEXTUAL_DRIVER" not in os.environ:  # in a browser nobody would read it
        sys.stdout.write(f"go on with: whimbrel tui --resume {app.runs.session_id}\n")
    return code if code is not None else (app.return_code or 0)
