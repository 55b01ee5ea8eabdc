"""Logs of any size, read where they are looked at."""

from pathlib import Path

import pytest
from whimbrel.app.tui.widgets.log_file import INDEXED_AT_ONCE, LONGEST, LogFile
from whimbrel.app.tui.widgets.log_view import LogView

from tests.tui.widgets.stage import ESCAPES, HOSTILE, Stage, screen_text


def indexed(log: LogFile) -> LogFile:
    while log.index_more():
        pass
    return log


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
def test_any_lines_are_read_as_they_are_in_the_file(tmp_path: Path, end: bytes) -> None:
    lines = [f"line {number} ".encode() * (number % 7) for number in range(40_000)]
    path = tmp_path / "log"
    path.write_bytes(b"\n".join(lines) + end)
    log = indexed(LogFile(path))
    expected = path.read_bytes().split(b"\n")
    expected = expected[:-1] if not expected[-1] else expected
    assert log.lines == len(expected)
    for first in (0, 1, 63, 64, 65, 12_345, 39_990):
        assert log.read(first, 100) == expected[first : first + 100]
    assert log.read(50_000, 10) == []
    log.close()


def test_the_index_of_a_long_log_is_small_and_a_step_reads_a_bounded_piece(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"some output of a test\n" * 400_000)
    log, steps = LogFile(path), 0
    while True:
        before = log.indexed_bytes
        if not log.index_more():
            break
        steps += 1
        assert log.indexed_bytes - before <= INDEXED_AT_ONCE
    assert steps == -(-path.stat().st_size // INDEXED_AT_ONCE)
    assert log.index_size < path.stat().st_size / 100
    log.close()


def test_one_endless_line_is_cut_with_its_size(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"start\n" + b"x" * 5_000_000 + b"\nend\n")
    log = indexed(LogFile(path))
    start, long, end = log.read(0, 3)
    assert (start, end) == (b"start", b"end")
    assert len(long) < LONGEST + 100
    assert long.endswith(f"[... {5_000_000 - LONGEST} more bytes]".encode())
    log.close()


def test_search_finds_lines_both_ways_across_pieces_and_a_log_begun_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = ["nothing here"] * 200_000
    for at in (0, 100_000, 199_999):
        lines[at] = "an ERROR"
    path.write_text("\n".join(lines))
    log = indexed(LogFile(path))
    assert [log.find(b"error", at, 1) for at in (-1, 0, 100_000, 199_999)] == [0, 100_000, 199_999, None]
    assert [log.find(b"Error", at, -1) for at in (200_000, 199_999, 100_000, 0)] == [
        199_999,
        100_000,
        0,
        None,
    ]
    path.write_text("new\n")
    indexed(log)
    assert (log.lines, log.read(0, 5)) == (1, [b"new"])
    log.close()


async def test_what_is_appended_is_followed_until_the_person_scrolls_away() -> None:
    app = Stage(LogView)
    async with app.run_test(size=(80, 20)) as pilot:
        log = app.query_one(LogView)

        async def add(text: str, lines: int) -> None:
            log.append(text)
            while log.line_count < lines:
                await pilot.pause(0.02)
            await pilot.pause()

        await add("".join(f"line {number}\n" for number in range(100)), 100)
        assert "line 99" in screen_text(app)
        log.scroll_to(y=10, animate=False)
        await pilot.pause()
        await add("more\n" * 50, 150)
        assert log.scroll_offset.y == 10
        log.scroll_end(animate=False)
        await pilot.pause()
        await add("the last\n", 151)
        assert "the last" in screen_text(app)


async def test_nothing_in_a_log_is_interpreted_and_its_colours_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(
        f"{HOSTILE}\n{ESCAPES}\n10%\r100%\n\x1b[32mgreen\x1b[0m\n".encode() + b"\xff\xfe bytes\n"
    )
    app = Stage(lambda: LogView(path))
    async with app.run_test(size=(100, 20)) as pilot:
        log = app.query_one(LogView)
        while log.line_count < 5:
            await pilot.pause(0.02)
        await pilot.pause()
        text = screen_text(app)
        assert HOSTILE in text
        assert "100%" in text and "10%100%" not in text
        assert "\ufffd\ufffd bytes" in text
        assert not any(ord(character) < 32 and character != "\n" for character in text)
        assert log.line(3).spans, "the colour is a style of the line"


async def test_a_search_marks_and_shows_its_line_and_memory_stays_bounded(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"line {number} of the [log]\n" for number in range(100_000)))
    app = Stage(lambda: LogView(path))
    async with app.run_test(size=(80, 20)) as pilot:
        log = app.query_one(LogView)
        while log.line_count < 100_000:
            await pilot.pause(0.02)
        assert await log.search("LINE 77777 ")
        await pilot.pause()
        assert log.found_line == 77_777
        assert "line 77777 of the [log]" in screen_text(app)
        log.focus()
        await pilot.press("n")
        assert log.found_line == 77_777, "there is no other"
        for at in range(0, 90_000, 3_000):
            log.scroll_to(y=at, animate=False)
            await pilot.pause()
        assert log.memory < path.stat().st_size / 10
        assert log.lines_drawn < 40 * 25
