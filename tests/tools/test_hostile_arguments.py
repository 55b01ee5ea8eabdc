"""Arguments no careful caller would give: one line each, nothing done, nothing outside touched."""

from __future__ import annotations

import pytest
from whimbrel.app.tools.bash import BashArguments, BashTool
from whimbrel.app.tools.edit import MAX_BYTES, EditArguments, EditTool
from whimbrel.app.tools.read import ReadArguments, ReadTool
from whimbrel.app.tools.search import SearchArguments, SearchTool
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
