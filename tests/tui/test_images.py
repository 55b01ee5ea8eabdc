"""Pictures the model looks at are shown to the person, too."""

from __future__ import annotations

from PIL import Image
from whimbrel.app.fix.events import JobEvent
from whimbrel.app.tui.widgets.image_view import HalfBlocks, ImageView

from tests.fix.conftest import Repo
from tests.tui.conftest import Open


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
