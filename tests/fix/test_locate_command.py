"""`whimbrel locate`: ranked places with reasons from failing tests, an issue, or both; nothing changes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import WHIMBREL, Repo

Locate = Callable[..., subprocess.CompletedProcess[str]]

CLOCK = '''\
"""Times of day."""


def minutes_of(text):
    """Minutes since midnight of a time such as 09:30."""
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
'''


@pytest.fixture
def locate(home: dict[str, str]) -> Locate:
    def run(repository: Repo, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [
            *WHIMBREL, "locate", "--repo", str(repository.root), "--sandbox", "host",
            "--python", sys.executable, *arguments,
        ]  # fmt: skip
        return subprocess.run(command, env=home, input=stdin, capture_output=True, text=True, timeout=200)

    return run


def test_a_failing_test_leads_to_the_wrong_function_and_line_and_nothing_changes(buggy: Repo, locate: Locate):
    before = buggy.fingerprint()
    ran = locate(buggy, "--json", "--top", "3")
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    assert found["status"] == "located"
    assert found["failing_tests"] == ["test_tally.TallyTest.test_the_most_frequent_word_wins"]
    assert found["files"] == [{"path": "tally.py", "score": 1.0}]
    first = found["functions"][0]
    assert (first["path"], first["function"]) == ("tally.py", "most_common")
    assert any("is called by the failing line" in reason for reason in first["reasons"])
    assert len(found["lines"]) == 3
    assert 14 in {place["line"] for place in found["lines"]}, "the comparison that is wrong"
    assert buggy.fingerprint() == before


def test_people_read_the_same_with_the_reasons_below(buggy: Repo, locate: Locate):
    buggy.write(**{"clock.py": CLOCK}).commit()
    ran = locate(buggy, "--issue", "-", "--top", "1", stdin="minutes_of raises ValueError for 9:30:00\n")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0] == "Failing: test_tally.TallyTest.test_the_most_frequent_word_wins"
    assert [line for line in lines if not line.startswith((" ", "Failing"))] == [
        "Files",
        "Functions",
        "Lines",
    ]
    assert "tally.py" in lines[2]
    assert "most_common" in lines[4]
    assert "run by 1 failing and 0 passing tests" in "".join(lines)


def test_without_a_failing_test_the_issue_alone_leads_to_the_place(repo: Repo, locate: Locate):
    test = "from clock import minutes_of\n\n\ndef test_half():\n    assert minutes_of('00:30') == 30\n"
    other = "def label(size):\n    return f'{size} pieces'\n"
    repo.write(**{"clock.py": CLOCK, "labels.py": other, "test_clock.py": test}).commit()
    ran = locate(repo, "--json", "--issue", "minutes_of fails for a time with seconds such as 09:30:15")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["failing_tests"] == []
    first = found["functions"][0]
    assert (first["path"], first["function"]) == ("clock.py", "minutes_of")
    assert first["reasons"]

    nothing = locate(repo, "--json")
    assert nothing.returncode == 3
    told = json.loads(nothing.stdout)
    assert (told["status"], told["exit_code"]) == ("nothing_to_fix", 3)
    assert "all tests pass" in told["message"]


def test_a_test_that_does_not_exist_is_a_usage_error(buggy: Repo, locate: Locate):
    ran = locate(buggy, "--tests", "test_tally.py::nowhere")
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "nowhere" in ran.stderr.splitlines()[-1]
