"""Values of variables and expressions per test, by probes in the project's own interpreter."""

from __future__ import annotations

import ast

import pytest
from whimbrel.app.repair.source import ModuleSource
from whimbrel.app.repair.values import RuntimeValues, Spot, decode, observe, types_of
from whimbrel.app.repo.testing.adapters import UnittestAdapter

SHOP = """\
\"\"\"A shop.\"\"\"
from __future__ import annotations

RATE = 3


class Line:
    def __init__(self, name, price):
        self.name = name
        self.price = price

    def __repr__(self):
        raise RuntimeError("never to be called")

    @property
    def __class__(self):
        raise RuntimeError("never to be called")

    def __getattr__(self, name):
        raise RuntimeError("never to be called")


class Slotted:
    __slots__ = ("low", "high")

    def __init__(self, low):
        self.low = low


def total(lines, limit=None):
    result = 0
    for line in lines:
        if limit is not None and result > limit:
            break
        result += line.price * RATE
    return result


def cheap(lines, limit):
    return [
        line.name
        for line in lines
        if line.price < limit
    ]


def numbers(count):
    index = 0
    while index < count:
        index += 1
    return index


def part(low):
    slots = Slotted(low)
    return slots.low


def failing(key):
    return {}[key]
"""
TESTS = """\
import pytest
from shop import Line, cheap, failing, numbers, part, total
def test_total(): assert total([Line("a", 2), Line("b", 5)], 100) == 21
def test_cheap(): assert cheap([Line("a", 2), Line("b", 5)], 3) == ["a"]
def test_numbers(): assert numbers(40) == 40
def test_part(): assert part(float("inf")) == float("inf")
def test_failing():
    with pytest.raises(KeyError):
        failing("x")
"""
FILES = {"shop.py": SHOP, "test_shop.py": TESTS}
SOURCE = ModuleSource("shop.py", SHOP.encode())


def expression(text: str) -> Spot:
    found = [n for n in ast.walk(SOURCE.tree) if isinstance(n, ast.expr) and SOURCE.segment(n) == text]
    return Spot.of("shop.py", found[0])


def line(text: str) -> Spot:
    return Spot.at("shop.py", SHOP.splitlines().index(text) + 1)


def only(values: RuntimeValues, spot: Spot, test: str) -> list[dict[str, object]]:
    return [
        {name: seen.value for name, seen in each.names.items() if seen.exact}
        for each in values.at(spot)[f"test_shop.py::{test}"]
    ]


@pytest.mark.parametrize("version", ["3.8", "3.13"])
async def test_scopes_and_values_are_seen_where_they_were_asked_for(project, interpreter, version):
    made = await project(FILES, python=interpreter(version))
    condition = expression("limit is not None and result > limit")
    clause = expression("line.price < limit")
    loop = expression("index < count")
    lookup = expression("{}[key]")
    addition = line("        result += line.price * RATE")
    function = Spot.call(
        "shop.py", next(n for n in ast.walk(SOURCE.tree) if getattr(n, "name", "") == "total")
    )
    slots = line("    return slots.low")
    spots = [condition, clause, loop, lookup, addition, function, slots]
    run_values = await observe(made.runner, ["test_shop.py"], spots)

    first, second = run_values.at(condition)["test_shop.py::test_total"]
    assert (first.result.value, second.result.value) == (False, False)
    assert (first.names["result"].value, second.names["result"].value) == (0, 6)
    assert first.names["limit"].value == 100 and first.outer["RATE"].value == 3
    item = first.names["line"]
    assert item.type == "shop.Line" and not item.exact and not item.text
    assert {name: seen.value for name, seen in item.attributes.items()} == {"name": "a", "price": 2}

    inner = run_values.at(clause)["test_shop.py::test_cheap"]
    assert [each.result.value for each in inner] == [True, False]
    assert [each.names["line"].attributes["price"].value for each in inner] == [2, 5]
    assert inner[0].names["limit"].value == 3

    seen = run_values.at(loop)["test_shop.py::test_numbers"]
    assert run_values.hits(loop, "test_shop.py::test_numbers") == 41
    assert [each.names["index"].value for each in seen] == list(range(16))

    (raised,) = run_values.at(lookup)["test_shop.py::test_failing"]
    assert raised.names["key"].value == "x" and raised.result is None

    assert [each["result"] for each in only(run_values, addition, "test_total")] == [0, 6]
    (call,) = run_values.at(function)["test_shop.py::test_total"]
    assert call.names["limit"].value == 100 and call.result.value == 21
    assert set(call.names) == {"lines", "limit"}

    (part,) = run_values.at(slots)["test_shop.py::test_part"]
    assert part.names["slots"].attributes["low"].value == float("inf")
    assert "high" not in part.names["slots"].attributes
    assert types_of(run_values.names("shop.py", 30, 37)["line"]) == ("shop.Line",)


async def test_the_run_is_a_fresh_one_with_its_row_and_the_same_outcomes(project):
    made = await project(FILES)
    values = await observe(made.runner, ["test_shop.py"], [Spot.at("shop.py", 31), Spot.at("gone.py", 1)])
    assert values.spots == (Spot.at("shop.py", 31),)
    (row,) = made.ledger.rows
    assert row.purpose == "values" and row.fresh_process
    assert set(row.outcomes.values()) == {"passed"} and len(row.outcomes) == 5
    assert made.leftovers() == []


async def test_unittest_runs_are_observed_too(project):
    tests = """
        import unittest
        from shop import part
        class T(unittest.TestCase):
            def test_part(self): self.assertEqual(part(2), 2)
    """
    made = await project({"shop.py": SHOP, "test_shop.py": tests}, adapter=UnittestAdapter())
    spot = line("    slots = Slotted(low)")
    values = await observe(made.runner, ["test_shop.T.test_part"], [spot])
    assert [each.names["low"].value for each in values.at(spot)["test_shop.T.test_part"]] == [2]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -7,
        2.5,
        float("-inf"),
        "a'b\n",
        b"\x00",
        [],
        (1,),
        [(1, "x"), None],
        {"k": [1]},
        set(),
        {3},
        frozenset({1}),
        frozenset(),
        range(2, 9),
    ],
)
def test_a_value_comes_back_as_it_was_written_down(value):
    from whimbrel.app.repo.testing.inside.describing import Table

    table = Table()
    table.add(value, True)
    assert decode(table.rows[0]["v"]) == (True, value)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "open('x')", "[x for x in ()]", "9" * 5000, "set(1)", "-'a'"]
)
def test_nothing_but_literals_is_read_back(text):
    assert decode(text) == (False, None)


def test_what_is_too_large_is_named_by_type_and_length_only():
    from whimbrel.app.repo.testing.inside.describing import Table

    table = Table()
    for each in (list(range(1000)), "x" * 1000, 10**200, [[[[1]]]]):
        table.add(each, True)
    assert [("v" in row, row["t"], row.get("n")) for row in table.rows] == [
        (False, "list", 1000),
        (False, "str", 1000),
        (False, "int", None),
        (False, "list", 1),
    ]
    assert len(table.rows[1]["r"]) < 100
