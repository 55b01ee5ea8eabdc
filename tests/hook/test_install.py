"""Installing beside hooks that are there, in every place where git looks, and leaving no trace."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from whimbrel.app.hook.context import read_context
from whimbrel.app.hook.install import HOOKS, install, states, uninstall
from whimbrel.app.hook.places import HooksFolder, hooks_folder
from whimbrel.sandbox.base.errors import UsageError

from .conftest import BAD, WHIMBREL, Project


def folder_of(project: Project) -> HooksFolder:
    context = read_context({}, project.root)
    return hooks_folder(context.top, context.git_dir)


def prints(folder: Path) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        data = os.fsencode(os.readlink(path)) if path.is_symlink() else path.is_file() and path.read_bytes()
        found[str(path.relative_to(folder))] = (
            hashlib.sha256(data or b"").hexdigest(), path.lstat().st_mode,
        )  # fmt: skip
    return found


@pytest.fixture
def fake(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hook's script with a program in Whimbrel's place that notes what it is given."""
    program, log = tmp_path / "fake program", tmp_path / "log"
    program.write_text(
        f"#!/bin/sh\nfor word; do echo \"$word\"; done >>'{log}'\n[ -t 0 ] || cat >>'{log}'\nexit 7\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr("whimbrel.app.hook.script._command", lambda: [str(program)])
    return log


@pytest.mark.parametrize("name", HOOKS)
def test_earlier_hooks_run_first_with_arguments_input_and_exit_code_and_come_back(
    name: str, project: Project, fake: Path, tmp_path: Path
) -> None:
    folder = folder_of(project)
    folder.path.mkdir(exist_ok=True)
    earlier, beside = folder.path / name, folder.path / "helper"
    beside.write_text("answer=42\n")
    earlier.write_bytes(
        b'#!/bin/sh\n. "${0%/*}/helper"\necho "$answer ${0##*/} $*" >> "$LOG"\n'
        b'[ -t 0 ] || while read -r line; do echo "in: $line" >> "$LOG"; done\nexit ${CODE:-0}\n\xff\x00'
    )
    earlier.chmod(0o751)
    before = prints(folder.path)
    install(folder, [name], ["--max-time", "5s"], force=False)
    install(folder, [name], ["--all"], force=False)  # again, with other options
    assert [state.name for state in states(folder) if state.installed and state.earlier] == [name]
    log = tmp_path / "earlier-log"

    def run(code: str) -> str:
        command = f"printf 'refs/heads/a 1 refs/heads/b 2\\nlast' | '{folder.path / name}' 'one arg' two"
        return project.run(f"{command} || echo exit $?", LOG=str(log), CODE=code)

    assert "exit 3" in run("3") and not fake.exists()
    assert "exit 7" in run("0")
    assert log.read_text().count(f"42 {name} one arg two\n") == 2
    said = fake.read_text().splitlines()
    assert said[:7] == ["hook", "run", name, "--all", "--", "one arg", "two"]
    if name == "pre-push":
        assert said[7:] == ["refs/heads/a 1 refs/heads/b 2", "last"]
        assert log.read_text().count("in: refs/heads/a 1 refs/heads/b 2\nin: last\n") == 2
    assert "exit" not in project.run(
        f"'{folder.path / name}' x </dev/null || echo exit $?", LOG=str(log), WHIMBREL_SKIP="1"
    )
    assert uninstall(folder, HOOKS) == [name]
    assert prints(folder.path) == before


def test_a_hook_without_its_program_says_so_and_lets_pass(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whimbrel.app.hook.script._command", lambda: ["/gone/whimbrel"])
    install(folder_of(project), ["pre-commit"], [], force=False)
    git = shutil.which("git")
    said = project.run(f"echo x > x; {git} add x; {git} commit -m x", PATH="/usr/bin:/bin")
    assert "whimbrel: not found any more, so nothing was tested" in said


def test_a_linked_hook_and_one_that_is_not_executable(project: Project, fake: Path, tmp_path: Path) -> None:
    folder = folder_of(project)
    (project.root / "tools").mkdir()
    real = project.root / "tools" / "check.sh"
    real.write_text('#!/bin/sh\necho ran >> "$LOG"\n')
    real.chmod(0o755)
    shutil.rmtree(folder.path, ignore_errors=True)
    folder.path.mkdir()
    (folder.path / "pre-commit").symlink_to("../../tools/check.sh")
    (folder.path / "commit-msg").write_text("#!/bin/sh\nexit 9\n")
    before, log = prints(folder.path), tmp_path / "l"
    install(folder, ["pre-commit", "commit-msg"], [], force=False)
    assert "exit 7" in project.run(f"'{folder.path / 'pre-commit'}' || echo exit $?", LOG=str(log))
    assert log.read_text() == "ran\n"
    assert "exit 7" in project.run(f"'{folder.path / 'commit-msg'}' m || echo exit $?")
    uninstall(folder, HOOKS)
    assert prints(folder.path) == before


PLACES = {
    "own-folder": ("mkdir .githooks; git config core.hooksPath .githooks", ".githooks", True),
    "missing-folder": ("git config core.hooksPath not/there", "not/there", True),
    "absolute": ('git config core.hooksPath "$PWD/.git/elsewhere"', ".git/elsewhere", False),
    "husky": ("mkdir -p .husky/_; git config core.hooksPath .husky/_", ".husky", True),
    "worktree": ("git worktree add -q ../linked -b linked", ".git/hooks", False),
    "none": ("rm -rf .git/hooks", ".git/hooks", False),
}


@pytest.mark.parametrize("name", PLACES)
def test_every_place_where_git_looks(name: str, project: Project, fake: Path) -> None:
    command, place, tracked = PLACES[name]
    project.run(command)
    if name == "husky":
        project.hook('sh -e "$(dirname "$0")/../pre-commit" "$@"')
        (project.root / ".husky/pre-commit").write_text("echo husky >> husky-ran\n")
    where = Project(project.root.parent / "linked", project.env) if name == "worktree" else project
    before, there = prints(project.root / place), (project.root / place).exists()
    folder = folder_of(where)
    assert folder.path.resolve() == (project.root / place).resolve() and folder.tracked is tracked
    remarks = install(folder, ["pre-commit"], [], force=False)
    assert any("git status" in remark for remark in remarks) is tracked
    where.run("echo x > x; git add x; git commit -m x", ok=False)
    assert fake.read_text().split()[:3] == ["hook", "run", "pre-commit"]
    if name == "husky":
        assert (project.root / "husky-ran").read_text() == "husky\n"
    uninstall(folder, HOOKS)
    assert prints(project.root / place) == before and (project.root / place).exists() == there


def test_a_folder_that_others_share_is_not_touched_unasked(project: Project, tmp_path: Path) -> None:
    project.run(f"git config --global core.hooksPath {tmp_path / 'shared'}")
    assert "--force installs it" in project.run(f"{WHIMBREL} hook install", ok=False)
    assert not (tmp_path / "shared").exists()
    with pytest.raises(UsageError):
        install(HooksFolder(tmp_path, shared=True), ["pre-commit"], [], force=False)


def test_a_hook_put_over_ours_is_left_alone(project: Project, fake: Path) -> None:
    folder = folder_of(project)
    install(folder, ["pre-commit"], [], force=False)
    (folder.path / "pre-commit").write_text("#!/bin/sh\nexit 0\n")
    assert uninstall(folder, HOOKS) == []
    assert (folder.path / "pre-commit").read_text() == "#!/bin/sh\nexit 0\n"


def test_the_commands_say_what_they_did(project: Project) -> None:
    project.write(double_py=BAD)
    said = project.run(
        f"mkdir sub; cd sub; {WHIMBREL} hook install --type all --max-time 2m --model embedded --strict"
    )
    assert "installed in" in said and "pre-merge-commit" in said
    assert "--strict --max-time 120s" in (project.root / ".git/hooks/pre-commit").read_text()
    assert project.run(f"{WHIMBREL} hook status").count("installed") == 4
    assert "taken out of" in project.run(f"{WHIMBREL} hook uninstall")
    assert project.run(f"{WHIMBREL} hook uninstall") == "no hook of Whimbrel is there\n"
    assert project.run("ls .git/hooks | grep -v sample || true") == ""
