"""What the person can do from the main screen: each action is a key, a command and a palette entry."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from textual import work
from textual.screen import Screen

from ...paths import config_dir

if TYPE_CHECKING:
    from ..app import WhimbrelApp
    from ..conversation import Conversation
    from ..prompt import Prompt
    from ..runs import Runs
    from ..status import StatusLine
    from ..widgets.plan_view import PlanView
    from ..widgets.rail import Rail

_STOPPING_S = 0.1
"""Between two looks whether a run that was stopped has ended."""


class MainActions(Screen[None]):
    """The actions; what goes on between them is in ``MainScreen``. Screens are imported when opened."""

    app: WhimbrelApp  # pyright: ignore[reportIncompatibleMethodOverride]
    runs: Runs
    rail: Rail | None
    plan: PlanView | None
    conversation: Conversation
    status: StatusLine
    prompt: Prompt

    # ------------------------------------------------------------------ the state line

    def show_state(self) -> None:
        """Model, tier and sandbox of the next run, on the right of the status line."""
        runs = self.runs
        if runs.options is None:
            return
        kind = (runs.last.get("sandbox") or {}).get("kind") or runs.options.sandbox
        self.status.right(f"{runs.model} · {runs.effort} · sandbox {kind}")

    # ------------------------------------------------------------------ runs

    def action_fix(self, issue: str = "") -> None:
        """From the palette: the tests speak."""
        self.app.submit(f"/fix {issue}".strip())

    def action_effort(self, wanted: str = "") -> None:
        if not wanted:
            self.action_model()
            return
        if wanted not in ("auto", "low", "high", "max"):
            self.notify(f"/effort is low, high, max or auto, not {wanted}", severity="warning", markup=False)
            return
        self.runs.change(effort=wanted)
        self.show_state()

    @work
    async def action_model(self) -> None:
        from .model import ModelScreen

        chosen = await self.app.push_screen_wait(ModelScreen(self.runs.model, self.runs.effort))
        if chosen is not None:
            self.runs.change(model=chosen.model, effort=chosen.effort)
            self.runs.model_given = True
            self.show_state()

    def action_new(self) -> None:
        """A new conversation; the old one is in the list of sessions."""
        if self._busy("begin another conversation"):
            return
        self.runs.session_id, self.runs.latest, self.runs.last = "", False, {}
        self.conversation.clear()
        self._forget_journey()
        self.status.phase("new conversation")

    def _forget_journey(self) -> None:
        """The rail and the plan belong to the conversation that was left."""
        if self.rail is not None:
            self.rail.clear()
        if self.plan is not None:
            self.plan.show(())

    # ------------------------------------------------------------------ sessions

    @work
    async def action_sessions(self) -> None:
        from .sessions import SessionsScreen

        chosen = await self.app.push_screen_wait(SessionsScreen(str(self.app.repository)))
        if chosen is None:
            return
        if chosen.how == "watch":
            from .watch import WatchScreen

            self.app.push_screen(WatchScreen(chosen.session_id))
        elif not self._busy("open another session"):
            self.open_session(chosen.session_id)

    def open_session(self, session_id: str) -> None:
        """Shows a recorded session and goes on in it."""
        from ...sessions import SessionStore
        from ...sessions.replay import replay

        store = SessionStore.open()
        try:
            info = store.find(session_id)
            model = replay(store.events(info.id)).model or info.model
        finally:
            store.close()
        self.runs.session_id, self.runs.latest, self.runs.last = info.id, False, {}
        self._forget_journey()
        if model and self.runs.options is not None and not self.runs.model_given:
            self.runs.change(model=model)
        self.show_session()
        self.show_state()

    def show_session(self) -> None:
        """Shows the session as it is recorded, in place of what was shown."""
        from ...sessions import SessionStore
        from ...sessions.replay import replay
        from ..conversation import Past
        from ..transcript import follow

        past = Past()
        store = SessionStore.open()
        try:
            events = list(store.events(self.runs.session_id))
        finally:
            store.close()
        # What was gone back from is in the record, but no part of the conversation.
        current = {each.seq for each in replay(events).said}
        follow((event for event in events if event.kind != "message" or event.seq in current), past)
        past.end_step()
        self.conversation.show_past(past)

    @work(exclusive=True, group="rewind")
    async def action_rewind(self) -> None:
        while self.runs.driver.stopping:
            self.status.phase("Stopping; then back to an earlier turn")
            await asyncio.sleep(_STOPPING_S)
        if not self.runs.session_id:
            self.notify("there is nothing to go back to yet", markup=False)
            return
        if self._busy("go back"):
            return
        from .rewind import RewindScreen

        done = await self.app.push_screen_wait(RewindScreen(self.runs.session_id))
        if done is None:
            return
        self.show_session()
        self.conversation.note(done.line)
        self.runs.last = {}
        if done.prompt:
            self.prompt.area.set_whole(done.prompt)

    # ------------------------------------------------------------------ changes

    @work
    async def action_review(self) -> None:
        patch = str(self.runs.last.get("patch") or "")
        if not patch:
            self.notify("the last run changed nothing", markup=False)
            return
        from .review import ReviewScreen

        chosen = await self.app.push_screen_wait(ReviewScreen(patch))
        if chosen:
            await self._apply(chosen)

    def action_tests(self) -> None:
        from .tests import TestsScreen, outcomes_of

        if not any(outcomes_of(self.runs.last)):
            self.notify("no run of tests is recorded in the last result", markup=False)
            return
        self.app.push_screen(TestsScreen(self.runs.last))

    @work
    async def action_apply(self) -> None:
        await self._apply("")

    async def _apply(self, chosen: str) -> None:
        """Applies the last result, or the chosen part of it."""
        from ....sandbox.base.errors import WhimbrelError
        from ..applying import apply_changes

        try:
            files = await apply_changes(self.app.repository, self.runs.last, chosen)
        except (WhimbrelError, OSError) as error:
            text = error.one_line() if isinstance(error, WhimbrelError) else str(error)
            self.conversation.error(f"not applied: {text}")
            return
        self.runs.last = {**self.runs.last, "applied": True}
        self.conversation.note(f"applied to your files: {', '.join(files)} (/undo takes it back)", "good")

    @work
    async def action_undo_applied(self) -> None:
        from ....sandbox.base.errors import WhimbrelError
        from ...fix.apply import undo_last

        try:
            _, when = await undo_last(self.app.repository)
        except (WhimbrelError, OSError) as error:
            text = error.one_line() if isinstance(error, WhimbrelError) else str(error)
            self.conversation.error(f"not taken back: {text}")
            return
        self.runs.last = {**self.runs.last, "applied": False}
        self.conversation.note(f"what was applied at {when} is taken back")

    # ------------------------------------------------------------------ looking around

    async def action_jump(self, by: int) -> None:
        await self.conversation.jump_turn(by)

    def action_page(self, by: int) -> None:
        if by < 0:
            self.conversation.release_anchor()
            self.conversation.scroll_page_up(animate=False)
        else:
            self.conversation.scroll_page_down(animate=False)

    def action_copy_answer(self) -> None:
        text = self.get_selected_text() or self.conversation.last_answer
        if not text:
            self.notify("there is no answer yet", markup=False)
            return
        self.app.copy_to_clipboard(text)
        self.notify("copied", timeout=2, markup=False)

    @work
    async def action_find(self) -> None:
        from .find import FindScreen

        place = await self.app.push_screen_wait(FindScreen(self.conversation))
        if place is not None:
            await self.conversation.show_place(place)

    def action_rail(self) -> None:
        self.toggle_class("no-rail")

    def action_help(self) -> None:
        from .help import HelpScreen

        self.app.push_screen(HelpScreen(self.app.own_keys))

    def action_logs(self) -> None:
        from .logs import LogsScreen

        self.app.push_screen(LogsScreen(Path(str(self.runs.last.get("output") or ""))))

    def action_sandbox(self) -> None:
        from .sandbox import SandboxScreen

        self.app.push_screen(SandboxScreen(self.runs, self.conversation))

    @work
    async def action_settings(self) -> None:
        from .settings import SettingsScreen

        await self.app.push_screen_wait(SettingsScreen(config_dir() / "config.toml", self.app.repository))
        self.app.prepare(again=True)

    @work
    async def action_theme(self) -> None:
        from .theme import ThemeScreen

        await self.app.push_screen_wait(ThemeScreen())

    def action_welcome(self) -> None:
        from .welcome import WelcomeScreen

        self.app.push_screen(WelcomeScreen(self.app.repository))

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_editor(self) -> None:
        """The prompt in the person's own editor."""
        from textual.app import SuspendNotSupported

        from ....sandbox.base.errors import WhimbrelError
        from ..editor import edited

        try:
            with self.app.suspend():
                text = edited(self.prompt.area.expanded())
        except SuspendNotSupported:
            self.notify("there is no terminal for an editor here", severity="warning", markup=False)
            return
        except (WhimbrelError, OSError) as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.prompt.area.set_whole(self.prompt.area.pastes.fitting(text))

    @work
    async def action_leave(self) -> None:
        """Leaves; asks where something runs."""
        if self.runs.driver.running:
            from .confirm import ConfirmScreen

            question = "A run goes on. Stop it and leave?"
            hint = "What it did so far is kept in its session."
            if not await self.app.push_screen_wait(ConfirmScreen(question, hint, yes="Stop and leave")):
                return
        await self.app.leave(0)

    def _busy(self, what: str) -> bool:
        if self.runs.driver.running:
            self.notify(f"a run goes on: stop it (Esc) to {what}", severity="warning", markup=False)
            return True
        return False
