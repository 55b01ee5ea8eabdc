"""Time limits, crashes, and what remains of a report after them."""

from __future__ import annotations

from pathlib import Path

import pytest
from whimbrel.app.repo.testing.inside.limits import TestClock, TestTimeLimit
from whimbrel.app.repo.testing.problems import RunProblem
from whimbrel.app.repo.testing.report import Outcome


@pytest.mark.parametrize("version", ["3.8", "3.13"])
async def test_a_loop_that_swallows_exceptions_times_out_alone_and_names_its_line(
    project, interpreter, version
):
    made = await project(
        {
            "mod.py": """
                def spin():
                    while True:
                        try:
                            len("")
                        except Exception:
                            pass
            """,
            "test_a.py": "import mod\ndef test_spin(): mod.spin()\ndef test_after(): pass\n",
        },
        python=interpreter(version),
        test_timeout_s=1,
    )
    cases = (await made.runner.run(purpose="baseline")).report.by_id()
    spin = cases["test_a.py::test_spin"]
    assert spin.outcome is Outcome.TIMEOUT
    assert spin.frames[-1].path == "mod.py" and spin.frames[-1].function == "spin"
    assert cases["test_a.py::test_after"].outcome is Outcome.PASSED


async def test_a_test_that_blocks_signals_is_ended_by_the_watchdog_and_the_rest_still_runs(project):
    made = await project(
        {
            "test_a.py": """
                import signal, time
                def test_deaf():
                    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
                    time.sleep(600)
                def test_after(): pass
            """
        },
        test_timeout_s=1,
    )
    run = await made.runner.run(purpose="baseline")
    cases = run.report.by_id()
    assert cases["test_a.py::test_deaf"].outcome is Outcome.TIMEOUT
    assert cases["test_a.py::test_deaf"].frames[-1].function == "test_deaf"
    assert cases["test_a.py::test_after"].outcome is Outcome.PASSED
    assert len(run.rows) == 2 and run.report.complete


async def test_crashes_are_attributed_and_the_remaining_tests_run_in_a_new_process(project):
    made = await project(
        {
            "test_a.py": """
                import ctypes, os
                def test_before(): pass
                def test_segfault(): ctypes.string_at(0)
                def test_leaves(): os._exit(0)
                def test_after(): pass
            """
        }
    )
    run = await made.runner.run(purpose="baseline")
    cases = run.report.by_id()
    assert {one.removeprefix("test_a.py::"): case.outcome.value for one, case in cases.items()} == {
        "test_before": "passed",
        "test_segfault": "crashed",
        "test_leaves": "crashed",
        "test_after": "passed",
    }
    assert "SIGSEGV" in cases["test_a.py::test_segfault"].message
    assert any(frame.function == "test_segfault" for frame in cases["test_a.py::test_segfault"].frames)
    assert "exit code 0" in cases["test_a.py::test_leaves"].message
    assert [len(row.outcomes) for row in made.ledger.rows] == [2, 1, 1]


async def test_a_suite_in_which_everything_crashes_ends_and_says_how_many_did_not_run(project):
    made = await project(
        {"test_a.py": "import os\n" + "".join(f"def test_{n}(): os.abort()\n" for n in range(9))}
    )
    run = await made.runner.run(purpose="baseline")
    assert len(run.report.cases) == 6 and not run.report.complete
    assert "3 tests did not run" in run.report.note


async def test_the_limit_of_the_whole_run_ends_it_with_a_partial_report(project):
    made = await project(
        {"test_a.py": "import time\ndef test_a(): pass\ndef test_b(): time.sleep(600)\ndef test_c(): pass\n"}
    )
    run = await made.runner.run(purpose="baseline", timeout_s=12)
    cases = run.report.by_id()
    assert cases["test_a.py::test_a"].outcome is Outcome.PASSED
    assert cases["test_a.py::test_b"].outcome is Outcome.TIMEOUT
    assert "test_a.py::test_c" not in cases
    assert not run.report.complete and run.row.timed_out and run.problem is RunProblem.TIMED_OUT


async def test_a_module_that_never_finishes_importing_is_a_collection_error_with_its_line(project):
    made = await project(
        {
            "mod.py": "while True:\n    pass\n",
            "test_a.py": "import mod\ndef test_a(): pass\n",
            "test_b.py": "def test_b(): pass\n",
        },
        test_timeout_s=1,
    )
    run = await made.runner.run(purpose="baseline")
    (error,) = run.report.collection_errors
    assert (error.path, error.exception) == ("test_a.py", "TestTimeLimit")
    assert error.frames[-1].path == "mod.py"
    assert run.report.by_id()["test_b.py::test_b"].outcome is Outcome.PASSED


async def test_a_forked_child_of_a_test_does_not_write_into_the_report(project):
    made = await project(
        {
            "test_a.py": """
                import os, sys
                def test_forks():
                    if os.fork() == 0:
                        sys.exit(3)
                    os.wait()
                def test_moves(tmp_path):
                    os.chdir(str(tmp_path))
                def test_last(): pass
            """
        }
    )
    run = await made.runner.run(purpose="baseline")
    assert [(case.id, case.outcome.value) for case in run.report.cases] == [
        ("test_a.py::test_forks", "passed"),
        ("test_a.py::test_moves", "passed"),
        ("test_a.py::test_last", "passed"),
    ]


def test_after_tests_that_hung_the_next_ones_are_waited_for_less_but_plenty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now = [100.0]
    clock = TestClock(60, str(tmp_path / "stack"))
    monkeypatch.setattr(clock, "_now", lambda: now[0])
    monkeypatch.setattr(clock, "_armed", True)

    def runs(seconds: float) -> float:
        """The limit that a test was given which needs so many seconds."""
        clock.new_test()
        given = clock.limit
        now[0] += min(seconds, given)
        if seconds > given:
            with pytest.raises(TestTimeLimit, match=f"longer than {given:g} seconds"):
                clock._ring(0, None)
        return given

    endless = 1e9
    assert [runs(0.1), runs(0.2), runs(endless), runs(0.1)] == [60, 60, 60, 30]
    assert [runs(endless), runs(endless), runs(endless), runs(endless)] == [30, 15, 7.5, 6]
    assert runs(1.5) == 6
    assert runs(0.1) == 30, "twenty times what the slowest that ended took"
