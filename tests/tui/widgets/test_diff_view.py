"""Diffs on the screen, and the review before they are applied."""

import difflib

import pytest
from whimbrel.app.tui.widgets.diff_review import DiffReview
from whimbrel.app.tui.widgets.diff_rows import changed_words
from whimbrel.app.tui.widgets.diff_view import DiffView

from tests.tui.widgets.stage import HOSTILE, WIDE, Stage, screen_text

OLD = (
    f'import os\n\n\ndef low(value):\n    """Doc {HOSTILE}."""\n    if value > 3:\n        return "{WIDE}"\n'
    + "x\n" * 20
)
NEW = OLD.replace("value > 3", "value >= 3").replace("import os\n", "import os\nimport sys\n") + "é\n"


def diff(path: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{path}", f"b/{path}")
    return f"diff --git a/{path} b/{path}\n" + "".join(lines)


PATCH = diff("low.py", OLD, NEW) + diff("other.txt", "a\r\nb\r\n", "a\r\nc\r\n")


def long_patch(lines: int) -> str:
    old = [f"line {number} = call({number})  # comment\n" for number in range(lines)]
    body = "".join(
        f"-{line}+{line.replace('call', 'other')}" if number % 3 else f" {line}"
        for number, line in enumerate(old)
    )
    return f"diff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\n@@ -1,{lines} +1,{lines} @@\n{body}"


@pytest.mark.parametrize(("width", "split"), [(80, False), (140, True)])
async def test_the_layout_follows_the_width_and_a_key_and_nothing_is_wider_than_the_screen(
    width: int, split: bool
) -> None:
    app = Stage(lambda: DiffView(PATCH))
    async with app.run_test(size=(width, 50)) as pilot:
        view = app.query_one(DiffView)
        await pilot.pause()
        assert view.side_by_side is split
        view.focus()
        for _ in range(2):
            assert all(
                view.render_line(y).cell_length == view.scrollable_content_region.width for y in range(40)
            )
            text = screen_text(app)
            for part in (
                "low.py",
                "value > 3",
                "value >= 3",
                "import sys",
                "other.txt",
                HOSTILE[:20],
                "漢字",
            ):
                assert part in text
            assert "\r" not in text
            await pilot.press("s")
            await pilot.pause()
        assert view.side_by_side is split


async def test_opening_twenty_thousand_lines_draws_the_screen_and_no_more() -> None:
    app = Stage(lambda: DiffView(long_patch(20_000)))
    async with app.run_test(size=(100, 40)) as pilot:
        view = app.query_one(DiffView)
        while len(view.rows) < 33_000:
            await pilot.pause()
        assert view.rows_drawn < 4 * 40
        before = view.rows_drawn
        view.scroll_to(y=30_000, animate=False)
        await pilot.pause()
        assert 0 < view.rows_drawn - before <= 2 * 40
        assert "18000" in screen_text(app)


async def test_keys_go_from_hunk_to_hunk_and_long_lines_are_reached_sideways() -> None:
    wide = diff("w.txt", "a" * 300 + "END\n", "b" * 300 + "STOP\n")
    app = Stage(lambda: DiffView(long_patch(50) + wide))
    async with app.run_test(size=(80, 20)) as pilot:
        view = app.query_one(DiffView)
        view.focus()
        await pilot.pause()
        await pilot.press("n", "n")
        await pilot.pause()
        assert view.scroll_offset.y > 20
        view.scroll_to(x=view.max_scroll_x, animate=False)
        await pilot.pause()
        assert "STOP" in screen_text(app)
        assert "END" in screen_text(app)


def test_words_that_changed_are_found_and_lines_without_likeness_are_left_alone() -> None:
    old, new = "if value > 3:", "if value >= 3:"
    left, right = changed_words(old, new)
    assert "".join(new[start:end] for start, end in right) == "="
    assert left == []
    assert changed_words("completely different", "0xDEADBEEF()") == ([], [])
    assert changed_words("x" * 1000, "x" * 999) == ([], [])


class Review(Stage):
    def __init__(self, patch: str) -> None:
        super().__init__(lambda: DiffReview(patch))
        self.decided: list[str | None] = []

    def on_diff_review_decided(self, event: DiffReview.Decided) -> None:
        self.decided.append(event.patch)


async def test_a_review_by_keyboard_takes_and_refuses_and_says_what_is_left() -> None:
    app = Review(PATCH)
    async with app.run_test(size=(100, 50)) as pilot:
        review = app.query_one(DiffReview)
        review.focus()
        await pilot.pause()
        await pilot.press("enter")
        await pilot.press("j", "j", "space")  # the second hunk of the first file
        await pilot.press("enter")
        await pilot.press("j", "space", "enter")  # the second file as a whole
        await pilot.press("r", "enter", "a", "enter", "escape")
        await pilot.pause()
    whole, part, less, nothing, again, cancelled = app.decided
    assert whole == PATCH == again
    assert part is not None and "+import sys" in part and "+é" not in part and "other.txt" in part
    assert less is not None and "other.txt" not in less
    assert (nothing, cancelled) == ("", None)


async def test_a_review_by_mouse() -> None:
    app = Review(PATCH)
    async with app.run_test(size=(100, 50)) as pilot:
        review = app.query_one(DiffReview)
        await pilot.pause()
        for y, row in enumerate(review.rows):
            if row.kind == "file" and row.file == 1:
                await pilot.click(review, offset=(3, y))
        await pilot.pause()
        assert "other.txt" not in review.accepted_patch
        assert "low.py" in review.accepted_patch
        assert "[ ]" in screen_text(app)


async def test_an_empty_patch_and_words_that_are_none_do_no_harm() -> None:
    for text in ("", "no patch at all\n@@ nor here\n+++\n---", "diff --git a/x b/x\n"):
        app = Review(text)
        async with app.run_test(size=(60, 10)) as pilot:
            review = app.query_one(DiffReview)
            review.focus()
            await pilot.press("j", "space", "a", "r", "s", "n", "enter")
            await pilot.pause()
        assert app.decided == [""]
