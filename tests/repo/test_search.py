"""Text search: both engines give the same answer, and the answer is honest about what it leaves out."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.repo.globs import path_filter
from whimbrel.app.repo.patterns import Pattern, compile_fixed, compile_regex
from whimbrel.app.repo.search import SearchResult, search
from whimbrel.sandbox.base.errors import ToolError
from whimbrel.sandbox.workspace import Workspace

FILES: dict[str, bytes] = {
    "src/cart.py": b"class Cart:\n    def total(self):\n        return sum(i.price for i in self.items)\n",
    "src/crlf.py": b"total = 1\r\n  totals\r\nTOTAL\r\n\r\nend total\r\n",
    "src/no_final_newline.py": b"x = 'total'",
    "src/marked.txt": b"\xef\xbb\xbftotal at the start\nsum\n",
    "src/utf16.txt": "total ő\nnothing\nsubtotal\n".encode("utf-16"),
    "src/latin1.txt": b"caf\xe9 total\nno\xe9l\ntotal\xe9\n",
    "src/unicode.txt": "Größe TOTAL\nárvíztűrő\nＷＩＤＥ total٣\n".encode(),
    "src/binary.bin": b"total\0\1\2total\n",
    "src/empty.txt": b"",
    "src/braces.js": b"function f() { return {a: 1}; }\nif (x) {}\nArray[0][1]\n$total = a|b^c;\n",
    "src/controls.txt": b"tab\there\nform\x0cfeed\nunit\x1fsep\nvert\x0btab\n  \n\t\n",
    "src/long.min.js": b"a" * 5000 + b"total" + b"b" * 5000 + b"\n",
    ".hidden/config.yml": b"total: 3\n",
    "-dash.txt": b"total\n",
    "odd name\n.txt": b"x\ntotal\n",
    "ignored/out.txt": b"total\n",
    ".gitignore": b"ignored/\n*.log\n",
    "debug.log": b"total\n",
    "path:12:name.txt": b"one\ntotal\n",
}

REGEXES = [
    "total",
    "^total",
    "total$",
    r"total\z",
    r"\Atotal",
    r"^\s*$",
    r"^$",
    "to.al",
    "total.",
    r"\btotal\b",
    r"\Btotal",
    r"[^a]total",
    r"total[^ ]",
    r"\Wtotal",
    r"total\W",
    r"total\S",
    r"\D+$",
    r"total\d",
    r"\s\w+\s",
    r"caf. total",
    r"no.l",
    r"(?i)TOTAL",
    r"(?i:TOTAL)s",
    r"(?P<word>total)|(?:sum)",
    r"(?<word>t)otal",
    r"t{1}o{1,2}t{1,}al",
    r"to{,2}tal",
    "function f() {",
    r"function f\(\) {",
    "{a: 1}",
    "a|b",
    r"a\|b",
    r"\$total",
    r"[[:alpha:]]+: [[:digit:]]",
    r"[[:punct:]]1",
    r"[]a-c[]\[",
    r"Array\[\d\]",
    r"[\d\]]\[",
    r"[a\-z]\|",
    r"[-+^]c",
    r"[&~]|=",
    r"[^\W\d]otal",
    r"[\s]total",
    r"\t",
    r"\x0c",
    r"\x{66}orm",
    r"\u00e1rv",
    "ő",
    "größe",
    "Gr..e",
    r"\w+ő",
    r"'[^']*'",
    r'"|\'',
    r"\/|\#|\-\-",
    "x??",
    "(total)+?",
    "sum|",
    "total*?$",
    r"\r",
    r"unit.sep",
    r"unit\ssep",
    r"t\Z",
]

FIXED = ["total", "f() {", "a|b^c", "$total", "[0]", "\\", "é", "total\t", ".", "TOTAL"]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("repository")
    for name, data in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (root / "link.txt").symlink_to("src/cart.py")
    (root / "outside.txt").symlink_to("/etc/passwd")
    (root / "folder").symlink_to("src")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    copy = asyncio.run(Workspace.create(root, tmp_path_factory.mktemp("run")))
    for name in ("ignored/out.txt", "debug.log"):
        (copy.root / name).parent.mkdir(exist_ok=True)
        (copy.root / name).write_bytes(FILES[name])
    os.mkfifo(copy.root / "pipe.txt")
    return copy


@pytest.fixture(scope="module")
def files(workspace: Workspace) -> tuple[str, ...]:
    return asyncio.run(workspace.files())


def find(
    workspace: Workspace, files: tuple[str, ...], pattern: Pattern, tmp_path: Path, **options: Any
) -> SearchResult:
    return asyncio.run(search(workspace.root, pattern, files, log_dir=tmp_path, **options))


def rows(result: SearchResult) -> list[tuple[str, int, int, str]]:
    return [(m.path, m.line, m.column, m.text) for m in result.matches]


ANY_CASE = ["TOTAL", "größe", "^ToTaL$", "[A-F]otal|SUM", r"ÁRV\w+"]


@pytest.mark.parametrize("ignore_case", [False, True])
def test_both_engines_give_the_same_matches_for_every_pattern(
    workspace: Workspace, files: tuple[str, ...], tmp_path: Path, ignore_case: bool
) -> None:
    if ignore_case:
        patterns = [compile_regex(text, ignore_case=True) for text in ANY_CASE]
        patterns += [compile_fixed(text, ignore_case=True) for text in FIXED[-3:]]
    else:
        patterns = [*map(compile_regex, REGEXES), *map(compile_fixed, FIXED)]
    different: list[tuple[str, object, object]] = []
    for pattern in patterns:
        fast = find(workspace, files, pattern, tmp_path, engine="ripgrep", max_results=1000)
        plain = find(workspace, files, pattern, tmp_path, engine="python", max_results=1000)
        assert (fast.engine, plain.engine) == ("ripgrep", "python")
        if (rows(fast), fast.total_lines, fast.total_files) != (
            rows(plain),
            plain.total_lines,
            plain.total_files,
        ):
            different.append((pattern.source, rows(fast), rows(plain)))
    assert different == []


@pytest.mark.parametrize("engine", ["ripgrep", "python"])
def test_what_is_searched_is_what_git_would_show_and_nothing_else(
    workspace: Workspace, files: tuple[str, ...], tmp_path: Path, engine: str
) -> None:
    found = find(workspace, files, compile_fixed("total"), tmp_path, engine=engine, max_results=1000)
    paths = {m.path for m in found.matches}
    assert {".hidden/config.yml", "-dash.txt", "odd name\n.txt", "path:12:name.txt", "src/utf16.txt"} <= paths
    assert not paths & {
        "ignored/out.txt",
        "debug.log",
        "src/binary.bin",
        "link.txt",
        "folder/cart.py",
        "outside.txt",
        "pipe.txt",
    }
    assert [m.path for m in found.matches] == sorted(m.path for m in found.matches)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("engine", ["ripgrep", "python"])
def test_a_cut_result_states_the_true_totals(
    workspace: Workspace, files: tuple[str, ...], tmp_path: Path, engine: str
) -> None:
    everything = find(workspace, files, compile_regex("total"), tmp_path, engine=engine, max_results=1000)
    some = find(workspace, files, compile_regex("total"), tmp_path, engine=engine, max_results=4)
    assert rows(some) == rows(everything)[:4]
    assert some.truncated and not everything.truncated
    assert (some.total_lines, some.total_files) == (len(everything.matches), everything.total_files)


@pytest.mark.parametrize("engine", ["ripgrep", "python"])
def test_a_long_line_is_cut_around_the_match_with_its_true_length(
    workspace: Workspace, files: tuple[str, ...], tmp_path: Path, engine: str
) -> None:
    found = find(workspace, files, compile_fixed("total"), tmp_path, engine=engine, globs=["*.min.js"])
    (match,) = found.matches
    assert "total" in match.text and len(match.text) <= 400
    assert match.cut and (match.line_length, match.column) == (10005, 5001)


def test_utf16_text_is_shown_decoded(workspace: Workspace, files: tuple[str, ...], tmp_path: Path) -> None:
    found = find(workspace, files, compile_fixed("total ő"), tmp_path)
    assert rows(found) == [("src/utf16.txt", 1, 1, "total ő")]


@pytest.mark.parametrize("engine", ["ripgrep", "python"])
def test_a_file_too_large_is_named_and_not_searched(tmp_path: Path, engine: str) -> None:
    root = tmp_path / "r"
    root.mkdir()
    (root / "a.txt").write_text("total\n")
    with (root / "large.txt").open("wb") as stream:
        stream.write(b"total\n")
        stream.seek(17 << 20)
        stream.write(b"\n")
    (root / "large.txt").write_bytes(b"total\n" * 3_000_000)
    found = asyncio.run(
        search(root, compile_fixed("total"), ["a.txt", "large.txt"], log_dir=tmp_path, engine=engine)  # type: ignore[arg-type]
    )
    assert [m.path for m in found.matches] == ["a.txt"]
    assert found.notes == ("large.txt over 16 MiB not searched",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(?=x)", "look-ahead not supported at character 1"),
        ("a(?!x)", "look-ahead not supported at character 2"),
        ("(?<=x)y", "look-behind not supported"),
        ("(?<!x)y", "look-behind not supported"),
        ("(?>a)", "atomic group not supported"),
        (r"(a)\1", "back-references not supported"),
        (r"\p{L}", "Unicode classes"),
        ("a++", "possessive or doubled repeat"),
        ("a**", "possessive or doubled repeat"),
        ("*a", "nothing to repeat"),
        ("(a", "unclosed group at character 1"),
        ("a)", "unopened )"),
        ("[a", "unclosed ["),
        ("[z-a]", "wrong order"),
        ("a{3,1}", "wrong order"),
        ("a{2000}", "repeat count over 1000"),
        ("a(?x)b", "flags (?x) not supported"),
        (r"a\q", r"unknown escape \q"),
        ("a\\", "lone \\ at the end"),
        (r"\<word", r"\b is the word boundary"),
        (r"a\nb", "line by line"),
        ("a\nb", "line by line"),
        ("", "pattern is empty"),
        ("(?P<a>x)(?P<a>y)", "redefinition of group name"),
    ],
)
def test_a_bad_pattern_is_refused_in_one_line_that_says_where(text: str, reason: str) -> None:
    with pytest.raises(ToolError) as caught:
        compile_regex(text)
    assert reason in caught.value.one_line()
    assert "\n" not in caught.value.one_line()


def test_a_pattern_that_explodes_is_stopped_at_the_time_limit_without_ripgrep(tmp_path: Path) -> None:
    root = tmp_path / "r"
    root.mkdir()
    (root / "a.txt").write_text("a" * 60 + "!\n")
    with pytest.raises(ToolError, match="did not end within 1 s"):
        asyncio.run(
            search(
                root,
                compile_regex("(a|aa|aaa)+$"),
                ["a.txt"],
                log_dir=tmp_path,
                engine="python",
                timeout_s=1,
            )
        )


def test_without_ripgrep_on_the_path_python_searches(
    workspace: Workspace, files: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    found = find(workspace, ("src/cart.py",), compile_fixed("total"), tmp_path, engine="auto")
    assert (found.engine, found.total_lines) == ("python", 1)
    with pytest.raises(ToolError, match="is not installed"):
        asyncio.run(
            search(
                workspace.root, compile_fixed("total"), ["src/cart.py"], log_dir=tmp_path, engine="ripgrep"
            )
        )


@pytest.mark.parametrize("engine", ["ripgrep", "python"])
def test_a_folder_swapped_for_a_link_leaks_nothing(tmp_path: Path, engine: str) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("total secret\n")
    root = tmp_path / "r"
    root.mkdir()
    (root / "inner").symlink_to(tmp_path / "secret")
    found = asyncio.run(
        search(root, compile_fixed("total"), ["inner/key.txt"], log_dir=tmp_path, engine=engine)  # type: ignore[arg-type]
    )
    assert found.matches == ()
    assert "changed while they were searched" in found.notes[0]


def test_more_files_than_fit_one_command_line_are_all_searched(tmp_path: Path) -> None:
    root = tmp_path / "r"
    names = [f"{'d' * 100}/{'f' * 150}{number:05d}.txt" for number in range(4000)]
    (root / ("d" * 100)).mkdir(parents=True)
    for name in names:
        (root / name).write_text("total\n")
    found = asyncio.run(search(root, compile_fixed("total"), names, log_dir=tmp_path, max_results=3))
    assert (found.total_lines, found.total_files, len(found.matches)) == (4000, 4000, 3)


@pytest.mark.parametrize(
    ("globs", "passing"),
    [
        (["*.py"], ["a.py", "src/b.py", "src/deep/c.py"]),
        (["src/*.py"], ["src/b.py"]),
        (["src/**"], ["src/b.py", "src/d.ts", "src/deep/c.py"]),
        (["src/"], ["src/b.py", "src/d.ts", "src/deep/c.py"]),
        (["**/deep/*"], ["src/deep/c.py"]),
        (["*.{py,ts}", "!src/deep/"], ["a.py", "src/b.py", "src/d.ts"]),
        (["!*.py"], ["[x].txt", "src/d.ts"]),
        (["[ab].py"], ["a.py", "src/b.py"]),
        (["[!a].py"], ["src/b.py", "src/deep/c.py"]),
        (["?.ts"], ["src/d.ts"]),
        ([r"\[x\].txt"], ["[x].txt"]),
        (["./a.py"], ["a.py"]),
        ([], ["[x].txt", "a.py", "src/b.py", "src/d.ts", "src/deep/c.py"]),
    ],
)
def test_globs_read_as_in_ignore_files(globs: list[str], passing: list[str]) -> None:
    paths = ["a.py", "src/b.py", "src/deep/c.py", "src/d.ts", "[x].txt"]
    assert sorted(filter(path_filter(globs), paths)) == passing


@pytest.mark.parametrize("glob", ["", "/", "[a", "{a,b"])
def test_a_bad_glob_is_refused(glob: str) -> None:
    with pytest.raises(ToolError, match="glob"):
        path_filter([glob])
