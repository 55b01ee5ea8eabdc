"""What is read out of issues as people write them."""

from __future__ import annotations

import pytest
from whimbrel.app.repair.issue.blocks import MAX_CHARS, Kind, split_issue
from whimbrel.app.repair.issue.claims import Role, label_role, read_comment, read_sentence
from whimbrel.app.repair.issue.reading import read_issue_text

MARKDOWN = """\
# total() ignores the quantity

<!-- Please describe the problem. Expected: nothing here -->
`Cart.total` is wrong since 2.1, see shop/cart.py:12 and `shop/price.py`.

```python
from shop.cart import Cart
cart = Cart()
print(cart.total())
```

Actual output:
```
7
```

### Expected behaviour

It should print 12.

>>> from shop import VERSION
>>> VERSION
'2.1'

Traceback (most recent call last):
  File "/home/ann/shop/cart.py", line 12, in total
    raise PriceError("no price for apples")
shop.price.PriceError: no price for apples
"""


def test_a_markdown_issue_is_taken_apart():
    issue = read_issue_text(MARKDOWN, ["shop/cart.py", "shop/price.py"])
    assert issue.title == "total() ignores the quantity"
    assert [block.kind for block in issue.blocks] == [
        Kind.PYTHON, Kind.OUTPUT, Kind.SESSION, Kind.TRACEBACK,
    ]  # fmt: skip
    assert issue.blocks[0].line == 7
    assert label_role(issue.blocks[1].lead) is Role.ACTUAL
    assert "Cart.total" in issue.spans
    assert [(seen.path, seen.line) for seen in issue.paths][:2] == [
        ("shop/cart.py", 12),
        ("shop/price.py", None),
    ]
    assert issue.traces[0].frames[-1].path == "shop/cart.py"
    assert ("shop.price.PriceError", "no price for apples") in {
        (error.exception, error.message) for error in issue.errors
    }
    assert [(claim.role, claim.value) for claim in issue.claims] == [(Role.EXPECTED, "12")]


def test_windows_line_ends_and_quoted_fences_change_nothing():
    quoted = "".join(f"> {line}\n" for line in ["```py", "f(1)", "```"])
    plain, windows = split_issue(f"text\n\n{quoted}"), split_issue(f"text\n\n{quoted}".replace("\n", "\r\n"))
    assert plain.blocks == windows.blocks
    assert [(block.kind, block.text) for block in plain.blocks] == [(Kind.PYTHON, "f(1)")]


def test_code_pasted_without_any_mark_is_found_and_words_are_not_taken_for_code():
    split = split_issue(
        "It breaks.\n\nfrom shop import total\nprint(total([1]))\nprints 2\n\nclass of bugs: many\n"
    )
    assert [(block.kind, block.text) for block in split.blocks] == [
        (Kind.PYTHON, "from shop import total\nprint(total([1]))")
    ]
    assert "prints 2" in split.prose and "class of bugs: many" in split.prose


def test_a_ci_log_gives_its_traces_without_the_runners_prefixes():
    stamp = "2024-05-01T10:00:00.1234567Z "
    log = [
        "##[group]Run pytest",
        "Traceback (most recent call last):",
        '  File "/home/runner/work/shop/shop/shop/cart.py", line 4, in total',
        "    return sum(prices)",
        "TypeError: unsupported operand",
    ]
    issue = read_issue_text("\n".join(stamp + line for line in log), ["shop/cart.py"])
    assert issue.traces[0].exception == "TypeError"
    assert issue.traces[0].frames[0].path == "shop/cart.py"


@pytest.mark.parametrize(
    "text", ["", "\0\0", "```", ">>> ", "`" * 5000, "(" * 3000, "Expected:\n", "# \n- [ ] \n|a|b|"]
)
def test_odd_texts_are_read_without_a_word(text: str):
    read_issue_text(text)


def test_a_huge_text_is_read_at_its_head_and_tail():
    text = "first `Cart.total`\n" + "noise " * (MAX_CHARS // 3) + "\nKeyError: 'last'\n"
    issue = read_issue_text(text)
    assert issue.split.shortened
    assert "Cart.total" in issue.spans and any(error.message == "'last'" for error in issue.errors)


E, A, U = Role.EXPECTED, Role.ACTUAL, Role.UNKNOWN


@pytest.mark.parametrize(
    ("sentence", "claims"),
    [
        ("`total([1, 2])` returns 4 instead of 3.", [(A, "4", "total([1, 2])"), (E, "3", "total([1, 2])")]),
        ("total([1, 2]) should return 3 but returns 4", [(E, "3", "total([1, 2])"), (A, "4", "total([1, 2])")]),
        ("Expected 3, got 4", [(E, "3", ""), (A, "4", "")]),
        ("4 instead of 3", [(A, "4", ""), (E, "3", "")]),
        ("It should not raise KeyError", [(A, "KeyError", "")]),
        ("f(1) doesn't return 3", [(E, "3", "f(1)")]),
        ('slugify("A  B") gives “a--b”, expected “a-b”', [(A, '"a--b"', 'slugify("A  B")'), (E, '"a-b"', 'slugify("A  B")')]),
        ("parse('x') raises KeyError but should raise ValueError", [(A, "KeyError", "parse('x')"), (E, "ValueError", "parse('x')")]),
        ("Returns an empty list where [1] is expected", [(A, "[]", ""), (E, "[1]", "")]),
        ("sollte 3 ergeben, liefert aber 4", [(E, "3", ""), (A, "4", "")]),
        ("total(x) 应该返回 3，实际返回 4", [(E, "3", "total(x)"), (A, "4", "total(x)")]),
        ("This was a long day and nothing works.", []),
        ("total(1).add(2 should be 3", [(E, "3", "total(1)")]),
    ],
)  # fmt: skip
def test_sentences_say_what_is_and_what_should_be(sentence: str, claims: list[tuple[Role, str, str]]):
    assert [(claim.role, claim.value, claim.subject) for claim in read_sentence(sentence)] == claims


@pytest.mark.parametrize(
    ("comment", "claims"),
    [
        ("# -> 3", [(U, "3")]),
        ("# 4 (expected 3)", [(U, "4"), (E, "3")]),
        ("# prints 4, should be 3", [(A, "4"), (E, "3")]),
        ("# KeyError: 'kb'", [(U, "KeyError")]),
        ("# the usual case", []),
        ("# 2 items here", []),
    ],
)
def test_comments_beside_code_are_read_in_the_same_way(comment: str, claims: list[tuple[Role, str]]):
    assert [(claim.role, claim.value) for claim in read_comment(comment)] == claims


@pytest.mark.parametrize(
    ("lead", "role"),
    [
        ("### Expected behaviour", E),
        ("Actual:", A),
        ("Output:", A),
        ("but this is what I get", A),
        ("According to the README", E),
        ("Steps to reproduce", None),
    ],
)
def test_what_stands_above_a_block_says_what_it_shows(lead: str, role: Role | None):
    assert label_role(lead) is role
