"""The other screens, each by what a person does there."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Static
from whimbrel.app.tui.keys import MAIN, keymap
from whimbrel.app.tui.screens.help import HelpScreen
from whimbrel.app.tui.screens.logs import LogsScreen
from whimbrel.app.tui.screens.model import ModelScreen
from whimbrel.app.tui.screens.pager import PagerScreen
from whimbrel.app.tui.screens.review import ReviewScreen
from whimbrel.app.tui.screens.settings import SettingsScreen, ValueDialog
from whimbrel.app.tui.screens.welcome import WelcomeScreen
from whimbrel.app.tui.themes import NAMES

from tests.fix.conftest import Repo
from tests.mock_server import MockServer, completion
from tests.tui import scene
from tests.tui.conftest import Open, Tui


async def _open(it: Tui, key: str, kind: type) -> None:
    await it.pilot.press(key)
    await it.until(lambda: isinstance(it.app.screen, kind))
    await it.pilot.pause(0.05)


async def test_changes_are_reviewed_hunk_by_hunk_and_only_what_is_taken_is_applied_and_undone(
    tui: Open, repo: Repo
):
    lines = "".join(f"line {number}\n" for number in range(40))
    repo.write(**{"a.txt": lines, "b.txt": "old\n"}).commit()
    edits = [
        ("c1", "edit", {"path": "a.txt", "old": "line 1\n", "new": "LINE 1\n"}),
        ("c2", "edit", {"path": "a.txt", "old": "line 38\n", "new": "LINE 38\n"}),
        ("c3", "edit", {"path": "b.txt", "old": "old", "new": "new"}),
    ]
    reads = [("r1", "read", {"path": "a.txt"}), ("r2", "read", {"path": "b.txt"})]
    with MockServer([completion(calls=reads), completion(calls=edits), completion(text="Done.")]) as server:
        async with tui(model=server.model()) as it:
            await it.type("change things")
            await it.ended()
            assert it.app.runs.last["files"], it.app.runs.last
            before = (repo.root / "a.txt").read_text()
            await _open(it, "f4", ReviewScreen)
            # All is taken at first: the second hunk of a.txt and b.txt are left out.
            await it.pilot.press("down", "down", "space", "down", "space", "enter")
            await it.until(lambda: "applied to your files" in it.said)
            assert (repo.root / "a.txt").read_text() == before.replace("line 1\n", "LINE 1\n")
            assert (repo.root / "b.txt").read_text() == "old\n"
            await it.type("/undo")
            await it.until(lambda: "is taken back" in it.said)
            assert (repo.root / "a.txt").read_text() == before
            await it.type("/apply")
            await it.until(lambda: (repo.root / "b.txt").read_text() == "new\n")


async def test_a_setting_is_changed_in_the_persons_own_file_and_counts_at_once(tui: Open):
    async with tui() as it:
        await _open(it, "f5", SettingsScreen)
        await it.pilot.press(*"tui.keys.find")
        await it.pilot.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ValueDialog))
        await it.pilot.press(*(["backspace"] * 10), *"ctrl+s", "enter")
        await it.until(lambda: isinstance(it.app.screen, SettingsScreen))
        await it.pilot.press("escape")
        await it.until(lambda: it.app.own_keys.get("find") == "ctrl+s")
        await it.pilot.press("ctrl+s")
        await it.until(lambda: type(it.app.screen).__name__ == "FindScreen")
        await it.pilot.press("escape")
        await _open(it, "f1", HelpScreen)
        assert "ctrl+s" in it.shown
        from whimbrel.app.config import load_settings

        assert load_settings(None).settings.tui.keys == {"find": "ctrl+s"}


async def test_a_wrong_value_is_told_and_nothing_is_kept(tui: Open):
    async with tui() as it:
        await _open(it, "f5", SettingsScreen)
        await it.pilot.press(*"limits.steps")
        await it.pilot.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ValueDialog))
        await it.pilot.press(*"abc", "enter")
        await it.until(lambda: isinstance(it.app.screen, SettingsScreen))
        await it.until(
            lambda: "limits.steps:" in str(it.app.screen.query_one(".dialog-hint", Static).content)
        )


def test_unknown_and_empty_keys_of_the_settings_are_told_in_one_line_each():
    good, problems = keymap({"find": "ctrl+s, ctrl+x", "nope": "a", "stop": " "})
    assert good == {"find": "ctrl+s,ctrl+x"}
    assert [problem.split(":")[0] for problem in problems] == ["tui.keys.nope", "tui.keys.stop"]


def test_no_key_of_the_main_screen_means_two_things():
    keys = [key for each in MAIN for key in each.keys.split(",")]
    assert len(keys) == len(set(keys))


async def test_a_model_is_chosen_listed_and_probed_by_keyboard(tui: Open):
    documents = {"/v1/models": {"data": [{"id": "alpha", "max_model_len": 4096}, {"id": "beta"}]}}
    with MockServer([], documents=documents) as server:
        async with tui() as it:
            await _open(it, "f2", ModelScreen)
            await it.pilot.press(*f"vllm:@{server.url}", "ctrl+l")
            await it.until(lambda: any("alpha" in row.value for row in it.app.screen._rows))
            await it.pilot.press(*"alpha", "ctrl+e", "enter")
            await it.until(lambda: it.app.screen is it.app.main)
            assert it.app.runs.model == f"vllm:alpha@{server.url}" and it.app.runs.effort == "low"
            await it.pilot.pause()
            assert "alpha" in it.shown


async def test_the_first_run_says_what_is_here_and_trusts_only_when_asked_to(tui: Open, repo: Repo):
    repo.write(**{"AGENTS.md": "Be [/red] kind.\n"}).commit()
    async with tui(first_time=True, size=(110, 50)) as it:
        await it.until(lambda: isinstance(it.app.screen, WelcomeScreen))
        await it.until(lambda: "git" in it.shown and "looking" not in it.shown)
        await it.until(lambda: not it.app.screen.deaf)
        assert "AGENTS.md (not trusted, so not obeyed)" in it.shown and "embedded" in it.shown
        await it.pilot.press("t")
        await it.until(lambda: "AGENTS.md (trusted)" in it.shown)
    async with tui(first_time=True) as it:
        await it.pilot.pause(0.1)
        assert it.app.screen is it.app.main


async def test_logs_drive_no_terminal_and_large_files_from_their_end(tui: Open, tmp_path: Path):
    log = tmp_path / "logs" / "row-001.log"
    log.parent.mkdir()
    log.write_bytes(b"start\n" + b"x" * (2 << 20) + b"\n\x1b[31mred [/red]\nend\n")
    async with tui() as it:
        it.app.runs.last = {"output": str(tmp_path / "logs")}
        await _open(it, "f6", LogsScreen)
        await it.pilot.press("enter")
        await it.until(lambda: isinstance(it.app.screen, PagerScreen))
        await it.until(lambda: "red [/red]" in it.shown and "\x1b" not in it.shown and "end" in it.shown)


@pytest.mark.parametrize("theme", NAMES)
async def test_text_differs_from_its_background_in_every_theme(tui: Open, theme: str):
    async with tui(theme=theme) as it:
        it.app.main.conversation.say("a question")
        it.app.main.conversation.text("an **answer** with `code`")
        it.app.main.conversation.note("a note", "warning")
        await it.pilot.pause(0.1)
        seen = 0
        for strip in it.app.screen._compositor.render_strips():
            for segment in strip:
                style = segment.style
                if not segment.text.strip() or not style or not style.color or not style.bgcolor:
                    continue
                seen += 1
                both_default = style.color.is_default and style.bgcolor.is_default
                assert both_default or style.color != style.bgcolor, (theme, segment)
        assert seen > 5


@pytest.mark.parametrize("width", [200, 40, 200])
async def test_a_terminal_of_any_width_shows_the_prompt_and_the_rail_only_where_there_is_room(
    tui: Open, width: int
):
    async with tui(size=(120, 30)) as it:
        await it.pilot.resize_terminal(width, 30)
        await it.pilot.pause(0.1)
        assert it.app.main.prompt.area.region.width > 30
        assert it.app.main.query_one("#rail-place").display is (width >= 100)


async def test_the_end_of_a_long_run_is_told_by_the_terminal_when_the_settings_say_so(tui: Open):
    async with tui() as it:
        told: list[str] = []
        it.app._driver.write = told.append  # type: ignore[union-attr]
        settings = it.app.settings
        assert settings is not None
        it.app.settings = settings.model_copy(update={"notify": "desktop", "notify_after": 5.0})
        it.app.tell_end("fixed", 3.0)
        assert told == []
        it.app.tell_end("fi\x1bxed", 6.0)
        assert told == [f"\x1b]9;Whimbrel: {it.app.repository.name}: fixed\x07"]


async def test_the_plan_of_the_model_stands_beside_and_tests_are_a_tree_before_and_after(tui: Open):

    async with tui(size=(120, 40)) as it:
        items = [{"text": "read [/red]", "status": "done"}, {"text": "patch", "status": "in_progress"}]
        for event in scene.call(1, "todo", "read", {"items": items}, text="noted", data={"items": items}):
            it.app.main._take(event)
        await it.pilot.pause(0.2)
        assert "read [/red]" in it.shown and "patch" in it.shown
        rows = [
            {"number": 1, "fresh_process": True, "outcomes": {"t.py::a": "failed", "t.py::b": "passed"}},
            {"number": 2, "fresh_process": False, "outcomes": {"t.py::a": "passed"}},
            {"number": 3, "fresh_process": True, "outcomes": {"t.py::a": "passed", "t.py::b": "passed"}},
        ]
        it.app.runs.last = {"evidence": rows, "tests_before": {"ledger_rows": [1]}}
        await it.type("/tests")
        await it.until(lambda: "Tests before and after" in it.shown)
        await it.pilot.pause(0.1)
        assert "t.py" in it.shown


async def test_the_sandbox_page_shows_what_runs_and_what_it_said(tui: Open):
    call = {"call_id": "c1", "name": "bash"}
    started = scene.agent(kind="tool_started", **call, permission="execute", arguments={"command": "make x"})
    finished = scene.agent(kind="tool_finished", **call, text="made [/red]", artifacts=(), duration_s=1.0, data=None, is_error=False)  # fmt: skip
    async with tui() as it:
        it.app.main._take(started)
        await it.pilot.press("f7")
        await it.until(lambda: "1 running" in it.shown)
        assert "make x" in it.shown
        it.app.main._take(finished)
        await it.until(lambda: "made [/red]" in it.shown)
        assert "1 running" not in it.shown
        await it.pilot.press("s")
        await it.until(lambda: "nothing runs" in it.shown)
