"""Every exit code of fix-issue, by the real command on a real repository."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mock_server import MockServer, Request, completion, error

from .conftest import TALLY, WHIMBREL, Ran, Repo

Fix = Callable[..., Ran]


def test_0_a_fixed_bug_comes_with_a_patch_that_applies_and_evidence(buggy: Repo, fix: Fix):
    before = buggy.fingerprint()
    ran = fix(buggy)
    assert ran.code == 0, ran.out + ran.err
    result = ran.result
    assert (result["status"], result["exit_code"]) == ("fixed", 0)
    assert result["base_commit"] == buggy.git("rev-parse", "HEAD").strip()
    assert result["base_tree"] == buggy.git("rev-parse", "HEAD^{tree}").strip()
    assert "-        if count < most:" in result["patch"]
    patch = (ran.output / "patch.diff").read_text()
    assert patch == result["patch"]
    subprocess.run(["git", "apply", "--check", "-"], cwd=buggy.root, input=patch.encode(), check=True)
    assert result["tests_before"]["counts"] == {"passed": 2, "failed": 1}
    assert result["tests_after"]["counts"] == {"passed": 3}
    proof = {row["number"]: row for row in result["evidence"]}
    cited = [proof[number] for number in result["tests_after"]["ledger_rows"]]
    assert cited and all(row["fresh_process"] and row["exit_code"] == 0 for row in cited)
    assert all(row["tree"] == result["end_tree"] for row in cited)
    for row in result["evidence"]:
        log = (ran.output / row["log_path"]).read_bytes()
        assert hashlib.sha256(log).hexdigest() == row["log_sha256"], "the log behind the row is there, whole"
    assert buggy.fingerprint() == before, "the person's files and repository stay as they are"


def test_1_a_fault_of_our_own_is_one_line_and_a_result_file(
    tmp_path: Path, buggy: Repo, home: dict[str, str]
):
    # A real fault provoked from outside: the session store's module is replaced by one that raises.
    script = (
        "import sys, whimbrel.app.sessions as s\n"
        "class Broken:\n"
        "    @classmethod\n"
        "    def open(cls, *a, **k): raise ZeroDivisionError('provoked')\n"
        "s.SessionStore = Broken\n"
        "from whimbrel.app.cli import main\n"
        f"main(['fix-issue', '--repo', {str(buggy.root)!r}, '--sandbox', 'host', '--output', {str(tmp_path / 'out')!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=home, capture_output=True, text=True)
    ran = Ran(done.returncode, done.stdout, done.stderr, tmp_path / "out")
    assert ran.code == 1, ran.out + ran.err
    assert ran.result["status"] == "internal_error"
    assert "ZeroDivisionError: provoked" in ran.result["message"]
    assert "Traceback" not in ran.out + ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--issue", "no/such/file.md"], "looks like a file, but there is none"),
        (["--issue", "  "], "--issue is empty"),
        (["--log", "no-such.log"], "cannot read --log"),
        (["--commit", "no-such-rev"], "no-such-rev"),
        (["--python", "/no/such/python"], "/no/such/python"),
        (["--model", "nonsense"], "valid forms"),
    ],
)
def test_2_wrong_usage_is_one_line_with_the_next_step(buggy: Repo, fix: Fix, arguments: list[str], said: str):
    ran = fix(buggy, *arguments)
    assert ran.code == 2, ran.out + ran.err
    assert said in ran.result["message"] + ran.result["hint"]
    assert ran.result["status"] == "usage"
    assert not (ran.output / "patch.diff").exists()


def test_2_options_that_do_not_exist_or_contradict(buggy: Repo, fix: Fix):
    assert fix(buggy, "--effort", "huge").code == 2
    assert fix(buggy, "--permission-mode", "nonsense").code == 2
    assert fix(buggy, "--allow", "raed(.env)").code == 2
    assert fix(buggy, "--sandbox", "nonsense").code == 2
    assert fix(buggy, "--max-time", "soon").code == 2
    assert fix(buggy, "--commit", "HEAD", "--branch", "main").code == 2


def test_2_a_folder_that_is_no_repository(tmp_path: Path, fix: Fix):
    plain = tmp_path / "plain"
    plain.mkdir()
    ran = fix(Repo(plain))
    assert (ran.code, ran.result["status"]) == (2, "repository")


def test_3_green_tests_without_an_issue_are_nothing_to_fix(buggy: Repo, fix: Fix):
    buggy.write(**{"tally.py": TALLY.replace("<", ">")}).commit()
    ran = fix(buggy)
    assert (ran.code, ran.result["status"]) == (3, "nothing_to_fix"), ran.out + ran.err


def test_4_a_bug_beyond_search_is_honestly_not_fixed(buggy: Repo, fix: Fix):
    impossible = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        from tally import tally\n        self.assertEqual(tally(['x']), {'poem': 'roses are red', 'line': 2})\n"
    buggy.write(**{"tally.py": TALLY.replace("<", ">"), "test_other.py": impossible}).commit()
    ran = fix(buggy)
    assert (ran.code, ran.result["status"]) == (4, "not_fixed"), ran.out + ran.err
    assert ran.result["patch"] == "" and not (ran.output / "patch.diff").exists()
    assert ran.result["search"]["candidates_tried"] > 0


def test_4_an_issue_that_no_test_shows_is_not_reproduced(buggy: Repo, fix: Fix):
    buggy.write(**{"tally.py": TALLY.replace("<", ">")}).commit()
    ran = fix(buggy, "--issue", "Sometimes the numbers look odd.")
    assert (ran.code, ran.result["status"]) == (4, "not_reproduced"), ran.out + ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--deny", "repair"], "a rule says deny for repair"),
        (["--ask", "repair"], "nobody is there to ask"),
        (["--permission-mode", "plan"], "plan mode: nothing that runs"),
        (["--deny", "write(tally.py)", "--deny", "repair"], "a rule says deny"),
    ],
)
def test_5_a_run_that_needs_what_is_denied(buggy: Repo, fix: Fix, arguments: list[str], said: str):
    ran = fix(buggy, *arguments)
    assert (ran.code, ran.result["status"]) == (5, "denied"), ran.out + ran.err
    assert said in ran.result["message"] and ran.result["files"] == []


def test_6_the_step_limit(buggy: Repo, fix: Fix):
    ran = fix(buggy, "--max-steps", "1")
    assert (ran.code, ran.result["status"]) == (6, "budget"), ran.out + ran.err
    assert "--max-steps" in ran.result["hint"]


def test_6_the_time_limit(buggy: Repo, fix: Fix):
    buggy.write(
        **{
            "test_slow.py": "import time, unittest\n\n\nclass S(unittest.TestCase):\n    def test_slow(self):\n        time.sleep(60)\n"
        }
    ).commit()
    begin = time.monotonic()
    ran = fix(buggy, "--max-time", "6s")
    assert (ran.code, ran.result["status"]) == (6, "budget"), ran.out + ran.err
    assert time.monotonic() - begin < 50, "the sleeping test was cut"


def test_7_a_model_that_repeats_itself(buggy: Repo, fix: Fix):
    def same(_: Request):
        return completion(calls=[("c", "search", {"pattern": "count"})])

    with MockServer(same) as server:
        ran = fix(buggy, "--model", f"openai:mock@{server.url}", OPENAI_API_KEY="k")
    assert (ran.code, ran.result["status"]) == (7, "loop"), ran.out + ran.err


def test_8_a_provider_that_refuses(buggy: Repo, fix: Fix):
    with MockServer(lambda _: error(401, {"error": {"message": "bad key sk-canary-123456"}})) as server:
        ran = fix(buggy, "--model", f"openai:mock@{server.url}", OPENAI_API_KEY="sk-canary-123456")
    assert (ran.code, ran.result["status"]) == (8, "model_error"), ran.out + ran.err
    everything = ran.out + ran.err + (ran.output / "result.json").read_text()
    assert "sk-canary-123456" not in everything


def test_9_docker_asked_for_and_not_there(buggy: Repo, fix: Fix):
    ran = fix(buggy, sandbox="docker", DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert (ran.code, ran.result["status"]) == (9, "sandbox_unavailable"), ran.out + ran.err
    assert ran.result["hint"]
    assert ran.result["evidence"] == [], "nothing ran anywhere else"


def test_9_auto_never_falls_back_to_the_host(buggy: Repo, fix: Fix, tmp_path: Path, home: dict[str, str]):
    empty = tmp_path / "bin"
    empty.mkdir()
    for name in ("git", "sh", "rm"):
        (empty / name).symlink_to(
            subprocess.run(["which", name], capture_output=True, text=True).stdout.strip()
        )
    ran = fix(buggy, sandbox="auto", DOCKER_HOST="unix:///nonexistent/docker.sock", PATH=str(empty))
    assert (ran.code, ran.result["status"]) == (9, "sandbox_unavailable"), ran.out + ran.err
    assert "docker" in ran.result["message"] and "bwrap" in ran.result["message"]


def test_10_a_recipe_with_an_unknown_key(buggy: Repo, fix: Fix):
    buggy.write(**{"whimbrel.toml": "tset = 'make test'\n"}).commit()
    ran = fix(buggy, "--trust")
    assert (ran.code, ran.result["status"]) == (10, "configuration"), ran.out + ran.err
    assert "tset" in ran.result["message"]


def test_10_a_model_kind_that_this_version_does_not_have(buggy: Repo, fix: Fix):
    ran = fix(buggy, "--model", "kimi:k3")
    assert (ran.code, ran.result["status"]) == (10, "configuration"), ran.out + ran.err


def test_11_a_missing_dependency_is_no_bug(buggy: Repo, fix: Fix):
    buggy.write(**{"tally.py": "import surely_not_installed_anywhere\n" + TALLY}).commit()
    ran = fix(buggy, "--no-build")
    assert (ran.code, ran.result["status"]) == (11, "environment_broken"), ran.out + ran.err
    assert "surely_not_installed_anywhere" in ran.result["message"]


@pytest.mark.parametrize(
    ("number", "code", "status"), [(signal.SIGINT, 130, "cancelled"), (signal.SIGTERM, 143, "terminated")]
)
def test_130_and_143_signals_end_everything_and_leave_a_result(
    buggy: Repo, tmp_path: Path, home: dict[str, str], number: int, code: int, status: str
):
    mark = tmp_path / "running"
    buggy.write(
        **{
            "test_slow.py": f"import os, time, unittest\n\n\nclass S(unittest.TestCase):\n    def test_slow(self):\n        open({str(mark)!r}, 'w').write(str(os.getpid()))\n        time.sleep(120)\n"
        }
    ).commit()
    output = tmp_path / "out"
    command = [
        *WHIMBREL,
        "fix-issue",
        "--repo",
        str(buggy.root),
        "--sandbox",
        "host",
        "--output",
        str(output),
    ]
    process = subprocess.Popen(command, env=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        _wait_for(lambda: mark.exists() and mark.read_text() != "")
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    ran = Ran(process.returncode, out, "", output)
    assert ran.code == code, out
    assert ran.result["status"] == status
    child = Path(f"/proc/{mark.read_text()}")
    _wait_for(lambda: not child.exists())


def _wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
