"""Patches of several files: what fits, what must be refused, and that a refusal leaves nothing behind."""

from __future__ import annotations

import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from whimbrel.app.tools.apply_patch import ApplyPatchArguments, ApplyPatchTool
from whimbrel.app.tools.base import ToolContext, ToolResult
from whimbrel.app.tools.read import ReadArguments, ReadTool
from whimbrel.sandbox.base.errors import ToolError

TWO = "def one():\n    return 1\n\n\ndef two():\n    return 1\n"
FILES = {
    "a.py": "a = 1\nb = 2\nc = 3\n",
    "pkg/two.py": TWO,
    "old.txt": "gone\n",
    "run.sh": "#!/bin/sh\necho 1\n",
}


async def apply(context: ToolContext, patch: str) -> ToolResult:
    return await ApplyPatchTool().run(context, ApplyPatchArguments(patch=patch))


def content(context: ToolContext, path: str) -> bytes:
    return (context.workspace.root / path).read_bytes()


async def refused(context: ToolContext, patch: str) -> str:
    """The patch is refused, by an error or an error result, and nothing is different afterwards."""
    before = await context.workspace.snapshot()
    try:
        result = await apply(context, patch)
        assert result.is_error
        said = result.text
    except ToolError as error:
        said = error.one_line()
    assert await context.workspace.snapshot() == before
    return said


def begin(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def test_one_patch_updates_adds_deletes_and_moves(make_context: Any) -> None:
    context = await make_context(FILES)
    (context.workspace.root / "run.sh").chmod(0o755)
    result = await apply(
        context,
        begin(
            "*** Update File: a.py", "@@", " a = 1", "-b = 2", "+b = 20", " c = 3",
            "*** Add File: new/deep.py", "+x = 1", "+",  "+y = 2",
            "*** Delete File: old.txt",
            "*** Update File: run.sh", "*** Move to: bin/run.sh", "@@", "-echo 1", "+echo 2",
        ),
    )  # fmt: skip
    assert not result.is_error
    assert content(context, "a.py") == b"a = 1\nb = 20\nc = 3\n"
    assert content(context, "new/deep.py") == b"x = 1\n\ny = 2\n"
    assert content(context, "bin/run.sh") == b"#!/bin/sh\necho 2\n"
    assert stat.S_IMODE((context.workspace.root / "bin/run.sh").stat().st_mode) & 0o111 == 0o111
    assert stat.S_IMODE((context.workspace.root / "new/deep.py").stat().st_mode) == 0o644
    assert await context.workspace.files() == ("a.py", "bin/run.sh", "new/deep.py", "pkg/two.py")
    assert [(file["action"], file["path"]) for file in result.data["files"]] == [
        ("update", "a.py"),
        ("add", "new/deep.py"),
        ("delete", "old.txt"),
        ("move", "bin/run.sh"),
    ]


async def test_a_unified_diff_as_git_writes_it_applies_whole(make_context: Any, tmp_path: Any) -> None:
    """Made by real git of a real change, then applied to the state before it."""
    context = await make_context(FILES)
    root = context.workspace.root
    base = context.workspace.base.tree
    (root / "a.py").write_text("a = 1\nb = 2\nc = 3\nd = 4\n")
    (root / "pkg/two.py").rename(root / "pkg/drei ü.py")
    (root / "run.sh").chmod(0o755)
    (root / "old.txt").unlink()
    (root / "made.txt").write_text("no newline")
    end = await context.workspace.snapshot()
    patch = (await context.workspace.diff(base, end)).decode()
    await context.workspace.restore(base)
    result = await apply(context, patch)
    assert not result.is_error, result.text
    assert await context.workspace.snapshot() == end


@pytest.mark.parametrize(
    "header", ["@@ -1,3 +1,3 @@", "@@ -40,9 +40,9 @@ def elsewhere():", "@@ -2 +2 @@", "@@"]
)
async def test_wrong_numbers_in_a_hunk_header_do_not_matter(make_context: Any, header: str) -> None:
    context = await make_context(FILES)
    await apply(context, f"--- a/a.py\n+++ b/a.py\n{header}\n a = 1\n-b = 2\n+b = 5\n c = 3\n")
    assert content(context, "a.py") == b"a = 1\nb = 5\nc = 3\n"


async def test_a_second_file_that_does_not_fit_leaves_the_first_as_it_was(make_context: Any) -> None:
    context = await make_context(FILES)
    said = await refused(
        context,
        "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 5\n c = 3\n"
        "--- a/pkg/two.py\n+++ b/pkg/two.py\n@@ -1,2 +1,2 @@\n def one():\n-    return 7\n+    return 8\n",
    )
    assert "No file was changed" in said and "hunk 1 of 1" in said and "1\tdef one():" in said
    assert sorted(path.name for path in context.workspace.root.iterdir()) == [
        ".git", "a.py", "old.txt", "pkg", "run.sh",
    ]  # fmt: skip


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The system refuses to write larger ones, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_write_that_fails_midway_puts_back_what_was_written_before_it(make_context: Any) -> None:
    context = await make_context(FILES)
    before = await context.workspace.snapshot()
    patch = begin(
        "*** Update File: a.py", "-a = 1", "+a = 2",
        "*** Add File: new.txt", "+small",
        "*** Delete File: old.txt",
        "*** Update File: run.sh", "-echo 1", "+echo " + "x" * 100_000,
    )  # fmt: skip
    with (
        files_of_at_most(50_000),
        pytest.raises(ToolError, match=r"run\.sh cannot be written: File too large"),
    ):
        await apply(context, patch)
    assert await context.workspace.snapshot() == before
    assert not [path for path in context.workspace.root.rglob("*.tmp") if ".git" not in path.parts]


async def test_context_is_matched_tolerantly_only_where_one_place_fits_and_the_answer_says_so(
    make_context: Any,
) -> None:
    context = await make_context({"a.py": "def f():\n   x = 1\n   return x\n", "pkg/two.py": TWO})
    result = await apply(
        context, begin("*** Update File: a.py", "@@", "     x = 1", "-    return x", "+    return x + 1")
    )
    assert "matched after whitespace folding" in result.text
    assert content(context, "a.py") == b"def f():\n   x = 1\n   return x + 1\n"
    said = await refused(context, begin("*** Update File: pkg/two.py", "-  return 1", "+  return 2"))
    assert "2 times when white space is ignored, at lines 2, 6" in said


async def test_equal_places_are_told_apart_by_a_line_above_or_by_the_line_number(make_context: Any) -> None:
    context = await make_context({"pkg/two.py": TWO})
    said = await refused(
        context, begin("*** Update File: pkg/two.py", "@@", "-    return 1", "+    return 2")
    )
    assert "2 times, at lines 2, 6" in said
    await apply(
        context, begin("*** Update File: pkg/two.py", "@@ def two():", "-    return 1", "+    return 2")
    )
    assert content(context, "pkg/two.py").decode() == TWO[:-2] + "2\n"
    await apply(context, "--- a/pkg/two.py\n+++ b/pkg/two.py\n@@ -2 +2 @@\n-    return 1\n+    return 3\n")
    assert content(context, "pkg/two.py").decode() == TWO.replace("1", "3", 1)[:-2] + "2\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nX\r\nc\r\n"),
        (b"\xef\xbb\xbfa\nb\nc", b"\xef\xbb\xbfa\nB\nX\nc"),
        (b"a\r\nb\nc\r\n", b"a\r\nB\nX\nc\r\n"),
        ("# é\na\nb\nc\n".encode("latin-1"), "# é\na\nB\nX\nc\n".encode("latin-1")),
        ("a\nb\nc\n".encode("utf-16"), "a\nB\nX\nc\n".encode("utf-16")),
    ],
    ids=["crlf", "bom, no final newline", "mixed", "latin-1", "utf-16"],
)
async def test_bytes_outside_the_change_stay(make_context: Any, before: bytes, after: bytes) -> None:
    context = await make_context({"a.txt": before})
    await apply(context, begin("*** Update File: a.txt", " a", "-b", "+B", "+X", " c"))
    assert content(context, "a.txt") == after


async def test_the_marks_about_the_last_newline_are_obeyed(make_context: Any) -> None:
    context = await make_context({"a.txt": "x\ny"})
    mark = "\\ No newline at end of file\n"
    await apply(context, f"--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n x\n-y\n{mark}+z\n")
    assert content(context, "a.txt") == b"x\nz\n"
    await apply(context, f"--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n x\n-z\n+z\n{mark}")
    assert content(context, "a.txt") == b"x\nz"


async def test_a_file_changed_since_it_was_read_is_refused_with_its_present_text(make_context: Any) -> None:
    context = await make_context(FILES)
    await ReadTool().run(context, ReadArguments(path="a.py"))
    (context.workspace.root / "a.py").write_text("a = 1\nb = 2\nc = 4\n")
    patch = begin("*** Delete File: old.txt", "*** Update File: a.py", "-b = 2", "+b = 3")
    said = await refused(context, patch)
    assert "has changed on disk" in said and "3\tc = 4" in said
    assert not (await apply(context, patch)).is_error


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("hello", "changes no file"),
        ("*** Begin Patch\n*** Update File: a.py\n-b = 2\n+b = 3\n", "cut off"),
        (begin("*** Add File: a.py", "+x"), "exists already"),
        (begin("*** Delete File: nothing.py"), "does not exist"),
        (begin("*** Update File: a.py"), "no hunk"),
        (begin("*** Update File: ../x", "+y"), "outside"),
        (begin("*** Add File: .git/hooks/pre-commit", "+y"), ".git"),
        (begin("*** Update File: a.py", "*** Move to: /etc/x", " a = 1"), "outside"),
        (begin("*** Update File: a.py", "*** Move to: run.sh", " a = 1"), "exists already"),
        (begin("*** Add File: n\0.py", "+y"), "not a path"),
        (begin("*** Add File: n.py", "+y\0"), "NUL"),
        ("--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n a = 1\n?b\n", "line 5 of the patch, '?b'"),
        ("--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-other\n", "not in old.txt"),
        ("diff --git a/x.png b/x.png\nGIT binary patch\nliteral 3\n", "binary"),
        (begin("*** Update File: a.py", "@@ class Nowhere", "-b = 2", "+b = 3"), "not in a.py"),
        (begin("*** Update File: a.py", "-b = 2", "+b = 3", "@@", "-a = 1", "+a = 2"), "hunk 2 of 2"),
    ],
)  # fmt: skip
async def test_patches_that_make_no_sense_change_nothing(make_context: Any, patch: str, said: str) -> None:
    context = await make_context(FILES)
    assert said in await refused(context, patch)


async def test_new_lines_without_context_go_to_the_end_or_below_their_anchor(make_context: Any) -> None:
    context = await make_context({"a.txt": "x\ny", "pkg/two.py": TWO})
    await apply(context, begin("*** Update File: a.txt", "@@", "+z"))
    assert content(context, "a.txt") == b"x\ny\nz"
    await apply(context, begin("*** Update File: pkg/two.py", "@@ def two():", "+    # two"))
    assert b"def two():\n    # two\n    return 1\n" in content(context, "pkg/two.py")


async def test_a_syntax_error_the_patch_brought_is_told(make_context: Any) -> None:
    context = await make_context(FILES)
    result = await apply(context, begin("*** Update File: a.py", "-b = 2", "+b = (2"))
    assert "syntax error" in result.text and result.data["files"][0]["syntax_errors"]
