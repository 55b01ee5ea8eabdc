"""Issues of several styles become failing tests in a real project, or say why they cannot."""

from __future__ import annotations

from pathlib import Path

from project import opened
from whimbrel.app.repair.issue.reproduce import remove_test, reproduce_issue
from whimbrel.app.repo.testing.adapters import UnittestAdapter

FILES = {
    "shop.py": """\
import asyncio


def load(path):
    rows = {}
    with open(path) as file:
        for line in file:
            name, _, price = line.strip().partition(",")
            rows[name] = int(price)
    return rows


def slugify(text):
    return text.strip().lower().replace(" ", "-")


async def fetch(number):
    await asyncio.sleep(0)
    return number + number


def mean(values):
    return sum(values) / len(values)
""",
    "tests/test_shop.py": """\
from shop import slugify


def test_blanks_become_dashes():
    assert slugify("A b") == "a-b"
""",
}

UNITTEST = """\
import unittest

from shop import slugify


class ShopTest(unittest.TestCase):
    def test_blanks_become_dashes(self):
        self.assertEqual(slugify("A b"), "a-b")
"""
FILE_ISSUE = """\
load() fails on empty lines.

prices.csv:
```
apple,3

pear,2
```
```python
from shop import load
print(load("prices.csv"))
```
raises `ValueError: invalid literal for int() with base 10: ''`, expected `{'apple': 3, 'pear': 2}`.
"""
CI_ISSUE = """\
2024-05-01T10:00:00.1234567Z ___________________________ test_double_blank ____________________________
2024-05-01T10:00:00.1234567Z     def test_double_blank():
2024-05-01T10:00:00.1234567Z >       assert slugify("A  b") == "a-b"
2024-05-01T10:00:00.1234567Z E       AssertionError: assert 'a--b' == 'a-b'
2024-05-01T10:00:00.1234567Z tests/test_slug.py:5: AssertionError
"""
OWN_TEST = """\
This test should pass:
```python
from shop import slugify

def test_many_blanks():
    assert slugify("a   b") == "a-b"
```
"""
ASYNC_ISSUE = """\
```python
from shop import fetch
await fetch(3)  # gives 6, should be 9
```
"""
TRACE = """\
Traceback (most recent call last):
  File "C:\\jobs\\report.py", line 3, in <module>
    print(mean([]))
  File "C:\\lib\\shop.py", line 24, in mean
    return sum(values) / len(values)
ZeroDivisionError: division by zero
"""


CASES = (
    (FILE_ISSUE, "assert load('prices.csv') == {'apple': 3, 'pear': 2}", False),
    (CI_ISSUE, 'assert slugify("A  b") == "a-b"', False),
    (OWN_TEST, 'assert slugify("a   b") == "a-b"', False),
    (ASYNC_ISSUE, "assert (await fetch(3)) == 9", False),
    (TRACE, "mean([])", True),
)


async def test_each_style_of_issue_becomes_a_test_among_the_projects_tests(tmp_path: Path):
    async with opened(tmp_path, FILES) as context:
        before = (await context.tests.run(purpose="baseline")).report
        for issue, line, weak in CASES:
            attempt = await reproduce_issue(context.workspace, context.tests, issue, before)
            assert attempt.test is not None, attempt.remarks
            assert line in attempt.test.text and attempt.test.weak == weak
            assert attempt.test.path.startswith("tests/test_issue_")
            changed = await context.workspace.changed_files()
            assert [(each.path, each.status) for each in changed] == [(attempt.test.path, "A")]
            remove_test(context.workspace, attempt.test)


async def test_projects_with_unittest_get_a_unittest(tmp_path: Path):
    async with opened(tmp_path, {"shop.py": FILES["shop.py"], "test_shop.py": UNITTEST}) as context:
        context.tests.adapter = UnittestAdapter()
        before = (await context.tests.run(purpose="baseline")).report
        attempt = await reproduce_issue(context.workspace, context.tests, CI_ISSUE, before)
        assert attempt.test is not None, attempt.remarks
        assert attempt.test.targets[0].startswith(f"{Path(attempt.test.path).stem}.IssueTest.test_")
        assert """self.assertEqual(slugify('A  b'), 'a-b')""" in attempt.test.text


REASONS = {
    "There is something wrong in shop.py:5": "holds no code",
    "`basket.total()` returns 3 instead of 4": "basket is defined nowhere",
    "```python\nfrom shop import load\nprint(load('gone.csv'))\n```\nraises ValueError": "the issue does not say",
    "```python\nfrom shop import Load\nLoad()\n```\nraises ImportError": "the snippet itself does not fit here",
    "```python\nfrom shop import slugify\ndef test_x():\n    assert slugify('A') == 'a'\n```": "it passes",
    "`slugify('A')` returns `A` instead of `a`": "gives 'a' here, not A as the issue says",
}


async def test_what_cannot_be_run_or_does_not_hold_leaves_nothing_behind(tmp_path: Path):
    async with opened(tmp_path, FILES) as context:
        before = (await context.tests.run(purpose="baseline")).report
        for issue, reason in REASONS.items():
            attempt = await reproduce_issue(context.workspace, context.tests, issue, before)
            assert attempt.test is None and reason in "\n".join(attempt.remarks), (issue, attempt)
        assert await context.workspace.changed_files() == ()
