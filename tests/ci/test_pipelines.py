"""The action's own shell steps on a real repository, and whose code a pipeline runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from whimbrel.app.ci.branch import branch_name, push_patch
from whimbrel.app.ci.pipeline import read_pipeline
from whimbrel.app.ci.run import run_pipeline
from whimbrel.sandbox.base.errors import RepositoryError, UsageError

ACTION = yaml.safe_load(Path("action.yml").read_text())
STEPS = {step.get("id", "upload"): step for step in ACTION["runs"]["steps"]}
GITLAB = Path(".ci/gitlab/whimbrel.gitlab-ci.yml")
EVIL = 'it\'s "broken" $(touch pwned) `touch pwned`; touch pwned\n::set-output name=status::pwned\n::error::pwned'
GOOD, BAD = "def double(n):\n    return n + n\n", "def double(n):\n    return n - n\n"
TEST = """\
import sys
import unittest

from double import double


class DoubleTest(unittest.TestCase):
    def test_double(self):
        print("\\n::error title=pwned::from a test\\n##[set-output name=status;]pwned", file=sys.__stdout__)
        self.assertEqual(double(3), 6, "\\n::set-output name=status::pwned")
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkout with a remote, and the runner's files around it."""
    root = tmp_path / "check out"
    root.mkdir()
    (root / "double.py").write_text(GOOD)
    (root / "test_double.py").write_text(TEST)
    git(root, "init", "-q", "-b", "main")
    git(root, "init", "-q", "--bare", "../remote.git")
    git(root, "remote", "add", "origin", "../remote.git")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    for name in ("home", "temp"):
        (tmp_path / name).mkdir()
    return tmp_path


def git(root: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=T", "-c", "user.email=t@example.invalid", *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def runner(place: Path, event: dict[str, Any], name: str = "push") -> dict[str, str]:
    (place / "event.json").write_text(json.dumps(event))
    return {
        "PATH": os.environ["PATH"], "HOME": str(place / "home"), "GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "77",
        "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(place / "event.json"),
        "GITHUB_OUTPUT": str(place / "out"), "GITHUB_STEP_SUMMARY": str(place / "summary"),
        "WHIMBREL_STATE_DIR": str(place / "state"), "WHIMBREL_CACHE_DIR": str(place / "cache"),
        "DOCKER_HOST": "unix:///nonexistent/docker.sock",
    }  # fmt: skip


def run_step(
    step: dict[str, Any], place: Path, environ: dict[str, str], **inputs: str
) -> subprocess.CompletedProcess[str]:
    """Runs a step of action.yml as the runner does: expressions are filled into ``env`` only."""
    values = {f"inputs.{name}": str(given["default"]) for name, given in ACTION["inputs"].items()}
    values |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
    values |= {"github.action_path": str(place / "action"), "runner.temp": str(place / "temp")}
    filled = {
        name: re.sub(r"\$\{\{ (\S+) \}\}", lambda match: values[match[1]], text)
        for name, text in step["env"].items()
    }
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    env = environ | filled | {key: value for key, value in environ.items() if key == "PROGRAM"}
    return subprocess.run(
        shell, cwd=place / "check out", env=env, capture_output=True, text=True, timeout=200
    )


def outputs(file: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    lines = file.read_text(encoding="utf-8").split("\n")
    while len(lines) > 1:
        name, _, delimiter = lines.pop(0).partition("<<")
        end = lines.index(delimiter)
        found[name] = "\n".join(lines[:end])
        lines = lines[end + 1 :]
    return found


def obeyed(text: str) -> list[str]:
    """Workflow commands that the runner would act on."""
    found: list[str] = []
    stopped = ""
    for line in text.splitlines():
        if stopped:
            stopped = "" if line == f"::{stopped}::" else stopped
        elif line.startswith("::stop-commands::"):
            stopped = line.removeprefix("::stop-commands::")
        elif line.lstrip().startswith(("::", "##[")):
            found.append(line)
    assert not stopped
    return found


def test_a_failing_pipeline_gets_a_patch_a_summary_annotations_and_a_branch(place: Path) -> None:
    root = place / "check out"
    (root / "double.py").write_text(BAD)
    git(root, "commit", "-qam", "bad")
    before = (root / ".git/index").read_bytes(), git(root, "rev-parse", "HEAD")
    environ = runner(place, {"repository": {"full_name": "a/b"}})
    environ["PROGRAM"] = str(Path(sys.executable).parent / "whimbrel")
    done = run_step(STEPS["fix"], place, environ, issue=EVIL, sandbox="host", branch="true")
    assert done.returncode == 0, done.stdout + done.stderr
    told = outputs(place / "out")
    assert set(told) == {"status", "exit-code", "message", "explanation", "patch", "output", "branch"}
    assert (told["status"], told["exit-code"]) == ("fixed", "0")
    assert "+    return n + n" in Path(told["patch"]).read_text()
    assert {"junit.xml", "whimbrel.sarif", "report.md", "result.json"} <= {
        each.name for each in Path(told["output"]).iterdir()
    }
    commands = obeyed(done.stdout)
    assert commands and all(
        line.startswith("::notice title=Verified fix,file=double.py,line=2") for line in commands
    )
    assert "## Whimbrel: Fixed and verified" in (place / "summary").read_text()
    assert not list(place.rglob("pwned"))
    branch = told["branch"]
    assert branch.startswith("whimbrel/fix-77-")
    assert git(place / "remote.git", "show", f"{branch}:double.py") == GOOD
    assert git(place / "remote.git", "log", "--format=%an %s", "-1", branch) == "Whimbrel Repair double.py\n"
    assert ((root / ".git/index").read_bytes(), git(root, "rev-parse", "HEAD")) == before
    assert git(root, "status", "--short") == "" and git(root, "branch", "--list", "whimbrel/*") == ""
    result = json.loads((Path(told["output"]) / "result.json").read_text())
    with pytest.raises(RepositoryError, match="could not be pushed"):
        push_patch(
            root, result | {"base_commit": git(root, "rev-parse", "HEAD^").strip(), "patch": NEW_FILE}, branch
        )
    assert branch_name("77", result) == branch


NEW_FILE = "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n"
FORK = {
    "repository": {"full_name": "a/b", "default_branch": "main"},
    "pull_request": {
        "body": EVIL,
        "head": {"repo": {"full_name": "evil/b"}},
        "base": {"ref": "main", "repo": {"full_name": "a/b"}},
    },
}


@pytest.mark.bwrap
def test_the_words_of_a_fork_steer_nothing(place: Path) -> None:
    environ = runner(place, FORK, "pull_request_target") | {"WHIMBREL_RUN_DIR": str(place / "runs")}
    environ["PROGRAM"] = str(Path(sys.executable).parent / "whimbrel")
    place.chmod(0o755)
    done = run_step(STEPS["fix"], place, environ, issue=EVIL, branch="true", sandbox="bwrap")
    # With the issue's text the run would have ended as not reproduced.
    assert outputs(place / "out")["status"] == "nothing_to_fix", done.stdout + done.stderr
    assert "the issue input is not used" in "".join(obeyed(done.stdout))
    assert outputs(place / "out")["branch"] == "" and git(place / "remote.git", "branch") == ""


@pytest.mark.parametrize("name", ["host", "outer", "nonsense"])
def test_the_code_of_a_fork_is_never_run_without_isolation(name: str, place: Path) -> None:
    with pytest.raises(UsageError):
        run_pipeline(runner(place, FORK, "pull_request_target") | {"WHIMBREL_SANDBOX": name})


@pytest.mark.parametrize(("name", "value"), [("EFFORT", "more"), ("MAX_TIME", "soon"), ("SANDBOX", "x")])
def test_wrong_inputs_are_told(name: str, value: str, place: Path) -> None:
    with pytest.raises(UsageError, match=value):
        run_pipeline(runner(place, {"repository": {}}) | {f"WHIMBREL_{name}": value})


def pull(head: Any, base: str = "a/b") -> dict[str, Any]:
    return {"pull_request": {"head": {"repo": head}, "base": {"ref": "main", "repo": {"full_name": base}}}}


EVENTS: dict[str, tuple[str, Any, bool, str]] = {
    "push": ("push", {"repository": {"full_name": "a/b"}}, False, ""),
    "own-branch": ("pull_request", pull({"full_name": "a/b"}), False, "main"),
    "fork": ("pull_request_target", pull({"full_name": "c/b"}), True, "main"),
    "deleted-fork": ("pull_request", pull(None), True, "main"),
    "workflow-of-a-fork": (
        "workflow_run",
        {
            "repository": {"full_name": "a/b", "default_branch": "trunk"},
            "workflow_run": {"head_repository": {"full_name": "c/b"}},
        },
        True,
        "trunk",
    ),
    "own-workflow": (
        "workflow_run",
        {"repository": {"full_name": "a/b"}, "workflow_run": {"head_repository": {"full_name": "a/b"}}},
        False,
        "",
    ),
    "review-comment": ("pull_request_review", pull({"full_name": "c/b"}), True, "main"),
    "comment": ("issue_comment", {"repository": {"full_name": "a/b"}}, True, ""),
    "damaged": ("push", [], True, ""),
    "odd": ("pull_request", {"pull_request": "x"}, True, ""),
}


@pytest.mark.parametrize("name", EVENTS)
def test_whose_code_it_is(name: str, place: Path) -> None:
    event, payload, foreign, base = EVENTS[name]
    found = read_pipeline(runner(place, payload, event))
    assert (found.kind, found.foreign, found.base_branch) == ("github", foreign, base)


def test_a_missing_event_file_and_other_runners() -> None:
    assert read_pipeline({"GITHUB_ACTIONS": "true"}).foreign
    assert read_pipeline({}) == read_pipeline({"CI": "1"})
    request = {"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "3", "CI_PROJECT_ID": "1"}
    assert read_pipeline(request | {"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "2"}).foreign
    assert not read_pipeline(request | {"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1"}).foreign
    assert not read_pipeline({"GITLAB_CI": "true", "CI_PROJECT_ID": "1"}).foreign


def test_a_merge_request_pipeline_runs_the_template(place: Path) -> None:
    job = yaml.safe_load(GITLAB.read_text())["whimbrel"]
    script = job["script"][-1].replace(
        "/opt/whimbrel/bin/whimbrel", str(Path(sys.executable).parent / "whimbrel")
    )
    given = {
        name: str(value).replace("$CI_PROJECT_DIR", str(place / "check out"))
        for name, value in job["variables"].items()
    }
    environ = (
        runner(place, {}) | given | {"GITLAB_CI": "true", "GITHUB_ACTIONS": "", "WHIMBREL_SANDBOX": "host"}
    )
    done = subprocess.run(
        ["sh", "-ec", script], cwd=place / "check out", env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0 and "all tests pass" in done.stdout
    kept = place / "check out" / job["artifacts"]["reports"]["junit"]
    assert kept.is_file() and git(place / "check out", "status", "--short") == ""


def test_no_expression_stands_in_a_script() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert step.get("shell", "bash") == "bash"
    assert set(ACTION["outputs"]) == {
        "status",
        "exit-code",
        "message",
        "explanation",
        "patch",
        "output",
        "branch",
    }
    used = re.findall(r"inputs\.([\w-]+)", Path("action.yml").read_text())
    assert set(used) == set(ACTION["inputs"])


def test_the_install_step_takes_a_python_that_is_new_enough(place: Path) -> None:
    tools = place / "tools"
    tools.mkdir()
    (tools / "python3").write_text("#!/bin/sh\nexit 1\n")  # too old
    target = place / "temp/whimbrel-venv"
    (tools / "python3.12").write_text(
        f'#!/bin/sh\necho "$@" >> {place}/log\n'
        f'[ "$2" != venv ] || {{ mkdir -p "$3/bin"; ln -s {tools}/python3.12 "$3/bin/python"; }}\n'
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)
    done = run_step(STEPS["install"], place, {"PATH": f"{tools}:/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    said = (place / "log").read_text().splitlines()
    assert said[1:] == [
        f"-m venv {target}",
        f"-m pip --quiet --disable-pip-version-check install {place}/action",
    ]
    (tools / "python3.12").unlink()
    for name in ("python3.14", "python3.13", "python3.12", "python3.11"):
        (tools / name).symlink_to("python3")
    done = run_step(STEPS["install"], place, {"PATH": f"{tools}:/usr/bin:/bin"})
    assert done.returncode == 1 and "Python 3.11 or newer is needed" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--builtin-schema", "vendor.github-actions", "action.yml"],
        ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci", str(GITLAB)],
    ],
    ids=["action", "gitlab"],
)
def test_the_files_are_valid_by_their_public_schemas(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "check_jsonschema", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
