"""The one place that may say "fixed"."""

from __future__ import annotations

from whimbrel.app.fix.verdict import judge
from whimbrel.app.repo.testing.report import CollectionError, Outcome, TestCase, TestReport


def report(*errors: str, complete: bool = True, **outcomes: Outcome) -> TestReport:
    cases = tuple(TestCase(id=name, outcome=outcome, path="t.py") for name, outcome in outcomes.items())
    return TestReport(
        cases, tuple(CollectionError(path, "ImportError", "x") for path in errors), complete=complete
    )


P, F, S = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def test_red_to_green_without_losses_is_fixed():
    assert judge(report(a=F, b=P), report(a=P, b=P), targets=["a"]).fixed


def test_a_target_that_is_skipped_now_is_not_fixed():
    verdict = judge(report(a=F), report(a=S), targets=["a"])
    assert (verdict.fixed, verdict.still_failing) == (False, ("a",))


def test_a_target_that_vanished_is_not_fixed():
    assert judge(report(a=F, b=P), report(b=P), targets=["a"]).still_failing == ("a",)


def test_a_lost_test_is_a_regression_also_when_it_is_only_missing():
    assert judge(report(a=F, b=P), report(a=P, b=F), targets=["a"]).regressions == ("b",)
    assert judge(report(a=F, b=P), report(a=P), targets=["a"]).regressions == ("b",)


def test_flaky_tests_prove_nothing_in_either_direction():
    assert judge(report(a=F, b=P), report(a=P, b=F), targets=["a"], flaky=["b"]).fixed


def test_tests_that_failed_before_may_go_on_failing():
    assert judge(report(a=F, other=F), report(a=P, other=F), targets=["a"]).fixed


def test_without_a_failing_test_nothing_is_fixed():
    assert not judge(report(a=P), report(a=P), targets=[]).fixed


def test_a_run_cut_short_proves_nothing():
    assert not judge(report(a=F), report(a=P, complete=False), targets=["a"]).fixed


def test_a_file_that_could_not_be_collected_must_collect_and_pass():
    before = report("t.py")
    assert judge(before, report(x=P), targets=[], target_files=["t.py"]).fixed
    assert not judge(before, report("t.py"), targets=[], target_files=["t.py"]).fixed
    assert not judge(before, report(x=F), targets=[], target_files=["t.py"]).fixed
    assert not judge(before, report(), targets=[], target_files=["t.py"]).fixed
