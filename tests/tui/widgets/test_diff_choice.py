"""What a person accepts of a patch is a patch that git applies."""

import random
import subprocess
from pathlib import Path

import pytest
from whimbrel.app.tui.widgets.diff_model import Choice, DiffFile, parse_diff


def git(folder: Path, *args: str, stdin: bytes | None = None) -> bytes:
    base = [
        "git",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "-c",
        "core.autocrlf=false",
        "-C",
        str(folder),
    ]
    done = subprocess.run([*base, *args], input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one change of every kind that git knows."""
    git(tmp_path, "init", "-q")
    numbers = "".join(f"line {number}\n" for number in range(100))
    (tmp_path / "plain.txt").write_text(numbers)
    (tmp_path / "crlf.txt").write_bytes(numbers.replace("\n", "\r\n").encode())
    (tmp_path / "open end.txt").write_text("a\n" * 20 + "last")
    (tmp_path / "bytes.txt").write_bytes(numbers.encode() + b"\xe9\n")
    (tmp_path / "old name.txt").write_text(numbers)
    (tmp_path / "run.sh").write_text(numbers)
    (tmp_path / "mode only.sh").write_text("x\n")
    (tmp_path / "gone.txt").write_text("bye\n")
    (tmp_path / "picture.bin").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "héllo 笔\t记.txt").write_text(numbers)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "start")

    changed = (
        numbers.replace("line 3\n", "LINE 3\nnew\n")
        .replace("line 50\n", "")
        .replace("line 90\n", "l\nm\nn\n")
    )
    (tmp_path / "plain.txt").write_text("first\n" + changed)
    (tmp_path / "crlf.txt").write_bytes(changed.replace("\n", "\r\n").encode())
    (tmp_path / "open end.txt").write_text("b\n" + "a\n" * 19 + "last\n")
    (tmp_path / "bytes.txt").write_bytes(changed.encode() + b"\xe8\n")
    (tmp_path / "old name.txt").unlink()
    (tmp_path / "new name.txt").write_text(changed)
    (tmp_path / "run.sh").write_text(changed)
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "mode only.sh").chmod(0o755)
    (tmp_path / "gone.txt").unlink()
    (tmp_path / "fresh.txt").write_text("hello\nno end")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "picture.bin").write_bytes(bytes(reversed(range(256))) * 4)
    (tmp_path / "héllo 笔\t记.txt").write_text(changed)
    return tmp_path


def patch_of(repository: Path) -> str:
    git(repository, "add", "-A")
    patch = git(repository, "diff", "--cached", "--binary", "-M", "HEAD").decode("utf-8", "surrogateescape")
    git(repository, "reset", "-q", "--hard")
    return patch


def expected(repository: Path, choice: Choice, index: int, file: DiffFile) -> list[bytes]:
    """The lines of a file after the wanted hunks, put in by hand."""
    old = (repository / file.old_path).read_bytes().split(b"\n")
    for number in reversed(range(len(file.hunks))):
        hunk = file.hunks[number]
        if not choice.wanted(index, number):
            continue
        start = hunk.old_start - (1 if hunk.old_count else 0)
        new: list[bytes] = []
        for line in hunk.lines:
            if line[0] in " +":
                new.append(as_bytes(line[1:]))
        open_end = hunk.lines[-1].startswith("\\") or (
            len(hunk.lines) > 1 and hunk.lines[-2].startswith("\\")
        )
        end = start + hunk.old_count
        rest = old[end:]
        if open_end:
            rest = [] if hunk.lines[-1].startswith("\\") else [b""]
        old = old[:start] + new + rest
    return old


def test_every_kind_of_change_is_told_apart_and_all_of_it_is_the_patch_itself(repository: Path) -> None:
    patch = patch_of(repository)
    files = parse_diff(patch)
    kinds = {file.path: file.kind for file in files}
    assert kinds == {
        "plain.txt": "modified",
        "crlf.txt": "modified",
        "open end.txt": "modified",
        "bytes.txt": "modified",
        "new name.txt": "renamed",
        "run.sh": "modified",
        "mode only.sh": "modified",
        "gone.txt": "deleted",
        "fresh.txt": "added",
        "empty.txt": "added",
        "picture.bin": "binary",
        "héllo 笔\t记.txt": "modified",
    }
    assert next(file for file in files if file.path == "run.sh").mode_change == "100644 → 100755"
    assert Choice(files).patch() == patch


@pytest.mark.parametrize("seed", range(6))
def test_any_part_of_a_patch_applies_and_changes_just_that(repository: Path, seed: int) -> None:
    files = parse_diff(patch_of(repository))
    choice = Choice(files)
    chance = random.Random(seed)
    for file, unit in choice.all_units():
        choice.want(file, unit, chance.random() < 0.5)
    wanted = {
        index: expected(repository, choice, index, file)
        for index, file in enumerate(files)
        if file.kind in ("modified", "renamed") and file.hunks
    }

    git(repository, "apply", "--whitespace=nowarn", stdin=as_bytes(choice.patch()))

    for index, file in enumerate(files):
        head = choice.wanted(index, Choice.HEAD)
        name = file.new_path if file.kind != "renamed" or head else file.old_path
        if index in wanted:
            assert (repository / name).read_bytes().split(b"\n") == wanted[index], name
        if file.mode_change:
            assert bool((repository / name).stat().st_mode & 0o100) == head
        if file.kind == "deleted":
            assert (repository / file.old_path).exists() != head
        if file.kind == "added":
            assert (repository / name).exists() == head


def test_nothing_wanted_is_no_patch_and_a_patch_without_git_lines_is_read_too() -> None:
    text = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-x\n+y\n--- b.py\t2020\n+++ b.py\t2020\n@@ -1,2 +1,2 @@ f\n a\n-x\n+y\n"
    files = parse_diff("Some words\n" + text)
    assert [file.path for file in files] == ["a.py", "b.py"]
    choice = Choice(files)
    assert choice.patch() == text
    for index in range(2):
        choice.want_file(index, False)
    assert choice.patch() == ""
