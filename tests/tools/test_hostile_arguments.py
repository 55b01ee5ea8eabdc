"""Arguments no careful caller would give: one line each, nothing done, nothing outside touched."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from whimbrel.app.tools.apply_patch import ApplyPatchTool
from whimbrel.app.tools.bash import BashArguments, BashTool
from whimbrel.app.tools.edit import MAX_BYTES, EditArguments, EditTool
from whimbrel.app.tools.git import GitArguments, GitTool
from whimbrel.app.tools.glob import GlobTool
from whimbrel.app.tools.list import ListArguments, ListTool
from whimbrel.app.tools.multi_edit import MultiEditArguments, MultiEditTool, OneEdit
from whimbrel.app.tools.read import ReadArguments, ReadTool
from whimbrel.app.tools.search import SearchArguments, SearchTool
from whimbrel.app.tools.symbols import SymbolsArguments, SymbolsTool
from whimbrel.app.tools.view_image import ViewImageArguments, ViewImageTool
from whimbrel.app.tools.write import WriteArguments, WriteTool
from whimbrel.sandbox.base.errors import ToolError

from .conftest import MakeContext

PATHS = [
    "/etc/passwd", "../x", "a/../../x", ".GIT/config", "x/.Git/y", "a\0b", "n" * 10_000, "a" * 256, "é" * 200,
    "~/x", "~nobody/x", "", " ", "\ud800.py", "/proc/self/environ",
]  # fmt: skip


async def test_no_tool_takes_a_path_that_is_none_or_leads_out(make_context: MakeContext) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    before = await context.workspace.snapshot()
    for path in PATHS:
        for tool, arguments in (
            (ReadTool(), ReadArguments(path=path)),
            (EditTool(), EditArguments(path=path, old="", new="x\n")),
            (SearchTool(), SearchArguments(pattern="x", path=path)),
            (WriteTool(), WriteArguments(path=path, content="x\n")),
            (MultiEditTool(), MultiEditArguments(path=path, edits=[OneEdit(old="x", new="y")])),
            (ListTool(), ListArguments(path=path)),
            (SymbolsTool(), SymbolsArguments(action="outline", path=path)),
            (ViewImageTool(), ViewImageArguments(path=path)),
            (GitTool(), GitArguments(action="blame", path=path)),
        ):
            with pytest.raises(ToolError) as caught:
                await tool.run(context, arguments)
            line = caught.value.one_line()
            assert "\n" not in line and len(line) < 600, path
            assert str(context.workspace.root.parent) not in line, "no place of the host is given away"
    assert await context.workspace.snapshot() == before


@pytest.mark.parametrize(
    ("path", "new", "said"),
    [
        ("new.txt", "a\0b", "NUL"),
        ("line\nbreak.py", "x", "control characters"),
        ("esc\x1b[2J.py", "x", "control characters"),
        ("artifact:abc", "x", "kept outputs"),
        ("big.txt", "x" * (MAX_BYTES + 1), "too large"),
    ],
    ids=["nul", "line-break", "escape", "artifact", "big"],
)
async def test_files_nobody_wants_are_not_made(
    make_context: MakeContext, path: str, new: str, said: str
) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    with pytest.raises(ToolError, match=said):
        await EditTool().run(context, EditArguments(path=path, old="", new=new))
    assert await context.workspace.files() == ("a.py",)


@pytest.mark.parametrize("kind", ["host", pytest.param("bwrap", marks=pytest.mark.bwrap)])
@pytest.mark.parametrize(
    ("command", "said"),
    [("echo a\0b", "NUL"), ("echo \ud800", "surrogate"), ("true #" + "x" * 200_000, "longer than")],
    ids=["nul", "surrogate", "too long"],
)
async def test_commands_no_system_takes_are_refused_alike_everywhere(
    make_context: MakeContext, kind: str, command: str, said: str
) -> None:
    context = await make_context({"a.py": "x = 1\n"}, kind=kind)
    with pytest.raises(ToolError, match=said):
        await BashTool().run(context, BashArguments(command=command))


async def test_a_command_of_12_000_characters_is_run(make_context: MakeContext) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    result = await BashTool().run(context, BashArguments(command="true '" + "x" * 12_000 + "' && echo ran"))
    assert "ran" in result.text and len(result.text) < 200


HALF = "\ud800"


async def test_half_a_surrogate_pair_in_any_text_is_refused_or_harmless(make_context: MakeContext) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    before = await context.workspace.snapshot()
    patch = f"*** Begin Patch\n*** Update File: a.py\n-x = 1\n+x = '{HALF}'\n*** End Patch"
    calls: list[tuple[Any, dict[str, Any]]] = [
        (WriteTool(), {"path": "b.py", "content": HALF}),
        (MultiEditTool(), {"path": "a.py", "edits": [{"old": "x", "new": HALF}]}),
        (ApplyPatchTool(), {"patch": patch}),
        (GlobTool(), {"pattern": HALF}),
        (SymbolsTool(), {"action": "references", "name": HALF}),
        (GitTool(), {"action": "log", "revision": HALF}),
    ]
    for tool, arguments in calls:
        try:
            result = await tool.run(context, tool.arguments.model_validate(arguments))
        except ToolError as error:
            assert "\n" not in error.one_line()
        except ValidationError as error:
            assert "string_unicode" in str(error)
        else:
            assert result.is_error or not result.data.get("total")
    assert await context.workspace.snapshot() == before
