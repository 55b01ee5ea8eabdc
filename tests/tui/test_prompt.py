"""The prompt: pastes, history, completion, keys."""

from __future__ import annotations

import pytest
from textual import events
from whimbrel.app.tui.prompt import PromptArea
from whimbrel.app.tui.prompt_chips import Pastes

from tests.fix.conftest import Repo
from tests.tui.conftest import Open

LONG = "\n".join(f"line {number} [/red] ⟦x⟧" for number in range(10_000))


async def test_a_paste_of_ten_thousand_lines_is_one_chip_that_edits_as_one_letter_and_is_sent_whole(
    tui: Open,
):
    async with tui() as it:
        area = it.app.main.prompt.area
        sent: list[str] = []
        it.app.main.submit = lambda text, _: sent.append(text)  # type: ignore[method-assign]
        await it.pilot.press(*"see ")
        area.post_message(events.Paste(LONG))
        await it.pilot.pause()
        assert area.text == "see ⟦paste 1: 10000 lines⟧"
        # Edits around it leave it whole; an insertion inside goes behind it.
        await it.pilot.press("home", *"pls ", "end", *" ok")
        area.move_cursor((0, 12))
        await it.pilot.press("!")
        assert area.text == "pls see ⟦paste 1: 10000 lines⟧! ok"
        await it.pilot.press("enter")
        assert sent == [f"pls see {LONG}! ok"]


async def test_word_delete_takes_a_chip_whole_and_undo_brings_it_back_whole(tui: Open):
    async with tui() as it:
        area = it.app.main.prompt.area
        area.post_message(events.Paste(LONG))
        await it.pilot.pause()
        await it.pilot.press("ctrl+w")
        assert area.text == ""
        await it.pilot.press("ctrl+underscore")
        assert area.expanded() == LONG


async def test_tab_on_a_chip_shows_its_text(tui: Open):
    async with tui() as it:
        area = it.app.main.prompt.area
        area.post_message(events.Paste("a\n" * 20))
        await it.pilot.pause()
        await it.pilot.press("tab")
        assert area.text == "a\n" * 20


def test_a_text_that_looks_like_a_chip_stays_what_it_is():
    pastes = Pastes()
    chip = pastes.chip_for("x\n" * 50 + "⟦paste 1: 51 lines⟧")
    assert (
        pastes.expand(f"{chip} ⟦paste 2: 3 lines⟧") == "x\n" * 50 + "⟦paste 1: 51 lines⟧ ⟦paste 2: 3 lines⟧"
    )


async def test_prompts_are_remembered_for_the_repository_with_secrets_masked(
    tui: Open, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SERVICE_API_KEY", "abcdefghijklmnop")
    async with tui() as it:
        it.app.main.submit = lambda *_: None  # type: ignore[method-assign]
        await it.type("first")
        await it.type("second\nof two lines")
        await it.type("use abcdefghijklmnop")
    async with tui() as it:
        area = it.app.main.prompt.area
        await it.pilot.press(*"draft", "up")
        assert area.text.startswith("use ") and "abcdefghijklmnop" not in area.text
        await it.pilot.press("up")
        assert area.text == "second\nof two lines"
        await it.pilot.press("up", "up", "up", "up")
        assert area.text == "first"
        await it.pilot.press("down", "down", "down", "down", "down")
        assert area.text == "draft"


async def test_commands_and_files_complete_and_enter_takes_the_marked_one(tui: Open, repo: Repo):
    repo.write(**{"src__parser.py": "x = 1\n", "notes.md": "hello\n"}).commit()
    async with tui() as it:
        area = it.app.main.prompt.area
        await it.pilot.press(*"/mo")
        await it.pilot.pause()
        assert "/model" in it.shown and area.completing
        await it.pilot.press("tab")
        await it.pilot.pause()
        assert area.text == "/model " and not area.completing
        area.clear_all()
        await it.pilot.press(*"why @par")
        await it.until(lambda: area.completing)
        await it.pilot.press("enter")
        await it.pilot.pause()
        assert area.text == "why @src/parser.py "


@pytest.mark.parametrize(
    ("text", "told"),
    [("/modle", "did you mean /model?"), ("/review now", "takes nothing behind it")],
)
async def test_a_slip_in_a_command_is_told_and_stays_in_the_prompt(tui: Open, text: str, told: str):
    async with tui() as it:
        await it.type(text)
        assert any(told in note.message for note in it.app._notifications)
        assert it.app.main.prompt.area.text == text


async def test_a_path_at_the_beginning_is_a_prompt_and_no_command():
    from whimbrel.app.tui.commands import split

    assert split("/usr/lib is missing") == (None, "", "")
    assert split("/fix the parser")[1] == "the parser"


async def test_an_input_method_commits_whole_words(tui: Open):
    async with tui() as it:
        # What an input method commits comes as one event per character, without any key names.
        for char in "日本語/":
            it.app.post_message(events.Key(char, char))
        await it.pilot.pause()
        assert it.app.main.prompt.area.text == "日本語/"
        assert not it.app.main.prompt.area.completing


async def test_the_editor_gets_the_whole_text_and_gives_it_back(tui: Open, monkeypatch: pytest.MonkeyPatch):
    from whimbrel.app.tui.editor import edited

    monkeypatch.setenv("EDITOR", "sed -i s/old/new/")
    monkeypatch.delenv("VISUAL", raising=False)
    assert edited(f"old\n{LONG}") == f"new\n{LONG}"
    monkeypatch.setenv("EDITOR", "false")
    with pytest.raises(OSError, match="exit code 1; the prompt is as it was"):
        edited("text")
    monkeypatch.setenv("EDITOR", "no-such-editor")
    with pytest.raises(OSError, match="cannot be started"):
        edited("text")


def test_a_prompt_area_has_its_own_key_for_undo_because_ctrl_z_goes_to_the_shell():
    keys = {key for binding in PromptArea.BINDINGS for key in getattr(binding, "key", "").split(",")}
    assert "ctrl+underscore" in keys and "ctrl+z" not in keys
