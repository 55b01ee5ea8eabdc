"""Images in the prompt and in the conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from textual import events
from whimbrel.app.fix.events import JobEvent
from whimbrel.app.tui.prompt_chips import images_in_paste
from whimbrel.app.tui.widgets.image_view import HalfBlocks, ImageView

from tests.fix.conftest import Repo
from tests.mock_server import MockServer, completion
from tests.tui.conftest import Open


@pytest.fixture
def shots(repo: Repo, tmp_path: Path) -> tuple[Path, Path]:
    inside, outside = repo.root / "shot.png", tmp_path / "else where" / "red dot.png"
    outside.parent.mkdir()
    Image.new("RGB", (30, 20), (0, 0, 200)).save(inside)
    Image.new("RGB", (8, 8), (200, 0, 0)).save(outside)
    repo.write(**{"a.py": "x = 1\n"}).commit()
    return inside, outside


async def test_a_completed_and_a_pasted_image_are_chips_are_shown_and_reach_the_model_and_come_back(
    tui: Open, shots: tuple[Path, Path]
):
    with MockServer([completion(text="Two."), completion(text="Still two.")]) as server:
        async with tui(model=server.model()) as it:
            area = it.app.main.prompt.area
            await it.pilot.press(*"see @sho")
            await it.until(lambda: area.completing)
            await it.pilot.press("tab")
            await it.pilot.pause()
            assert area.text.startswith("see ⟦image 1: shot.png, ")
            area.post_message(events.Paste(str(shots[1]).replace(" ", "\\ ") + " "))
            await it.pilot.pause()
            assert "⟦image 2: red dot.png, " in area.text
            await it.pilot.press("enter")
            await it.ended()
            views = list(it.app.main.conversation.query(ImageView))
            assert [view.text for view in views] == ["shot.png", "red dot.png"]
            await it.until(lambda: len(it.app.main.conversation.query(HalfBlocks)) == 2)
            assert f'see @shot.png @"{shots[1]}"' in it.said
            # As it is recorded.
            it.app.main.show_session()
            await it.until(lambda: len(it.app.main.conversation.query(HalfBlocks)) == 2)
    content = server.requests[0].messages[-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "image_url"]


async def test_an_image_that_cannot_be_read_is_one_line_and_the_words_are_back_in_the_prompt(
    tui: Open, shots: tuple[Path, Path]
):
    shots[0].write_bytes(b"no picture")
    async with tui() as it:
        await it.type("look at @shot.png please")
        await it.until(lambda: "not sent" in it.said)
        assert "not sent: image shot.png is text, not a PNG" in it.said
        assert it.app.main.prompt.area.text == "look at @shot.png please"
        assert not it.app.runs.driver.running


async def test_names_inside_a_paste_attach_nothing(tui: Open, shots: tuple[Path, Path]):
    async with tui() as it:
        sent: list[Any] = []
        it.app.main._send = lambda *given: sent.append(given)  # type: ignore[method-assign]
        it.app.main.prompt.area.post_message(events.Paste("log @shot.png\n" * 50))
        await it.pilot.pause()
        await it.pilot.press("enter")
        assert "@shot.png" in sent[0][0] and "@shot.png" not in sent[0][1]


def test_only_paths_of_images_are_taken_for_images(shots: tuple[Path, Path]):
    inside, outside = shots
    folder = inside.parent
    assert images_in_paste(f"{inside}\n", folder) == [inside]
    assert images_in_paste(f"'{outside}' shot.png", folder) == [outside, inside]
    assert images_in_paste(outside.as_uri(), folder) == [outside]
    assert images_in_paste(str(outside), folder) == [outside]
    for words in ("see shot.png", "a.py", "gone.png", "shot.png\nshot.png", "it's shot.png", "\0.png", ""):
        assert images_in_paste(words, folder) == []


def looked_at(path: str) -> JobEvent:
    data = {"kind": "tool_finished", "call_id": "1", "name": "view_image", "text": "", "data": {"path": path}}
    return JobEvent("agent", data=data)


async def test_a_picture_of_the_repository_is_shown_and_nothing_outside_of_it(tui: Open, repo: Repo):
    Image.new("RGB", (40, 20), "red").save(repo.root / "shot.png")
    Image.new("RGB", (40, 20), "red").save(repo.root.parent / "outside.png")
    async with tui() as it:
        for path in ("shot.png", "../outside.png", "gone.png", str(repo.root.parent / "outside.png")):
            it.app.main._event(looked_at(path))
        await it.until(lambda: bool(it.app.main.query(HalfBlocks)))
        assert len(it.app.main.query(ImageView)) == 1
        assert "40 × 20 · shot.png" in it.shown
