"""Limits of trials follow what tests need in the warm process."""

from __future__ import annotations

import pytest
from whimbrel.app.repair.baseline import Baseline
from whimbrel.app.repair.pace import Pace
from whimbrel.app.repo.testing.report import Outcome, TestCase, TestReport


def pace() -> Pace:
    cases = (
        TestCase("t.py::bad", Outcome.FAILED, path="t.py", duration_s=0.2),
        TestCase("t.py::good", Outcome.PASSED, path="t.py", duration_s=0.1),
        TestCase("t.py::hung", Outcome.TIMEOUT, path="t.py", duration_s=60.0),
    )
    report = TestReport(cases)
    failing = tuple(case for case in cases if case.outcome is not Outcome.PASSED)
    return Pace(
        Baseline(
            tree="",
            report=report,
            failing=failing,
            broken=(),
            passing=frozenset({"t.py::good"}),
            flaky=(),
            duration_s=1.0,
            ledger_row=1,
        )
    )


def test_before_anything_is_known_a_trial_may_take_four_times_the_first_run():
    made = pace()
    for tests in (["t.py::bad"], ["t.py::good"], ["t.py::hung"], ["t.py::bad", "t.py::good"]):
        stage = made.stage(tests)
        assert made.in_warm(stage) == stage
    assert made.stage(["t.py::bad", "t.py::good"]).cpu_s == pytest.approx(4 * 0.3 + 0.3)
    assert made.stage(["t.py::hung"]).cpu_s == pytest.approx(4 * (0.1 + 0.1) + 0.3)


def test_what_failing_and_passing_tests_took_there_counts_for_their_own_kind():
    made = pace()
    made.note(["t.py::bad"], 0.02)
    made.note(["t.py::good"], 0.05)
    assert made.in_warm(made.stage(["t.py::good"])).cpu_s == pytest.approx(4 * 0.05 + 0.3)
    # A tenth of its first time is less than what the other test of the file needs.
    assert made.in_warm(made.stage(["t.py::bad"])).cpu_s == pytest.approx(4 * 0.05 + 0.3)


def test_the_slowest_run_counts_and_no_limit_grows():
    made = pace()
    for seconds in (0.02, 0.08, 0.03):
        made.note(["t.py::good"], seconds)
    assert made.in_warm(made.stage(["t.py::good"])).cpu_s == pytest.approx(4 * 0.08 + 0.3)
    made.note(["t.py::good"], 7.0)
    assert made.in_warm(made.stage(["t.py::good"])).cpu_s == pytest.approx(4 * 0.1 + 0.3)
    made.note([], 1.0)
    made.note(["t.py::gone"], 1.0)
