"""Pictures of the screens: every screen in one theme, the rich one in every theme.

`pytest tests/tui/test_pictures.py --snapshot-update` draws them anew; look at them before they are kept.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from whimbrel.app.fix.options import FixOptions
from whimbrel.app.tools.base import Question
from whimbrel.app.tui.app import WhimbrelApp
from whimbrel.app.tui.driver import AskedPermission, AskedQuestion
from whimbrel.app.tui.runs import Launch
from whimbrel.app.tui.screens import asking
from whimbrel.app.tui.screens.confirm import ConfirmScreen
from whimbrel.app.tui.themes import NAMES
from whimbrel.app.tui.widgets.rail import Rail
from whimbrel.app.tui.widgets.reasoning import Reasoning
from whimbrel.app.tui.widgets.tool_card import ToolCard

from tests.tui import scene
from tests.tui.test_runs import _request

SIZE = (110, 40)
Act = Callable[[WhimbrelApp, Pilot[Any]], Awaitable[None]]


@pytest.fixture
def picture(snap_compare: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., bool]:
    """Compares the application, after the scene and an act, with its kept picture."""
    for name in list(os.environ):
        if name.startswith("WHIMBREL_") or name in ("NO_COLOR", "COLORFGBG") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    for name in ("state", "cache"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(f"WHIMBREL_{name.upper()}_DIR", str(tmp_path / name))
    (tmp_path / "state" / "tui-seen").touch()
    monkeypatch.setenv("WHIMBREL_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(time, "localtime", lambda *_: time.struct_time((2026, 1, 2, 3, 4, 5, 4, 2, 0)))
    # What took no time shows no time: the clock of the screens stands still.
    monkeypatch.setattr(asking, "QUIET_S", 0.0)
    for kind in (Rail, Reasoning, ToolCard):
        monkeypatch.setitem(kind.__init__.__kwdefaults__, "clock", lambda: 0.0)

    def compare(theme: str = "whimbrel-night", act: Act | None = None, size: tuple[int, int] = SIZE,
                rich: bool = True) -> bool:  # fmt: skip
        options = FixOptions(repository=project, sandbox="docker")
        app = WhimbrelApp(Launch(project, lambda: options, theme=theme))

        async def before(pilot: Pilot[Any]) -> None:
            await app.runs.ready.wait()
            await pilot.pause()
            main = app.main
            steady(main)
            if rich:
                main.conversation.say('Why does most_common(["a", "b", "b"]) give None? [/red]')
                for event in scene.events():
                    main._take(event)
            await asyncio.sleep(0.2)
            await pilot.pause()
            if act is not None:
                await act(app, pilot)
                await asyncio.sleep(0.2)
            steady(app.screen)
            await pilot.pause()
            await asyncio.sleep(0.1)

        return snap_compare(app, terminal_size=size, run_before=before)

    return compare


def steady(screen: Screen[Any]) -> None:
    """Cursors that do not blink: which half of a blink a picture shows is chance."""
    for each in screen.query("Input, TextArea"):
        each.cursor_blink = False
        each._cursor_visible = True


def press(*keys: str) -> Act:
    async def act(app: WhimbrelApp, pilot: Pilot[Any]) -> None:
        await pilot.press(*keys)

    return act


async def ask_permission(app: WhimbrelApp, pilot: Pilot[Any]) -> None:
    app.main._take(AskedPermission(_request(), Future()))
    await asyncio.sleep(0.4)


async def ask_question(app: WhimbrelApp, pilot: Pilot[Any]) -> None:
    app.main._take(AskedQuestion(Question("Which [one]?", ("red", "blue")), Future()))
    await asyncio.sleep(0.4)


async def confirm(app: WhimbrelApp, pilot: Pilot[Any]) -> None:
    app.push_screen(ConfirmScreen("A run goes on. Stop it and leave?", "What it did is kept."))
    await pilot.pause()


async def opened(app: WhimbrelApp, pilot: Pilot[Any]) -> None:
    for card in app.main.conversation.children:
        if hasattr(card, "expanded"):
            card.expanded = True
    await pilot.pause()


@pytest.mark.parametrize("theme", NAMES)
def test_the_conversation_in_every_theme(picture: Callable[..., bool], theme: str):
    assert picture(theme)


SCREENS: dict[str, tuple[Act | None, bool]] = {
    "empty": (None, False),
    "opened": (opened, True),
    "commands": (press("/"), False),
    "permission": (ask_permission, True),
    "question": (ask_question, True),
    "confirm": (confirm, True),
    "review": (press("f4"), True),
    "help": (press("f1"), False),
    "model": (press("f2"), False),
    "settings": (press("f5"), False),
    "logs": (press("f6"), False),
    "sandbox": (press("f7"), True),
    "themes": (press("f8"), False),
    "sessions": (press("f3"), False),
    "search": (press("ctrl+f", *"most"), True),
}


@pytest.mark.parametrize("name", SCREENS)
def test_each_screen(picture: Callable[..., bool], name: str):
    act, rich = SCREENS[name]
    assert picture(act=act, rich=rich)


def test_eighty_columns_with_wide_characters(picture: Callable[..., bool]):
    async def scroll(app: WhimbrelApp, pilot: Pilot[Any]) -> None:
        app.main.conversation.scroll_page_up(animate=False)
        await pilot.pause()
        app.main.conversation.scroll_relative(y=3, animate=False)

    assert picture(size=(80, 24), act=scroll)
