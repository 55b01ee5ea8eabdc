"""What project code may do to the copy's git files to break, fool or outlive a snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest
from whimbrel.sandbox.workspace import recorder

from .conftest import Copy, shell


@pytest.mark.parametrize("encoding", ["UTF-16", "NO-SUCH-ENCODING"])
async def test_an_encoding_attribute_that_does_not_fit_breaks_no_snapshot(
    encoding: str, repository: Path, copy: Copy
) -> None:
    workspace = await copy(repository)
    (workspace.root / ".gitattributes").write_text(f"*.py working-tree-encoding={encoding}\n")
    odd = workspace.root / "src" / 'odd\n"name".py'
    odd.write_bytes(b"odd = 1\n")
    (workspace.root / "src" / "a.py").write_bytes(b"x = 2\n")
    (workspace.root / "note.txt").write_bytes(b"plain\n")
    there = await workspace.snapshot()
    assert {change.path for change in await workspace.changed_files()} == {
        ".gitattributes",
        "note.txt",
        "src/a.py",
        'src/odd\n"name".py',
    }
    assert any("recorded as it is" in note for note in workspace.notes)
    await workspace.restore(workspace.base.tree)
    assert (workspace.root / "src" / "a.py").read_bytes() == b"x = 1\n"
    await workspace.restore(there)
    assert (workspace.root / "src" / "a.py").read_bytes() == b"x = 2\n"
    assert odd.read_bytes() == b"odd = 1\n"
    assert await workspace.snapshot() == there


@pytest.mark.parametrize("attribute", ["binary", "-diff"])
async def test_attributes_made_in_the_copy_do_not_make_a_change_unreadable(
    attribute: str, repository: Path, copy: Copy
) -> None:
    workspace = await copy(repository)
    (workspace.root / ".gitattributes").write_text(f"*.py {attribute}\n")
    (workspace.root / "src" / "a.py").write_text("x = 'changed'\n")
    assert b"+x = 'changed'\n" in await workspace.diff()


async def test_attributes_of_the_repository_itself_still_count(repository: Path, copy: Copy) -> None:
    shell(
        "printf '*.lock -diff\\n' > .gitattributes; echo one > x.lock; git add -A; git commit -qm l",
        repository,
    )
    workspace = await copy(repository)
    (workspace.root / "x.lock").write_text("two\n")
    assert b"GIT binary patch" in await workspace.diff()


async def test_directories_named_like_ignore_files_are_only_directories(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    rules = workspace.root / ".gitignore"
    before = rules.read_bytes()
    rules.unlink()
    for name in (".gitignore", ".gitattributes"):
        (workspace.root / name / "inner").mkdir(parents=True)
        (workspace.root / name / "inner" / "file").write_text("x\n")
    await workspace.snapshot()
    paths = {change.path for change in await workspace.changed_files()}
    assert {".gitignore/inner/file", ".gitattributes/inner/file"} <= paths
    await workspace.restore(workspace.base.tree)
    assert rules.read_bytes() == before
    assert await workspace.snapshot() == workspace.base.tree


async def test_a_file_in_the_place_of_an_ignored_directory_is_seen(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    place = workspace.root / "build"
    place.mkdir()
    (place / ".gitignore").write_text("*\n")
    (place / "output").write_text("x\n")
    assert await workspace.snapshot() == workspace.base.tree
    for item in place.iterdir():
        item.unlink()
    place.rmdir()
    place.write_text("a file now\n")
    await workspace.snapshot()
    assert [change.path for change in await workspace.changed_files()] == ["build"]


async def test_what_new_ignore_rules_hid_does_not_outlive_a_restore(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    (workspace.root / ".gitignore").write_text("*\n")
    (workspace.root / "conftest.py").write_text("raise SystemExit\n")
    (workspace.root / "deep" / "er").mkdir(parents=True)
    (workspace.root / "deep" / "er" / "hidden.py").write_text("x = 1\n")
    await workspace.snapshot()
    await workspace.restore(workspace.base.tree)
    assert not (workspace.root / "conftest.py").exists()
    assert not (workspace.root / "deep").exists()
    assert await workspace.snapshot() == workspace.base.tree


async def test_files_of_holes_are_left_out_and_cost_nothing(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    for number in range(50):
        with (workspace.root / f"hole{number}").open("wb") as file:
            file.truncate(120 << 20)
    (workspace.root / "src" / "a.py").write_text("x = 2\n")
    await workspace.snapshot()
    assert [change.path for change in await workspace.changed_files()] == ["src/a.py"]
    assert any("mostly holes" in note for note in workspace.notes)


async def test_too_much_new_content_at_once_is_left_out_instead_of_failing(
    repository: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_ROUND_BYTES", 1 << 20)
    workspace = await copy(repository)
    for number in range(4):
        (workspace.root / f"data{number}").write_bytes(b"%d" % number * (400 << 10))
    (workspace.root / "src" / "a.py").write_bytes(b"#" * (2 << 20))
    await workspace.snapshot()
    assert len(await workspace.changed_files()) == 2
    assert any("changed in the copy at once" in note for note in workspace.notes)
    await workspace.restore(workspace.base.tree)
    assert (workspace.root / "src" / "a.py").read_bytes() == b"x = 1\n"
