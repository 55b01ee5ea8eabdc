"""Places named from an issue's text alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from whimbrel.app.repair.issue.rank import IssuePlace, rank_issue

FILES = {
    "shop/__init__.py": "",
    "shop/cart.py": '''\
"""The shopping cart."""

from .price import price_of


class Cart:
    def __init__(self):
        self.items = []

    def add(self, name, quantity=1):
        """Puts an article into the cart."""
        self.items.append((name, quantity))

    def grand_total(self):
        total = 0
        for name, quantity in self.items:
            total += price_of(name)
        return total
''',
    "shop/price.py": '''\
"""Prices of articles."""

PRICES = {"apple": 3}


def price_of(name):
    if name not in PRICES:
        raise LookupError(f"no price for {name} in the catalogue")
    return PRICES[name]


def discount(price, percent):
    """Price after a rebate."""
    return price - price * percent / 100
''',
    "shop/export.js": "function exportLedger(rows) {\n  return rows.join(';');\n}\n",
    "tests/test_cart.py": '''\
from shop.cart import Cart


def test_rebate_is_taken_off():
    from shop.price import discount
    assert discount(10, 10) == 9


def test_total():
    cart = Cart()
    assert cart.grand_total() == 0
''',
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def best(project: Path, text: str) -> IssuePlace:
    places = rank_issue(project, text)
    assert places and places[0].score == 1.0
    assert not any(place.path.startswith("tests/") for place in places)
    return places[0]


@pytest.mark.parametrize(
    ("issue", "path", "function"),
    [
        ("`Cart.grand_total` is wrong", "shop/cart.py", "Cart.grand_total"),
        (
            "the grand total of a cart forgets how often an article was added",
            "shop/cart.py",
            "Cart.grand_total",
        ),
        ("Error: no price for pear in the catalogue", "shop/price.py", "price_of"),
        ("tests/test_cart.py::test_rebate_is_taken_off fails on 3.13", "shop/price.py", "discount"),
        ("something about a rebate", "shop/price.py", "discount"),
        ("the ledger export joins with the wrong character", "shop/export.js", "exportLedger"),
        ("see shop/price.py:14 please", "shop/price.py", "discount"),
        (
            "```python\nfrom shop.cart import Cart\nc = Cart()\nc.add('apple')\n```",
            "shop/cart.py",
            "Cart.add",
        ),
    ],
)
def test_each_kind_of_hint_finds_its_function(project: Path, issue: str, path: str, function: str):
    place = best(project, issue)
    assert (place.path, place.function) == (path, function), place
    assert place.reasons


def test_a_traceback_names_the_line_and_the_way_to_it(project: Path):
    text = (
        "Traceback (most recent call last):\n"
        '  File "C:\\work\\shop\\cart.py", line 17, in grand_total\n    total += price_of(name)\n'
        '  File "C:\\work\\shop\\price.py", line 8, in price_of\n    raise LookupError(name)\n'
        "LookupError: pear\n"
    )
    places = rank_issue(project, text)
    assert [(place.path, place.line) for place in places[:2]] == [("shop/price.py", 8), ("shop/cart.py", 17)]
    assert "raised here in the issue's traceback" in places[0].reasons[0]


def test_what_a_named_function_calls_is_suspicious_too(project: Path):
    places = {place.function: place for place in rank_issue(project, "`grand_total()` is off")}
    assert "called by grand_total, which the issue points at" in places["price_of"].reasons


def test_the_same_issue_gives_the_same_places_and_words_without_meaning_give_none(project: Path):
    text = "the grand total forgets the quantity of each article, or the rebate"
    assert rank_issue(project, text) == rank_issue(project, text)
    assert rank_issue(project, "这里不对") == ()
    assert rank_issue(project, "") == ()
