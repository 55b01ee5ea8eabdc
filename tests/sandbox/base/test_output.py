"""Showing output: true sizes, failing lines, plain text."""

from __future__ import annotations

import hashlib
from pathlib import Path

from whimbrel.sandbox.base.process import OutputCapture, failing_lines, render_output
from whimbrel.sandbox.base.results import ExecResult


def captured(data: bytes, log: Path, *, pieces: int = 7000, **options: int) -> ExecResult:
    capture = OutputCapture(log, **options)
    for start in range(0, len(data), pieces):
        capture.feed(data[start : start + pieces])
    return capture.finish().result(argv=("x",), cwd="/", exit_code=1, duration_s=0.0)


def test_everything_is_counted_hashed_and_kept_on_disk(tmp_path: Path) -> None:
    data = b"".join(f"line {number}\n".encode() for number in range(50_000)) + b"no newline at the end"
    result = captured(data, tmp_path / "log")
    assert result.total_bytes == len(data)
    assert result.total_lines == 50_001
    assert result.log_sha256 == hashlib.sha256(data).hexdigest()
    assert (tmp_path / "log").read_bytes() == data
    assert result.truncated
    assert result.head == data[:32768]
    assert result.tail == data[-32768:]


def test_output_that_fits_is_whole_in_the_head(tmp_path: Path) -> None:
    data = b"x" * 65_536
    result = captured(data, tmp_path / "log")
    assert (result.head, result.tail, result.truncated) == (data, b"", False)
    assert captured(data + b"y", tmp_path / "log").truncated


def test_a_failing_line_in_the_middle_of_three_megabytes_is_shown_with_its_number(tmp_path: Path) -> None:
    lines = [f"step {number} done".encode() for number in range(150_000)]
    lines[70_000] = b"E   AssertionError: expected 3, got 4"
    data = b"\n".join(lines)
    text = render_output(captured(data, tmp_path / "log"), log_name="log-7")
    assert "70001: E   AssertionError: expected 3, got 4" in text
    assert f"of {len(data)} bytes (150000 lines)" in text
    assert "log-7" in text
    assert text.startswith("step 0 done")
    assert text.endswith("step 149999 done")
    assert len(text) < 30_000


def test_an_error_at_the_start_of_the_last_of_twenty_long_lines_is_shown(tmp_path: Path) -> None:
    lines = [b"." * 100_000 for _ in range(19)] + [b"ERROR: it broke " + b"." * 100_000]
    text = render_output(captured(b"\n".join(lines), tmp_path / "log"))
    assert "20: ERROR: it broke" in text
    assert "bytes of this line" in text
    assert len(text) < 40_000


def test_the_telling_word_inside_a_long_line_stays_visible() -> None:
    line = b"a" * 50_000 + b" ValueError: bad " + b"b" * 50_000
    (found,) = failing_lines(line)
    assert "ValueError: bad" in found.text
    assert found.size == len(line)
    assert len(found.text) < 800


def test_lines_that_report_success_are_not_failures() -> None:
    data = b"0 errors, 0 warnings\ntest_error_handling.py::test_failed PASSED\nno failures\nFAILED test_a\n"
    assert [line.text for line in failing_lines(data)] == ["FAILED test_a"]


def test_of_many_failures_the_first_and_the_last_are_kept() -> None:
    data = b"".join(f"error {number}\n".encode() for number in range(1000))
    found = failing_lines(data, limit=10)
    assert [line.number for line in found] == [1, 2, 3, 4, 5, 996, 997, 998, 999, 1000]


def test_colours_progress_bars_and_control_bytes_become_plain_text(tmp_path: Path) -> None:
    data = b"\x1b[31mred\x1b[0m \x1b]0;title\x07nul:\x00 bell:\x07\n10%\r50%\r100%\r\nLatin \xe9\n"
    text = render_output(captured(data, tmp_path / "log"))
    assert text == "red nul:\u2400 bell:\u2407\n100%\nLatin \ufffd\n"


def test_a_log_that_vanished_is_said(tmp_path: Path) -> None:
    result = captured(b"line\n" * 100_000, tmp_path / "log")
    (tmp_path / "log").unlink()
    assert "the log could not be read again: No such file" in render_output(result)


def test_a_log_in_an_impossible_place_does_not_lose_the_output(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = captured(b"hello", tmp_path / "file" / "log")
    assert result.head == b"hello"
    assert "the full log could not be written" in result.note
