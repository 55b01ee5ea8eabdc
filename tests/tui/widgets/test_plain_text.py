"""Foreign text before it reaches a cell of the screen."""

import pytest
from whimbrel.app.tui.widgets.ansi_style import ansi_content
from whimbrel.app.tui.widgets.code_style import language_of, spans_of
from whimbrel.app.tui.widgets.plain_text import clean, link_target, one_line


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\r\nb\r\n", "a\nb\n"),
        ("10%\r 50%\r100%", "100%"),
        ("abcdef\rxy", "xycdef"),
        ("abd\bc", "abc"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;https://a\x1b\\x\x1b]8;;\x1b\\", "x"),
        ("never ended \x1b]0;title\nnext", "never ended \nnext"),
        ("a\tb", "a   b"),
        ("nul\x00 bell\x07", "nul\u2400 bell\u2407"),
        ("safe\u202ereversed", "safe\ufffdreversed"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("👩‍👩‍👧 漢字", "👩‍👩‍👧 漢字"),
    ],
)
def test_text_is_what_a_terminal_would_leave_of_it(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_colours_of_programs_are_kept_and_nothing_else_of_their_escapes() -> None:
    content = ansi_content(
        "\x1b[1;31mE\x1b[0m \x1b[38;5;208mo\x1b[48;2;1;2;3mr\x1b[m\x1b[2K \x1b[?25l[x]\x1b[999;;9m"
    )
    assert content.plain == "E or [x]"
    colours = [(content.plain[span.start : span.end], span.style.foreground) for span in content.spans]  # type: ignore[union-attr]
    assert [text for text, _ in colours] == ["E", "o", "r"]
    assert all(colour is not None for _, colour in colours)
    assert ansi_content("building\r\x1b[32mdone\x1b[0m").plain == "done"


def test_a_string_that_is_open_is_followed_to_its_end() -> None:
    language = language_of("x.py")
    assert language is not None
    inside, kinds = "", []
    for line in ["x = '''a", "def b():", "c''' + f(1)  # d"]:
        spans, inside = spans_of(line, language, inside)
        kinds.append([(line[start:end], kind) for start, end, kind in spans])
    assert kinds[1] == [("def b():", "string")]
    assert kinds[2] == [("c'''", "string"), ("f", "name"), ("1", "number"), ("# d", "comment")]
    assert inside == ""


def test_addresses_and_single_lines() -> None:
    assert link_target("https://example.org/?a=b") == "https://example.org/?a=b"
    assert link_target("mailto:a@b.c")
    for bad in ("data:text/html,x", "https://a\x07b", "HTTPS://", "//x", "https://é", "http://[x"):
        assert link_target(bad) is None
    assert one_line("a\n\x1b[31m b\t c" + "x" * 600, 20) == "a b cxxxxxxxxxxxxxx…"
