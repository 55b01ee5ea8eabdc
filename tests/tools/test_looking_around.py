"""list, glob, symbols, todo and ask: what is there is found, with true sizes, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.tools.ask import AskArguments, AskTool
from whimbrel.app.tools.base import Question, ToolContext, ToolResult
from whimbrel.app.tools.glob import GlobArguments, GlobTool
from whimbrel.app.tools.list import ListArguments, ListTool
from whimbrel.app.tools.symbols import SymbolsArguments, SymbolsTool
from whimbrel.app.tools.todo import TodoArguments, TodoTool
from whimbrel.sandbox.base.errors import ToolError

SYMBOLS = Path(__file__).parents[1] / "fixtures/symbols"
FILES = {
    ".gitignore": "build/\n*.log\n",
    "a.py": "x = 1\n",
    "src/one.py": "y = 2\n",
    "src/deep/er/two.py": "z = 3\n",
    "src/deep/données.txt": "é\n",
}


async def listing(context: ToolContext, **values: Any) -> ToolResult:
    return await ListTool().run(context, ListArguments(**values))


async def globbing(context: ToolContext, pattern: str, **values: Any) -> ToolResult:
    return await GlobTool().run(context, GlobArguments(pattern=pattern, **values))


async def symbols(context: ToolContext, action: Any, **values: Any) -> ToolResult:
    return await SymbolsTool().run(context, SymbolsArguments(action=action, **values))


def litter(context: ToolContext) -> None:
    root = context.workspace.root
    (root / "build/lib").mkdir(parents=True)
    (root / "build/lib/out.py").write_text("1234567890")
    (root / "x.log").write_text("log")


async def test_a_tree_has_true_sizes_and_tells_how_much_is_left_out(make_context: Any) -> None:
    context = await make_context(FILES)
    litter(context)
    (context.workspace.root / "link").symlink_to("src")
    result = await listing(context)
    assert result.text.splitlines() == [
        "./  6 files, 34 bytes",
        "  .gitignore  13 bytes",
        "  a.py  6 bytes",
        "  link -> src",
        "  src/  3 files, 15 bytes",
        "    deep/  2 files, 9 bytes",
        "    one.py  6 bytes",
        "[2 ignored entries left out]",
    ]
    shown = await listing(context, ignored=True, depth=3)
    assert "  build/ (ignored)\n    lib/ (ignored)\n      out.py  10 bytes (ignored)\n" in shown.text
    assert "x.log  3 bytes (ignored)" in shown.text
    below = await listing(context, path="src/deep")
    assert below.text.startswith("src/deep/  2 files, 9 bytes\n  données.txt  3 bytes\n  er/")


async def test_a_huge_directory_is_bounded_with_the_true_number(make_context: Any) -> None:
    context = await make_context({f"many/{n:04}.txt": "x" for n in range(700)})
    result = await listing(context)
    assert "many/  700 files, 700 bytes" in result.text and "[301 more entries not shown" in result.text
    found = await globbing(context, "many/*", max_results=10)
    assert found.data["total"] == 700 and len(found.data["paths"]) == 10 and found.data["truncated"]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("*.py", ["a.py", "src/deep/er/two.py", "src/one.py"]),
        ("**/*.py", ["a.py", "src/deep/er/two.py", "src/one.py"]),
        ("src/**/*.py", ["src/deep/er/two.py", "src/one.py"]),
        ("src/*.{py,txt}", ["src/one.py"]),
        ("**/er/**", ["src/deep/er/two.py"]),
        ("./a.py", ["a.py"]),
        ("donn*.txt", ["src/deep/données.txt"]),
        ("**/build/**", []),
        ("!a.py", []),
    ],
)
async def test_patterns_find_files_at_any_depth(make_context: Any, pattern: str, paths: list[str]) -> None:
    context = await make_context(FILES)
    litter(context)
    assert (await globbing(context, pattern)).data["paths"] == paths


async def test_ignored_files_are_found_when_asked_for_and_the_newest_come_first(make_context: Any) -> None:
    context = await make_context(FILES)
    litter(context)
    assert "[1 ignored files match too" in (await globbing(context, "*.log")).text
    found = await globbing(context, "**/lib/*.py", ignored=True)
    assert found.data == {
        "paths": ["build/lib/out.py"],
        "total": 1,
        "truncated": False,
        "ignored": ["build/lib/out.py"],
    }
    os.utime(context.workspace.root / "src/one.py", (2e9, 2e9))
    assert (await globbing(context, "*.py", sort="modified")).data["paths"][0] == "src/one.py"


async def test_a_tilde_and_an_absolute_path_inside_are_understood_and_others_refused(
    make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = await make_context(FILES)
    monkeypatch.setenv("HOME", str(context.workspace.root))
    assert (await globbing(context, "~/src/*.py")).data["paths"] == ["src/one.py"]
    assert (await globbing(context, f"{context.workspace.root}/**/two.py")).data["total"] == 1
    assert (await listing(context, path="~/src")).data["total_files"] == 3
    for pattern in ("/etc/*", "../*", "src/../../*", "", "~nobody/*", "a\0"):
        with pytest.raises(ToolError):
            await globbing(context, pattern)
    for path in ("../", "/etc", ".git", "a.py", "nowhere"):
        with pytest.raises(ToolError):
            await listing(context, path=path)


async def test_outlines_definitions_and_references_in_several_languages(make_context: Any) -> None:
    files = {f"code/{path.name}": path.read_bytes() for path in SYMBOLS.iterdir()}
    context = await make_context({**files, "use.py": "from code.stock import Shelf\n\nprint('Shelf')\nShelf()\n",
                                  "shelf.py": "class Shelf:\n    def take(self):\n        return 1\n"})  # fmt: skip
    for path in files:
        outline = await symbols(context, "outline", path=path)
        assert outline.data["total"] > 0, path
    found = await symbols(context, "definition", name="Shelf.take")
    assert [(one["path"], one["line"]) for one in found.data["symbols"]] == [("shelf.py", 2)]
    used = await symbols(context, "references", name="Shelf", path="use.py")
    assert [one["line"] for one in used.data["references"]] == [1, 4], "the string is no reference"
    assert "No definition of nothing" in (await symbols(context, "definition", name="nothing")).text
    for values in (
        {"action": "definition"},
        {"action": "outline"},
        {"action": "outline", "path": "nowhere.py"},
    ):
        with pytest.raises(ToolError):
            await symbols(context, **values)


async def test_a_plan_is_kept_as_data_for_the_doors(make_context: Any) -> None:
    context = await make_context(FILES)
    items = [{"text": "look", "status": "done"}, {"text": "fix", "status": "in_progress"}]
    result = await TodoTool().run(context, TodoArguments.model_validate({"items": items}))
    assert result.data == {"items": items}


async def test_a_question_reaches_the_person_and_without_one_the_model_is_told(make_context: Any) -> None:
    context = await make_context(FILES)
    with pytest.raises(ToolError, match="nobody is there"):
        await AskTool().run(context, AskArguments(question="Which?"))
    asked: list[Question] = []

    async def answer(question: Question) -> str:
        asked.append(question)
        return "the second" if question.options else "  "

    context.ask = answer
    result = await AskTool().run(context, AskArguments(question="Which?", options=["first", "second"]))
    assert result.data == {"question": "Which?", "answer": "the second"}
    assert asked == [Question("Which?", ("first", "second"))]
    with pytest.raises(ToolError, match="no answer"):
        await AskTool().run(context, AskArguments(question="And?"))
