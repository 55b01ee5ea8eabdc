"""What a person asks for, and what they are told: names of tests, odd values, places for the result."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import TALLY, WHIMBREL, Ran, Repo

Fix = Callable[..., Ran]
OTHER = "import unittest\n\n\nclass Other(unittest.TestCase):\n    def test_other(self):\n        self.fail('something else')\n"


def test_a_test_that_does_not_exist_is_the_persons_mistake_and_not_a_green_suite(buggy: Repo, fix: Fix):
    ran = fix(buggy, "--tests", "test_tally.TallyTest.test_the_most_frequent_word_win")
    assert (ran.code, ran.result["status"]) == (2, "usage"), ran.out
    assert "did you mean test_tally.TallyTest.test_the_most_frequent_word_wins" in ran.result["hint"]


def test_tests_that_pass_are_nothing_to_fix_but_the_others_that_fail_are_named(buggy: Repo, fix: Fix):
    ran = fix(buggy, "--tests", "test_tally.TallyTest.test_words_are_counted")
    assert (ran.code, ran.result["status"]) == (3, "nothing_to_fix")
    assert "test_the_most_frequent_word_wins" in ran.result["message"]
    assert "all tests pass" not in ran.out


def test_a_repository_without_tests_is_told_so(repo: Repo, fix: Fix):
    ran = fix(repo.write(**{"readme.txt": "nothing here\n"}).commit())
    assert ran.code == 3, ran.out
    assert "no tests were found" in ran.result["message"]


def test_a_file_of_unittest_tests_chooses_the_targets(buggy: Repo, fix: Fix):
    buggy.write(**{"test_other.py": OTHER}).commit()
    ran = fix(buggy, "--tests", "./test_tally.py")
    assert ran.code == 0, ran.out + ran.err
    assert ran.result["target_tests"] == ["test_tally.TallyTest.test_the_most_frequent_word_wins"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--commit", ""],
        ["--branch", " "],
        ["--tests", ""],
        ["--output", ""],
        ["--repo", ""],
        ["--seed", "-1"],
        ["--image", "x", "--sandbox", "bwrap"],
    ],
)
def test_an_empty_or_useless_value_is_refused_and_never_means_something_else(
    home: dict[str, str], buggy: Repo, arguments: list[str]
):
    done = subprocess.run(
        [*WHIMBREL, "fix-issue", *arguments], cwd=buggy.root, env=home, capture_output=True, text=True
    )
    assert done.returncode == 2 and arguments[0] in done.stderr, done.stdout + done.stderr


def test_an_address_that_cannot_be_read_is_not_taken_for_the_issues_text(buggy: Repo, fix: Fix):
    ran = fix(buggy, "--issue", "https://gitlab.example/a/b/-/issues/3")
    assert (ran.code, ran.result["status"]) == (2, "usage")


def test_an_issue_from_a_named_pipe(buggy: Repo, tmp_path: Path, home: dict[str, str]):
    output = tmp_path / "out"
    script = 'exec "$@" --issue <(printf "%s" "The most frequent word is wrong.")'
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
    subprocess.run(["bash", "-c", script, "sh", *command], env=home, capture_output=True)
    assert json.loads((output / "result.json").read_text())["status"] == "fixed"


def test_a_result_folder_inside_the_repository_is_no_part_of_its_tree(buggy: Repo, home: dict[str, str]):
    output = buggy.root / "results" / "one"
    command = [*WHIMBREL, "fix-issue", "--repo", str(buggy.root), "--sandbox", "host", "--apply"]
    done = subprocess.run([*command, "--output", str(output)], env=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert buggy.git("status", "--porcelain").strip() == "M tally.py"
    assert json.loads((output / "result.json").read_text())["applied"] is True


def test_files_of_others_are_not_replaced_by_a_result(buggy: Repo, tmp_path: Path, fix: Fix):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "patch.diff").write_text("mine\n")
    ran = fix(buggy)
    assert ran.code == 2 and "not a result of Whimbrel" in ran.out
    assert (tmp_path / "out" / "patch.diff").read_text() == "mine\n"
    done = subprocess.run(
        [*WHIMBREL, "fix-issue", "--repo", str(buggy.root), "--output", str(buggy.root)],
        env={**os.environ}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and "would become part of its tree" in done.stdout
    assert not (buggy.root / "result.json").exists()


def test_a_place_that_cannot_be_written_is_told_before_the_work_and_the_result_is_kept(
    buggy: Repo, tmp_path: Path, home: dict[str, str]
):
    (tmp_path / "file").write_text("no folder\n")
    command = [*WHIMBREL, "fix-issue", "--repo", str(buggy.root), "--sandbox", "host", "--json"]
    done = subprocess.run(
        [*command, "--output", str(tmp_path / "file" / "out")], env=home, capture_output=True, text=True
    )
    result = json.loads(done.stdout.splitlines()[-1])["data"]
    assert (done.returncode, result["status"]) == (10, "configuration"), done.stdout + done.stderr
    assert result["evidence"] == [], "no test ran"
    assert json.loads((Path(result["output"]) / "result.json").read_text()) == result


@pytest.mark.parametrize("closing", ["1>&-", "1>&- 2>&-", "0<&-", ">/dev/full", ">/dev/full 2>/dev/full"])
def test_closed_and_full_streams_cost_the_output_and_not_the_run(
    buggy: Repo, tmp_path: Path, home: dict[str, str], closing: str
):
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
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$@" {closing}', "sh", *command], env=home, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads((output / "result.json").read_text())["status"] == "fixed"


def test_a_later_run_without_a_patch_does_not_hide_the_last_verified_one(
    buggy: Repo, tmp_path: Path, fix: Fix, home: dict[str, str]
):
    assert fix(buggy).code == 0
    command = [*WHIMBREL, "fix-issue", "--repo", str(buggy.root), "--sandbox", "host", "--max-steps", "1"]
    done = subprocess.run(command, env=home, capture_output=True, text=True)
    assert done.returncode == 6, done.stdout
    applied = subprocess.run(
        [*WHIMBREL, "apply", "--repo", str(buggy.root)], env=home, capture_output=True, text=True
    )
    assert applied.returncode == 0, applied.stderr
    assert (buggy.root / "tally.py").read_text() == TALLY.replace("<", ">")


@pytest.mark.parametrize("ending", ["import sys\nsys.exit(0)\n", "import os\nos._exit(3)\n"])
def test_a_suite_that_ends_before_its_tests_is_not_a_green_one(buggy: Repo, fix: Fix, ending: str):
    buggy.write(**{"conftest.py": ending, "pytest.ini": "[pytest]\n"}).commit()
    ran = fix(buggy)
    assert (ran.code, ran.result["status"]) == (11, "environment_broken"), ran.out
    assert "before it ran a test" in ran.result["message"]


def test_a_suite_that_was_cut_by_the_time_limit_is_not_a_green_one(repo: Repo, fix: Fix):
    slow = "import time, unittest\n\n\nclass S(unittest.TestCase):\n" + "".join(
        f"    def test_{number:02}(self):\n        time.sleep(1)\n" for number in range(20)
    )
    ran = fix(repo.write(**{"test_slow.py": slow}).commit(), "--max-time", "5s")
    assert (ran.code, ran.result["status"]) == (6, "budget"), ran.out


def test_the_demo_leaves_a_copy_that_its_last_line_can_apply_to(tmp_path: Path, home: dict[str, str]):
    demo = Path(__file__).resolve().parents[2] / "examples" / "demo.py"
    path = tmp_path / "bin"
    path.mkdir()
    for name in ("git", "sh", "rm"):
        (path / name).symlink_to(shutil.which(name) or "")
    (path / "python3").symlink_to(os.path.realpath(sys.executable))
    # A machine without any isolating sandbox: the demo says so in a whole sentence and goes on.
    places = {**home, "PATH": str(path), "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    done = subprocess.run([sys.executable, demo], cwd=tmp_path, env=places, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("No isolating sandbox works here: ") and first.endswith("--sandbox host.")
    last = done.stdout.splitlines()[-1]
    repository = last.partition("--repo ")[2].partition(",")[0]
    applied = subprocess.run(
        [*WHIMBREL, "apply", "--repo", repository], cwd=tmp_path, env=places, capture_output=True, text=True
    )
    assert applied.returncode == 0, applied.stderr


def test_apply_and_undo_keep_a_files_permissions(buggy: Repo, fix: Fix, home: dict[str, str]):
    (buggy.root / "tally.py").chmod(0o440)
    assert fix(buggy, "--apply").result["applied"] is True
    assert (buggy.root / "tally.py").stat().st_mode & 0o777 == 0o440
    undo = [*WHIMBREL, "undo", "--repo", str(buggy.root)]
    assert subprocess.run(undo, env=home, capture_output=True).returncode == 0
    assert (buggy.root / "tally.py").read_text() == TALLY
    assert (buggy.root / "tally.py").stat().st_mode & 0o777 == 0o440


def test_a_fix_that_no_patch_can_hold_is_told_as_such(buggy: Repo, fix: Fix):
    buggy.write(**{".gitattributes": "tally.py filter=odd\n"}).commit()
    buggy.git("config", "filter.odd.clean", "false")
    ran = fix(buggy)
    assert (ran.code, ran.result["status"]) == (4, "not_fixed"), ran.out
    assert "no patch can hold" in ran.result["message"]


def test_a_python_that_is_none_is_the_persons_mistake(buggy: Repo, tmp_path: Path, fix: Fix):
    (tmp_path / "python").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "python").chmod(0o755)
    ran = fix(buggy, "--python", str(tmp_path / "python"))
    assert (ran.code, ran.result["status"]) == (2, "usage"), ran.out
    assert "does not answer like a Python interpreter" in ran.result["message"]


def test_an_output_that_filled_up_during_the_run_is_told_and_the_patch_is_kept(
    buggy: Repo, tmp_path: Path, home: dict[str, str]
):
    output = tmp_path / "out"
    # A disk that fills up is played by a test that makes the folder a file's: real errors, no mount needed.
    spoil = f"import pathlib, shutil, unittest\n\n\nclass S(unittest.TestCase):\n    def test_spoil(self):\n        place = pathlib.Path({str(output)!r})\n        if place.is_dir():\n            shutil.rmtree(place)\n            place.write_text('')\n"
    buggy.write(**{"test_spoil.py": spoil}).commit()
    command = [*WHIMBREL, "fix-issue", "--repo", str(buggy.root), "--sandbox", "host", "--json"]
    done = subprocess.run([*command, "--output", str(output)], env=home, capture_output=True, text=True)
    result = json.loads(done.stdout.splitlines()[-1])["data"]
    assert (done.returncode, result["exit_code"], result["status"]) == (10, 10, "fixed"), done.stdout
    assert any(str(output) in note for note in result["notes"])
    assert (Path(result["output"]) / "patch.diff").read_text() == result["patch"]
