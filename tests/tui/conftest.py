"""The interface on a small real repository, driven by keys and clicks."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from whimbrel.app.fix.options import FixOptions
from whimbrel.app.tui.app import WhimbrelApp
from whimbrel.app.tui.runs import Launch

from tests.fix.conftest import Repo, buggy, home, repo

__all__ = ["buggy", "home", "repo"]


@dataclass
class Tui:
    """The running application and what a test needs of it."""

    app: WhimbrelApp
    pilot: Pilot[int]

    async def until(self, condition: Callable[[], Any], seconds: float = 30.0) -> None:
        """Lets it run until something holds."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.02)

    async def type(self, text: str) -> None:
        """Text and Enter in the prompt."""
        self.app.main.prompt.area.insert(text)
        await self.pilot.press("enter")
        await self.pilot.pause()

    async def ready(self) -> None:
        """Until the settings are there."""
        await self.until(self.app.runs.ready.is_set)
        await self.pilot.pause()

    async def ended(self) -> None:
        """Until a run has begun and ended."""
        await self.until(lambda: self.app.runs.last and not self.app.runs.driver.running)
        await self.pilot.pause()

    @property
    def shown(self) -> str:
        """Everything on the screen as text, line by line."""
        width, height = self.app.size
        rows = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in rows[:height] if width)

    @property
    def said(self) -> str:
        """All words of the conversation, oldest first."""
        return "\n".join(text for _, text in reversed(list(self.app.main.conversation.texts())))


Open = Callable[..., AbstractAsyncContextManager[Tui]]


@pytest.fixture
def tui(repo: Repo, home: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Open:
    """``async with tui(model=..., size=(w, h), theme=..., **options) as it:``"""
    for name in list(os.environ):
        if name.startswith(("WHIMBREL_", "GIT_")) or name in ("HOME", "NO_COLOR", "COLORFGBG"):
            monkeypatch.delenv(name)
    for name, value in {**home, "COLORTERM": "truecolor", "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WHIMBREL_CONFIG_DIR", os.path.join(home["HOME"], "config"))

    @asynccontextmanager
    async def opened(
        *, size: tuple[int, int] = (100, 36), theme: str = "", first_time: bool = False,
        launch: dict[str, Any] | None = None, **options: Any,
    ) -> AsyncGenerator[Tui]:  # fmt: skip
        if not first_time:
            Path(home["WHIMBREL_STATE_DIR"], "tui-seen").touch()

        def prepare() -> FixOptions:
            from whimbrel.app.config import load_settings

            given = {"sandbox": "host", "allow_build": False, "python": sys.executable, **options}
            return FixOptions(repository=repo.root, settings=load_settings(repo.root).settings, **given)

        app = WhimbrelApp(Launch(repo.root, prepare, theme=theme, **(launch or {})))
        async with app.run_test(size=size) as pilot:
            it = Tui(app, pilot)
            await it.ready()
            yield it
            app.runs.driver.stop()
            await it.until(lambda: not app.runs.driver.running or app.runs.driver.wait(0))

    return opened
