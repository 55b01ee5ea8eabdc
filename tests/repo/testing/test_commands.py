"""Plain commands as tests: exit codes, JUnit files, traces in output, watchers."""

from __future__ import annotations

import sys

import pytest
from whimbrel.app.repo.testing import watching
from whimbrel.app.repo.testing.adapters import (
    CommandAdapter,
    PytestAdapter,
    UnittestAdapter,
    adapter_for_command,
    detect_adapter,
)
from whimbrel.app.repo.testing.problems import RunProblem
from whimbrel.app.repo.testing.report import Outcome


async def test_the_exit_code_decides_when_the_output_names_no_tests(project):
    made = await project({"check.sh": "exit 0\n"}, adapter=CommandAdapter("sh check.sh && true"))
    run = await made.runner.run(purpose="baseline")
    assert [case.outcome for case in run.report.cases] == [Outcome.PASSED]
    made.write("check.sh", "echo broken; exit 3\n")
    run = await made.runner.run(purpose="baseline")
    (case,) = run.report.cases
    assert case.outcome is Outcome.FAILED and "exit code 3" in case.message and "broken" in case.output


async def test_failing_tests_and_traces_are_read_from_the_output_and_marked_as_such(project):
    made = await project(
        {
            "shop.py": "def net(x):\n    return 1 / x\n",
            "test_a.py": "import shop\ndef test_a(): shop.net(0)\ndef test_b(): pass\n",
        },
        adapter=CommandAdapter(f"cd . && {sys.executable} -m pytest -q -p no:cacheprovider"),
    )
    run = await made.runner.run(purpose="baseline")
    (case,) = run.report.cases
    assert (case.id, case.outcome, case.exception) == (
        "test_a.py::test_a",
        Outcome.FAILED,
        "ZeroDivisionError",
    )
    assert [(frame.path, frame.line) for frame in case.frames] == [("test_a.py", 2), ("shop.py", 2)]
    assert "read from the command's output" in run.report.note


async def test_a_junit_file_is_preferred_to_the_output(project):
    made = await project(
        {
            "test_a.py": """
                import pytest
                def test_a(): assert 0
                def test_b(): pass
                def test_c(): pytest.skip("x")
            """
        },
        adapter=CommandAdapter(
            f"true; {sys.executable} -m pytest -q -p no:cacheprovider --junitxml={{junit}}"
        ),
    )
    run = await made.runner.run(purpose="baseline")
    assert {case.id: case.outcome.value for case in run.report.cases} == {
        "test_a::test_a": "failed",
        "test_a::test_b": "passed",
        "test_a::test_c": "skipped",
    }
    assert made.leftovers() == []


async def test_a_command_that_does_not_exist_is_no_failing_test(project):
    made = await project({"a": ""}, adapter=CommandAdapter("no-such-runner --all"))
    run = await made.runner.run(purpose="baseline")
    assert run.problem is RunProblem.COMMAND_NOT_FOUND and "no-such-runner" in run.problem_detail


async def test_a_watcher_is_ended_and_named(project, monkeypatch):
    monkeypatch.setattr(watching.run_unless_watching, "__kwdefaults__", {"quiet_s": 1.0})
    made = await project(
        {"a": ""}, adapter=CommandAdapter("echo ok; echo 'Watching for file changes...'; sleep 600")
    )
    run = await made.runner.run(purpose="baseline")
    assert run.problem is RunProblem.WATCHING and run.problem.environment


async def test_a_command_that_asks_gets_the_end_of_input_at_once(project):
    made = await project({"a": ""}, adapter=CommandAdapter("read answer || exit 9"))
    run = await made.runner.run(purpose="baseline")
    assert run.result.exit_code == 9


@pytest.mark.parametrize(
    ("text", "adapter"),
    [
        ("pytest", PytestAdapter()),
        ("pytest -k 'a b' tests", PytestAdapter(("-k", "a b", "tests"))),
        ("python3 -m pytest -q", PytestAdapter(("-q",))),
        ("python -m unittest discover -s tests", UnittestAdapter(("discover", "-s", "tests"))),
        ("pytest && ruff check", CommandAdapter("pytest && ruff check")),
        ("make test", CommandAdapter("make test")),
    ],
)
def test_a_command_is_recognised_only_when_it_is_plain(text, adapter):
    assert adapter_for_command(text) == adapter


def test_the_framework_is_told_from_the_files(tmp_path):
    (tmp_path / "test_a.py").write_text("import unittest\nclass TestA(unittest.TestCase):\n    pass\n")
    assert detect_adapter(tmp_path)[0] == UnittestAdapter()
    (tmp_path / "conftest.py").write_text("")
    adapter, found = detect_adapter(tmp_path)
    assert adapter == PytestAdapter() and "1 conftest.py" in found.reasons
