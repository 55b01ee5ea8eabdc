"""The hook as people meet it: a real git, the real command, a failing test, a proposed patch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from .conftest import BAD, GOOD, WHIMBREL, Project

RUN = f"{WHIMBREL} hook run pre-commit --sandbox host"


def install(project: Project, *options: str, ok: bool = True) -> str:
    return project.run(f"{WHIMBREL} hook install --sandbox host {' '.join(options)}", ok=ok)


def test_the_staged_error_stops_the_commit_and_its_patch_can_be_taken(project: Project) -> None:
    project.hook(
        f'sha256sum "$GIT_INDEX_FILE"\n{RUN} || code=$?\nsha256sum "$GIT_INDEX_FILE"\nexit ${{code:-0}}'
    )
    project.write(double_py=BAD)
    project.run("git add double.py")
    # The file on disk is right already, in another way: what is staged counts.
    project.write(double_py="def double(n):\n    return 2 * n\n")
    said = project.run("git commit -m bad", ok=False)
    first, *_, last = (line for line in said.splitlines() if "index" in line and len(line.split()) == 2)
    assert first == last
    assert "1 test fails with this commit:" in said and "+    return n + n" in said
    assert project.run("git log --format=%s").split() == ["start"]
    assert (project.root / "double.py").read_text() == "def double(n):\n    return 2 * n\n"
    assert project.run("git status --short") == "MM double.py\n"
    assert "cannot be applied" in project.run(f"{WHIMBREL} apply", ok=False)
    project.run("git restore double.py")
    project.run(f"{WHIMBREL} apply")
    assert (project.root / "double.py").read_text() == GOOD
    assert project.run("git diff --cached --stat").count("double.py") == 1  # nothing was staged
    project.write(double_py=GOOD + "# more\n")
    assert "1 passed" in project.run("git commit -a -m good", WHIMBREL_SKIP="0")
    assert not os.listdir(Path(project.env["WHIMBREL_RUN_DIR"]))
    project.run("git fsck --strict")


def test_only_what_the_commit_affects_is_run(project: Project) -> None:
    install(project)
    project.write(
        other_py="VALUE = 1\n",
        test_other_py="import other\n\n\ndef test_it():\n    assert other.VALUE == 2\n",
    )
    project.run("git add -A; git commit -qm other --no-verify")
    project.write(double_py=GOOD + "# more\n")
    assert "this commit: 1 passed" in project.run("git commit -am more")
    project.write(README__md="text")
    project.run("mv README/md README.md; git add -A")
    assert "no test is affected" in project.run("git commit -m text")
    install(project, "--all", "--warn-only", "--no-repair")
    project.write(double_py=GOOD)
    said = project.run("git commit -am less")
    assert "test_other.py::test_it" in said and "stopped" not in said


def test_a_patch_is_applied_only_when_asked_and_never_staged(project: Project) -> None:
    install(project, "--apply")
    project.write(double_py=BAD)
    said = project.run("git add -A; git commit -m bad", ok=False)
    assert "it is in your files now, not staged" in said
    assert project.run("git status --short") == "MM double.py\n"
    assert (project.root / "double.py").read_text() == GOOD


def test_a_person_can_skip_it(project: Project) -> None:
    install(project)
    project.write(double_py=BAD)
    assert project.run("git commit -qam bad", WHIMBREL_SKIP="1") == ""


@pytest.mark.parametrize(("strict", "code"), [("", 0), ("--strict", 9)])
def test_without_a_sandbox_the_commit_passes_unless_strict(project: Project, strict: str, code: int) -> None:
    project.write(double_py=BAD)
    project.run("git add -A")
    done = project.run(
        f"{WHIMBREL} hook run pre-commit --sandbox docker --no-build {strict} || echo code $?",
        DOCKER_HOST="unix:///nonexistent/docker.sock",
    )
    assert "not tested, and" in done
    assert (f"code {code}" in done) is bool(code)


@pytest.mark.parametrize(("strict", "code"), [("", 0), ("--strict", 6)])
def test_time_that_is_up_lets_the_commit_pass_unless_strict(project: Project, strict: str, code: int) -> None:
    project.write(double_py="import time\n\ntime.sleep(60)\n" + GOOD)
    project.run("git add -A")
    done = project.run(f"{RUN} --max-time 3s {strict} || echo code $?")
    assert "not tested, and" in done and "--max-time" in done
    assert (f"code {code}" in done) is bool(code)


def test_a_wrong_option_is_an_error_and_a_broken_environment_is_none(project: Project) -> None:
    project.write(double_py=BAD)
    project.run("git add -A")
    assert "code 2" in project.run(f"{RUN} --model nonsense || echo code $?")
    project.write(double_py="import notinstalledanywhere\n" + GOOD, requirements_txt="x")
    project.run(
        "mv requirements_txt requirements.txt; echo notinstalledanywhere > requirements.txt; git add -A"
    )
    assert "not tested, and let pass" in project.run(RUN)


def test_a_bare_environment_and_no_terminal(project: Project) -> None:
    install(project, "--no-repair")
    project.write(double_py=BAD)
    project.run("git add -A")
    git = project.run("command -v git").strip()
    places = {name: value for name, value in project.env.items() if name.startswith("WHIMBREL")}
    done = subprocess.run(
        [git, "-c", "user.name=T", "-c", "user.email=t@example.invalid", "commit", "-m", "x"],
        cwd=project.root, env=places, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
        start_new_session=True,
    )  # fmt: skip
    assert done.returncode == 1 and "1 test fails with this commit" in done.stderr
    assert not (project.root / "~").exists()


def test_the_first_commit_from_a_subfolder_with_a_submodule_in_a_worktree(project: Project) -> None:
    """Several at once, with the whole run: what the submodule holds is there for the tests."""
    project.run(
        "git init -q -b main ../part; cd ../part; printf 'VALUE = 7\\n' > seven.py; git add .;"
        "git -c user.name=T -c user.email=t@example.invalid commit -qm p"
    )
    fresh = Project(project.root.parent / "fresh", project.env)
    fresh.root.mkdir()
    fresh.run("git init -q -b main; git config user.name T; git config user.email t@example.invalid")
    fresh.run("git -c protocol.file.allow=always submodule --quiet add ../part part")
    fresh.write(
        test_seven_py="from part.seven import VALUE\n\n\ndef test_seven():\n    assert VALUE == 7\n",
        in__er="x",
    )
    fresh.run("git add -A; mkdir -p in")
    install(fresh, "--no-repair")
    assert "this commit: 1 passed" in fresh.run("git commit -m first", cwd=fresh.root / "in")
    fresh.run("git worktree add -q ../tree -b tree")
    linked = Project(project.root.parent / "tree", project.env)
    linked.write(test_seven_py="def test_seven():\n    assert 1 == 2\n")
    assert "1 test fails with this commit" in linked.run("git add -A; git commit -m x", ok=False)


def test_a_repository_apart_from_its_files(project: Project) -> None:
    install(project, "--no-repair")
    project.run("mv .git ../apart.git")
    apart = {"GIT_DIR": "../apart.git", "GIT_WORK_TREE": "."}
    project.write(double_py=BAD)
    said = project.run("git add -A; git commit -m x", ok=False, **apart)
    assert "1 test fails with this commit" in said


def test_control_c_ends_the_commit_and_leaves_nothing(project: Project, tmp_path: Path) -> None:
    install(project)
    mark = tmp_path / "started"
    project.write(double_py=f"import pathlib, time\n\npathlib.Path({str(mark)!r}).touch()\ntime.sleep(60)\n")
    project.run("git add -A")
    running = subprocess.Popen(
        ["git", "commit", "-m", "x"], cwd=project.root, env=project.env, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    give_up = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < give_up:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(30) != 0
    runs = Path(project.env["WHIMBREL_RUN_DIR"])
    while os.listdir(runs) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not os.listdir(runs)
    assert project.run("git log --format=%s").split() == ["start"]
    project.run("git fsck --strict; git status; test ! -e .git/index.lock")


def test_a_message_is_context_whatever_it_looks_like(project: Project, tmp_path: Path) -> None:
    install(project, "--type", "commit-msg", "--no-repair")
    project.write(double_py=BAD)
    said = project.run("git add -A; git commit -m 'https://github.com/a/b/issues/1'", ok=False)
    assert "1 test fails with this commit" in said
    from whimbrel.app.hook.message import commit_message
    from whimbrel.sandbox.base.git import Git

    file = tmp_path / "message"
    file.write_text(
        "Subject\n\nbody\n# comment\n# ------------------------ >8 ------------------------\ndiff\n"
    )
    assert commit_message(file, Git(None, project.root)) == "Subject\n\nbody"
    project.run("git config core.commentChar ';'")
    file.write_text("Subject\n; comment\n# kept\n")
    assert commit_message(file, Git(None, project.root)) == "Subject\n# kept"


def test_what_is_pushed_is_tested(project: Project) -> None:
    project.run("git init -q --bare ../remote.git; git remote add origin ../remote.git")
    install(project, "--type", "pre-push")
    assert "main (" in project.run("git push -q origin main")
    install(project, "--type", "pre-push", "--no-repair")
    project.write(double_py=BAD)
    project.run("git commit -qam bad --no-verify; git tag v1; git checkout -q -b topic")
    project.write(double_py=GOOD)  # on disk, not in what is pushed
    said = project.run("git push origin topic", ok=False)
    assert "1 test fails with topic (" in said
    assert project.run("git ls-remote origin").count("refs/heads/") == 1
    project.run("git commit -qam good --no-verify")
    project.run("git push -q origin topic")
    project.run("git push -q origin v1")  # a tag
    project.run("git push -q origin :topic")  # a branch that goes
    assert "refs/heads/topic" not in project.run("git ls-remote origin")


@pytest.mark.parametrize("hook", ["pre-commit", "commit-msg", "pre-push"])
def test_inside_the_pre_commit_framework(project: Project, hook: str) -> None:
    manifest = yaml.safe_load(Path(".pre-commit-hooks.yaml").read_text())
    entry = next(each for each in manifest if hook in each["stages"])
    entry.update(
        entry=entry["entry"].replace("whimbrel", WHIMBREL, 1),
        language="system",
        args=["--sandbox", "host", "--no-repair"],
    )
    config = {"repos": [{"repo": "local", "hooks": [entry]}]}
    (project.root / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    project.run(
        "git add -A; git commit -qm config; git init -q --bare ../r.git; git remote add origin ../r.git"
    )
    project.run("git push -q origin main")
    project.run(f"{sys.executable} -m pre_commit install --hook-type {hook}")
    project.write(double_py=BAD)
    command = "git commit -am bad" if hook != "pre-push" else "git commit -qam bad; git push origin main"
    said = project.run(command, ok=False)
    assert "1 test fails with" in said
    project.write(double_py=GOOD + "# more\n")
    project.run("git commit -qam good; git push -q origin main")


def test_the_manifest_is_what_the_framework_accepts() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", ".pre-commit-hooks.yaml"]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def test_what_the_tests_do_with_git_stays_in_the_copy(project: Project) -> None:
    install(project)
    project.write(
        test_git_py="import subprocess\n\nimport double\n\n\ndef test_it(tmp_path):\n"
        "    run = lambda *words: subprocess.run(['git', *words], check=True)\n"
        "    run('commit', '-q', '--allow-empty', '-m', 'inner'); run('init', '-q', str(tmp_path))\n"
        "    run('-C', str(tmp_path), '-c', 'user.name=I', '-c', 'user.email=i@x', 'commit', '-q', '--allow-empty',"
        " '-m', 'other')\n    run('config', 'user.name', 'Mallory'); run('add', '-A')\n"
    )
    assert "1 passed" in project.run("git add test_git.py; echo x > not-added; git commit -m outer")
    assert project.run("git log --format='%an %s'") == "T outer\nT start\n"
    assert project.run("git status --short; git config user.name; git fsck --strict") == "?? not-added\nT\n"
