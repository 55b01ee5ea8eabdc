"""An issue and passing tests: the real command makes a failing test of the issue, or says why not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Ran, Repo

Fix = Callable[..., Ran]

PRICE = '''\
"""Prices."""


def cost(price, quantity):
    """Ten articles or more are a tenth cheaper."""
    if quantity > 10:
        return price * quantity * 9 // 10
    return price * quantity
'''
TEST_PRICE = """\
from price import cost


def test_few_articles_cost_the_full_price():
    assert cost(2, 9) == 18


def test_many_articles_are_cheaper():
    assert cost(2, 11) == 19
"""
ISSUE = """\
# Ten articles are not cheaper

```python
from price import cost
print(cost(2, 10))
```
This prints 20 but it should print 18.
"""


@pytest.fixture
def green(repo: Repo) -> Repo:
    """All tests pass, and ten articles cost too much all the same."""
    return repo.write(**{"price.py": PRICE, "tests__test_price.py": TEST_PRICE, "conftest.py": ""}).commit()


@pytest.mark.bwrap
def test_a_snippet_with_what_it_should_print_ends_in_a_fix_and_a_test_beside_it(green: Repo, fix: Fix):
    before = green.fingerprint()
    ran = fix(green, "--python", sys.executable, "--issue", ISSUE, sandbox="bwrap")
    result = ran.result
    assert (ran.code, result["status"]) == (0, "fixed"), ran.out + ran.err
    made = result["reproduction"]
    assert made["path"].startswith("tests/test_issue_") and result["target_tests"] == made["tests"]
    assert "assert cost(2, 10) == 18" in made["text"] and made["states_a_value"]
    assert [entry["path"] for entry in result["files"]] == ["price.py"], "the patch is the fix alone"
    assert made["path"] in result["explanation"]
    assert f"Test made of the issue: {made['path']}" in ran.out
    rows = {row["number"]: row for row in result["evidence"]}
    assert rows[made["ledger_row"]]["outcomes"][made["tests"][0]] == "failed"
    after = rows[result["tests_after"]["ledger_rows"][-1]]["outcomes"]
    assert after[made["tests"][0]] == "passed" and set(after.values()) == {"passed"}
    assert green.fingerprint() == before
    for name in ("patch.diff", "reproduction.diff"):
        green.git("apply", "--index", str(ran.output / name))
    assert green.git("write-tree").strip() != result["end_tree"], "the patch's tree is without the test"
    green.git("rm", "-q", "--cached", made["path"])
    assert green.git("write-tree").strip() == result["end_tree"]


def test_code_of_an_issue_is_not_run_without_isolation_unless_the_person_trusts_it(
    green: Repo, fix: Fix, tmp_path: Path
):
    mark = tmp_path / "mark"
    issue = f"```python\nopen({str(mark)!r}, 'w').close()\nassert False\n```\n`cost` in price.py is wrong."
    ran = fix(green, "--issue", issue)
    assert (ran.code, ran.result["status"]) == (4, "not_reproduced")
    assert not mark.exists()
    assert any("--trust" in note for note in ran.result["notes"])
    assert ran.result["located"][0]["function"] == "cost"


def test_an_issue_that_does_not_hold_is_not_reproduced_and_says_what_happened_instead(green: Repo, fix: Fix):
    ran = fix(green, "--trust", "--issue", ISSUE.replace("prints 20", "prints 19"))
    result = ran.result
    assert (ran.code, result["status"]) == (4, "not_reproduced"), ran.out
    assert result["reproduction"]["path"] is None
    assert "gives 20 here, not 19 as the issue says" in result["reproduction"]["remarks"][0]
    assert "gives 20 here" in result["message"]
    assert result["located"][0]["path"] == "price.py" and result["located"][0]["reasons"]
    assert not (ran.output / "reproduction.diff").exists()


def test_a_patch_that_only_keeps_the_exception_away_is_no_fix_when_nobody_said_what_should_come(
    repo: Repo, fix: Fix
):
    size = "UNITS = {'b': 1, 'k': 1024}\n\n\ndef factor(unit):\n    return UNITS[unit]\n"
    test = "import unittest\n\nfrom size import factor\n\n\nclass SizeTest(unittest.TestCase):\n    def test_k(self):\n        self.assertEqual(factor('k'), 1024)\n"
    repo.write(**{"size.py": size, "test_size.py": test}).commit()
    trace = (
        "Traceback (most recent call last):\n"
        '  File "report.py", line 1, in <module>\n    print(factor("m"))\n'
        '  File "size.py", line 5, in factor\n    return UNITS[unit]\n'
        "KeyError: 'm'\n"
    )
    ran = fix(repo, "--trust", "--issue", trace)
    assert ran.result["reproduction"]["states_a_value"] is False
    assert (ran.code, ran.result["status"]) == (4, "ambiguous"), ran.out
    assert ran.result["patch"] == "" and not (ran.output / "patch.diff").exists()
