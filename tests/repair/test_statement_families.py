"""The families of statements and control flow make the edits they exist for, byte for byte."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from statement_rows import STATEMENT_ROWS
from test_families import made
from whimbrel.app.repair.evidence import Evidence
from whimbrel.app.repair.families import all_families
from whimbrel.app.repair.scope import ModuleView
from whimbrel.app.repair.source import ModuleSource, apply_edits


def made_of(family: str, text: str, evidence: Evidence | None = None) -> set[str]:
    """What a family makes of a whole module."""
    source = ModuleSource("m.py", dedent(text).lstrip().encode())
    (chosen,) = (each for each in all_families() if each.name == family)
    view = ModuleView(source, evidence)
    return {
        apply_edits(source.text, proposal.edits)
        for node in ast.walk(source.tree)
        for proposal in chosen.propose(node, view)
    }


def offers(family: str, text: str, old: str, new: str, evidence: Evidence | None = None) -> bool:
    """Whether one of a family's edits of a module replaces ``old`` by ``new``."""
    plain = dedent(text).lstrip()
    assert plain.count(old) == 1
    return plain.replace(old, new) in made_of(family, text, evidence)


@pytest.mark.parametrize(("family", "before", "after"), STATEMENT_ROWS)
def test_the_family_makes_the_edit(family: str, before: str, after: str):
    assert f"def f(a, b, xs, d):\n    {after}\n" in made(family, before)


ROOM = """
    class Room:
        def __init__(self, seats, closed=False):
            self.seats = seats
            self.closed = closed


    def find(rooms, people):
        for room in rooms:
            if room.seats >= people:
                return room
"""


def test_a_flag_of_the_class_that_a_value_belongs_to_strengthens_a_condition():
    old = "room.seats >= people"
    assert offers("clause", ROOM, old, f"{old} and not room.closed")


def test_a_flag_of_the_class_is_a_special_case_of_its_own():
    old = "        if room.seats"
    assert offers("special-case", ROOM, old, f"        if room.closed:\n            continue\n{old}")


TAGS = """
    class Tags:
        def put(self, name, value):
            name = name.strip().lower()
            self.known[name] = value

        def get(self, key, default):
            return self.known.get(key, default)
"""


def test_a_step_of_a_sibling_is_inserted_in_the_names_known_here():
    old = "        return self.known"
    assert offers("ingredient", TAGS, old, f"        key = key.strip().lower()\n{old}")


def test_what_is_taken_out_is_taken_off_a_running_total_as_well():
    text = """
        class Ledger:
            def put(self, key, amount):
                self.entries[key] = amount
                self.total += amount

            def remove(self, key):
                del self.entries[key]

            def last(self):
                self.order.pop()
    """
    old = "        del self.entries[key]"
    assert offers("symmetry", text, old, f"        self.total -= self.entries[key]\n{old}")
    assert offers("symmetry", text, "self.order.pop()", "self.total -= self.order.pop()")


SCOPES = """
    level = 0


    class Base:
        def __init__(self, name):
            self.name = name


    class Timer(Base):
        def __init__(self, name, limit):
            elapsed = limit

        def tick(self):
            self.elapsed -= 1
            level = 1


    def counter(start):
        value = start

        def step():
            value += 1
            return value

        return step
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        elapsed = limit", "        self.elapsed = limit"),
        ("        elapsed = limit", "        super().__init__(name)\n        elapsed = limit"),
        ("        value += 1", "        nonlocal value\n        value += 1"),
        ("        self.elapsed -= 1", "        global level\n        self.elapsed -= 1"),
    ],
)
def test_a_name_is_set_in_the_right_scope(old: str, new: str):
    assert offers("scoping", SCOPES, old, new)


BINDINGS = """
    def logged(function):
        def wrapper(*args):
            return function(*args)

        return wrapper


    class Box:
        def area(self):
            return 2

        def check(code):
            return code

        def make(cls, code):
            return cls()

        @staticmethod
        def grow(self):
            self.size += 1

        def larger(self, other):
            return self.area > other.area
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    def area", "    @property\n    def area"),
        ("    def check", "    @staticmethod\n    def check"),
        ("    def make", "    @classmethod\n    def make"),
        ("    @staticmethod\n", ""),
    ],
)
def test_a_method_is_bound_in_the_right_way(old: str, new: str):
    assert offers("decorator", BINDINGS, old, new)


def test_a_wrapper_keeps_the_name_of_what_it_wraps_and_the_import_comes_with_it():
    plain = dedent(BINDINGS).lstrip()
    wanted = "import functools\n" + plain.replace(
        "    def wrapper", "    @functools.wraps(function)\n    def wrapper"
    )
    assert wanted in made_of("decorator", BINDINGS)


def test_an_error_is_caught_only_when_a_test_ended_by_it():
    text = """
        def numbers(texts):
            found = []
            for text in texts:
                found.append(int(text))
            return found
    """
    old = "        found.append(int(text))\n"
    new = "        try:\n            found.append(int(text))\n        except ValueError:\n            continue\n"
    assert offers("handler", text, old, new, Evidence(raised=("ValueError",)))
    assert not offers("handler", text, old, new)


TEAM = """
    class Team:
        members = []

        def __init__(self, name, town):
            self.name = name
            self.town = town

        def __eq__(self, other):
            return self.name == other.name

        def __hash__(self):
            return hash((self.name, self.town))
"""


def test_a_list_of_the_class_becomes_one_of_each_object():
    plain = dedent(TEAM).lstrip()
    wanted = plain.replace("    members = []\n", "").replace(
        "        self.name = name", "        self.members = []\n        self.name = name"
    )
    assert wanted in made_of("class-state", TEAM)


def test_equality_and_hash_look_at_the_same_fields():
    old = "return self.name == other.name"
    assert offers("class-state", TEAM, old, f"{old} and self.town == other.town")
    assert offers("class-state", TEAM, "hash((self.name, self.town))", "hash(self.name)")


def test_generators_are_drained_and_coroutines_awaited():
    text = """
        def walk(tree):
            for each in tree:
                walk(each)
                yield each


        async def load(name):
            return name


        async def title(name):
            found = load(name)
            return found
    """
    assert offers("discarded", text, "        walk(each)", "        yield from walk(each)")
    assert offers("discarded", text, "= load(name)", "= await load(name)")


def test_a_dropped_answer_decides_about_the_next_statement():
    text = """
        def free(day):
            return day in (6, 7)


        def count(days):
            found = 0
            for day in days:
                free(day)
                found += 1
            return found
    """
    old = "        free(day)\n        found += 1"
    assert offers("discarded", text, old, "        if free(day):\n            found += 1")


def test_ways_to_leave_follow_the_docstring():
    text = '''
        def mean(values):
            """The mean, -1 when there is nothing to add up."""
            return sum(values) / len(values)
    '''
    old = "    return sum"
    assert offers("guard", text, old, f"    if not values:\n        return -1\n{old}")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@dataclass\nclass A:\n    x: int\n", "@dataclass(frozen=True)\nclass A:\n    x: int\n"),
        ("@dataclass()\nclass A:\n    x: int\n", "@dataclass(order=True)\nclass A:\n    x: int\n"),
        (
            "@dataclass(frozen=True)\nclass A:\n    x: int\n",
            "@dataclass(frozen=False)\nclass A:\n    x: int\n",
        ),
        (
            "@dataclass(frozen=True)\nclass A:\n    x: int\n",
            "@dataclass(frozen=True, order=True)\nclass A:\n    x: int\n",
        ),
        (
            "class A:\n    def __eq__(self, other):\n        return self.x == other.x\n",
            "class A:\n    def __eq__(self, other):\n        return self.x == other.x\n\n"
            "    def __hash__(self):\n        return hash(self.x)\n",
        ),
        (
            "from functools import total_ordering\n\nclass A:\n    def __lt__(self, other):\n        return True\n",
            "from functools import total_ordering\n\n@total_ordering\nclass A:\n    def __lt__(self, other):\n"
            "        return True\n",
        ),
        (
            "from enum import Enum, IntEnum\n\nclass A(Enum):\n    X = 1\n",
            "from enum import Enum, IntEnum\n\nclass A(IntEnum):\n    X = 1\n",
        ),
    ],
)
def test_declarations_of_classes(before: str, after: str):
    assert after in made_of("declaration", before)


def test_an_exception_of_the_project_is_known_whatever_its_name():
    text = """
        class Refused(Exception):
            pass

        def f(a):
            raise RuntimeError(a)
    """
    assert offers("exception", text, "RuntimeError", "Refused")


def test_a_value_is_kept_within_what_another_function_says():
    text = """
        def length(year, month):
            return 30

        def last(year, month, day):
            return (year, month, day)
    """
    assert offers("limit", text, "(year, month, day)\n", "(year, month, min(day, length(year, month)))\n")
