"""Which evidence decides where a fault is looked for: small programs, really run line by line."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from types import CodeType, FrameType
from typing import Any

from project import make_repository
from whimbrel.app.repair.baseline import Baseline
from whimbrel.app.repair.localisation.history import recency
from whimbrel.app.repair.localise import Localisation, Location, rank_baseline
from whimbrel.app.repo.testing.report import Outcome, TestCase, TestReport, TraceFrame
from whimbrel.sandbox.base.errors import ToolError
from whimbrel.sandbox.base.git import Git


def ran(source: str, tests: str) -> tuple[Baseline, Mapping[str, bytes]]:
    """Runs each ``test_*`` function of ``tests`` against ``source`` (a module named shop), traced."""
    files = {"shop.py": dedent(source), "test_shop.py": dedent(tests)}
    shop: dict[str, Any] = {"__name__": "shop"}
    exec(compile(files["shop.py"], "shop.py", "exec"), shop)
    namespace: dict[str, Any] = {**shop, "__name__": "test_shop"}
    exec(compile(files["test_shop.py"], "test_shop.py", "exec"), namespace)
    cases: list[TestCase] = []
    coverage: dict[str, dict[str, frozenset[int]]] = {}
    for name in [each for each in namespace if each.startswith("test_")]:
        lines: dict[str, set[int]] = {}

        def trace(frame: FrameType, event: str, _: Any, lines: dict[str, set[int]] = lines) -> Any:
            code: CodeType = frame.f_code
            if code.co_filename not in files:
                return None
            if event == "line":
                lines.setdefault(code.co_filename, set()).add(frame.f_lineno)
            return trace

        test_id, error = f"test_shop.py::{name}", None
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            namespace[name]()
        except Exception as caught:
            error = caught
        finally:
            sys.settrace(before)
        coverage[test_id] = {path: frozenset(found) for path, found in lines.items()}
        cases.append(_case(test_id, error, files))
    report = TestReport(tuple(cases), coverage=coverage)
    baseline = Baseline("", report, report.failing(), (), report.passing_ids(), (), 1.0, 1)
    assert baseline.failing
    return baseline, {path: text.encode() for path, text in files.items()}


def _case(test_id: str, error: Exception | None, files: Mapping[str, str]) -> TestCase:
    if error is None:
        return TestCase(test_id, Outcome.PASSED, path="test_shop.py")
    frames = tuple(
        TraceFrame(each.filename, each.lineno or 0, each.name, files[each.filename].splitlines()[(each.lineno or 1) - 1])
        for each in traceback.extract_tb(error.__traceback__)
        if each.filename in files
    )  # fmt: skip
    kind = type(error).__name__
    return TestCase(test_id, Outcome.FAILED, 0.0, kind, str(error), frames, path="test_shop.py")


def located(source: str, tests: str, recent: Mapping[str, Mapping[int, float]] | None = None) -> Localisation:
    baseline, files = ran(source, tests)

    def read(path: str) -> bytes:
        if path not in files:
            raise ToolError(f"{path} does not exist")
        return files[path]

    return rank_baseline(read, baseline, recent)


def first(found: Localisation) -> tuple[str, int]:
    return found.locations[0].function, found.statements[0].line


def rank_of(found: Localisation, line: int) -> int:
    """1 for the most suspicious statement."""
    return next(n for n, each in enumerate(found.statements, 1) if each.line <= line <= each.end_line)


def place(found: Localisation, line: int) -> Location:
    return found.statements[rank_of(found, line) - 1]


SHARED = """
    def clean(text):
        parts = text.split(",")
        return [part.strip() for part in parts]


    def total(text):
        numbers = [int(part) for part in clean(text)]
        return sum(numbers) - 1


    def count(text):
        return len(clean(text))


    def banner(text):
        line = "=" * 8
        return line + text + line
"""


def test_the_function_that_the_failing_line_calls_comes_before_the_helper_that_others_use_too():
    tests = """
        def test_total():
            assert total("1, 2") == 3

        def test_count():
            assert count("1, 2") == 2
    """
    found = located(SHARED, tests)
    assert found.locations[0].function == "total"
    assert rank_of(found, 9) <= 2
    assert any("called by the failing line" in reason for reason in found.locations[0].reasons)


def test_a_wrong_line_that_every_test_runs_is_not_lost_among_the_others():
    source = """
        class Basket:
            def __init__(self):
                self.prices = [0]

            def add(self, price):
                self.prices.append(price)

            def size(self):
                return len(self.prices)

            def dearest(self):
                return max(self.prices)
    """
    tests = """
        def made():
            basket = Basket()
            basket.add(3)
            return basket

        def test_dearest():
            assert made().dearest() == 3

        def test_add():
            assert 3 in made().prices

        def test_size():
            assert made().size() == 1
    """
    found = located(source, tests)
    assert rank_of(found, 4) <= 4


def test_a_condition_whose_one_outcome_goes_with_failure_is_named_for_it():
    source = """
        def fee(amount):
            rate = 2
            if amount >= 10:
                rate = 1
            return amount * rate
    """
    tests = """
        def test_small():
            assert fee(1) == 2

        def test_smaller():
            assert fee(2) == 4

        def test_limit():
            assert fee(10) == 20
    """
    found = located(source, tests)
    assert rank_of(found, 4) <= 2
    assert "one outcome of its condition goes with failure" in place(found, 4).reasons


def test_a_function_that_gave_nothing_comes_before_the_line_that_stumbled_over_it():
    source = """
        def find(names, wanted):
            for name in names:
                if name == wanted:
                    found = name


        def shout(names, wanted):
            return find(names, wanted).upper()
    """
    tests = """
        def test_shout():
            assert shout(["ada"], "ada") == "ADA"
    """
    found = located(source, tests)
    assert found.locations[0].function == "find"
    assert "it gave no value, and a None shows in the failure" in found.locations[0].reasons


def test_the_guard_that_should_have_raised_is_suspicious():
    source = """
        def take(stock, count):
            left = stock - count
            if left < -1:
                raise ValueError("not enough")
            return left


        def show(stock):
            return f"{stock} left"
    """
    tests = """
        def test_too_many():
            try:
                take(1, 2)
            except ValueError:
                return
            raise AssertionError("ValueError not raised by take")

        def test_enough():
            assert take(2, 1) == 1
    """
    found = located(source, tests)
    assert rank_of(found, 4) == 1
    assert any("waited for an exception" in reason for reason in place(found, 4).reasons)


def test_an_exception_points_at_its_line_and_at_what_fed_it():
    source = """
        def half(numbers):
            size = len(numbers) - 2
            middle = size // 2
            return numbers[:middle], 1 / size
    """
    tests = """
        def test_half():
            assert half([1, 2])[1] == 0.5
    """
    found = located(source, tests)
    assert "ZeroDivisionError was raised here in test_shop.py::test_half" in place(found, 5).reasons
    assert "it defines a name used by the line that raised" in place(found, 3).reasons
    assert rank_of(found, 3) <= 3


def test_the_header_of_a_handler_that_caught_is_a_place_of_its_own():
    source = """
        def number(text):
            try:
                return int(text)
            except (TypeError, ValueError):
                return 0
    """
    tests = """
        def test_not_a_number():
            assert number("x") is None

        def test_number():
            assert number("3") == 3
    """
    found = located(source, tests)
    assert place(found, 5).line == 5
    assert found.lines["shop.py"][5] > 0.3


def test_what_changed_last_comes_first_among_equals():
    source = """
        def left(text):
            return text.strip("<")


        def right(text):
            return text.strip(">")


        def both(text):
            return left(text), right(text)
    """
    tests = """
        def test_both():
            assert both("< >") == (" ", " ")
    """
    assert located(source, tests, {"shop.py": {3: 1.0}}).locations[0].function == "left"
    assert located(source, tests, {"shop.py": {7: 1.0}}).locations[0].function == "right"


async def test_lines_of_the_newest_change_are_recent_and_those_of_the_first_are_not(tmp_path: Path):
    root = await make_repository(tmp_path / "r", {"a.py": "one = 1\ntwo = 2\n", "b.py": "three = 3\n"})
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")
    (root / "a.py").write_text("one = 1\ntwo = 3\n")
    when = {"GIT_COMMITTER_DATE": "2040-01-01T00:00:00Z"}
    git = Git(root / ".git", root, extra_env=when)
    await git.run(*identity, "commit", "-qam", "change")
    (root / "a.py").write_text("one = 1\ntwo = 3\nfour = 4\n")
    assert await recency(root, ["a.py", "b.py", "missing.py"]) == {"a.py": {2: 1.0, 3: 1.0}}


def test_the_ranking_does_not_depend_on_hashing():
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_localisation as here
found = here.located(here.SHARED, '''
def test_total():
    assert total("1, 2") == 3

def test_count():
    assert count("1, 2") == 2
''')
print(found.locations, found.statements, found.lines)
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    }
    assert len(seen) == 1
