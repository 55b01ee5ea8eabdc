"""After an edit the project's own linter or type checker speaks, and only of what the edit brought."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.tools.apply_patch import ApplyPatchArguments, ApplyPatchTool
from whimbrel.app.tools.base import ToolContext, ToolResult
from whimbrel.app.tools.edit import EditArguments, EditTool
from whimbrel.app.tools.linters import LINTERS
from whimbrel.app.tools.write import WriteArguments, WriteTool

from ..repair.project import opened

pytestmark = pytest.mark.timeout(120)
CODE = "import os\n\n\ndef f(x: int) -> int:\n    return x\n"
RUFF = "[tool.ruff]\nfix = true\n"


@asynccontextmanager
async def project(base: Path, files: Mapping[str, str]) -> AsyncIterator[ToolContext]:
    async with opened(base, {"shop.py": CODE, **files}) as context:
        yield context


async def edit(context: ToolContext, old: str, new: str) -> ToolResult:
    return await EditTool().run(context, EditArguments(path="shop.py", old=old, new=new))


@pytest.mark.parametrize(
    ("tool", "configuration", "old", "new", "said"),
    [
        ("ruff", {"pyproject.toml": RUFF}, "return x", "return y", "F821"),
        ("flake8", {".flake8": "[flake8]\n"}, "return x", "return y", "F821"),
        ("mypy", {"setup.cfg": "[mypy]\nstrict = True\n"}, "return x", "return 'x'", "[return-value]"),
    ],
)
async def test_only_what_the_edit_brought_is_told(
    tmp_path: Path, tool: str, configuration: dict[str, str], old: str, new: str, said: str
) -> None:
    async with project(tmp_path, configuration) as context:
        before = await context.workspace.snapshot()
        result = await edit(context, old, new)
        found = result.data["lint"]
        assert [(one["tool"], one["line"]) for one in found] == [(tool, 5)], result.text
        assert said in found[0]["message"] and said in result.text and "F401" not in result.text
        # The same complaint at another line is not new, and nothing but the edit changed any file.
        changed = await context.workspace.changed_files(before)
        assert [file.path for file in changed] == ["shop.py"]
        moved = await edit(context, "import os\n", "# A comment.\nimport os\n")
        assert moved.data["lint"] == [] and "New problems" not in moved.text


async def test_new_files_and_patches_are_looked_at_too(tmp_path: Path) -> None:
    async with project(tmp_path, {"ruff.toml": ""}) as context:
        written = await WriteTool().run(context, WriteArguments(path="new.py", content="import sys\n"))
        assert [one["path"] for one in written.data["lint"]] == ["new.py"]
        patch = "--- a/shop.py\n+++ b/shop.py\n@@ -5 +5 @@\n-    return x\n+    return z\n"
        patched = await ApplyPatchTool().run(context, ApplyPatchArguments(patch=patch))
        assert "shop.py:5" in patched.text and "F821" in patched.text


@pytest.mark.parametrize(
    "why", ["nothing configured", "switched off", "no time left", "not installed", "broken"]
)
async def test_without_a_checker_that_works_an_edit_is_just_an_edit(tmp_path: Path, why: str) -> None:
    configuration = (
        {} if why == "nothing configured" else {"ruff.toml": "this is = = no toml" if why == "broken" else ""}
    )
    async with project(tmp_path, configuration) as context:
        context.lint = why != "switched off"
        if why == "no time left":
            context.deadline = time.monotonic() + 5
        if why == "not installed":
            bare: Any = context.tests
            bare.environment = type("Bare", (), {"python": "/nowhere/python"})()
        result = await edit(context, "return x", "return y")
        assert not result.is_error and result.data["lint"] == []


async def test_a_module_of_the_repository_does_not_stand_in_for_the_checker(tmp_path: Path) -> None:
    planted = {"ruff.toml": "", "ruff.py": "print('shop.py:1:1: planted')\n"}
    async with project(tmp_path, planted) as context:
        result = await edit(context, "return x", "return y")
        assert "planted" not in result.text and "F821" in result.text


def test_the_answers_of_the_other_checkers_are_read() -> None:
    said = {
        "pyright": '{"generalDiagnostics": [{"file": "/w/a.py", "severity": "error", "message": "bad\\n  type",'
        ' "rule": "reportX", "range": {"start": {"line": 4}}}, {"severity": "warning", "message": "w"}]}',
        "eslint": '[{"filePath": "/w/a.js", "messages": [{"ruleId": "no-undef", "line": 3, "message": "y is odd"}]}]',
        "tsc": "src/a.ts(2,5): error TS2322: Type 'string' is not assignable to type 'number'.\n",
    }
    read = {one.name: one.read(one.name, said[one.name]) for one in LINTERS if one.name in said}
    assert [(p.path, p.line, p.message) for problems in read.values() for p in problems] == [
        ("/w/a.py", 5, "bad type (reportX)"),
        ("/w/a.js", 3, "no-undef: y is odd"),
        ("src/a.ts", 2, "TS2322: Type 'string' is not assignable to type 'number'."),
    ]
    for linter in LINTERS:
        assert linter.read(linter.name, "Traceback: it {[ fell over") == []
