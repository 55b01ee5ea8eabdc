"""The main screen: conversation, rail, status and prompt, and the run that goes on between them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer

from ..commands import COMMANDS, split
from ..completion import Completer, list_files
from ..conversation import Conversation, Line
from ..driver import AskedPermission, AskedQuestion, JobEnded, Told
from ..feed import show
from ..keys import MAIN, bindings
from ..outcome import outcome_lines
from ..prompt import Prompt, PromptArea
from ..prompt_history import PromptHistory
from ..runs import Runs
from ..status import StatusLine
from .actions import MainActions

if TYPE_CHECKING:
    from ...fix.events import JobEvent
    from ...tools.pictures import Picture
    from ..app import WhimbrelApp
    from ..widgets.plan_view import PlanView
    from ..widgets.rail import Rail

TICK_S = 0.05
RAIL_FROM = 100
"""Columns; on a narrower terminal the conversation has all of it."""
_TWICE_S = 1.0
_GREETING = """\
Whimbrel

Say what is wrong or what to change.   /fix repairs what the tests show.
Work happens on a copy, in a sandbox; your files change when you apply what came out.

/  commands     @  files     Ctrl-P  everything     F1  keys
"""


class MainScreen(MainActions, Screen[None]):
    """Routes what runs tell to the widgets, and what the person wants to the runs."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(MAIN)]
    app: WhimbrelApp  # pyright: ignore[reportIncompatibleMethodOverride]

    def __init__(self, runs: Runs) -> None:
        super().__init__(id="main")
        self.runs = runs
        self.conversation = Conversation()
        self.status = StatusLine()
        self.rail: Rail | None = None
        self.plan: PlanView | None = None
        self.completer = Completer([(command.name, command.hint) for command in COMMANDS])
        self.prompt = Prompt(self.completer, PromptHistory(runs.launch.repository), runs.launch.repository)
        self._tick: Timer | None = None
        self._ticks = 0
        self._queued: list[tuple[str, str]] = []
        self._asked: list[AskedPermission | AskedQuestion] = []
        self._asking = False
        self._escaped = self._interrupted = 0.0
        self._began = 0.0

    def compose(self) -> ComposeResult:
        with Horizontal(id="upper"):
            with self.conversation:
                yield Line(_GREETING, "greeting")
            yield Vertical(id="rail-place")
        yield self.status
        yield self.prompt
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._tick = self.set_interval(TICK_S, self._beat, pause=True)
        self.prompt.area.focus()
        self.call_after_refresh(self.app.prepare)

    async def put_up_rail(self) -> None:
        """Once what it is made of is loaded, which the first paint does not wait for."""
        if self.rail is None:
            from ..widgets.plan_view import PlanView
            from ..widgets.rail import Rail

            self.rail, self.plan = Rail(id="rail"), PlanView(id="plan")
            await self.query_one("#rail-place").mount(self.rail, self.plan)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < RAIL_FROM, "narrow")

    # ------------------------------------------------------------------ what runs tell

    def _beat(self) -> None:
        self._ticks += 1
        if self._ticks % 5 == 0:
            self.status.beat()
        told = self.runs.driver.drain()
        if told:
            with self.app.batch_update():
                for item in told:
                    self._take(item)

    def _take(self, item: Told) -> None:
        try:
            self._route(item)
        except Exception as error:  # noqa: BLE001 - what cannot be shown must not end what runs
            self.app.note_crash(error, "one event could not be shown")

    def _route(self, item: Told) -> None:
        if isinstance(item, JobEnded):
            self._ended(item)
        elif isinstance(item, AskedPermission | AskedQuestion):
            self._asked.append(item)
            self._ask_next()
        else:
            self._event(item)

    def _event(self, event: JobEvent) -> None:
        if self.rail is not None:
            self.rail.see(event)
        if self.plan is not None and event.data.get("kind") == "tool_finished":
            data = event.data.get("data")
            if event.data.get("name") == "todo" and isinstance(data, dict):
                self.plan.show(data.get("items") or ())
        if event.data.get("kind") == "tool_finished" and event.data.get("name") == "view_image":
            self._picture(event.data.get("data"))
        if event.kind == "phase":
            self.status.phase(event.text)
        elif event.kind == "progress":
            self.status.progress(event.text)
        elif event.kind == "result":
            self.runs.ended(event.data)
            text = "\n".join(outcome_lines(event.data))
            self.conversation.outcome(text, good=event.data.get("exit_code") == 0)
        show(event, self.conversation)

    def _ended(self, end: JobEnded) -> None:
        assert self._tick is not None
        self._tick.pause()
        self.conversation.end_step()
        self.status.end()
        if self.rail is not None:
            self.rail.end()
        self._asked.clear()
        self.app.close_dialogs()
        if end.problem:
            self.conversation.error(end.problem)
        self.show_state()
        self.app.tell_end(str(self.runs.last.get("status", "")), time.monotonic() - self._began)
        if self._queued and not self.app.leaving:
            self.submit(*self._queued.pop(0))

    @work
    async def _ask_next(self) -> None:
        """One question at a time; what was asked meanwhile waits."""
        if self._asking:
            return
        self._asking = True
        try:
            while self._asked:
                await self.app.ask_person(self._asked.pop(0))
        finally:
            self._asking = False

    # ------------------------------------------------------------------ what the person says

    def _picture(self, data: object) -> None:
        """What the model looks at, where the same file is in the repository."""
        path = cast("dict[str, object]", data).get("path") if isinstance(data, dict) else None
        top = self.runs.launch.repository.resolve()
        if (
            isinstance(path, str)
            and (found := (top / path).resolve()).is_relative_to(top)
            and found.is_file()
        ):
            self.conversation.picture(found)

    def on_prompt_area_submitted(self, event: PromptArea.Submitted) -> None:
        event.stop()
        self.submit(event.text, event.mentions)

    def submit(self, text: str, mentions: str = "") -> None:
        """A prompt or a command; while something runs a prompt waits for its end.

        ``mentions``: where images are looked for; the text without what was pasted.
        """
        command, argument, problem = split(text)
        if problem:
            self.notify(problem, severity="warning", markup=False)
            self.prompt.area.set_whole(text)
        elif command is not None and command.name != "fix":
            self.do(command.action, argument)
        elif self.runs.driver.running:
            self._queued.append((text, mentions))
            self.notify("sent when this run ends", title="Queued", markup=False)
        else:
            self._send(text, mentions, argument if command is not None else None)

    @work
    async def _send(self, text: str, mentions: str, issue: str | None) -> None:
        await self.runs.ready.wait()
        if self.runs.options is None:
            self.conversation.error(self.runs.problem)
            self.prompt.area.set_whole(text)
            return
        pictures = await self._pictures(mentions, wanted=issue is None)
        if pictures is None:
            self.prompt.area.set_whole(text)
            return
        if self.runs.driver.running:
            self._queued.append((text, mentions))
            return
        self.conversation.say(text)
        for path, picture in pictures:
            self.conversation.image(picture.part, path.name)
        self._began = time.monotonic()
        self.status.begin()
        if issue is None:
            self.runs.talk(text, tuple(picture.part for _, picture in pictures))
        else:
            self.runs.fix(issue)
        assert self._tick is not None
        self._tick.resume()

    async def _pictures(self, mentions: str, *, wanted: bool) -> list[tuple[Path, Picture]] | None:
        """The images that a prompt names, decoded; None where one cannot be read, and that is said."""
        from ....sandbox.base.errors import UsageError
        from ...talk.images import load_pictures, mentioned

        found, missing = mentioned(mentions, self.runs.launch.repository)
        if found and not wanted:
            self.notify("a repair takes no images; the words are used", severity="warning", markup=False)
            return []
        for name in missing:
            self.notify(f"there is no image {name}; sent as words", severity="warning", markup=False)
        try:
            return list(zip(found, await asyncio.to_thread(load_pictures, found), strict=True))
        except UsageError as error:
            self.conversation.error(f"not sent: {error.message}", error.hint or "")
            return None

    def do(self, action: str, argument: str = "") -> None:
        """Runs an action of this screen by name, with what stood behind a command."""
        method: Any = getattr(self, f"action_{action}")
        result: Any = method(argument) if argument else method()
        if hasattr(result, "__await__"):
            self.run_worker(result)

    @work(exclusive=True, group="files")
    async def on_prompt_area_files_wanted(self, event: PromptArea.FilesWanted) -> None:
        event.stop()
        self.completer.files = await list_files(self.runs.launch.repository)
        if self.completer.files:
            self.prompt.area.look_for_completions()

    # ------------------------------------------------------------------ keys with two meanings

    def action_stop(self) -> None:
        """Esc: closes the list, else ends the run; twice: back to an earlier turn."""
        if self.prompt.close_list():
            return
        now = time.monotonic()
        twice = now - self._escaped < _TWICE_S
        self._escaped = 0.0 if twice else now
        if twice:
            self.action_rewind()
        elif self.runs.driver.running:
            self._take_back_queued()
            self.runs.driver.stop()
            self.status.phase("Stopping")
        elif not self.prompt.area.text:
            self.status.phase("Esc again: go back to an earlier turn")

    def _take_back_queued(self) -> None:
        """What waited for the end of the run goes back into the prompt: it was not sent."""
        if self._queued:
            waited = [*(text for text, _ in self._queued), self.prompt.area.expanded()]
            self._queued.clear()
            area = self.prompt.area
            area.set_whole(area.pastes.fitting("\n\n".join(text for text in waited if text.strip())))

    def action_interrupt(self) -> None:
        """Ctrl-C: copies what is selected, else clears the prompt, else says how to leave; twice leaves."""
        selected = self.get_selected_text()
        if not selected and self.prompt.area.has_focus:
            selected = self.prompt.area.selected_text
        if selected:
            self.app.copy_to_clipboard(selected)
            self.clear_selection()
            self.notify("copied", timeout=2, markup=False)
            return
        now = time.monotonic()
        twice = now - self._interrupted < 2 * _TWICE_S
        self._interrupted = now
        if twice:
            self.action_leave()
        elif self.prompt.area.text:
            self.prompt.area.clear_all()
        else:
            stops = "Esc stops the run; " if self.runs.driver.running else ""
            self.notify(f"{stops}Ctrl-C again leaves", timeout=2, markup=False)
