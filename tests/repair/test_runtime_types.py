"""Names and attributes are ranked by the types they had while the tests ran."""

from __future__ import annotations

import ast
from textwrap import dedent

from whimbrel.app.repair.evidence import Evidence
from whimbrel.app.repair.families.attributes import Attributes
from whimbrel.app.repair.families.names import Names
from whimbrel.app.repair.scope import ModuleView
from whimbrel.app.repair.source import ModuleSource, apply_edits
from whimbrel.app.repair.values import RuntimeValues, Spot, places_of
from whimbrel.app.repo.testing.inside.describing import Table

SOURCE = dedent("""\
    def bill(price, label, count, lines):
        total = price - 1
        return total + price


    class Box:
        def __init__(self):
            self.width = 1
            self.title = ""
            self.depth = 2

        def area(self):
            return self.width - self.width
""")


class Box:
    def __init__(self) -> None:
        self.width, self.title, self.depth = 1, "x", 2


def seen(line: int, **names: object) -> RuntimeValues:
    """As if one test had passed a line once."""
    table = Table()
    scope = {name: table.add(value, True) for name, value in names.items()}
    spots = {"0": {"hits": 1, "seen": [{"s": scope, "g": {}}]}}
    return RuntimeValues([Spot.at("a.py", line)], {"t": {"table": table.rows, "spots": spots}})


def weights(family, text: str, line: int, view: ModuleView) -> dict[str, float]:
    source = view.source
    nodes = [
        n for n in ast.walk(source.tree) if getattr(n, "lineno", 0) == line and source.segment(n) == text
    ]
    found = {}
    for proposal in family.propose(nodes[-1], view):
        new = apply_edits(source.text, proposal.edits).splitlines()[line - 1].strip()
        found[new] = proposal.weight
    return found


def view(values: RuntimeValues | None, *raised: str) -> ModuleView:
    return ModuleView(ModuleSource("a.py", SOURCE.encode()), Evidence(raised=raised), None, values)


BILL = seen(3, price=3, label="x", count=2.5, lines={}, total=2)


def test_a_name_of_the_same_type_comes_before_one_of_another():
    plain = weights(Names(), "price", 3, view(None))
    typed = weights(Names(), "price", 3, view(BILL))
    assert typed["return total + count"] == plain["return total + count"]
    assert typed["return total + label"] < plain["return total + label"]
    assert typed["return total + label"] < typed["return total + count"]


def test_a_name_whose_type_cannot_stand_there_is_not_proposed():
    typed = weights(Names(), "price", 2, view(BILL))
    assert "total = count - 1" in typed
    assert "total = label - 1" not in typed and "total = lines - 1" not in typed
    assert "total = label - 1" in weights(Names(), "price", 2, view(None))


def test_after_a_type_error_the_old_type_is_no_guide():
    typed = weights(Names(), "price", 3, view(BILL, "TypeError"))
    plain = weights(Names(), "price", 3, view(None))
    assert typed["return total + label"] / plain["return total + label"] == 0.8


def test_attributes_are_ranked_in_the_same_way():
    values = seen(13, self=Box())
    typed = weights(Attributes(), "self.width", 13, view(values))
    assert "return self.width - self.depth" in typed
    assert "return self.width - self.title" not in typed  # a text cannot be subtracted
    assert view(values).type_of("self.title", 13) == "str"


def test_what_was_never_seen_has_no_type():
    assert view(None).type_of("price", 3) == ""
    assert view(BILL).type_of("nothing", 3) == ""
    assert view(BILL).type_of("price", 6) == ""
    assert view(seen(3, price=None)).type_of("price", 3) == "NoneType"


def test_the_most_suspicious_lines_are_looked_at_first():
    assert places_of({"b.py": {1: 0.2, 2: 1.0}, "a.py": {9: 0.2}}, 2) == [
        Spot.at("b.py", 2),
        Spot.at("a.py", 9),
    ]
