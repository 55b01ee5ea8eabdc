"""Files that no snapshot holds go back to a marked state; names that decide about tests are known."""

from __future__ import annotations

from pathlib import Path

import pytest
from whimbrel.sandbox.workspace import names, unrecorded
from whimbrel.sandbox.workspace.names import is_junk, is_test_configuration, is_test_module

from .conftest import Copy, shell, state_of


async def test_ignored_files_litter_and_git_itself_go_back_to_the_mark(repository: Path, copy: Copy) -> None:
    workspace = await copy(repository)
    root = workspace.root
    shell("mkdir build; echo 1 > build/o; echo 2 > gone.log; ln -s src/a.py build/link", root)
    await workspace.mark_unrecorded()
    before = state_of(root)
    shell(
        "echo 9 > build/o; rm gone.log build/link; echo 3 > new.log; mkdir -p __pycache__ build/deep; "
        "echo 4 > __pycache__/x.py; echo 5 > build/deep/x; echo 6 > .git/hidden; git commit -q --allow-empty -m x; "
        "echo 7 > src/a.py",
        root,
    )
    assert await workspace.reset_unrecorded() == ()
    after = state_of(root)
    assert (root / "src/a.py").read_text() == "7\n", "what snapshots hold is left to them"
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert changed == {"src/a.py"}
    shell("git status --short", root)
    assert (root / "gone.log").read_text() == "2\n" and not (root / ".git/hidden").exists()


async def test_what_was_too_large_to_keep_is_named_when_it_changed(
    repository: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrecorded, "MAX_KEPT_FILE_BYTES", 10)
    workspace = await copy(repository)
    shell("echo 0123456789abc > big.log; echo x > same.log", workspace.root)
    await workspace.mark_unrecorded()
    assert "big.log" not in await workspace.reset_unrecorded()
    shell("echo other > big.log", workspace.root)
    assert "big.log" in await workspace.reset_unrecorded()


@pytest.mark.parametrize(
    ("path", "new", "configures"),
    [
        ("conftest.py", False, True),
        ("src/pkg/conftest.py", True, True),
        ("pytest.ini", True, True),
        ("sub/pyproject.toml", False, True),
        ("sitecustomize.py", True, True),
        ("x.pth", True, True),
        ("p.egg-info/entry_points.txt", True, True),
        ("package.json", False, True),
        ("random.py", True, True),
        ("src/pytest/__init__.py", True, True),
        ("random.py", False, False),
        ("shop/random.py", True, False),
        ("shop/config.py", True, False),
        ("setup.py", False, False),
    ],
)
def test_what_decides_about_tests(path: str, new: bool, configures: bool) -> None:
    assert is_test_configuration(path, new=new) is configures


def test_test_modules_and_left_overs_by_name() -> None:
    assert all(map(is_test_module, ("tests/test_a.py", "a_test.go", "x.spec.ts", "FooTest.java")))
    assert not any(
        map(is_test_module, ("tests/__init__.py", "tests/helpers.py", "tests/data.json", "conftest.py"))
    )
    assert all(map(is_junk, ("debug.log", "a.py.orig", "a.py~", "node_modules/x/index.js")))
    assert not any(map(is_junk, ("shop/log.py", "docs/changes.md", "corepack.py")))
    assert names.is_test_path("tests/__init__.py")
