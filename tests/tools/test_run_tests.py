"""The run_tests tool: what the model reads and what programs get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.tools.base import Progress, ToolContext, ToolResult, spec_of
from whimbrel.app.tools.registry import default_tools
from whimbrel.app.tools.run_tests import RunTestsArguments, RunTestsTool
from whimbrel.sandbox.base.errors import EnvironmentBroken, ToolError

from ..repair.project import opened

TOTAL = "def total(prices):\n    return sum(prices[1:])\n"
TEST = (
    "from shop import total\n\n\n"
    "def test_sum():\n    assert total([1, 2]) == 3\n\n\n"
    "def test_none():\n    assert total([]) == 0\n"
)


async def run(context: ToolContext, tests: list[str] | None = None, *, rerun: bool = False) -> ToolResult:
    return await RunTestsTool().run(context, RunTestsArguments(tests=tests, rerun=rerun))


async def test_failures_come_with_message_frames_and_evidence(tmp_path: Path) -> None:
    seen: list[Progress] = []
    files = {"shop.py": TOTAL.replace("sum(", "_add("), "test_shop.py": TEST}
    files["shop.py"] += "\n\ndef _add(values):\n    raise ValueError('cannot add')\n"
    async with opened(tmp_path, files, progress=seen) as context:
        result = await run(context)
    data: dict[str, Any] = result.data
    assert data["counts"] == {"failed": 2} and data["exit_code"] == 1 and data["complete"] is True
    assert data["ledger_row"] == context.ledger.rows[-1].number
    first = next(test for test in data["tests"] if test["id"] == "test_shop.py::test_sum")
    assert first["exception"] == "ValueError" and first["message"].endswith("cannot add")
    assert [(frame["path"], frame["line"], frame["function"]) for frame in first["frames"]][-2:] == [
        ("shop.py", 2, "total"),
        ("shop.py", 6, "_add"),
    ]
    assert result.text.startswith(f"2 failed (exit code 1, evidence row {data['ledger_row']})")
    assert "shop.py:6 in _add: raise ValueError('cannot add')" in result.text
    (handle,) = result.artifacts
    assert f"artifact:{handle}" in result.text and b"cannot add" in context.fetch(handle)
    assert [step.phase for step in seen] == ["test"]


async def test_nothing_is_run_twice_on_an_unchanged_tree_unless_asked(tmp_path: Path) -> None:
    async with opened(tmp_path, {"shop.py": TOTAL, "test_shop.py": TEST}) as context:
        first = await run(context)
        again = await run(context)
        assert len(context.ledger.rows) == 1
        assert again.data == first.data
        assert "evidence row 1" in again.text.splitlines()[0] and "not run again" in again.text
        await run(context, ["test_shop.py::test_sum"])
        assert len(context.ledger.rows) == 2
        await run(context, rerun=True)
        assert len(context.ledger.rows) == 3
        (context.workspace.root / "shop.py").write_text(TOTAL.replace("[1:]", ""))
        fixed = await run(context)
        assert len(context.ledger.rows) == 4
        assert fixed.data["counts"] == {"passed": 2} and "not run again" not in fixed.text


async def test_a_test_that_changes_its_outcome_on_an_unchanged_tree_is_called_flaky(tmp_path: Path) -> None:
    marker = tmp_path / "was-here"
    flaky = (
        "from pathlib import Path\n\n\n"
        f"def test_sometimes():\n    marker = Path({str(marker)!r})\n"
        "    seen = marker.exists()\n    marker.touch()\n    assert seen\n"
    )
    async with opened(tmp_path, {"shop.py": TOTAL, "test_flaky.py": flaky}) as context:
        assert (await run(context)).data["flaky"] == []
        second = await run(context, rerun=True)
    assert second.data["flaky"] == ["test_flaky.py::test_sometimes"]
    assert "Flaky" in second.text and second.data["counts"] == {"passed": 1}


async def test_an_import_error_in_the_code_is_reported_with_its_file(tmp_path: Path) -> None:
    async with opened(tmp_path, {"shop.py": "def total(:\n", "test_shop.py": TEST}) as context:
        result = await run(context)
    (error,) = result.data["collection_errors"]
    assert error["path"] == "test_shop.py" and error["exception"] == "SyntaxError"
    assert "COLLECTION ERROR test_shop.py" in result.text


async def test_hundreds_of_failures_stay_readable(tmp_path: Path) -> None:
    many = "import pytest\n\n\n@pytest.mark.parametrize('n', range(300))\ndef test_n(n):\n"
    many += "    assert n < 0, 'x' * 5000\n"
    async with opened(tmp_path, {"test_many.py": many}) as context:
        result = await run(context)
    assert len(result.data["tests"]) == 300
    assert len(result.text) < 30_000
    assert "250 more bad tests not shown" in result.text and "test_many.py::test_n[45]" in result.text


async def test_a_missing_dependency_is_no_bug_of_the_code_unless_the_model_caused_it(tmp_path: Path) -> None:
    missing = "import a_module_nobody_has\n" + TOTAL
    async with opened(tmp_path, {"shop.py": missing, "test_shop.py": TEST}) as context:
        with pytest.raises(EnvironmentBroken, match="a_module_nobody_has"):
            await run(context)
        (context.workspace.root / "shop.py").write_text(TOTAL)
        assert (await run(context)).data["counts"] == {"passed": 1, "failed": 1}
        (context.workspace.root / "shop.py").write_text("# edited\n" + missing)
        with pytest.raises(ToolError, match="a_module_nobody_has"):
            await run(context)


def test_the_registry_is_in_its_frozen_order_and_every_tool_describes_itself() -> None:
    tools = default_tools()
    names = [tool.name for tool in tools]
    assert names == [
        "run_tests", "locate", "read", "search", "edit", "bash", "repair", "list", "glob", "symbols",
        "multi_edit", "apply_patch", "write", "git", "todo", "view_image", "sub_agent",
    ]  # fmt: skip
    more = default_tools(interactive=True, web=True)
    assert [tool.name for tool in more] == [*names, "ask", "web_fetch"]
    tools = more
    for tool in tools:
        spec = spec_of(tool)
        assert len(spec.description) > 80 and spec.parameters["type"] == "object"
        assert spec.parameters["additionalProperties"] is False
