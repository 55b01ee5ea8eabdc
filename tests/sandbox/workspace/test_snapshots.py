"""Snapshots, restoring, and the patch; also against processes that do not play fair."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import ToolError
from whimbrel.sandbox.workspace import Workspace
from whimbrel.sandbox.workspace.store import Store

from .conftest import Copy, applies, shell, state_of


def files_of(workspace: Workspace) -> dict[str, tuple[int, bytes]]:
    return {name: state for name, state in state_of(workspace.root).items() if not name.startswith(".git/")}


async def test_restoring_brings_back_tracked_and_new_files_and_leaves_ignored_ones(
    repository: Path, copy: Copy
) -> None:
    workspace = await copy(repository)
    root = workspace.root
    (root / "new").write_text("new\n")
    middle = await workspace.snapshot()
    before = files_of(workspace)
    shell(
        "rm -r src link; echo x > tests/test_a.py; chmod -x run.sh; echo y > new; "
        "mkdir src; echo d > src/other;"
        "mkdir build; echo o > build/o; echo l > x.log",
        root,
    )
    await workspace.restore(middle)
    after = files_of(workspace)
    assert {name: after.pop(name)[1] for name in ("build/o", "x.log")} == {"build/o": b"o\n", "x.log": b"l\n"}
    del after["build"]
    assert after == before
    await workspace.restore(workspace.base.tree)
    assert not (root / "new").exists()
    await workspace.restore(middle)
    assert (root / "new").read_text() == "new\n"


async def test_files_may_become_directories_and_links_and_back(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    root = workspace.root
    before = files_of(workspace)
    shell(
        "rm run.sh; mkdir -p run.sh/deep; echo 1 > run.sh/deep/f; rm -r src; "
        "echo f > src; rm link; echo r > link",
        root,
    )
    shell("rm tests/test_a.py; ln -s /etc/passwd tests/test_a.py", root)
    odd = await workspace.snapshot()
    statuses = {file.path: file.status for file in await workspace.changed_files()}
    assert statuses["link"] == "T"
    assert statuses["tests/test_a.py"] == "T"
    assert statuses["run.sh/deep/f"] == "A"
    there = files_of(workspace)
    await workspace.restore(workspace.base.tree)
    assert files_of(workspace) == before
    await workspace.restore(odd)
    assert files_of(workspace) == there


async def test_files_in_the_way_of_a_restore_go_even_ignored_ones(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    shell("rm run.sh; mkdir run.sh; echo 1 > run.sh/x.log; chmod 500 run.sh", workspace.root)
    await workspace.restore(workspace.base.tree)
    assert (workspace.root / "run.sh").read_text() == "#!/bin/sh\n"
    assert await workspace.diff() == b""


async def test_an_edit_in_the_same_instant_and_of_the_same_size_is_seen(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    target = workspace.root / "src/a.py"
    details = target.stat()
    trees: set[str] = set()
    for number in range(20):
        target.write_text(f"x = {number % 10}\n")
        os.utime(target, ns=(details.st_atime_ns, details.st_mtime_ns))
        trees.add(await workspace.snapshot())
    assert len(trees) == 10
    assert workspace.base.tree in trees


async def test_touching_files_changes_nothing(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    shell("find . -path ./.git -prune -o -type f -exec touch -d @5 {} +; chmod g-r src/a.py", workspace.root)
    assert await workspace.snapshot() == workspace.base.tree


async def test_read_only_and_unreadable_things_are_recorded_and_put_back(
    repository: Path, copy: Copy
) -> None:
    workspace = await copy(repository)
    root = workspace.root
    shell(
        "echo z >> src/a.py; chmod 000 src/a.py; chmod 500 src; mkdir locked; "
        "echo l > locked/f; chmod 000 locked",
        root,
    )
    assert {file.path for file in await workspace.changed_files()} == {"src/a.py", "locked/f"}
    await workspace.restore(workspace.base.tree)
    assert (root / "src/a.py").read_text() == "x = 1\n"
    assert not (root / "locked").exists()


async def test_an_unknown_snapshot_is_refused(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    with pytest.raises(ToolError, match="no snapshot"):
        await workspace.restore("0" * 40)
    with pytest.raises(ToolError, match="no snapshot"):
        await workspace.restore("--exec=x")
    with pytest.raises(ToolError, match="not a snapshot"):
        await workspace.diff("HEAD")
    assert await workspace.recorded(workspace.base.tree, "src/a.py") == b"x = 1\n"
    with pytest.raises(ToolError, match="not in snapshot"):
        await workspace.recorded(workspace.base.tree, "nothing")


async def test_snapshots_asked_for_at_the_same_time_agree(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    (workspace.root / "src/a.py").write_text("z\n")
    trees = await asyncio.gather(*(workspace.snapshot() for _ in range(8)), workspace.diff())
    assert len(set(trees[:8])) == 1


# --- the patch --------------------------------------------------------------------------------


async def test_the_patch_holds_every_kind_of_change_and_applies_to_a_clean_checkout(
    repository: Path, copy: Copy, tmp_path: Path
) -> None:
    (repository / "blob").write_bytes(bytes(range(256)) * 20)
    (repository / "long.py").write_text("".join(f"line {number}\n" for number in range(100)))
    (repository / "tail").write_text("no newline")
    shell("git add -A; git commit -qm more", repository)
    workspace = await copy(repository)
    root = workspace.root
    shell(
        "mv long.py moved.py; sed -i 's/line 50/line fifty/' moved.py; chmod +x src/b.py; rm tests/test_a.py",
        root,
    )
    shell(
        "printf 'no newline here' > tail; ln -sfn src/b.py link; echo h > 'héllo.txt'; echo n > '笔记.md'",
        root,
    )
    (root / "blob").write_bytes(bytes(reversed(range(256))) * 20)
    (root / "emoji😀\ttab").write_text("e\n")
    (root / "empty").write_text("")
    patch = await workspace.diff()
    assert patch.endswith(b"\n")
    for piece in (
        b"rename from long.py",
        b"GIT binary patch",
        b"new mode 100755",
        "b/héllo.txt".encode(),
        "笔记.md".encode(),
    ):
        assert piece in patch
    assert workspace.base.commit is not None
    clean = applies(patch, repository, workspace.base.commit, tmp_path)
    expected = {
        name: content for name, (mode, content) in files_of(workspace).items() if not stat.S_ISDIR(mode)
    }
    got = {
        name: content
        for name, (mode, content) in state_of(clean).items()
        if not stat.S_ISDIR(mode) and not name.startswith(".git/")
    }
    assert got == expected
    assert os.access(clean / "src/b.py", os.X_OK)
    statuses = {file.path: (file.status, file.is_test) for file in await workspace.changed_files()}
    assert statuses["moved.py"] == ("R", False)
    assert statuses["tests/test_a.py"] == ("D", True)


async def test_work_committed_inside_is_still_in_the_patch(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    shell(
        "echo fixed > src/a.py; git commit -qam fix; git checkout -qb elsewhere; git reset -q --hard",
        workspace.root,
    )
    assert b"+fixed" in await workspace.diff()
    shell("rm -rf .git", workspace.root)
    assert b"+fixed" in await workspace.diff()


async def test_ignored_files_and_what_tools_leave_behind_are_never_in_the_patch(
    repository: Path, copy: Copy
) -> None:
    workspace = await copy(repository)
    shell(
        "mkdir -p src/__pycache__ .pytest_cache/v build dist.egg-info node; "
        "touch src/__pycache__/a.pyc .coverage"
        " .coverage.host.1 .pytest_cache/v/x build/o x.log dist.egg-info/PKG-INFO a.pyc; echo n > node/n",
        workspace.root,
    )
    assert [file.path for file in await workspace.changed_files()] == ["node/n"]


async def test_litter_that_is_tracked_belongs_to_the_repository(repository: Path, copy: Copy) -> None:
    shell(
        "mkdir __pycache__; echo 1 > __pycache__/kept.pyc; echo 2 > kept.log; "
        "git add -f .; git commit -qm odd",
        repository,
    )
    workspace = await copy(repository)
    shell("echo 3 > __pycache__/kept.pyc; rm kept.log; touch __pycache__/new.pyc", workspace.root)
    assert {(file.path, file.status) for file in await workspace.changed_files()} == {
        ("__pycache__/kept.pyc", "M"),
        ("kept.log", "D"),
    }
    await workspace.snapshot()
    shell("echo 4 > kept.log", workspace.root)
    assert {(file.path, file.status) for file in await workspace.changed_files()} == {
        ("__pycache__/kept.pyc", "M"),
        ("kept.log", "M"),
    }


async def test_ignore_rules_that_change_inside_count_from_then_on(repository: Path, copy: Copy) -> None:
    shell("mkdir -p pkg/sub; echo 1 > pkg/sub/f; git add -A; git commit -qm pkg", repository)
    shell("echo private > .git/info/exclude", repository)
    workspace = await copy(repository)
    root = workspace.root

    async def new() -> set[str]:
        return {file.path for file in await workspace.changed_files() if file.status == "A"}

    shell(
        "mkdir out private; echo 1 > out/x; echo 1 > pkg/sub/g.tmp; echo 1 > private/p; "
        "mkdir -p a/b/c; echo 1 > a/b/c/d",
        root,
    )
    assert await new() == {"out/x", "pkg/sub/g.tmp", "a/b/c/d"}
    shell(
        "echo '*.tmp' > pkg/.gitignore; echo '/out/' >> .gitignore; echo d > a/b/.gitignore; echo 2 > out/y",
        root,
    )
    await workspace.restore(workspace.base.tree)
    shell(
        "mkdir -p out a/b/c; echo '*.tmp' > pkg/.gitignore; echo '/out/' >> .gitignore; "
        "echo d > a/b/.gitignore",
        root,
    )
    shell("echo 1 > out/x; echo 1 > pkg/sub/g.tmp; echo 1 > a/b/c/d; echo 1 > a/b/c/e", root)
    assert await new() == {"pkg/.gitignore", "a/b/.gitignore", "a/b/c/e"}
    shell("rm pkg/.gitignore a/b/.gitignore; printf '' > .gitignore", root)
    assert await new() == {"out/x", "pkg/sub/g.tmp", "a/b/c/d", "a/b/c/e"}


async def test_a_path_limits_the_patch_and_is_never_a_pattern(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    shell("echo 1 >> src/a.py; echo 1 >> src/b.py; echo 1 > '*'", workspace.root)
    assert (await workspace.diff(paths=["src"])).count(b"diff --git") == 2
    assert (await workspace.diff(paths=["*"])).count(b"diff --git") == 1


async def test_files_the_tests_rewrote_can_be_told_from_the_agents_changes(
    repository: Path, copy: Copy
) -> None:
    workspace = await copy(repository)
    (workspace.root / "src/a.py").write_text("fix\n")
    before_tests = await workspace.snapshot()
    shell("echo run >> tests/test_a.py; echo junk > leftover", workspace.root)
    after_tests = await workspace.snapshot()
    assert {file.path for file in await workspace.changed_files(before_tests, after_tests)} == {
        "tests/test_a.py",
        "leftover",
    }
    assert (await workspace.diff(end=before_tests)).count(b"diff --git") == 1


# --- processes that do not play fair ----------------------------------------------------------


async def test_links_out_of_the_copy_are_neither_read_nor_written_through(
    repository: Path, copy: Copy, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("outside\n")
    workspace = await copy(repository)
    shell(f"rm -r src; ln -s '{outside}' src; ln -s '{outside}' way", workspace.root)
    changed = {file.path: file.status for file in await workspace.changed_files()}
    assert changed == {"src": "A", "src/a.py": "D", "src/b.py": "D", "way": "A"}
    assert b"outside\n+" not in await workspace.diff()
    await workspace.restore(workspace.base.tree)
    assert (outside / "a.py").read_text() == "outside\n"
    assert sorted(path.name for path in outside.iterdir()) == ["a.py"]
    assert (workspace.root / "src/a.py").read_text() == "x = 1\n"


async def test_pipes_sockets_and_endless_links_are_skipped_with_a_note(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    root = workspace.root
    shell("rm src/a.py .gitignore; mkfifo src/a.py pipe .gitignore; ln -s loop loop", root)
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root)
        try:
            server.bind("sock")
        finally:
            os.chdir(here)
        changed = {file.path: file.status for file in await workspace.changed_files()}
    assert changed == {"src/a.py": "D", ".gitignore": "D", "loop": "A"}
    assert any("pipe is a pipe" in note for note in workspace.notes)
    with pytest.raises(ToolError, match="cannot be read"):
        workspace.read("pipe")
    await workspace.restore(workspace.base.tree)
    assert (root / "src/a.py").read_text() == "x = 1\n"


async def test_a_repository_planted_inside_cannot_make_the_host_run_anything(
    repository: Path, copy: Copy, tmp_path: Path
) -> None:
    workspace = await copy(repository)
    root = workspace.root
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    trap.chmod(0o755)
    for place in (".", "vendored"):
        shell(f"mkdir -p {place}; cd {place}; git init -q .; git config core.fsmonitor {trap}", root)
        shell(f"cd {place}; git config diff.external {trap}; git config core.hooksPath {tmp_path}", root)
    shell("cd vendored; echo v > v.py; git add v.py 2>/dev/null || true", root)
    shell(f"echo '* filter=x diff=x' > .gitattributes; git config filter.x.clean {trap}", root)
    (tmp_path / "ran").unlink(missing_ok=True)
    (root / "src/a.py").write_text("z\n")
    assert {"vendored/v.py", "src/a.py", ".gitattributes"} == {
        file.path for file in await workspace.changed_files()
    }
    await workspace.diff()
    await workspace.restore(workspace.base.tree)
    assert not (tmp_path / "ran").exists()


async def test_very_deep_and_very_wide_trees_neither_break_nor_stay(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    root = workspace.root
    program = "import os\nfor _ in range(3000):\n    os.mkdir('d'); os.chdir('d')\n"
    (root / "dig.py").write_text(program)
    shell("python3 dig.py; mkdir wide; cd wide; seq 1 5000 | xargs touch", root)
    changed = await workspace.changed_files()
    assert len(changed) == 5001
    assert any("could not be read" in note for note in workspace.notes)
    await workspace.restore(workspace.base.tree)
    assert not (root / "wide").exists()
    await workspace.destroy()
    assert not root.exists()


async def test_a_file_swapped_for_a_link_while_being_looked_at_gives_nothing_away(
    repository: Path, copy: Copy, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "f").write_text("SECRET CONTENT\n")
    workspace = await copy(repository)
    root = workspace.root
    shell("mkdir real; echo fine > real/f", root)
    stop = asyncio.Event()

    async def swap() -> None:
        while not stop.is_set():
            for _ in range(50):
                (root / "real").rename(root / "aside")
                (root / "real").symlink_to(secret)
                (root / "real").unlink()
                (root / "aside").rename(root / "real")
            await asyncio.sleep(0)

    swapping = asyncio.ensure_future(swap())
    for _ in range(15):
        (root / "src/b.py").write_text(os.urandom(4).hex())
        assert b"SECRET" not in await workspace.diff()
    stop.set()
    await swapping


async def test_a_huge_new_file_is_left_out_with_a_note(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    with (workspace.root / "dump").open("wb") as file:
        file.truncate(200 << 20)
    assert await workspace.changed_files() == ()
    assert any("dump has 200 MiB" in note for note in workspace.notes)


async def test_a_tracked_file_blown_up_without_end_is_noticed_and_put_back(
    repository: Path, copy: Copy
) -> None:
    workspace = await copy(repository)
    target = workspace.root / "src/a.py"
    os.truncate(target, 1 << 40)
    (workspace.root / "src/b.py").write_text("other\n")
    assert [file.path for file in await workspace.changed_files()] == ["src/b.py"]
    assert any("src/a.py could not be read: File too large" in note for note in workspace.notes)
    with pytest.raises(ToolError, match="cannot be read whole"):
        workspace.read("src/a.py", max_bytes=1000)
    await workspace.restore(workspace.base.tree)
    assert target.read_text() == "x = 1\n"
    assert await workspace.diff() == b""


BAD_PATHS = [
    "../x",
    "/etc/passwd",
    "a/../../x",
    ".git/config",
    "src/.GIT/x",
    "",
    "a\0b",
    "out/x",
    "out",
    "inner/config",
]


async def test_paths_that_lead_out_or_into_git_are_refused(
    repository: Path, copy: Copy, tmp_path: Path
) -> None:
    workspace = await copy(repository)
    root = workspace.root
    shell("ln -s /etc out; ln -s .git inner; ln -s src in", root)
    for path in BAD_PATHS:
        with pytest.raises(ToolError):
            workspace.resolve(path)
        with pytest.raises(ToolError):
            workspace.write(path, b"x")
    assert workspace.resolve("src/../src/a.py") == root / "src/a.py"
    assert workspace.resolve("in/a.py") == root / "in/a.py"
    assert workspace.resolve("new/file") == root / "new/file"
    assert workspace.resolve(".") == root


async def test_files_can_be_read_and_written_safely(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    assert workspace.read("./src/a.py") == b"x = 1\n"
    workspace.write("run.sh", b"#!/bin/sh\necho\n")
    workspace.write("deep/er/new.sh", b"#!/bin/sh\n", executable=True)
    assert os.access(workspace.root / "run.sh", os.X_OK)
    assert os.access(workspace.root / "deep/er/new.sh", os.X_OK)
    with pytest.raises(ToolError, match="directory"):
        workspace.write("src", b"x")
    with pytest.raises(ToolError, match="cannot be read"):
        workspace.read("link")


# --- size and end -----------------------------------------------------------------------------


async def test_many_versions_of_a_big_file_cost_little_once_packed(
    repository: Path, copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whimbrel.sandbox.workspace.store._PACK_AFTER_BYTES", 8 << 20)
    workspace = await copy(repository)
    big = workspace.root / "generated"
    content = os.urandom(1 << 20)
    first = ""
    for number in range(40):
        big.write_bytes(content + str(number).encode())
        tree = await workspace.snapshot()
        first = first or tree
    store = Store(tmp_path / "run-0" / "snapshots")
    assert store.size_bytes() < 16 << 20
    await workspace.restore(first)
    assert big.read_bytes() == content + b"0"
    assert not list((tmp_path / "run-0").rglob("tmp_pack_*"))


async def test_beyond_the_cap_the_oldest_snapshots_go_and_say_so(
    repository: Path, copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whimbrel.sandbox.workspace.store._PACK_AFTER_BYTES", 1 << 20)
    monkeypatch.setattr("whimbrel.sandbox.workspace.store._KEEP_AT_LEAST", 4)
    monkeypatch.setattr("whimbrel.sandbox.workspace.store.CAP_BYTES", 3 << 20)
    workspace = await copy(repository)
    trees: list[str] = []
    for _ in range(20):
        (workspace.root / "noise").write_bytes(os.urandom(512 << 10))
        trees.append(await workspace.snapshot())
    with pytest.raises(ToolError, match="no longer kept"):
        await workspace.restore(trees[0])
    await workspace.restore(trees[-2])
    await workspace.restore(workspace.base.tree)
    assert Store(tmp_path / "run-0" / "snapshots").size_bytes() < 6 << 20


async def test_destroying_removes_everything_also_what_is_locked(
    repository: Path, copy: Copy, tmp_path: Path
) -> None:
    workspace = await copy(repository)
    shell(
        "mkdir -p ro/in; echo 1 > ro/in/f; ln -s /etc ro/in/l; chmod 400 ro/in/f; "
        "chmod 000 ro/in; chmod 500 ro",
        workspace.root,
    )
    await workspace.snapshot()
    await workspace.destroy()
    await workspace.destroy()
    assert [path for path in (tmp_path / "run-0").rglob("*") if not path.is_dir()] == []
    assert not workspace.root.exists()
    assert Path("/etc/passwd").exists()
