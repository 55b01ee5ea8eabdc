"""The search tool: what a model sees, and what programs read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.tools.base import ToolContext, ToolResult
from whimbrel.app.tools.read import ReadArguments, ReadTool
from whimbrel.app.tools.search import SearchArguments, SearchTool
from whimbrel.sandbox.base.errors import ToolError

FILES = {
    "src/cart.py": "def total(items):\n    return sum(items)\n",
    "src/order.py": "from cart import total\n",
    "tests/test_cart.py": "assert total([]) == 0\n",
    ".gitignore": "build/\n",
}


async def search(context: ToolContext, pattern: str, **more: Any) -> ToolResult:
    return await SearchTool().run(context, SearchArguments(pattern=pattern, **more))


async def test_matches_are_sorted_lines_for_the_model_and_data_for_programs(make_context: Any) -> None:
    context = await make_context(FILES)
    result = await search(context, r"\btotal\b")
    assert result.text.splitlines() == [
        "src/cart.py:1: def total(items):",
        "src/order.py:1: from cart import total",
        "tests/test_cart.py:1: assert total([]) == 0",
    ]
    assert result.data["matches"][0] == {"path": "src/cart.py", "line": 1, "text": "def total(items):"}
    assert (result.data["truncated"], result.data["total_lines"], result.data["total_files"]) == (False, 3, 3)


async def test_new_files_are_found_and_ignored_ones_only_when_named(make_context: Any) -> None:
    context = await make_context(FILES)
    root: Path = context.workspace.root
    (root / "new.py").write_text("total = 1\n")
    (root / "build").mkdir()
    (root / "build" / "out.py").write_text("total = 2\n")
    paths = [m["path"] for m in (await search(context, "total")).data["matches"]]
    assert "new.py" in paths and "build/out.py" not in paths
    named = await search(context, "total", path="build/out.py")
    assert [m["path"] for m in named.data["matches"]] == ["build/out.py"]


async def test_path_and_globs_narrow_the_search(make_context: Any) -> None:
    context = await make_context(FILES)
    assert (await search(context, "total", path="src")).data["total_files"] == 2
    assert (await search(context, "total", path="./src/cart.py")).data["total_files"] == 1
    assert (await search(context, "total", globs=["!tests/"])).data["total_files"] == 2
    nothing = await search(context, "TOTAL", path="src")
    assert nothing.text == "No match in 2 files."
    assert (await search(context, "TOTAL", ignore_case=True)).data["total_lines"] == 3


async def test_a_cut_answer_states_how_many_there_are(make_context: Any) -> None:
    context = await make_context({"a.txt": "hit\n" * 500, "b.txt": "hit\n" * 250})
    result = await search(context, "hit", max_results=10)
    assert "[10 of 750 matching lines in 2 files shown" in result.text
    assert (result.data["truncated"], len(result.data["matches"])) == (True, 10)


async def test_very_wide_answers_stay_bounded(make_context: Any) -> None:
    context = await make_context({"a.txt": ("x" * 399 + "\n") * 1000})
    result = await search(context, "x+", max_results=1000)
    assert len(result.text) < 42_000
    assert "of 1000 matching lines" in result.text


async def test_long_lines_say_their_length(make_context: Any) -> None:
    context = await make_context({"a.min.js": "a" * 3000 + "needle" + "b" * 3000})
    result = await search(context, "needle", fixed=True)
    assert "needle" in result.text and "[... line of 6006 characters ...]" in result.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "foo("}, "set fixed to true"),
        ({"pattern": "(?=x)"}, "look-ahead not supported"),
        ({"pattern": "x", "path": "nowhere"}, "nowhere does not exist"),
        ({"pattern": "x", "path": "/etc"}, "outside the workspace"),
        ({"pattern": "x", "path": "~/"}, "outside the workspace"),
        ({"pattern": "x", "path": ".git"}, ".git"),
        ({"pattern": "x", "globs": ["[a"]}, "unclosed ["),
    ],
)
async def test_bad_arguments_are_refused_in_one_line(
    make_context: Any, arguments: dict[str, Any], said: str
) -> None:
    context = await make_context(FILES)
    with pytest.raises(ToolError) as caught:
        await search(context, **arguments)
    assert said in caught.value.one_line() and "\n" not in caught.value.one_line()


async def test_hostile_entries_of_the_copy_neither_hang_nor_leak(make_context: Any) -> None:
    context = await make_context(FILES)
    root: Path = context.workspace.root
    os.mkfifo(root / "pipe.py")
    (root / "passwd.py").symlink_to("/etc/passwd")
    (root / "etc").symlink_to("/etc")
    # A work tree and commands named in the copy's own git configuration are not obeyed.
    marker = root.parent / "ran"
    config = f"[core]\n\tworktree = /etc\n\tfsmonitor = touch {marker}\n"
    with (root / ".git" / "config").open("a") as stream:
        stream.write(config)
    result = await search(context, "root:|total")
    assert result.data["total_files"] == 3
    assert not marker.exists()


async def test_without_ripgrep_the_answer_is_the_same(
    make_context: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = await make_context(FILES)
    with_ripgrep = await search(context, "total")
    programs = tmp_path / "programs"
    programs.mkdir()
    git = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: ASYNC221
    (programs / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(programs))
    without = await search(context, "total")
    assert (with_ripgrep.data["engine"], without.data["engine"]) == ("ripgrep", "python")
    assert without.text == with_ripgrep.text


async def test_what_a_search_or_a_listing_does_not_show_is_kept_whole(make_context: Any) -> None:
    lines = "".join(f"needle {number} {'x' * 300}\n" for number in range(200))
    context = await make_context({"big.txt": lines, **{f"many/f{number:03}": "" for number in range(510)}})
    found = await search(context, "needle", max_results=200)
    (handle,) = found.artifacts
    assert f"artifact:{handle}" in found.text and "needle 199" not in found.text
    assert context.fetch(handle).decode().count("needle") == 200
    listed = await ReadTool().run(context, ReadArguments(path="many"))
    assert f"10 more entries not shown; all of them: artifact:{listed.artifacts[0]}" in listed.text
    assert context.fetch(listed.artifacts[0]).decode().splitlines()[-1].startswith("f509")
