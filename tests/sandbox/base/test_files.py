"""Writing files: nothing changes that was not meant to, and never half."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import ToolError
from whimbrel.sandbox.base.files import TextFile, atomic_write


def edited(path: Path, old: str, new: str) -> bytes:
    file = TextFile.load(path)
    assert old in file.text
    file.with_text(file.text.replace(old, new)).save()
    return path.read_bytes()


def test_one_line_of_a_crlf_file_changes_and_all_ends_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\r\nb\r\nc\r\n")
    assert edited(path, "b\n", "B\nB2\n") == b"a\r\nB\r\nB2\r\nc\r\n"


def test_lines_of_a_mixed_file_keep_their_own_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\r\nb\nc\r\nd\re\r\n")
    assert edited(path, "c", "C") == b"a\r\nb\nC\r\nd\re\r\n"


def test_a_byte_order_mark_and_accents_survive(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"\xef\xbb\xbf# \xc3\xa9\xc5\x91\nx = 1\n")
    assert edited(path, "1", "2") == b"\xef\xbb\xbf# \xc3\xa9\xc5\x91\nx = 2\n"


def test_utf16_with_its_mark_is_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xff\xfe" + "één\r\ntwee\r\n".encode("utf-16-le"))
    assert edited(path, "twee", "drie") == b"\xff\xfe" + "één\r\ndrie\r\n".encode("utf-16-le")


def test_a_latin1_byte_is_kept_and_never_becomes_a_replacement_character(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"# caf\xe9\nx = 1\n")
    assert edited(path, "1", "2") == b"# caf\xe9\nx = 2\n"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("gbk", "# 计算两个数的和并且返回结果\nx = 1\n"),
        ("shift_jis", "# これはテストのためのファイルです\nx = 1\n"),
        ("euc_jp", "# これはテストのためのファイルです\nx = 1\n"),
    ],
)
def test_east_asian_source_is_read_as_what_it_is(tmp_path: Path, encoding: str, text: str) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(text.encode(encoding))
    assert TextFile.load(path).text == text
    assert edited(path, "x = 1", "x = 2") == text.replace("x = 1", "x = 2").encode(encoding)


def test_french_latin1_is_not_taken_for_chinese(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    text = "élève préféré, déjà vu: garçon, être, où, Noël, aïeul, maïs, forêt, crêpe\n"
    path.write_bytes(text.encode("latin-1"))
    assert TextFile.load(path).text == text


def test_a_declared_encoding_is_used_and_a_character_it_lacks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    original = "# -*- coding: latin-1 -*-\ns = 'é'\n".encode("latin-1")
    path.write_bytes(original)
    file = TextFile.load(path)
    with pytest.raises(ToolError, match="has no way to write '→'"):
        file.with_text(file.text.replace("é", "→")).save()
    assert path.read_bytes() == original
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "content", [b"", b"a", b"a\n", b"a\nb", b"\n", b"a\n\n", b"a\x0cb\x0bc\xe2\x80\xa8d\n"]
)
def test_an_unedited_file_comes_back_byte_for_byte(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    file = TextFile.load(path)
    assert file.with_text(file.text).to_bytes() == content
    assert file.final_newline == content.endswith(b"\n")


def test_a_missing_final_newline_stays_missing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a\nb")
    assert edited(path, "a", "c") == b"c\nb"


def test_a_binary_file_and_things_that_are_no_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(ToolError, match="binary"):
        TextFile.load(tmp_path / "binary")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ToolError, match="not a regular file"):
        TextFile.load(tmp_path / "pipe")
    with pytest.raises(ToolError, match="does not exist"):
        TextFile.load(tmp_path / "nothing")
    with pytest.raises(ToolError, match="is not a regular file"):
        TextFile.load(tmp_path)


def test_a_script_stays_executable_and_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("echo 1\n")
    script.chmod(0o755)
    edited(script, "1", "2")
    assert script.stat().st_mode & 0o7777 == 0o755
    before = os.umask(0o027)
    try:
        atomic_write(tmp_path / "new", b"x")
        TextFile.from_bytes(tmp_path / "new2", b"x").save()
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o7777 == 0o640
    assert (tmp_path / "new2").stat().st_mode & 0o7777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    os.chown(path, 12345, 12346)
    atomic_write(path, b"y")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old\n")
    link = tmp_path / "link"
    link.symlink_to("target")
    edited(link, "old", "new")
    assert link.is_symlink()
    assert (tmp_path / "target").read_text() == "new\n"


def test_a_failing_write_leaves_the_original_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_text("original")
    with pytest.raises(OSError, match="directory"):
        atomic_write(tmp_path, b"x")

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            atomic_write(path, b"x" * 100)
    assert path.read_text() == "original"
    assert list(tmp_path.iterdir()) == [path]


def test_a_kill_in_the_middle_of_writing_leaves_old_or_new(tmp_path: Path) -> None:
    path = tmp_path / "data"
    old, new = b"o" * 3_000_000, b"n" * 3_000_000
    path.write_bytes(old)
    program = (
        "import sys; from pathlib import Path; from whimbrel.sandbox.base.files import atomic_write\n"
        "print('go', flush=True)\n"
        "while True:\n"
        "    for fill in (b'n', b'o'): atomic_write(Path(sys.argv[1]), fill * 3_000_000)\n"
    )
    for delay in (0.0, 0.003, 0.011):
        process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert path.read_bytes() in (old, new)
