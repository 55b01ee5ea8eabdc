"""The parts that judge: spectra, verdicts, order, choice and diffs."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from project import make_repository
from whimbrel.app.repair.baseline import Baseline
from whimbrel.app.repair.behaviour import Behaviour
from whimbrel.app.repair.candidates import Candidate
from whimbrel.app.repair.choice import choose, literals_of
from whimbrel.app.repair.diffs import unified_diff
from whimbrel.app.repair.evidence import Evidence
from whimbrel.app.repair.family import Harm
from whimbrel.app.repair.localisation.testview import TestFiles
from whimbrel.app.repair.minimise import minimise
from whimbrel.app.repair.novelty import Novelty
from whimbrel.app.repair.source import Edit, ModuleSource
from whimbrel.app.repair.spectra import Counts, Spectrum, dstar, ochiai
from whimbrel.app.repair.trust import belief
from whimbrel.app.repair.verdict import judge
from whimbrel.app.repo.testing.report import CollectionError, Outcome, TestCase, TestReport, TraceFrame
from whimbrel.app.repo.testing.warm import Probe, ProbedCall
from whimbrel.sandbox.base.git import Git

SOURCE = ModuleSource("m.py", b"def f(a):\n    return a + 40\n")


def candidate(
    start: int, end: int, text: str, *, score: float = 1.0, harm: Harm = Harm.PRECISE, **values: object
) -> Candidate:
    edits = (Edit(start, end, text),)
    return Candidate("m.py", 2, 2, edits, str(values.get("family", "x")), "was wrong", text, harm, score)


def case(test: str, outcome: Outcome) -> TestCase:
    return TestCase(test, outcome, path=test.split("::")[0])


def test_ochiai_is_one_for_lines_only_failing_tests_run_and_falls_with_passing_ones():
    assert ochiai(Counts(2, 0), 2) == 1.0
    assert ochiai(Counts(1, 3), 1) == 0.5
    assert ochiai(Counts(1, 1), 4) == pytest.approx(1 / math.sqrt(8))
    assert ochiai(Counts(0, 5), 2) == 0.0
    assert ochiai(Counts(), 0) == 0.0


def test_lines_are_counted_per_test_and_files_without_failures_are_left_out():
    coverage = {
        "bad": {"a.py": frozenset({1, 2})},
        "good": {"a.py": frozenset({2, 3}), "b.py": frozenset({1})},
    }
    spectrum = Spectrum(coverage, ["bad"], ["good"])
    counts = {
        path: {line: spectrum.counts(tests) for line, tests in lines.items()}
        for path, lines in spectrum.lines.items()
    }
    assert counts == {"a.py": {1: Counts(1, 0), 2: Counts(1, 1), 3: Counts(0, 1)}}


def test_dstar_grows_with_failing_runs_and_stays_between_zero_and_one():
    assert dstar(Counts(2, 0), 2) == 1.0
    assert dstar(Counts(2, 4), 2) == 0.5
    assert dstar(Counts(1, 4), 2) == pytest.approx((1 / 5) / (1 + 1 / 5))
    assert dstar(Counts(0, 0), 0) == 0.0


@pytest.mark.parametrize("outcome", [Outcome.SKIPPED, Outcome.XFAILED, Outcome.XPASSED, Outcome.FAILED])
def test_a_target_that_does_not_plainly_pass_is_not_fixed(outcome: Outcome):
    verdict = judge(TestReport((case("t.py::a", outcome),)), ["t.py::a"], ())
    assert verdict.still_bad == ("t.py::a",) and not verdict.good


def test_a_vanished_test_is_not_fixed_and_a_skipped_one_is_a_regression():
    report = TestReport((case("t.py::a", Outcome.PASSED), case("t.py::b", Outcome.SKIPPED)))
    assert judge(report, ["t.py::gone"], ()).still_bad == ("t.py::gone",)
    assert judge(report, ["t.py::a"], {"t.py::a", "t.py::b"}).regressed == ("t.py::b",)


def test_a_file_that_could_not_be_collected_has_to_run_and_pass():
    still = TestReport((), (CollectionError("t.py", "NameError", ""),))
    assert judge(still, ["t.py"], ()).still_bad == ("t.py",)
    assert judge(TestReport((case("t.py::a", Outcome.PASSED),)), ["t.py"], ()).good
    mixed = TestReport((case("t.py::a", Outcome.PASSED), case("t.py::b", Outcome.FAILED)))
    assert not judge(mixed, ["t.py"], ()).good


def test_a_run_cut_short_shows_nothing():
    assert not judge(TestReport((case("t.py::a", Outcome.PASSED),), complete=False), ["t.py::a"], ()).good


def test_taking_functionality_away_comes_last_whatever_its_score():
    removal = candidate(10, 28, "    pass", score=9.0, harm=Harm.REMOVES)
    precise = candidate(23, 24, "-", score=0.1)
    choice = choose([removal, precise], {"m.py": SOURCE}, ())
    assert choice.ranked[0] is precise and not choice.ambiguous


def test_a_constant_of_the_test_counts_against_a_patch():
    baked = candidate(25, 27, "4711", score=1.0)
    general = candidate(23, 24, "-", score=0.6)
    choice = choose([baked, general], {"m.py": SOURCE}, literals_of("assert f(0) == 4711"))
    assert choice.ranked[0] is general


def test_patches_alike_in_score_harm_and_size_are_ambiguous():
    one, two = candidate(25, 27, "39"), candidate(25, 27, "41")
    assert choose([one, two], {"m.py": SOURCE}, ()).ambiguous
    far = candidate(25, 27, "41", score=0.9)
    assert not choose([one, far], {"m.py": SOURCE}, ()).ambiguous


def seen(*candidates: Candidate, **calls: tuple[str, ...]) -> Behaviour:
    """What the program and then each candidate did on neighbouring calls."""
    probed = [
        ProbedCall("t.py::a", f"f({name})", True, tuple((shown, shown) for shown in results))
        for name, results in calls.items()
    ]
    return Behaviour.of(candidates, Probe((True,) * len(candidates), tuple(probed)), frozenset())


def test_a_patch_that_raises_by_accident_where_another_does_not_comes_after_it():
    fragile, sound = candidate(25, 27, "a[0]"), candidate(23, 24, "-", score=0.7)
    effects = seen(fragile, sound, one=("1", "2", "2"), two=("5", "raises TypeError: no index", "5"))
    assert choose([fragile, sound], {"m.py": SOURCE}, (), effects).ranked[0] is sound
    meant = seen(fragile, sound, one=("1", "2", "2"), two=("5", "raises ValueError: too small", "5"))
    assert choose([fragile, sound], {"m.py": SOURCE}, (), meant).ranked[0] is fragile


def test_confidence_falls_with_every_behaviour_that_passes_as_well():
    best = candidate(23, 24, "-")
    others = [candidate(25, 27, str(number), score=0.5, family=str(number)) for number in (41, 42, 43)]
    alike = candidate(25, 27, "44", score=0.5, family="41")

    def confidence(*found: Candidate, **calls: tuple[str, ...]) -> float:
        return choose(found, {"m.py": SOURCE}, (), seen(*found, **calls), lambda _: 0.9).confidence

    assert confidence(best) == 0.9
    assert confidence(best, others[0], a=("1", "2", "3")) == pytest.approx(0.9 / 1.5, abs=0.001)
    assert confidence(best, *others, a=("1", "2", "3", "4", "5")) == pytest.approx(0.9 / 2.5, abs=0.001)
    # More ways to do the same speak for it, on either side; two values for the same line are one way.
    assert confidence(best, *others[:2], a=("1", "2", "2", "3")) == pytest.approx(0.9 * 1.5 / 2, abs=0.001)
    assert confidence(best, *others[:2], a=("1", "2", "3", "3")) == pytest.approx(0.9 / 2, abs=0.001)
    assert confidence(best, others[0], alike, a=("1", "2", "3", "3")) == pytest.approx(0.9 / 1.5, abs=0.001)
    assert confidence(best, others[0], alike, a=("1", "2", "3", "4")) == pytest.approx(0.9 / 2, abs=0.001)
    guards = [replace(each, harm=Harm.LOOSENS) for each in (best, others[0], alike)]
    assert confidence(*guards, a=("1", "2", "3", "4")) == pytest.approx(0.9 / 1.5, abs=0.001)


def test_among_equals_the_clearly_smaller_patch_is_taken():
    large, small = candidate(10, 28, "    return a + a + a + a + 0"), candidate(23, 24, "-")
    choice = choose([large, small], {"m.py": SOURCE}, ())
    assert choice.ranked == (small, large) and not choice.ambiguous


def test_candidates_with_the_same_tree_are_tried_once_and_broken_ones_never():
    novelty = Novelty({"m.py": SOURCE})
    assert novelty.is_new(candidate(25, 27, "41"))
    assert not novelty.is_new(candidate(25, 27, "(41)"))
    assert not novelty.is_new(candidate(25, 27, "40"))  # the original
    assert not novelty.is_new(candidate(23, 24, "+ +) -"))


async def test_edits_that_are_not_needed_are_undone():
    both = Candidate(
        "m.py",
        2,
        2,
        (Edit(21, 22, "b"), Edit(25, 27, "41")),
        "x",
        "was wrong",
        "two edits",
        Harm.PRECISE,
        1.0,
    )

    async def passes(one: Candidate) -> bool:
        return Edit(25, 27, "41") in one.edits

    assert (await minimise(both, passes)).edits == (Edit(25, 27, "41"),)


def test_exceptions_of_failing_tests_become_evidence():
    cases = (
        TestCase("a", Outcome.FAILED, exception="builtins.KeyError"),
        TestCase("b", Outcome.FAILED, exception="Failed", message="DID NOT RAISE <class 'ValueError'>"),
        TestCase("c", Outcome.FAILED, exception="AssertionError", message="TypeError not raised"),
    )
    assert Evidence.of(cases) == Evidence(("KeyError",), ("ValueError", "TypeError"))


def test_names_compared_with_and_the_place_of_the_exception_become_evidence():
    frames = (
        TraceFrame("tests/t.py", 4, "test_it", "assert run(x) is NOTHING"),
        TraceFrame("pkg/m.py", 7, "run", "x.y"),
        TraceFrame("/lib/other.py", 1, "y", "", in_repository=False),
    )
    case = TestCase("a", Outcome.FAILED, exception="AttributeError", path="tests/t.py", frames=frames)
    found = Evidence.of((case,))
    assert "NOTHING" in found.names and "run" not in found.names
    assert found.raised_at == (("pkg/m.py", 7),)


def test_what_a_test_waited_for_is_evidence_when_something_else_came():
    source = b"""
import pytest

def test_it():
    with pytest.raises((Refused, kinds.Late)):
        run()
    with pytest.raises(Other):
        run()
"""
    frames = (TraceFrame("tests/t.py", 6, "test_it", "run()"), TraceFrame("pkg/m.py", 7, "run", "x / y"))
    case = TestCase("a", Outcome.FAILED, exception="ZeroDivisionError", path="tests/t.py", frames=frames)
    found = Evidence.of((case,), TestFiles(lambda _: source))
    assert found.expected == ("Refused", "Late") and found.raised == ("ZeroDivisionError",)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nB"),
        ("a\nb", "a\nb\nc\n"),
        ("a\r\nb\r\n", "a\r\nB\r\n"),
        ("a\n\x0cb\n\u2028c\n", "a\n\x0cb\n\u2028C\n"),
        ("é\n" * 20, "é\n" * 10 + "ü\n" + "é\n" * 10),
    ],
)
async def test_diffs_apply_with_git(before: str, after: str, tmp_path: Path):
    repository = await make_repository(tmp_path / "r", {"d/m.py": before.encode()})
    git = Git(repository / ".git", repository)
    await git.run("apply", "-", input=unified_diff("d/m.py", before, after).encode())
    assert (repository / "d/m.py").read_bytes() == after.encode()


def test_the_order_of_candidates_does_not_depend_on_hashing():
    program = """
import hashlib
from whimbrel.app.repair.candidates import generate
from whimbrel.app.repair.evidence import Evidence
from whimbrel.app.repair.localisation.testview import TestFiles
from whimbrel.app.repair.localise import Localisation
from whimbrel.app.repair.source import ModuleSource
text = b'''
import os
class A:
    def f(self, one, two):
        x = {one: two, "k": self.z}
        self.y = x
        return x[one] + self.g(two, one)
    def g(self, a, b):
        return a - b
'''
source = ModuleSource("m.py", text)
place = Localisation((), {"m.py": dict.fromkeys(range(1, 10), 1.0)}, {"m.py": source})
found = generate(place, Evidence(("KeyError", "TypeError"), ("ValueError",)))
assert len(found) > 150
print(hashlib.sha256(repr(found).encode()).hexdigest())
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "77")
    }
    assert len(seen) == 1


def test_code_that_only_shows_values_is_less_suspicious_than_code_that_makes_them():
    from types import SimpleNamespace

    from whimbrel.app.repair.baseline import Baseline
    from whimbrel.app.repair.localise import localise

    text = b"class A:\n    def __repr__(self):\n        return 'A'\n\n    def size(self):\n        return 1\n"
    bad = TestCase("t.py::bad", Outcome.FAILED, path="t.py")
    good = TestCase("t.py::good", Outcome.PASSED, path="t.py")
    coverage = {"t.py::bad": {"a.py": frozenset({3, 6})}, "t.py::good": {"a.py": frozenset({6})}}
    report = TestReport((bad, good), coverage=coverage)
    baseline = Baseline("0" * 40, report, (bad,), (), frozenset({"t.py::good"}), (), 1.0, 1)
    context = SimpleNamespace(workspace=SimpleNamespace(read=lambda _: text), scratch={})
    places = localise(context, baseline).locations  # type: ignore[arg-type]
    assert [place.function for place in places] == ["A.size", "A.__repr__"]


def covered(*passing: str) -> Baseline:
    """A baseline whose passing tests all run line 2 of m.py, and nothing else."""
    cases = [TestCase(name, Outcome.PASSED, path="t.py") for name in passing]
    bad = TestCase("t.py::bad", Outcome.FAILED, path="t.py")
    lines = {name: {"m.py": frozenset({2})} for name in (*passing, "t.py::bad")}
    report = TestReport((*cases, bad), coverage=lines)
    return Baseline("0" * 40, report, (bad,), (), frozenset(passing), (), 1.0, 1)


def test_each_passing_test_through_the_edited_lines_takes_doubt_away():
    moved = candidate(23, 24, "-", family="move")
    assert belief(moved, covered()) == pytest.approx(0.5)
    assert belief(moved, covered("a", "b")) == pytest.approx(1 - 0.5 * 0.85**2)
    assert belief(replace(moved, line=3, end_line=3), covered("a", "b")) == pytest.approx(0.5)
    inserted = replace(moved, line=3, end_line=3, edits=(Edit(20, 20, "x\n"),))
    assert belief(inserted, covered("a")) == pytest.approx(1 - 0.5 * 0.85)


def test_a_kind_of_edit_that_passes_by_chance_is_not_applied_without_passing_tests_to_speak_for_it():
    moved = candidate(23, 24, "-", family="move")
    alone = choose([moved], {"m.py": SOURCE}, (), believed=partial(belief, baseline=covered()))
    assert alone.doubtful and not alone.ambiguous and alone.confidence == pytest.approx(0.5)
    backed = choose([moved], {"m.py": SOURCE}, (), believed=partial(belief, baseline=covered("a", "b")))
    assert not backed.doubtful
    exchanged = candidate(23, 24, "-", family="comparison")
    assert not choose(
        [exchanged], {"m.py": SOURCE}, (), believed=partial(belief, baseline=covered())
    ).doubtful
