"""What an issue says against what a run showed: which tests come of it, and why none does."""

from __future__ import annotations

import ast

import pytest
from whimbrel.app.repair.issue.checks import Check, Hypothesis, Judgement, choose
from whimbrel.app.repair.issue.corpus import SourceText
from whimbrel.app.repair.issue.judging import judge_snippet
from whimbrel.app.repair.issue.namespace import Namespace
from whimbrel.app.repair.issue.probe import Observation, Raised
from whimbrel.app.repair.issue.reading import read_issue_text
from whimbrel.app.repair.issue.snippets import collect_snippets
from whimbrel.app.repair.issue.testfile import folder_of_tests, module_path, render
from whimbrel.app.repo.testing.report import Outcome, TestCase, TestReport

SILENT = Observation(True)


def gives(value: object, *, printed: bool = False) -> Observation:
    text = f"{value}\n" if printed else ""
    return Observation(True, False, text, None, True, repr(value), str(value), type(value).__name__)


def raises(error: Exception, path: str = "shop.py") -> Observation:
    bases = tuple(each.__name__ for each in type(error).__mro__)
    frames = (("<issue>", 1, "<module>"), (path, 3, "f")) if path else (("<issue>", 1, "<module>"),)
    return Observation(True, error=Raised(type(error).__name__, bases, str(error), frames))


def judged(issue_text: str, *seen: Observation) -> Judgement:
    issue = read_issue_text(issue_text)
    return judge_snippet(collect_snippets(issue)[0], seen, issue.errors)


def only(judgement: Judgement) -> Hypothesis:
    (found,) = (each for each in judgement.hypotheses if not each.holds)
    return found


SNIPPET = "```python\nfrom shop import f\nprint(f(2))\n```\n"


@pytest.mark.parametrize(
    ("words", "strength"),
    [("This prints 4 but should print 3.", 3), ("It should print 3.", 2), ("Expected: 3\n\nActual: 4", 3)],
)
def test_what_is_printed_and_what_should_be_make_a_test(words: str, strength: int):
    found = only(judged(SNIPPET + words, SILENT, gives(4, printed=True)))
    assert (found.check, found.target, found.expected, found.strength) == (Check.EQUAL, "f(2)", "3", strength)
    assert found.setup == ("from shop import f",)
    assert found.reason == "f(2) gives 4; the issue expects 3"


@pytest.mark.parametrize(
    ("issue", "seen"),
    [
        (SNIPPET + "This prints 5 but should print 3.", gives(4, printed=True)),
        (SNIPPET + "This prints 4 but should print 3.", gives(3, printed=True)),
        (SNIPPET + "Something is odd.", gives(4, printed=True)),
        (SNIPPET + "It should print a nicer table.", gives(4, printed=True)),
        (SNIPPET + "raises KeyError", raises(FileNotFoundError("x"))),
        (SNIPPET + "NameError: name 'g' is not defined", raises(NameError("name 'g' is not defined"), "")),
        (SNIPPET + "raises KeyError", gives(4, printed=True)),
    ],
)
def test_nothing_is_made_of_an_issue_that_does_not_hold_or_says_too_little(issue: str, seen: Observation):
    judgement = judged(issue, SILENT, seen)
    assert not judgement.hypotheses and judgement.remarks


SESSION = ">>> from shop import f\n>>> f(1)\n1\n>>> f(2)\n3\n"


def test_a_session_shows_what_should_be_when_the_code_gives_something_else():
    judgement = judged(SESSION, SILENT, gives(1), gives(4))
    assert only(judgement).expected == "3"
    assert [each.target for each in choose([judgement])] == ["f(2)", "f(1)"], "what holds is kept beside it"


def test_a_session_that_shows_what_happens_is_no_wish():
    assert not judged(SESSION, SILENT, gives(1), gives(3)).hypotheses
    assert not judged("This is what I get:\n\n" + SESSION, SILENT, gives(1), gives(4)).hypotheses


def test_a_remark_beside_the_value_decides_what_should_be():
    found = only(judged(">>> f(2)\n4  # should be 3\n", gives(4)))
    assert (found.expected, found.strength) == ("3", 3)


def test_a_stated_exception_gives_a_test_for_the_value_where_one_is_stated_and_a_weak_one_elsewhere():
    error = raises(KeyError("kb"))
    strong = only(judged("f('kb') raises KeyError: 'kb'. It should return 1000.", error))
    assert (strong.check, strong.expected, strong.fails_with) == (Check.EQUAL, "1000", "KeyError")
    weak = only(judged("f('kb') raises KeyError", error))
    assert (weak.check, weak.strength, weak.target) == (Check.QUIET, 1, "f('kb')")
    other = only(judged("f('kb') raises KeyError but should raise ValueError", error))
    assert (other.check, other.expected) == (Check.RAISES, "ValueError")


def test_an_assertion_of_the_issue_is_taken_as_it_is():
    found = only(judged("```python\nassert f(2) == 3\n```", raises(AssertionError(""), "")))
    assert (found.check, found.target, found.fails_with) == (
        Check.ASSERT,
        "assert f(2) == 3",
        "AssertionError",
    )


def test_shown_output_is_shared_among_the_prints_or_compared_whole():
    code = "```python\nprint(f(1))\nprint(f(2))\n```\n"
    seen = (gives(1, printed=True), gives(4, printed=True))
    shared = only(judged(code + "Expected output:\n```\n1\n3\n```\n", *seen))
    assert (shared.check, shared.target, shared.expected) == (Check.EQUAL, "f(2)", "3")
    whole = only(judged(code + "Expected output:\n```\n1\n2\n3\n```\n", *seen))
    assert (whole.check, whole.expected) == (Check.OUTPUT, "1\n2\n3")


def test_only_the_statements_that_matter_are_kept():
    code = "```python\nimport json\ncart = Cart()\nother = Cart()\ncart.add('pear')\nprint(other)\ncart.total()  # 5\n```"
    seen = (SILENT, SILENT, SILENT, gives(None), gives("x"), gives(2))
    assert only(judged(code, *seen)).setup == ("cart = Cart()", "cart.add('pear')")


def test_missing_imports_come_from_the_one_place_that_defines_the_name():
    files = {
        "shop/cart.py": "class Cart: ...\n",
        "shop/old.py": "def f(): ...\n",
        "src/new.py": "def f(): ...\n",
        "tests/test_x.py": "def g(): ...\n",
    }
    names = Namespace([SourceText(path, text) for path, text in files.items()])
    assert names.resolve(["Cart", "math"], "") == (("from shop.cart import Cart", "import math"), ())
    assert names.resolve(["f", "g"], "") == ((), ("f", "g")), "two places, or only a test"
    assert names.resolve(["f"], "see src/new.py")[0] == ("from new import f",)


HYPOTHESES = (
    Hypothesis(Check.EQUAL, ("from shop import f",), "f(2)", "0.3", 3, "f(2) gives 1.0", "AssertionError", actual="1.0"),
    Hypothesis(Check.EQUAL, (), "f(2)", "0.3", 3, "", "AssertionError", actual="0.30000000000000004"),
    Hypothesis(Check.EQUAL, ("text = '''a\nb'''",), "f(text)", "None", 3, "", "AssertionError"),
    Hypothesis(Check.RAISES, (), "f('x')", "ValueError", 3, "", "KeyError"),
    Hypothesis(Check.TEXT, (), "f(1)", "3.00", 3, "", "AssertionError"),
    Hypothesis(Check.OUTPUT, (), "for k in 1, 2:\n    print(k)", "1\n3", 2, "", "AssertionError"),
    Hypothesis(Check.ASSERT, (), "assert f(1) == 2", "", 3, "", "AssertionError"),
    Hypothesis(Check.QUIET, (), "await f(1)", "", 1, "", "KeyError"),
    Hypothesis(Check.EQUAL, (), "f(0)", "0", 0, "", "", holds=True),
)  # fmt: skip


@pytest.mark.parametrize("framework", ["pytest", "unittest"])
def test_modules_are_valid_in_both_frameworks_and_every_test_has_its_name(framework: str):
    made = render(
        HYPOTHESES, framework=framework, title="f is off", quote="f(2) is 1.0", imports=[()] * len(HYPOTHESES)
    )
    ast.parse(made.text)
    assert len(set(made.names)) == len(HYPOTHESES) and all(f"def {name}(" in made.text for name in made.names)
    assert made.names[0] == "test_f_is_off" and made.names[-1] == "test_the_issue_example_that_is_right"
    assert "text = 'a\\nb'" in made.text, "indentation must not become part of a string"
    expected = {
        "pytest": ["assert f(2) == pytest.approx(0.3)", "assert f(2) == 0.3\n", "assert f(text) is None", "with pytest.raises(ValueError):"],
        "unittest": ["self.assertAlmostEqual(f(2), 0.3)", "self.assertEqual(f(2), 0.3)", "self.assertIsNone(f(text))", "self.assertEqual(f(1), 2)"],
    }  # fmt: skip
    for line in expected[framework]:
        assert line in made.text


def test_the_module_goes_where_the_related_tests_are_and_is_named_like_them():
    def report(*paths: str) -> TestReport:
        return TestReport(tuple(TestCase(f"{path}::t", Outcome.PASSED, path=path) for path in paths))

    mixed = report("tests/a/test_a.py", "tests/a/test_a2.py", "tests/b/test_b.py")
    texts = {"tests/b/test_b.py": "from shop.cart import Cart"}
    assert folder_of_tests(mixed, [], texts) == "tests/a"
    assert folder_of_tests(mixed, ["shop.cart"], texts) == "tests/b"
    assert module_path("x", mixed, "tests").startswith("tests/test_issue_")
    assert module_path("x", report("cart_test.py"), "").endswith("_test.py")
