"""The read tool on real files, friendly and hostile."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from whimbrel.app.tools.base import ToolContext, ToolResult
from whimbrel.app.tools.read import ReadArguments, ReadTool
from whimbrel.sandbox.base.errors import ToolError


async def read(context: ToolContext, path: str, **more: Any) -> ToolResult:
    return await ReadTool().run(context, ReadArguments(path=path, **more))


async def refusal(context: ToolContext, path: str, **more: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await read(context, path, **more)
    assert "\n" not in caught.value.one_line()
    return caught.value.one_line()


async def test_a_file_is_shown_with_numbers_and_its_true_size(make_context: Any) -> None:
    context = await make_context({"a.py": "def f():\n    return 1\n"})
    result = await read(context, "a.py")
    assert result.text == "a.py, lines 1-2 of 2 (22 bytes)\n1\tdef f():\n2\t    return 1"
    assert result.data["lines"] == ["def f():", "    return 1"]
    assert (result.data["start"], result.data["end"], result.data["total_lines"]) == (1, 2, 2)
    assert context.scratch["files_read"] == {"a.py": result.data["sha256"]}


async def test_a_range_of_lines_and_what_is_left_is_said(make_context: Any) -> None:
    context = await make_context({"a.txt": "".join(f"line {n}\n" for n in range(1, 101))})
    result = await read(context, "a.txt", start=98, end=99)
    assert result.text.splitlines() == [
        "a.txt, lines 98-99 of 100 (792 bytes)",
        "98\tline 98",
        "99\tline 99",
        "[1 more lines, from 100]",
    ]
    assert (await read(context, "a.txt", start=99, end=500)).data["lines"] == ["line 99", "line 100"]
    assert "has 100 lines; line 101 is past its end" in await refusal(context, "a.txt", start=101)
    assert "range 5-4 is empty" in await refusal(context, "a.txt", start=5, end=4)


async def test_a_long_file_stops_after_2000_lines_and_says_where_to_go_on(make_context: Any) -> None:
    context = await make_context({"a.txt": "x\n" * 5000, "wide.txt": ("y" * 1500 + "\n") * 100})
    assert "[3000 more lines, from 2001]" in (await read(context, "a.txt")).text
    wide = await read(context, "wide.txt")
    shown = wide.data["end"]
    assert shown < 100
    assert f"read on from line {shown + 1}" in wide.text


async def test_a_long_line_is_cut_with_its_true_length(make_context: Any) -> None:
    context = await make_context({"a.min.js": "x" * 12_345 + "\nshort\n"})
    result = await read(context, "a.min.js")
    assert "[... 10345 of 12345 characters of this line not shown ...]" in result.data["lines"][0]
    assert result.data["lines"][1] == "short"


async def test_a_200_mb_single_line_file_is_read_in_bounded_memory(make_context: Any) -> None:
    context = await make_context({"a.txt": "x\n"})
    with (context.workspace.root / "huge.txt").open("wb") as stream:
        for _ in range(200):
            stream.write(b"z" * 1_000_000)
    tracemalloc.start()
    try:
        result = await read(context, "huge.txt", start=1, end=5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000
    assert "[... 199998000 of 200000000 characters of this line not shown ...]" in result.text
    assert (result.data["total_lines"], result.data["total_bytes"]) == (1, 200_000_000)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("logo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image"),
        ("data.bin", b"abc\0def" * 10, "binary data"),
        ("lib.so", b"\x7fELF\x02\x01\x01\0", "an ELF program or library"),
        ("a.zip", b"PK\x03\x04\x14\0\0\0", "a ZIP archive"),
        ("video.ts", (b"\x47" + b"\0" * 187) * 4, "an MPEG transport stream"),
        ("noise.txt", bytes(range(1, 9)) * 50, "binary data"),
    ],
)
async def test_binary_content_is_refused_with_what_it_is(
    make_context: Any, name: str, content: bytes, said: str
) -> None:
    context = await make_context({name: content})
    assert f"{name} is {said}" in await refusal(context, name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.ts", "export const x: number = 1;\n"),
        ("logo.svg", '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0"/></svg>\n'),
        ("MZ.txt", "MZ is a country code\n"),
        ("colours.log", "\x1b[31mred\x1b[0m\n"),
        ("a.mp4", "not a video\n"),
    ],
)
async def test_text_is_text_whatever_its_name_says(make_context: Any, name: str, content: str) -> None:
    context = await make_context({name: content})
    assert (await read(context, name)).data["lines"] == [content.rstrip("\n")]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("\ufeffélan\r\nvital\r\n".encode(), ["élan", "vital"]),
        ("árvíztűrő\n".encode("utf-16"), ["árvíztűrő"]),
        (b"caf\xe9\n", ["café"]),
        (
            "注释：这是一个测试文件，用于检查编码。\n".encode("gbk"),
            ["注释：这是一个测试文件，用于检查编码。"],
        ),
        (
            "# -*- coding: cp1252 -*-\nx = '\u201c'\n".encode("cp1252"),
            ["# -*- coding: cp1252 -*-", "x = '\u201c'"],
        ),
        (b"no newline", ["no newline"]),
        (b"form\x0cfeed\xe2\x80\xa8same line\n", ["form\x0cfeed\u2028same line"]),
    ],
)
async def test_encodings_and_line_ends_are_told_from_the_content(
    make_context: Any, content: bytes, lines: list[str]
) -> None:
    context = await make_context({"a.txt": content})
    assert (await read(context, "a.txt")).data["lines"] == lines


async def test_an_accent_far_down_still_tells_the_encoding(make_context: Any) -> None:
    context = await make_context({"a.txt": b"plain line\n" * 20_000 + b"caf\xe9\n"})
    assert (await read(context, "a.txt", start=20_001)).data["lines"] == ["café"]


async def test_a_multibyte_character_across_a_reading_step_stays_whole(make_context: Any) -> None:
    content = ("x" + "ő" * 400_000 + "\nend\n").encode()
    context = await make_context({"a.txt": content})
    result = await read(context, "a.txt")
    assert result.data["lines"][0].startswith("xőőő")
    assert "of 400001 characters" in result.data["lines"][0]
    assert "\ufffd" not in result.text


async def test_an_empty_file_and_a_directory_are_shown_as_what_they_are(make_context: Any) -> None:
    context = await make_context({"empty.txt": "", "pkg/b.py": "12345", "pkg/sub/c.py": ""})
    assert (await read(context, "empty.txt")).text == "empty.txt is empty."
    (context.workspace.root / "pkg" / "link").symlink_to("/etc")
    listing = await read(context, "pkg")
    assert listing.text.splitlines() == [
        "pkg is a directory with 3 entries",
        "sub/",
        "b.py  5 bytes",
        "link  (link)",
    ]
    top = await read(context, ".")
    assert ".git" not in [entry["name"] for entry in top.data["entries"]]


async def test_a_missing_file_names_its_likely_meaning(make_context: Any) -> None:
    context = await make_context({"src/orders.py": "x"})
    assert "similar here: orders.py" in await refusal(context, "src/order.py")
    assert "does not exist" in await refusal(context, "nowhere/at/all.py")


async def test_paths_out_of_the_workspace_are_refused_and_tilde_is_understood(make_context: Any) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    home = os.path.expanduser("~")
    assert f"~/x is {home}/x, which lies outside the workspace" in await refusal(context, "~/x")
    assert "outside the workspace" in await refusal(context, "/etc/passwd")
    assert "outside" in await refusal(context, "../../etc/passwd")
    assert (await read(context, f"{context.sandbox.spec.workdir}/a.py")).data["lines"] == ["x = 1"]
    assert (await read(context, "./a.py")).data["path"] == "a.py"


async def test_a_link_that_leads_out_is_refused_and_one_inside_is_followed(make_context: Any) -> None:
    context = await make_context({"real/a.py": "x = 1\n"})
    root: Path = context.workspace.root
    (root / "out").symlink_to("/etc")
    (root / "passwd").symlink_to("/etc/passwd")
    (root / "inner").symlink_to("real")
    for path in ("out/passwd", "passwd", "out"):
        assert "symbolic link" in await refusal(context, path)
    result = await read(context, "inner/a.py")
    assert (result.data["path"], result.data["lines"]) == ("real/a.py", ["x = 1"])


@pytest.mark.parametrize("path", [".git/config", ".GIT/config", "sub/.Git/HEAD", ".git"])
async def test_the_git_folder_is_off_limits_in_any_letter_case(make_context: Any, path: str) -> None:
    context = await make_context({"a.py": ""})
    assert ".git" in await refusal(context, path)


async def test_blobs_that_are_no_paths_are_refused_in_one_line(make_context: Any) -> None:
    context = await make_context({"a.py": ""})
    assert "not a path: 10001 characters long" in await refusal(context, "@" + "a" * 10_000)
    assert "not a path" in await refusal(context, "a\0b")
    assert "not a path" in await refusal(context, "  ")
    assert await refusal(context, "a" * 3000)


async def test_pipes_sockets_and_devices_neither_block_nor_open(make_context: Any) -> None:
    context = await make_context({"a.py": ""})
    root: Path = context.workspace.root
    os.mkfifo(root / "pipe")
    server = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(root)
    try:
        server.bind("sock")
    finally:
        os.chdir(here)
    assert "is a FIFO, not a regular file" in await refusal(context, "pipe")
    assert "is a socket, not a regular file" in await refusal(context, "sock")
    server.close()


async def test_a_kept_output_is_read_back_by_its_handle(make_context: Any) -> None:
    context = await make_context({"a.py": ""})
    handle = context.keep(b"one\ntwo\nthree\n", "text/plain")
    result = await read(context, f"artifact:{handle}", start=2, end=2)
    assert result.data["lines"] == ["two"]
    assert "there is no artifact:123" in await refusal(context, "artifact:123")
    assert "files_read" not in context.scratch


async def test_a_name_that_is_not_utf8_can_be_listed(make_context: Any) -> None:
    context = await make_context({"a.py": ""})
    Path(os.fsdecode(os.fsencode(context.workspace.root) + b"/caf\xe9.txt")).write_text("x")
    names = [entry["name"] for entry in (await read(context, ".")).data["entries"]]
    assert names == ["a.py", "caf\\xe9.txt"]


def test_unknown_arguments_are_an_error_the_model_can_read() -> None:
    with pytest.raises(ValidationError, match="offset"):
        ReadArguments.model_validate({"path": "a", "offset": 3})


def test_importing_the_tools_loads_neither_grammars_nor_a_matching_library() -> None:
    code = (
        "import sys, whimbrel.app.tools.read, whimbrel.app.tools.edit, whimbrel.app.tools.search,"
        " whimbrel.app.tools.bash\n"
        "heavy = {'tree_sitter', 'rapidfuzz', 'docker', 'rich', 'textual', 'openai', 'httpx', 'git'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
