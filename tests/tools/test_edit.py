"""The edit tool: what must match, what must be refused, and that nothing else in the file moves."""

from __future__ import annotations

import asyncio
import os
import stat
import textwrap
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.tools.base import ToolContext, ToolResult
from whimbrel.app.tools.edit import EditArguments, EditTool
from whimbrel.app.tools.read import ReadArguments, ReadTool
from whimbrel.sandbox.base.errors import ToolError


async def edit(context: ToolContext, path: str, old: str, new: str, **more: Any) -> ToolResult:
    return await EditTool().run(context, EditArguments(path=path, old=old, new=new, **more))


async def refusal(context: ToolContext, path: str, old: str, new: str, **more: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await edit(context, path, old, new, **more)
    return caught.value.one_line()


def content(context: ToolContext, path: str) -> bytes:
    return (context.workspace.root / path).read_bytes()


async def test_an_exact_edit_says_where_and_shows_the_place(make_context: Any) -> None:
    context = await make_context({"a.py": "def f(x):\n    if x > 1:\n        return x\n    return 0\n"})
    result = await edit(context, "a.py", "x > 1", "x >= 1")
    assert content(context, "a.py") == b"def f(x):\n    if x >= 1:\n        return x\n    return 0\n"
    assert not result.is_error
    assert result.text.splitlines()[:3] == ["Edited a.py at line 2.", "1\tdef f(x):", "2\t    if x >= 1:"]
    assert result.data["strategy"] == "exact"
    assert result.data["changed_lines"] == [2, 2]
    assert (result.data["is_test"], result.data["created"], result.data["syntax_errors"]) == (
        False,
        False,
        [],
    )


async def test_the_person_sees_the_edit_as_a_one_line_diff(make_context: Any) -> None:
    context = await make_context({"a.py": "a = 1\nb = 2\nc = 3\n"})
    await edit(context, "a.py", "b = 2", "b = 20")
    diff = (await context.workspace.diff()).decode()
    assert [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        "-b = 2",
        "+b = 20",
    ]


# ---------------------------------------------------------------- bytes outside the edit


async def test_a_crlf_file_keeps_its_line_ends_and_a_plain_search_text_matches_it(make_context: Any) -> None:
    context = await make_context({"a.txt": b"a\r\nb\r\nc\r\nd\r\n"})
    result = await edit(context, "a.txt", "b\nc\n", "b\nX\nY\n")
    assert content(context, "a.txt") == b"a\r\nb\r\nX\r\nY\r\nd\r\n"
    assert result.data["strategy"] == "exact"
    await edit(context, "a.txt", "X\r\nY", "Z")
    assert content(context, "a.txt") == b"a\r\nb\r\nZ\r\nd\r\n"


async def test_a_file_with_mixed_line_ends_keeps_each_line_that_is_not_edited(make_context: Any) -> None:
    context = await make_context({"a.txt": b"x\r\nkeep\n1\r\nkeep\nx\r\nend\n"})
    await edit(context, "a.txt", "x", "y", replace_all=True)
    assert content(context, "a.txt") == b"y\r\nkeep\n1\r\nkeep\ny\r\nend\n"
    await edit(context, "a.txt", "1\nkeep\n", "2\n3\n")
    assert content(context, "a.txt") == b"y\r\nkeep\n2\r\n3\r\ny\r\nend\n"


async def test_the_byte_order_mark_and_accents_stay(make_context: Any) -> None:
    context = await make_context({"a.py": "\ufeff# éő\nx = 1\n".encode()})
    await edit(context, "a.py", "x = 1", "x = 2")
    assert content(context, "a.py") == "\ufeff# éő\nx = 2\n".encode()


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"caf\xe9 = 1\n", "= 1", "= 2", b"caf\xe9 = 2\n"),
        ("名前 = 'これはテストです'\n数 = 1\n".encode("shift_jis"), "= 1", "= 2",
         "名前 = 'これはテストです'\n数 = 2\n".encode("shift_jis")),
        ("# 注释：这是一个测试文件\nx = 1\n".encode("gbk"), "x = 1", "x = 2  # 好",
         "# 注释：这是一个测试文件\nx = 2  # 好\n".encode("gbk")),
        ("á\nb\n".encode("utf-16"), "b", "ű", "á\nű\n".encode("utf-16")),
    ],
)  # fmt: skip
async def test_files_in_other_encodings_are_edited_without_loss(
    make_context: Any, before: bytes, old: str, new: str, after: bytes
) -> None:
    context = await make_context({"a.txt": before})
    await edit(context, "a.txt", old, new)
    assert content(context, "a.txt") == after


async def test_text_the_encoding_cannot_hold_is_refused_and_the_file_survives(make_context: Any) -> None:
    before = b"# -*- coding: latin-1 -*-\nx = '\xe9'\n"
    context = await make_context({"a.py": before})
    said = await refusal(context, "a.py", "x = ", "x = '→' + ")
    assert "a.py is" in said and "no way to write '→'" in said
    assert content(context, "a.py") == before
    assert sorted(os.listdir(context.workspace.root)) == [".git", "a.py"]


@pytest.mark.parametrize("before", [b"a\nb", b"a\nb\n", b"a\nb\n\n"])
async def test_the_end_of_the_file_stays_with_or_without_newline(make_context: Any, before: bytes) -> None:
    context = await make_context({"a.txt": before})
    await edit(context, "a.txt", "a", "A")
    assert content(context, "a.txt") == b"A" + before[1:]
    # The search text ends in a newline that the file may not have.
    await edit(context, "a.txt", "A\nb\n", "c\nd\n")
    assert content(context, "a.txt") == b"c\nd" + before[3:]


async def test_backslashes_and_escapes_are_taken_as_written(make_context: Any) -> None:
    context = await make_context({"a.py": "s = 'x'\n"})
    await edit(context, "a.py", "'x'", r"'a\nb\t\\1\g<0>'")
    assert content(context, "a.py") == b"s = 'a\\nb\\t\\\\1\\g<0>'\n"


async def test_modes_are_kept_and_new_files_are_ordinary(make_context: Any) -> None:
    context = await make_context({"run.sh": "#!/bin/sh\necho 1\n"})
    script: Path = context.workspace.root / "run.sh"
    script.chmod(0o755)
    await edit(context, "run.sh", "echo 1", "echo 2")
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    await edit(context, "new/deep/a.txt", "", "hello\n")
    assert stat.S_IMODE((context.workspace.root / "new/deep/a.txt").stat().st_mode) == 0o644


# ---------------------------------------------------------------- tolerance and its limits


async def test_trailing_space_in_the_file_does_not_hinder_and_the_answer_says_so(make_context: Any) -> None:
    context = await make_context({"a.py": "x = 1   \ny = 2\nz = 3\t\n"})
    result = await edit(context, "a.py", "x = 1\ny = 2\n", "x = 1\ny = 5\n")
    assert "matched after ignoring trailing white space" in result.text
    assert result.data["strategy"] == "trailing_whitespace"
    # The line that search and replacement share keeps the file's own bytes.
    assert content(context, "a.py") == b"x = 1   \ny = 5\nz = 3\t\n"


async def test_a_replacement_is_written_as_given_on_the_tolerant_path_too(make_context: Any) -> None:
    context = await make_context({"a.txt": "  first\nx \n  last\n"})
    await edit(context, "a.txt", "x\n", "    y\n\n")
    assert content(context, "a.txt") == b"  first\n    y\n\n  last\n"


async def test_wrong_indentation_matches_after_folding_and_the_replacement_is_reindented(
    make_context: Any,
) -> None:
    before = "class A:\n   def f(self):\n      return 1\n"
    context = await make_context({"a.py": before})
    result = await edit(
        context,
        "a.py",
        "    def f(self):\n        return 1\n",
        "    def f(self, x):\n        if x:\n            return 2\n        return 1\n",
    )
    assert "matched after whitespace folding" in result.text
    assert result.data["strategy"] == "whitespace_folding"
    assert content(context, "a.py").decode() == (
        "class A:\n   def f(self, x):\n      if x:\n         return 2\n      return 1\n"
    )
    assert result.data["syntax_errors"] == []


async def test_spaces_searched_in_a_tab_file_become_tabs(make_context: Any) -> None:
    context = await make_context({"a.go": "package a\n\nfunc f() {\n\tif x {\n\t\treturn\n\t}\n}\n"})
    await edit(
        context,
        "a.go",
        "    if x {\n        return\n    }\n",
        "    if x {\n        for {\n            g()\n        }\n    }\n    h()\n",
    )
    assert content(context, "a.go").decode() == (
        "package a\n\nfunc f() {\n\tif x {\n\t\tfor {\n\t\t\tg()\n\t\t}\n\t}\n\th()\n}\n"
    )


async def test_an_unindented_search_text_is_put_at_the_files_depth(make_context: Any) -> None:
    context = await make_context({"a.py": "def f():\n    if x:\n        return a\n"})
    await edit(context, "a.py", "if x:\n    return a", "if x and y:\n    return b")
    assert content(context, "a.py") == b"def f():\n    if x and y:\n        return b\n"


async def test_two_blocks_that_differ_in_indentation_only_are_refused(make_context: Any) -> None:
    before = "if a:\n  x = 1\n  y = 2\nif b:\n      x = 1\n      y = 2\n"
    context = await make_context({"a.py": before})
    result = await edit(context, "a.py", "    x = 1\n    y = 2\n", "    x = 3\n")
    assert result.is_error
    assert "2 times when white space is ignored, at lines 2, 5" in result.text
    assert result.data == {"path": "a.py", "reason": "ambiguous", "lines": [2, 5]}
    assert content(context, "a.py").decode() == before
    await edit(context, "a.py", "    x = 1\n    y = 2\n", "    x = 3\n", line=5)
    assert content(context, "a.py") == b"if a:\n  x = 1\n  y = 2\nif b:\n      x = 3\n"


async def test_a_match_whose_indentation_has_no_single_translation_is_refused(make_context: Any) -> None:
    context = await make_context({"a.txt": "a\n  b\n      c\n"})
    result = await edit(context, "a.txt", "a\nb\nc\n", "a\nX\nc\n")
    assert (result.is_error, result.data["reason"]) == (True, "not_found")


async def test_equal_lines_are_addressed_by_occurrence_or_line(make_context: Any) -> None:
    before = "import os\nimport sys\nimport os\nx\nimport os\n"
    context = await make_context({"a.py": before})
    result = await edit(context, "a.py", "import os\n", "")
    assert result.is_error and "3 times, at lines 1, 3, 5" in result.text
    assert content(context, "a.py").decode() == before
    await edit(context, "a.py", "import os\n", "", occurrence=2)
    assert content(context, "a.py") == b"import os\nimport sys\nx\nimport os\n"
    await edit(context, "a.py", "import os\n", "import re\n", line=4)
    assert content(context, "a.py") == b"import os\nimport sys\nx\nimport re\n"
    assert "no occurrence 2" in await refusal(context, "a.py", "import os\n", "", occurrence=2)


async def test_a_line_equally_near_to_two_places_decides_nothing(make_context: Any) -> None:
    context = await make_context({"a.txt": "x\n-\nx\n"})
    result = await edit(context, "a.txt", "x", "y", line=2)
    assert result.is_error and "equally near" in result.text


async def test_every_occurrence_is_replaced_on_request(make_context: Any) -> None:
    context = await make_context({"a.py": "a = old\nb = old + old\n"})
    result = await edit(context, "a.py", "old", "new", replace_all=True)
    assert content(context, "a.py") == b"a = new\nb = new + new\n"
    assert (result.data["replacements"], result.data["changed_lines"]) == (3, [1, 2])


async def test_a_text_that_is_not_there_gets_the_nearest_lines(make_context: Any) -> None:
    lines = [f"def name_{n}(a, b):\n    return a + b * {n}\n" for n in range(50)]
    context = await make_context({"a.py": "".join(lines)})
    result = await edit(context, "a.py", "def name_33(a, b):\n    return a - b * 33\n", "")
    assert result.is_error
    assert "% alike" in result.text
    assert "67\tdef name_33(a, b):" in result.text
    assert result.data["nearest_line"] == 67


async def test_nothing_like_it_is_said_plainly(make_context: Any) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    result = await edit(context, "a.py", "completely different words here", "y")
    assert result.text == "The old text is not in a.py; nothing was changed."


@pytest.mark.parametrize("old", ["\n", "   \n", "\n\n"])
async def test_blank_search_texts_match_exactly_or_not_at_all(make_context: Any, old: str) -> None:
    context = await make_context({"a.py": "x = 1\ny = 2\nz = 3"})
    result = await edit(context, "a.py", old, "q\n")
    assert result.is_error
    assert content(context, "a.py") == b"x = 1\ny = 2\nz = 3"


# ---------------------------------------------------------------- new files, stale files, what is reported


async def test_a_new_file_is_made_and_an_existing_one_is_not_overwritten(make_context: Any) -> None:
    context = await make_context({"a.py": "x = 1\n", "empty.py": ""})
    made = await edit(context, "tests/test_new.py", "", "def test_x():\n    assert True\n")
    assert made.data["strategy"] == "created"
    assert (made.data["is_test"], made.data["changed_lines"]) == (True, [1, 2])
    assert "a.py exists and has" in await refusal(context, "a.py", "", "y")
    await edit(context, "empty.py", "", "y = 1\n")
    assert content(context, "empty.py") == b"y = 1\n"
    assert "does not exist" in await refusal(context, "b.py", "x", "y")
    assert "a.py is not a directory" in await refusal(context, "a.py/b.py", "", "y")
    assert content(context, "a.py") == b"x = 1\n"


async def test_a_file_changed_since_it_was_read_is_refused_with_a_fresh_view(make_context: Any) -> None:
    context = await make_context({"a.py": "x = 1\ny = 2\n"})
    await ReadTool().run(context, ReadArguments(path="a.py"))
    (context.workspace.root / "a.py").write_text("x = 10\ny = 2\n")
    result = await edit(context, "a.py", "y = 2", "y = 3")
    assert result.is_error and result.data["reason"] == "stale"
    assert "1\tx = 10" in result.text
    assert content(context, "a.py") == b"x = 10\ny = 2\n"
    # Having seen the present state, the model may repeat the edit; its own edits are no surprise to it.
    await edit(context, "a.py", "y = 2", "y = 3")
    await edit(context, "a.py", "y = 3", "y = 4")
    assert content(context, "a.py") == b"x = 10\ny = 4\n"


async def test_a_syntax_error_is_reported_and_not_refused(make_context: Any) -> None:
    context = await make_context({"a.py": "def f():\n    return (1)\n", "broken.py": "def g(:\n    pass\n"})
    result = await edit(context, "a.py", "return (1)", "return (1")
    assert not result.is_error
    assert "Warning: the file now has a syntax error at 2:" in result.text
    assert result.data["syntax_errors"][0]["line"] == 2
    # A file that was broken before does not blame the edit.
    assert "Warning" not in (await edit(context, "broken.py", "pass", "return")).text
    assert "Warning" in (await edit(context, "new.js", "", "function ( {\n")).text


@pytest.mark.parametrize(
    ("path", "is_test"),
    [("tests/test_a.py", True), ("src/a_test.go", True), ("web/a.spec.ts", True), ("src/latest.py", False)],
)
async def test_edits_of_test_files_are_flagged(make_context: Any, path: str, is_test: bool) -> None:
    context = await make_context({path: "x\n"})
    assert (await edit(context, path, "x", "y")).data["is_test"] is is_test


async def test_an_edit_that_changes_nothing_is_refused(make_context: Any) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    assert "nothing would change" in await refusal(context, "a.py", "x", "x")
    assert "nothing would change" in await refusal(context, "a.py", "x = 1\r\n", "x = 1\n")


async def test_parallel_edits_of_one_file_do_not_lose_each_other(make_context: Any) -> None:
    context = await make_context({"a.txt": "".join(f"<{n}>\n" for n in range(20))})
    await asyncio.gather(*(edit(context, "a.txt", f"<{n}>", f"[{n}]") for n in range(20)))
    assert content(context, "a.txt").decode() == "".join(f"[{n}]\n" for n in range(20))


async def test_editing_a_large_file_does_not_hold_up_the_event_loop(make_context: Any) -> None:
    context = await make_context({"a.txt": "".join(f"line {n}\n" for n in range(20_000))})

    async def tick() -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0.001)

    ticks: list[int] = []
    ticker = asyncio.ensure_future(tick())
    result = await edit(context, "a.txt", "line 19999x\n", "y")
    ticker.cancel()
    # The search for the nearest lines took many turns of the loop, none of them blocked to the end.
    assert result.is_error and len(ticks) > 3


# ---------------------------------------------------------------- places that are never written


async def test_the_git_folder_and_links_are_never_written(make_context: Any, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("x\n")
    context = await make_context({"real.py": "x = 1\n", "pkg/b.py": "x = 1\n"})
    root: Path = context.workspace.root
    (root / "out").symlink_to(outside)
    (root / "dangling").symlink_to(tmp_path / "made.txt")
    (root / "alias.py").symlink_to("real.py")
    (root / "folder").symlink_to("pkg")
    (root / "up").symlink_to(tmp_path)
    for path in (".git/hooks/pre-commit", ".GIT/config", "pkg/.Git/x", "~/.bashrc", "/etc/x", "../x"):
        assert await refusal(context, path, "", "x")
    for path in ("out", "dangling", "up/made.txt"):
        assert "symbolic link" in await refusal(context, path, "", "y")
    assert "the file itself is real.py" in await refusal(context, "alias.py", "x = 1", "x = 2")
    assert "the file itself is pkg/b.py" in await refusal(context, "folder/b.py", "x = 1", "x = 2")
    assert outside.read_text() == "x\n"
    assert not (tmp_path / "made.txt").exists()
    assert content(context, "real.py") == b"x = 1\n"


async def test_pipes_directories_and_binary_files_are_refused(make_context: Any) -> None:
    context = await make_context({"pkg/a.py": "x", "a.png": b"\x89PNG\r\n\x1a\n\0\0"})
    os.mkfifo(context.workspace.root / "pipe")
    assert "FIFO" in await refusal(context, "pipe", "x", "y")
    assert "is a directory" in await refusal(context, "pkg", "x", "y")
    assert "a PNG image, not text" in await refusal(context, "a.png", "x", "y")
    assert "repository's top" in await refusal(context, ".", "x", "y")


async def test_a_refused_edit_leaves_no_stray_file(make_context: Any) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    await edit(context, "a.py", "nope", "y")
    await refusal(context, "a.py", "", "y")
    assert sorted(os.listdir(context.workspace.root)) == [".git", "a.py"]
    assert await context.workspace.changed_files() == ()


def test_the_description_for_the_model_names_every_way_to_address_a_place() -> None:
    from whimbrel.app.tools.base import spec_of

    spec = spec_of(EditTool())
    assert set(spec.parameters["properties"]) == {"path", "old", "new", "occurrence", "line", "replace_all"}
    assert textwrap.shorten(spec.description, 20)
