"""Pictures of the terminal interface for the pages: the real program repairs the example project.

Run by `make docs` in a process of its own: the clocks of the screens stand still, and everything that
would differ from run to run (folders, identity and dates of the commit, settings) is fixed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "orderdesk"
SIZE = (120, 40)
_GIVEN = 300.0
"""Seconds until a repair that has not ended counts as stuck."""


def prepared(place: Path) -> Path:
    """A copy of the example, committed by nobody in particular at a fixed time."""
    repository = place / EXAMPLE.name
    shutil.copytree(EXAMPLE, repository, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "WHIMBREL_"))}
    moment = "2026-01-02T03:04:05Z"
    for person in ("AUTHOR", "COMMITTER"):
        kept |= {f"GIT_{person}_NAME": "Demo", f"GIT_{person}_EMAIL": "demo@example.invalid",
                 f"GIT_{person}_DATE": moment}  # fmt: skip
    kept |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for arguments in (("init", "--quiet", "--initial-branch=main"), ("add", "--all"),
                      ("commit", "--quiet", "--message=Order desk 1.4.0")):  # fmt: skip
        subprocess.run(["git", *arguments], cwd=repository, check=True, env=kept)
    return repository


def fix_surroundings(place: Path, repository: Path) -> None:
    """Variables and clocks of this process."""
    for name in list(os.environ):
        if name.startswith(("WHIMBREL_", "GIT_")) or name.endswith("_API_KEY"):
            del os.environ[name]
    for name in ("NO_COLOR", "COLORFGBG", "TMUX"):
        os.environ.pop(name, None)
    for name in ("STATE", "CACHE", "CONFIG"):
        folder = place / name.lower()
        folder.mkdir()
        os.environ[f"WHIMBREL_{name}_DIR"] = str(folder)
    (place / "state" / "tui-seen").touch()
    os.environ |= {"COLORTERM": "truecolor", "TERM": "xterm-256color"}
    os.chdir(repository)
    from whimbrel.app.tui.conversation import Conversation
    from whimbrel.app.tui.widgets.rail import Rail
    from whimbrel.app.tui.widgets.reasoning import Reasoning
    from whimbrel.app.tui.widgets.tool_card import ToolCard

    for kind in (Rail, Reasoning, ToolCard):
        kind.__init__.__kwdefaults__["clock"] = lambda: 0.0
    finished = Conversation.tool_finished

    def timeless(self: Conversation, event: Any) -> None:
        finished(self, event.model_copy(update={"duration_s": 0.0}))

    Conversation.tool_finished = timeless  # type: ignore[method-assign]


async def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + _GIVEN
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the interface did not get to where its picture was to be taken")
        await asyncio.sleep(0.05)


async def take(repository: Path, sandbox: str) -> dict[str, str]:
    """Name -> SVG."""
    from whimbrel.app.config import load_settings
    from whimbrel.app.fix.options import FixOptions
    from whimbrel.app.tui.app import WhimbrelApp
    from whimbrel.app.tui.runs import Launch

    def prepare() -> FixOptions:
        return FixOptions(
            repository=repository, sandbox=sandbox, allow_build=False, python=sys.executable,
            settings=load_settings(repository).settings,
        )  # fmt: skip

    app = WhimbrelApp(Launch(repository, prepare, theme="whimbrel-night"))
    taken: dict[str, str] = {}
    async with app.run_test(size=SIZE) as pilot:

        async def picture(name: str) -> None:
            await pilot.pause()
            await asyncio.sleep(0.4)
            for each in app.screen.query("Input, TextArea"):
                each.cursor_blink = False  # type: ignore[attr-defined]
            await pilot.pause()
            taken[name] = app.export_screenshot(title="whimbrel")

        await until(app.runs.ready.is_set)
        app.main.prompt.area.insert("/fix ISSUE.md")
        await pilot.press("enter")
        await until(lambda: app.runs.last and not app.runs.driver.running)
        if app.runs.last.get("status") != "fixed":
            raise RuntimeError(f"the example was not repaired: {app.runs.last.get('message')}")
        await picture("repair")
        await pilot.press("f4")
        await picture("review")
        await pilot.press("escape", "f2")
        await picture("model")
        await pilot.press("escape")
    return taken


def make(folder: Path, sandbox: str = "") -> list[Path]:
    """Writes the pictures into a folder; in bubblewrap where that is installed, for it needs no daemon."""
    sandbox = sandbox or ("bwrap" if shutil.which("bwrap") else "host")
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="whimbrel-pictures-") as name:
        place = Path(name)
        repository = prepared(place)
        fix_surroundings(place, repository)
        try:
            taken = asyncio.run(take(repository, sandbox))
        finally:
            os.chdir(home)
    folder.mkdir(exist_ok=True, parents=True)
    for stem, svg in taken.items():
        (folder / f"{stem}.svg").write_text(svg, encoding="utf-8")
    return [folder / f"{stem}.svg" for stem in taken]


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures", *sys.argv[2:3])
