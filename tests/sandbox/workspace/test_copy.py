"""Making the copy: what is in it, and that the original never notices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import RepositoryError, UsageError
from whimbrel.sandbox.workspace import Workspace

from .conftest import Copy, shell, state_of


async def test_a_clean_repository_is_copied_with_the_tree_of_its_commit(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    base = workspace.base
    assert base.commit == shell("git rev-parse HEAD", repository).strip()
    assert base.tree == shell("git rev-parse HEAD^{tree}", repository).strip()
    assert (base.dirty, base.branch, base.notes) == (False, "main", ())
    assert base.repository == repository
    assert workspace.root.name == "project"
    assert os.readlink(workspace.root / "link") == "src/a.py"
    assert os.access(workspace.root / "run.sh", os.X_OK)
    assert not os.access(workspace.root / "src/a.py", os.X_OK)
    assert await workspace.diff() == b""


async def test_nothing_of_the_original_changes_in_a_whole_life(repository: Path, copy: Copy) -> None:
    shell(
        "echo staged > staged; git add staged; echo dirty >> src/a.py; echo new > new; touch -d @1 src/b.py",
        repository,
    )
    shell(
        "git config filter.trap.clean 'touch ran; cat'; echo '*.py filter=trap' > .gitattributes", repository
    )
    shell(
        "printf '#!/bin/sh\\ntouch %s/ran\\n' \"$PWD\" > .git/hooks/post-checkout; chmod +x .git/hooks/*",
        repository,
    )
    before = state_of(repository)
    times = {path: path.stat().st_mtime_ns for path in (repository / ".git/index", repository / "src/a.py")}
    workspace = await copy(repository)
    (workspace.root / "src/a.py").write_text("changed\n")
    shell("git add -A; git commit -qm inside; git tag inside; git gc -q", workspace.root)
    await workspace.diff()
    await workspace.restore(workspace.base.tree)
    await workspace.destroy()
    assert state_of(repository) == before
    assert {path: path.stat().st_mtime_ns for path in times} == times
    shell("git fsck --strict", repository)


async def test_uncommitted_staged_untracked_and_deleted_files_are_as_in_the_working_tree(
    repository: Path, copy: Copy
) -> None:
    shell(
        "echo more >> src/a.py; echo s > staged; git add staged; echo u > 'new 笔记.md'; rm src/b.py;"
        "git rm -q --cached run.sh; echo ignored > x.log; echo kept > keep.log;"
        "mkdir build empty; echo o > build/o",
        repository,
    )
    workspace = await copy(repository)
    root = workspace.root
    assert (root / "src/a.py").read_text() == "x = 1\nmore\n"
    for name in ("staged", "new 笔记.md", "run.sh", "keep.log"):
        assert (root / name).read_bytes() == (repository / name).read_bytes()
    for name in ("src/b.py", "x.log", "build", "empty"):
        assert not (root / name).exists()
    assert workspace.base.dirty
    assert workspace.base.commit == shell("git rev-parse HEAD", repository).strip()
    assert await workspace.diff() == b""


async def test_a_revision_is_copied_without_the_working_trees_changes(repository: Path, copy: Copy) -> None:
    shell("echo dirty >> src/a.py; echo u > untracked", repository)
    workspace = await copy(repository, revision="v1.0")
    assert sorted(path.name for path in (workspace.root / "src").iterdir()) == ["a.py"]
    assert (workspace.root / "src/a.py").read_text() == "x = 1\n"
    assert not (workspace.root / "untracked").exists()
    assert os.access(workspace.root / "run.sh", os.X_OK)
    assert workspace.base.commit == shell("git rev-parse v1.0^{commit}", repository).strip()
    assert workspace.base.tree == shell("git rev-parse v1.0^{tree}", repository).strip()
    assert not workspace.base.dirty
    assert shell("git status --porcelain", workspace.root) == ""
    for bad in ("no-such-tag", "--upload-pack=x"):
        with pytest.raises(UsageError, match=r"revision|does not name"):
            await Workspace.create(repository, workspace.root.parent.parent / "other", revision=bad)


async def test_git_inside_the_copy_works_as_in_the_original(repository: Path, copy: Copy) -> None:
    shell("git remote add origin https://user:s3cret@example.org/x.git; git branch other HEAD~1", repository)
    workspace = await copy(repository)
    root = workspace.root
    for command in (
        "git log --format='%H %s'",
        "git describe",
        "git branch --list",
        "git tag",
        "git status --porcelain",
    ):
        assert shell(command, root) == shell(command, repository)
    # An identity of the copy alone: commits must not need one from the person.
    shell(
        "env -u GIT_AUTHOR_NAME -u GIT_AUTHOR_EMAIL -u GIT_COMMITTER_NAME -u GIT_COMMITTER_EMAIL true", root
    )
    shell("echo z > z; git add z; unset ${!GIT_AUTHOR*} ${!GIT_COMMITTER*}; git commit -qm three", root)
    assert shell("git log -1 --format='%s %an'", root) == "three Whimbrel\n"
    assert shell("git remote -v", root) == ""
    assert "s3cret" not in (root / ".git/config").read_text()
    assert shell("git log --format=%s", repository) == "two\none\n"


async def test_an_isolating_sandbox_gets_the_objects_where_it_mounts_them(
    repository: Path, copy: Copy
) -> None:
    shell("git clone -q --shared . ../shared", repository)
    workspace = await copy(repository.parent / "shared", objects_inside="/opt/objects")
    assert [(mount.source, mount.target, mount.read_only) for mount in workspace.mounts()] == [
        (repository.parent / "shared/.git/objects", "/opt/objects", True),
        (repository / ".git/objects", "/opt/objects-1", True),
    ]
    alternates = (workspace.root / ".git/objects/info/alternates").read_text().splitlines()
    assert alternates == ["/opt/objects", "/opt/objects-1"]
    plain = await copy(repository)
    assert plain.mounts() == ()


NAMES = [
    "emoji😀\ttab",
    "new\nline",
    "-dash",
    " space ",
    "ünïcode",
    ":(glob)x",
    "quote\"s'",
    "back\\slash",
    "a*b?[c]",
]


async def test_odd_names_are_copied_recorded_and_patched(
    repository: Path, copy: Copy, tmp_path: Path
) -> None:
    names = [*NAMES, os.fsdecode(b"bad\xff\xfeutf8")]
    for name in names:
        (repository / name).write_text("tracked\n")
    shell("git add -A; git commit -qm odd", repository)
    for name in names:
        (repository / f"untracked {name}").write_text("untracked\n")
    workspace = await copy(repository)
    for name in names:
        assert (workspace.root / name).read_text() == "tracked\n"
        assert (workspace.root / f"untracked {name}").read_text() == "untracked\n"
        (workspace.root / name).write_text("edited\n")
        (workspace.root / f"made {name}").write_text("made\n")
    changed = {file.path: file.status for file in await workspace.changed_files()}
    assert changed == dict.fromkeys(names, "M") | {f"made {name}": "A" for name in names}
    await workspace.restore(workspace.base.tree)
    assert await workspace.diff() == b""
    assert {(workspace.root / name).read_text() for name in names} == {"tracked\n"}


async def test_secrets_that_are_ignored_stay_out_and_others_are_pointed_out(
    repository: Path, copy: Copy
) -> None:
    shell(
        "echo .env >> .gitignore; echo KEY=1 > .env; echo KEY=2 > prod.env;"
        "echo k > server.pem; echo e > .env.example",
        repository,
    )
    workspace = await copy(repository)
    assert not (workspace.root / ".env").exists()
    (note,) = [note for note in workspace.base.notes if "secrets" in note]
    assert "prod.env" in note
    assert "server.pem" in note
    assert "example" not in note


async def test_ignored_build_outputs_named_by_path_or_pattern_come_along_but_never_into_a_patch(
    repository: Path, copy: Copy
) -> None:
    shell(
        "mkdir -p build/deep src/build; echo 1 > build/deep/a.so; echo 2 > build/b.txt;"
        "echo v > src/build/_v.py",
        repository,
    )
    workspace = await copy(repository, extra_paths=["**/*.so", "src/build", "src/a.py", "nothing/here"])
    root = workspace.root
    assert (root / "build/deep/a.so").read_text() == "1\n"
    assert (root / "src/build/_v.py").read_text() == "v\n"
    assert not (root / "build/b.txt").exists()
    (root / "build/deep/a.so").write_text("changed")
    (root / ".gitignore").write_text("")
    assert [file.path for file in await workspace.changed_files()] == [".gitignore"]
    await workspace.restore(workspace.base.tree)
    assert (root / "build/deep/a.so").read_text() == "changed"
    with pytest.raises(UsageError, match="not a path inside"):
        await Workspace.create(repository, root.parent.parent / "other", extra_paths=["../outside"])


async def test_line_end_settings_and_filters_leave_a_clean_repository_clean(
    repository: Path, copy: Copy
) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12\n"
    (repository / "big.bin").write_text(pointer)
    (repository / ".gitattributes").write_text("*.txt text eol=crlf\n*.bin filter=lfs\n*.id ident\n")
    (repository / "dos.txt").write_bytes(b"a\r\nb\r\n")
    (repository / "raw.dat").write_bytes(b"a\r\nb\n\0")
    shell(
        "git config core.autocrlf true; git add -A; git commit -qm ends; rm dos.txt; git checkout dos.txt",
        repository,
    )
    shell("git config filter.lfs.required true; git config filter.lfs.clean 'touch ran; exit 1'", repository)
    workspace = await copy(repository)
    assert workspace.base.tree == shell("git rev-parse HEAD^{tree}", repository).strip()
    assert not workspace.base.dirty
    assert any("LFS" in note for note in workspace.base.notes)
    root = workspace.root
    assert (root / "dos.txt").read_bytes() == b"a\r\nb\r\n"
    assert (root / "big.bin").read_text() == pointer
    (root / "dos.txt").write_bytes(b"a\r\nB\r\n")
    assert b"-b\n+B\n" in await workspace.diff()
    await workspace.restore(workspace.base.tree)
    assert (root / "dos.txt").read_bytes() == b"a\r\nb\r\n"
    assert not (repository / "ran").exists()


async def test_files_behind_a_content_filter_are_copied_as_on_disk_and_left_alone(
    repository: Path, copy: Copy
) -> None:
    shell("git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z'", repository)
    shell(
        "echo '*.up filter=up' > .gitattributes; echo content > f.up; git add -A; git commit -qm filter",
        repository,
    )
    assert shell("git cat-file blob HEAD:f.up", repository) == "CONTENT\n"
    workspace = await copy(repository)
    assert (workspace.root / "f.up").read_text() == "content\n"
    assert not workspace.base.dirty
    assert any("content filter" in note for note in workspace.base.notes)
    (workspace.root / "f.up").write_text("other\n")
    assert await workspace.diff() == b""


async def test_checked_out_submodules_come_with_their_files(
    repository: Path, copy: Copy, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    shell("git init -q .; echo lib > lib.py; git add -A; git commit -qm lib", library)
    shell(
        f"git -c protocol.file.allow=always submodule --quiet add '{library}' vendor/lib;"
        f"git -c protocol.file.allow=always submodule --quiet add '{library}' gone; git commit -qm sub;"
        "git submodule --quiet deinit -f gone; echo dirty >> vendor/lib/lib.py; echo u > vendor/lib/new.py",
        repository,
    )
    workspace = await copy(repository)
    root = workspace.root
    assert (root / "vendor/lib/lib.py").read_text() == "lib\ndirty\n"
    assert (root / "vendor/lib/new.py").exists()
    assert not (root / "vendor/lib/.git").exists()
    notes = " | ".join(workspace.base.notes)
    assert "the submodule vendor/lib is copied as plain files" in notes
    assert "the submodule gone is not checked out" in notes
    assert await workspace.diff() == b""
    (root / "vendor/lib/lib.py").write_text("fixed\n")
    assert [file.path for file in await workspace.changed_files()] == ["vendor/lib/lib.py"]
    await workspace.restore(workspace.base.tree)
    assert (root / "vendor/lib/lib.py").read_text() == "lib\ndirty\n"


async def test_a_repository_inside_that_is_not_a_submodule_is_plain_files(
    repository: Path, copy: Copy
) -> None:
    shell(
        "mkdir nested; cd nested; git init -q .; echo n > n.py; git add -A; git commit -qm n; echo l > x.log",
        repository,
    )
    workspace = await copy(repository)
    assert (workspace.root / "nested/n.py").read_text() == "n\n"
    assert not (workspace.root / "nested/.git").exists()
    assert any("nested/ is a repository of its own" in note for note in workspace.base.notes)
    assert await workspace.diff() == b""


async def test_a_run_directory_inside_the_repository_is_not_copied_into_itself(repository: Path) -> None:
    workspace = await Workspace.create(repository, repository / "runs" / "1")
    assert not (workspace.root / "runs").exists()
    await workspace.destroy()


async def test_a_failed_start_leaves_nothing_behind(repository: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with pytest.raises(UsageError):
        await Workspace.create(repository, run_dir, revision="nothing")
    assert [path for path in run_dir.rglob("*") if path.is_file()] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
async def test_the_copy_belongs_to_the_owner_asked_for(repository: Path, copy: Copy) -> None:
    shell("mkdir -p build/x; echo 1 > build/x/y", repository)
    workspace = await copy(repository, owner=(61832, 61833), extra_paths=["build"])
    (workspace.root / "src/a.py").unlink()
    await workspace.restore(workspace.base.tree)
    workspace.write("new/deep/file", b"x")
    for path in [workspace.root, *workspace.root.rglob("*")]:
        assert (path.lstat().st_uid, path.lstat().st_gid) == (61832, 61833), path


# --- states of repositories -------------------------------------------------------------------


async def test_an_empty_repository_works_with_a_null_commit(tmp_path: Path, copy: Copy) -> None:
    root = tmp_path / "empty"
    root.mkdir()
    shell("git init -q -b main .; echo 1 > a", root)
    workspace = await copy(root)
    assert workspace.base.commit is None
    assert workspace.base.branch == "main"
    (workspace.root / "a").write_text("2\n")
    assert [(file.path, file.status) for file in await workspace.changed_files()] == [("a", "M")]


async def test_bare_missing_and_foreign_places_give_one_clear_line(repository: Path, tmp_path: Path) -> None:
    shell("git clone -q --bare . ../bare.git", repository)
    with pytest.raises(RepositoryError, match="is a bare repository"):
        await Workspace.create(tmp_path / "bare.git", tmp_path / "r1")
    plain = tmp_path / "plain"
    plain.mkdir()
    with pytest.raises(RepositoryError, match="is not in a git repository") as caught:
        await Workspace.create(plain, tmp_path / "r2")
    assert "git init" in caught.value.hint
    with pytest.raises(RepositoryError, match="is not a directory"):
        await Workspace.create(tmp_path / "nothing", tmp_path / "r3")
    with pytest.raises(RepositoryError, match=r"inside a \.git directory"):
        await Workspace.create(repository / ".git", tmp_path / "r4")
    (plain / ".git").write_text("gitdir: /nowhere\n")
    with pytest.raises(RepositoryError) as caught:
        await Workspace.create(plain, tmp_path / "r5")
    assert "\n" not in caught.value.one_line()


STATES = {
    "detached": ("git checkout -q --detach HEAD~1", "HEAD is detached"),
    "merge": (
        "git checkout -qb o HEAD~1; echo o > src/b.py; git add -A; git commit -qm o; git merge main || true",
        "a merge is in progress",
    ),
    "rebase": (
        "git checkout -qb o HEAD~1; echo o > src/b.py; git add -A; git commit -qm o; git rebase main || true",
        "a rebase is in progress",
    ),
    "no-name": ("git config user.useConfigOnly true", ""),
    "split-index": ("git update-index --split-index; echo 1 > n; git add n", ""),
    "unborn-branch": ("git checkout -q --orphan fresh", ""),
    "intent-to-add": ("echo i > i; git add -N i", ""),
    "assume-unchanged": ("git update-index --assume-unchanged src/a.py", ""),
    "packed": ("git pack-refs --all; git gc -q", ""),
    "alternate-line-ends": ("git config core.autocrlf input; git config core.eol crlf", ""),
    "no-index": ("rm .git/index", ""),
}


@pytest.mark.parametrize("name", STATES)
async def test_every_state_of_a_repository_starts(name: str, repository: Path, copy: Copy) -> None:
    command, note = STATES[name]
    shell(command, repository)
    before = state_of(repository)
    workspace = await copy(repository)
    assert note in " | ".join(workspace.base.notes)
    for path in ("src/a.py", "tests/test_a.py"):
        assert (workspace.root / path).read_bytes() == (repository / path).read_bytes()
    shell("git status", workspace.root)
    assert await workspace.diff() == b""
    (workspace.root / "src/a.py").write_text("changed\n")
    assert b"+changed" in await workspace.diff()
    await workspace.restore(workspace.base.tree)
    assert await workspace.diff() == b""
    assert state_of(repository) == before


async def test_a_shallow_clone_works_and_says_so(repository: Path, copy: Copy, tmp_path: Path) -> None:
    shell(f"git clone -q --depth 1 'file://{repository}' ../shallow", repository)
    workspace = await copy(tmp_path / "shallow")
    assert any("shallow" in note for note in workspace.base.notes)
    assert shell("git log --format=%s", workspace.root) == "two\n"
    assert not workspace.base.dirty


async def test_a_sparse_checkout_keeps_what_is_not_on_disk(repository: Path, copy: Copy) -> None:
    shell("git sparse-checkout set --cone src", repository)
    assert not (repository / "tests").exists()
    workspace = await copy(repository)
    assert not workspace.base.dirty
    assert workspace.base.tree == shell("git rev-parse HEAD^{tree}", repository).strip()
    assert any("sparse" in note for note in workspace.base.notes)
    assert shell("git status --porcelain", workspace.root) == ""
    (workspace.root / "src/a.py").write_text("changed\n")
    assert [file.path for file in await workspace.changed_files()] == ["src/a.py"]
    (workspace.root / "tests").mkdir()
    (workspace.root / "tests/test_a.py").write_text("made\n")
    assert {file.path: file.status for file in await workspace.changed_files()}["tests/test_a.py"] == "M"
    await workspace.restore(workspace.base.tree)
    assert not (workspace.root / "tests/test_a.py").exists()
    assert await workspace.diff() == b""


async def test_a_linked_worktree_is_its_own_place(repository: Path, copy: Copy, tmp_path: Path) -> None:
    shell("git worktree add -q ../linked -b feature; echo l > ../linked/l; echo main > main-only", repository)
    workspace = await copy(tmp_path / "linked")
    assert workspace.base.repository == tmp_path / "linked"
    assert workspace.base.branch == "feature"
    assert (workspace.root / "l").exists()
    assert not (workspace.root / "main-only").exists()
    assert shell("git log --format=%s", workspace.root) == "two\none\n"


async def test_a_subdirectory_stands_for_its_repository_with_a_note(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository / "src")
    assert (workspace.root / "tests/test_a.py").exists()
    assert any("is inside the repository" in note for note in workspace.base.notes)


async def test_another_hash_function_works(tmp_path: Path, copy: Copy) -> None:
    root = tmp_path / "sha256"
    root.mkdir()
    shell("git init -q --object-format=sha256 .; echo 1 > a; git add a; git commit -qm one", root)
    workspace = await copy(root)
    assert workspace.base.tree == shell("git rev-parse HEAD^{tree}", root).strip()
    assert shell("git status --porcelain; git log --format=%s", workspace.root) == "one\n"
    (workspace.root / "a").write_text("2\n")
    assert b"+2" in await workspace.diff()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
async def test_a_repository_of_somebody_else_works(repository: Path, copy: Copy) -> None:
    shell("chown -R 12345:12345 .", repository)
    workspace = await copy(repository)
    assert not workspace.base.dirty


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_an_unreadable_git_directory_above_is_one_clear_line(public: Path) -> None:
    parent = public / "parent"
    inner = parent / "inner"
    inner.mkdir(parents=True)
    shell("git init -q .; chmod 000 .git; chmod 777 . inner", parent)
    program = (
        "import asyncio, os, sys\nfrom pathlib import Path\n"
        "from whimbrel.sandbox.workspace import Workspace\n"
        "from whimbrel.sandbox.base.errors import RepositoryError\n"
        # Everything is imported before the change of user, who may not read the interpreter's files.
        "try: asyncio.run(Workspace.create(Path('/nowhere'), Path(sys.argv[2])))\n"
        "except RepositoryError: pass\n"
        "os.setgid(61832); os.setuid(61832)\n"
        "try: asyncio.run(Workspace.create(Path(sys.argv[1]), Path(sys.argv[2])))\n"
        "except RepositoryError as error: print(error.one_line())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(inner), str(public / "run")],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert done.stdout.count("\n") == 1, done.stderr
    assert "git" in done.stdout


async def test_a_hooks_own_index_can_be_the_starting_point(
    repository: Path, copy: Copy, tmp_path: Path
) -> None:
    index = tmp_path / "partial-index"
    shell(f"cp .git/index '{index}'; echo c > c; GIT_INDEX_FILE='{index}' git add c", repository)
    before = index.read_bytes()
    workspace = await copy(repository, index_file=index)
    assert (workspace.root / "c").exists()
    assert index.read_bytes() == before
