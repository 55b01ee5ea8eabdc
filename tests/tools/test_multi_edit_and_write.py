"""Several edits of one file, and whole files: all or nothing, and what is not meant stays."""

from __future__ import annotations

import stat
from typing import Any

import pytest
from whimbrel.app.tools.base import ToolContext, ToolResult
from whimbrel.app.tools.multi_edit import MultiEditArguments, MultiEditTool
from whimbrel.app.tools.read import ReadArguments, ReadTool
from whimbrel.app.tools.write import WriteArguments, WriteTool
from whimbrel.sandbox.base.errors import ToolError


async def edits(context: ToolContext, path: str, *pairs: tuple[str, str] | dict[str, Any]) -> ToolResult:
    made = [pair if isinstance(pair, dict) else {"old": pair[0], "new": pair[1]} for pair in pairs]
    return await MultiEditTool().run(
        context, MultiEditArguments.model_validate({"path": path, "edits": made})
    )


async def write(context: ToolContext, path: str, content: str) -> ToolResult:
    return await WriteTool().run(context, WriteArguments(path=path, content=content))


def content(context: ToolContext, path: str) -> bytes:
    return (context.workspace.root / path).read_bytes()


async def test_edits_build_on_one_another_and_each_says_how_it_matched(make_context: Any) -> None:
    context = await make_context({"a.py": b"\xef\xbb\xbfx = 1  \r\ny = 2\r\nz = 3\r\n"})
    result = await edits(
        context, "a.py", ("y = 2", "y = 20"), ("x = 1\ny = 20\n", "x = 5\ny = 20\n"), ("z", "w")
    )
    assert content(context, "a.py") == b"\xef\xbb\xbfx = 5\r\ny = 20\r\nw = 3\r\n"
    assert result.data["strategies"] == ["exact", "trailing_whitespace", "exact"]
    assert "Edit 2, matched after ignoring trailing white space" in result.text
    assert result.data["changed_lines"] == [1, 3]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (("nowhere", "x"), "edit 3 of 3: The old text is not in"),
        (("= ", "x"), "edit 3 of 3: The old text is in a.py 3 times"),
        (("z", "z"), "edit 3 of 3: old and new are the same"),
        ({"old": "z", "new": "w", "occurrence": 2}, "edit 3 of 3: old occurs 1 times"),
    ],
)
async def test_one_edit_that_does_not_fit_means_that_none_is_made(
    make_context: Any, last: Any, said: str
) -> None:
    context = await make_context({"a.py": "x = 1\ny = 2\nz = 3\n"})
    try:
        result = await edits(context, "a.py", ("x = 1", "x = 2"), ("y", "u"), last)
        assert result.is_error and result.data["edit"] == 3
        text = result.text
    except ToolError as error:
        text = error.one_line()
    assert said in text and ("No edit was made" in text or "no edit was made" in text)
    assert content(context, "a.py") == b"x = 1\ny = 2\nz = 3\n"


async def test_a_file_changed_since_it_was_read_is_neither_edited_nor_overwritten(make_context: Any) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    await ReadTool().run(context, ReadArguments(path="a.py"))
    for change in (lambda: edits(context, "a.py", ("x", "y")), lambda: write(context, "a.py", "mine\n")):
        theirs = f"x = 1  # {change}\n".encode()
        (context.workspace.root / "a.py").write_bytes(theirs)
        result = await change()
        assert result.is_error and result.data["reason"] == "stale" and "x = 1  #" in result.text
        assert content(context, "a.py") == theirs
    # It has been shown how the file is now, so the next one may.
    assert not (await write(context, "a.py", "mine\n")).is_error
    assert content(context, "a.py") == b"mine\n"


async def test_a_whole_file_keeps_mode_encoding_mark_and_line_ends(make_context: Any) -> None:
    context = await make_context({
        "run.sh": "#!/bin/sh\necho 1\n", "bom.txt": b"\xef\xbb\xbfa\r\nb\r\n", "latin.txt": b"caf\xe9\n",
    })  # fmt: skip
    root = context.workspace.root
    (root / "run.sh").chmod(0o750)
    await write(context, "run.sh", "#!/bin/sh\necho 2\n")
    await write(context, "bom.txt", "c\nd\ne")
    await write(context, "latin.txt", "thé\n")
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750
    assert content(context, "bom.txt") == b"\xef\xbb\xbfc\r\nd\r\ne"
    assert content(context, "latin.txt") == b"th\xe9\n"
    with pytest.raises(ToolError, match="no way to write '→'"):
        await write(context, "latin.txt", "→\n")
    assert content(context, "latin.txt") == b"th\xe9\n"


async def test_a_new_file_is_made_with_its_directories(make_context: Any) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    result = await write(context, "new/deep/b.py", "def f(:\n")
    assert content(context, "new/deep/b.py") == b"def f(:\n"
    assert result.data["created"] and "syntax error" in result.text
    with pytest.raises(ToolError, match="already reads like this"):
        await write(context, "new/deep/b.py", "def f(:\n")


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (".git/config", "x", "off limits"),
        ("../x", "x", "outside"),
        ("a.py/x", "x", "not a directory"),
        ("bin.dat", "x", "not text"),
        ("n.txt", "a\0", "NUL"),
        ("e\x1b.py", "x", "control characters"),
        ("link.py", "x", "symbolic link"),
    ],
)
async def test_what_must_not_be_written_is_not(make_context: Any, path: str, text: str, said: str) -> None:
    context = await make_context({"a.py": "x = 1\n", "bin.dat": b"\0\1\2"})
    (context.workspace.root / "link.py").symlink_to("a.py")
    before = await context.workspace.snapshot()
    with pytest.raises(ToolError, match=said):
        await write(context, path, text)
    assert await context.workspace.snapshot() == before
