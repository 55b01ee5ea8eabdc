"""The model's messages: streamed, wide, hostile, repeated."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from whimbrel.app.tui.widgets.markdown_source import LONGEST_OPEN, MarkdownSource
from whimbrel.app.tui.widgets.streaming_markdown import StreamingMarkdown

from tests.tui.widgets.stage import ESCAPES, HOSTILE, WIDE, Stage, texts

DOCUMENT = f"""# Title {WIDE}

Some *emphasis*, **strong**, `code [x]`, ~~gone~~ and [a link](https://example.org/a).
{HOSTILE}

- one
- two
  - deeper, {WIDE}, with a text that goes on until it has to be wrapped at the edge of the screen
- [x] done

3. third
4. fourth

   more of the fourth

> a quote `with | code`

| a | `b|c` | 列 |
|:--|--:|---|
| 1 | `x|y` and a rather long text that goes on and on so that it is wrapped somewhere | 漢字 |
| 2 | [link](https://example.org) | 🎉 |

```python
def f(x):
    '''doc
    string'''
    return x + 1  # comment
```

---
The end.
"""
SHAPES = {
    "one paragraph": "word and another " * 12_000,
    "lines": "a line of text\n" * 12_000,
    "no spaces": "漢字" * 50_000,
    "one list": "- an item of a list with `code`\n" * 6_000,
    "one table": "| a | b |\n|---|---|\n" + "| cell `x|y` | another |\n" * 8_000,
    "one fence": "```python\n" + "x = f('a')  # comment\n" * 9_000,
    "one line in a fence": "```\n" + "x" * 100_000,
    "one quote": "> quoted text that goes on\n" * 7_000,
    "paragraphs": "Some *text* with **marks**.\n\n" * 7_000,
}


async def shown(text: str, width: int = 80) -> list[str]:
    app = Stage(lambda: StreamingMarkdown(text))
    async with app.run_test(size=(width, 40)) as pilot:
        await pilot.pause()
        return texts(app.query_one(StreamingMarkdown).strips_for(width))


@pytest.mark.parametrize("size", [1, 7, 10])
async def test_a_streamed_message_looks_like_one_that_came_at_once(size: int) -> None:
    app = Stage(StreamingMarkdown)
    async with app.run_test(size=(80, 40)) as pilot:
        markdown = app.query_one(StreamingMarkdown)
        for at in range(0, len(DOCUMENT), size):
            markdown.append(DOCUMENT[at : at + size])
            markdown.flush()
            assert all(strip.cell_length <= 80 for strip in markdown.strips_for(80))
        markdown.finish()
        await pilot.pause()
        assert texts(markdown.strips_for(80)) == await shown(DOCUMENT)
        assert markdown.source == DOCUMENT


@pytest.mark.parametrize("shape", SHAPES)
def test_the_cost_of_a_stream_grows_with_its_length_and_no_faster(shape: str) -> None:
    def parsed(length: int) -> int:
        source = MarkdownSource()
        for at in range(0, length, 100):
            source.feed(SHAPES[shape][at : at + 100])
            assert len(source._tail) <= 3 * LONGEST_OPEN or shape.endswith("fence")
        return source.parsed

    assert parsed(16_000) <= 2.3 * parsed(8_000) + 3_000


async def test_200_kb_in_ten_byte_chunks_lay_out_only_the_last_block_again() -> None:
    text = (DOCUMENT * 200)[:200_000]
    app = Stage(StreamingMarkdown)
    async with app.run_test(size=(80, 40)) as pilot:
        markdown = app.query_one(StreamingMarkdown)
        counted = []
        for part in (text[:100_000], text[100_000:]):
            before = markdown.characters_parsed
            for at in range(0, len(part), 10):
                markdown.append(part[at : at + 10])
                if at % 2_000 == 0:
                    markdown.flush()
            markdown.flush()
            counted.append(markdown.characters_parsed - before)
        await pilot.pause()
    assert counted[1] < 1.3 * counted[0], "the second half cost as much as the first"


async def test_a_token_redraws_the_lines_of_the_last_block_and_nothing_else() -> None:
    app = Stage(StreamingMarkdown)
    async with app.run_test(size=(80, 40)) as pilot:
        markdown = app.query_one(StreamingMarkdown)
        markdown.append("A paragraph.\n\n" * 12 + "The last")
        markdown.flush()
        await pilot.pause()
        before = markdown.lines_drawn
        for _ in range(5):
            markdown.append(" one")
            markdown.flush()
            await pilot.pause()
        assert 0 < markdown.lines_drawn - before <= 2 * 5


async def test_a_stream_longer_than_the_screen_draws_at_most_the_screen() -> None:
    from textual.containers import VerticalScroll

    app = Stage(lambda: VerticalScroll(StreamingMarkdown()))
    async with app.run_test(size=(80, 30)) as pilot:
        app.query_one(VerticalScroll).anchor()
        markdown = app.query_one(StreamingMarkdown)
        markdown.append("A paragraph.\n\n" * 300)
        markdown.flush()
        await pilot.pause()
        before = markdown.lines_drawn
        markdown.append("more\n\n")
        markdown.flush()
        await pilot.pause()
        assert markdown.lines_drawn - before <= 2 * 30


async def test_a_repeated_step_replaces_what_was_streamed() -> None:
    app = Stage(StreamingMarkdown)
    async with app.run_test(size=(80, 40)) as pilot:
        markdown = app.query_one(StreamingMarkdown)
        markdown.append("```python\nThe wrong\n")
        markdown.flush()
        markdown.append(" half of")
        markdown.discard()
        markdown.append("The right answer.")
        markdown.finish()
        await pilot.pause()
        assert texts(markdown.strips_for(80)) == ["The right answer."]


async def test_brackets_are_brackets_and_escapes_are_gone() -> None:
    lines = await shown(f"{HOSTILE}\n\n`{HOSTILE}`\n\n```\n{HOSTILE}\n```\n\n{ESCAPES}", 120)
    text = "\n".join(lines)
    # In a paragraph a backslash before a bracket is Markdown's own.
    assert HOSTILE.replace("\\[", "[") in text
    assert text.count(HOSTILE) == 2
    assert not any(ord(character) < 32 and character != "\n" for character in text)
    assert "\x9b" not in text


@pytest.mark.parametrize("width", [24, 40, 80])
async def test_tables_fit_the_screen_and_pipes_in_code_stay_in_their_cell(width: int) -> None:
    lines = await shown(DOCUMENT, width)
    assert all(cell_len(line) <= width for line in lines)
    text = "".join("".join(lines).split())
    assert "b|c" in text
    assert "x|y" in text
    narrow = await shown("|" + "a|" * 30 + "\n|" + "-|" * 30 + "\n|" + "cell|" * 30, width)
    assert sum(line.count("cell") for line in narrow) == 30


@pytest.mark.parametrize("href", ["javascript:alert(1)", "file:///etc/passwd", "vscode://x", "https:nothing"])
async def test_only_web_and_mail_addresses_become_links(href: str) -> None:
    app = Stage(lambda: StreamingMarkdown(f"[good](https://example.org/x) [bad]({href}) <{href}>"))
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.pause()
        strip = app.query_one(StreamingMarkdown).strips_for(80)[0]
        console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=80)
        written = strip.render(console)
        assert "\x1b]8;" in written
        assert "https://example.org/x" in written
        targets = [part.split("\x1b\\")[0] for part in written.split("\x1b]8;")[1:]]
        assert not any(href in target for target in targets)


async def test_narrowing_and_widening_gives_back_the_same_picture() -> None:
    app = Stage(lambda: StreamingMarkdown(DOCUMENT))
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        before = texts(app.query_one(StreamingMarkdown).strips_for(200))
        for width in (40, 7, 200):
            await pilot.resize_terminal(width, 60)
            await pilot.pause()
        assert texts(app.query_one(StreamingMarkdown).strips_for(200)) == before


async def test_what_the_mouse_selects_is_the_text_and_not_its_decoration() -> None:
    app = Stage(lambda: StreamingMarkdown("Hello 漢字 world, this is *text*.\n\n- a\n- b\n"))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        markdown = app.query_one(StreamingMarkdown)
        await pilot.mouse_down(markdown, offset=(6, 0))
        await pilot.hover(markdown, offset=(3, 2))
        await pilot.mouse_up(markdown, offset=(3, 2))
        await pilot.pause()
        assert app.screen.get_selected_text() == "漢字 world, this is text.\n\n• a"
