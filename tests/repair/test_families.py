"""Every family makes the edit it exists for, byte for byte."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from expression_rows import EXPRESSION_ROWS
from statement_rows import STATEMENT_ROWS
from whimbrel.app.repair.evidence import Evidence
from whimbrel.app.repair.families import all_families
from whimbrel.app.repair.scope import ModuleView
from whimbrel.app.repair.source import ModuleSource, apply_edits

ROWS: list[tuple[str, str, str]] = [
    # family, fragment before, fragment after (inside a function ``f(a, b, xs, d)``)
    ("arithmetic", "return a + b", "return a - b"),
    ("arithmetic", "return a - b", "return b - a"),
    ("arithmetic", "return -a", "return a"),
    ("division", "return a / b", "return a // b"),
    ("division", "return (a + 1) // b", "return -(-(a + 1) // b)"),
    ("division", "return a * b // 9", "return (a * b + 4) // 9"),
    ("division", "return a // b", "return (a + b // 2) // b"),
    ("bitwise", "return a & b", "return a | b"),
    ("bitwise", "return a << b", "return a >> b"),
    ("comparison", "return a < b", "return a <= b"),
    ("comparison", "return a not in xs", "return a in xs"),
    ("comparison", "return 0 < a < b", "return 0 < a <= b"),
    ("identity", "return a is b", "return a == b"),
    ("identity", "return a is not None", "return a"),
    ("identity", "return 1 if a else 2", "return 1 if a is not None else 2"),
    ("identity", "return not a", "return a is None"),
    ("identity", "return a or b", "return (a if a is not None else b)"),
    ("boolean-operator", "return a and b", "return a or b"),
    ("boolean-operator", "return a or b or xs", "return a or b and xs"),
    ("negation", "return not a", "return a"),
    ("negation", "return 1 if a else 2", "return 1 if not a else 2"),
    ("constant", "return a + 1", "return a + 2"),
    ("constant", "return True", "return False"),
    ("constant", "return None", "return 0"),
    ("constant", 'return a == "x"', 'return a == ""'),
    ("constant", "return 'left'", "return 'right'"),
    ("constant", "return a * 0.5 + 7.5", "return a * 7.5 + 7.5"),
    ("bound", "return xs[a]", "return xs[a - 1]"),
    ("bound", "return xs[a:b]", "return xs[a:b + 1]"),
    ("bound", "return xs[a:b]", "return xs[a:]"),
    ("bound", "return range(a)", "return range(a + 1)"),
    ("bound", "return range(a)", "return range(1, a + 1)"),
    ("bound", "return a - 1", "return a"),
    ("bound", "return xs[0]", "return xs[-1]"),
    ("bound", "return xs[::a]", "return xs[::-a]"),
    ("name", "return a + a", "return a + b"),
    ("name", "ab = a\n    return a", "ab = a\n    return ab"),
    ("attribute", "d.low = a.low\n    return a.high", "d.low = a.high\n    return a.high"),
    ("argument", "return g(a, b)", "return g(b, a)"),
    ("argument", "return g(a, b)", "return g(a)"),
    ("argument", "return g(x=a, y=b)", "return g(x=b, y=a)"),
    ("callee", "return min(a, b)", "return max(a, b)"),
    ("callee", "return any(xs)", "return all(xs)"),
    ("callee", "xs.append(a)", "xs.extend(a)"),
    ("callee", "return a.lstrip()", "return a.rstrip()"),
    ("guard", "return a.b", "if a is None:\n        return None\n    return a.b"),
    ("guard", "a += 1\n    return a", "if a is None:\n        return None\n    a += 1\n    return a"),
    ("guard", "return tuple(a)", "if a is None:\n        return ()\n    return tuple(a)"),
    (
        "guard",
        "x, y = f(a)\n    return a.b",
        "x, y = f(a)\n    if a is None:\n        return None, None\n    return a.b",
    ),
    ("guard", "return a / b", "if not b:\n        return 0\n    return a / b"),
    ("guard", "return xs[0]", "if not xs:\n        return None\n    return xs[0]"),
    ("guard", "return d[a]", "if a not in d:\n        return None\n    return d[a]"),
    (
        "guard",
        "for x in xs:\n        x.go()",
        "for x in xs:\n        if x is None:\n            continue\n        x.go()",
    ),
    (
        "guard",
        "for x in xs:\n        x.go()",
        "if xs is None:\n        xs = []\n    for x in xs:\n        x.go()",
    ),
    ("return", "g(a)", "return g(a)"),
    ("return", "r = a", "r = a\n    return r"),
    ("return", "return a, b", "return b, a"),
    ("return", "return", "return a"),
    ("return", "for x in xs:\n        return x", "for x in xs:\n        yield x"),
    ("exception", "raise ValueError(a)", "raise TypeError(a)"),
    ("exception", "KeyError(a)", "raise KeyError(a)"),
    (
        "exception",
        "try:\n        g()\n    except KeyError:\n        pass",
        "try:\n        g()\n    except (KeyError, IndexError):\n        pass",
    ),
    ("condition", "return 1 if a and b else 2", "return 1 if a else 2"),
    ("condition", "if a > 1:\n        pass", "if b is not None and a > 1:\n        pass"),
    ("condition", "if a > 1:\n        pass", "if not a or a > 1:\n        pass"),
    ("deletion", "a += 1\n    return a", "return a"),
    ("deletion", "if a:\n        b()", "if a:\n        pass"),
    ("move", "b += 1\n    a += b", "a += b\n    b += 1"),
    ("move", "for x in xs:\n        a += x\n    b += 1", "for x in xs:\n        a += x\n        b += 1"),
    ("move", "for x in xs:\n        a += x\n        b += 1", "for x in xs:\n        a += x\n    b += 1"),
    (
        "move",
        "if a:\n        b = 1\n    if b:\n        b = 2",
        "if a:\n        b = 1\n    elif b:\n        b = 2",
    ),
    (
        "chain",
        "if a:\n        b = 1\n    elif b:\n        b = 2",
        "if a:\n        b = 1\n    if b:\n        b = 2",
    ),
    ("chain", "return a if d else b", "return b if d else a"),
    ("initial-value", "r = []", "r = {}"),
    ("initial-value", "r = 0", 'r = float("-inf")'),
    ("initial-value", "r = xs", "r = list(xs)"),
    ("initial-value", "r = [[0]] * a", "r = [[0] for _ in range(a)]"),
    ("augmented-assignment", "a += b", "a -= b"),
    ("augmented-assignment", "for x in xs:\n        a = x", "for x in xs:\n        a += x"),
    ("jump", "for x in xs:\n        break", "for x in xs:\n        continue"),
    (
        "jump",
        "for x in xs:\n        if x:\n            a = x",
        "for x in xs:\n        if x:\n            a = x\n            break",
    ),
    ("mapping", "return d[a]", "return d.get(a, 0)"),
    ("mapping", "return d.get(a)", "return d.get(a, 0)"),
    ("mapping", "return d.get(a)", "return d[a]"),
    ("mapping", "d[a].append(b)", "d.setdefault(a, []).append(b)"),
    ("mapping", "del d[a]", "d.pop(a, None)"),
    ("sorting", "return sorted(xs)", "return sorted(xs, reverse=True)"),
    ("sorting", "return sorted(x for x in xs)", "return sorted((x for x in xs), reverse=True)"),
    ("sorting", "xs.sort()", "xs.sort(key=len)"),
    ("sorting", "xs.sort(key=lambda x: x.b)", "xs.sort(key=lambda x: -x.b)"),
    ("wrapping", "return a", "return list(a)"),
    ("wrapping", "return int(a)", "return a"),
    ("wrapping", "return d.get(a)", "return d.get(a.lower())"),
]


def made(
    family: str, fragment: str, evidence: Evidence | None = None, header: str = "def f(a, b, xs, d):"
) -> set[str]:
    text = f"{header}\n    {fragment}\n"
    source = ModuleSource("m.py", text.encode())
    view = ModuleView(source, evidence)
    (chosen,) = (each for each in all_families() if each.name == family)
    return {
        apply_edits(source.text, proposal.edits)
        for node in ast.walk(source.tree)
        for proposal in chosen.propose(node, view)
    }


@pytest.mark.parametrize(("family", "before", "after"), ROWS)
def test_the_family_makes_the_edit(family: str, before: str, after: str):
    assert f"def f(a, b, xs, d):\n    {after}\n" in made(family, before)


def test_every_family_has_a_row_a_prior_and_a_sentence():
    rows = {family for family, _, _ in (*ROWS, *EXPRESSION_ROWS, *STATEMENT_ROWS)} | {
        *("shared-default", "sibling-guard"),  # which have tests of their own
        *("field-default",),
        *("ingredient", "scoping", "decorator", "class-state", "declaration"),
        *("recency", "opposite"),
    }
    for family in all_families():
        assert family.name in rows
        assert 0 < family.prior <= 1
        assert family.fault[0].islower() and not family.fault.endswith(".")


def test_families_are_found_by_lying_in_the_folder_and_are_ordered():
    names = [family.name for family in all_families()]
    assert names == sorted(names)
    assert len(names) == len(set(names)) >= 26


def test_a_shared_default_becomes_none_and_a_new_value_per_call():
    got = made("shared-default", "xs.append(1)", header="def f(xs=[]):")
    assert "def f(xs=None):\n    if xs is None:\n        xs = []\n    xs.append(1)\n" in got


def test_an_ordered_mapping_moves_its_entries_when_they_are_used():
    header = "from collections import OrderedDict\nKEPT = OrderedDict()\ndef f(a):"
    assert f"{header}\n    KEPT.move_to_end(a)\n    return KEPT[a]\n" in made(
        "recency", "return KEPT[a]", header=header
    )
    assert made("recency", "return a[0]", header=header) == set()


def test_what_another_function_takes_back_is_added():
    other = "def pay(who, sum):\n    who.debt -= sum\n"
    header = f"{other}def fine(who, days):"
    added = f"{header}\n    cost = 2 * days\n    who.debt += cost\n    return cost\n"
    assert added in made("opposite", "cost = 2 * days\n    return cost", header=header)
    both = f"{other}def back(who, sum):\n    who.debt += sum\ndef fine(who, days):"
    assert made("opposite", "cost = 2 * days\n    return cost", header=both) == set()


def test_an_expected_exception_is_raised_by_a_guard():
    evidence = Evidence(expected=("ValueError",))
    got = made("guard", "return a * b", evidence)
    assert any("if a < 0:\n        raise ValueError(" in text for text in got)
    assert not any("raise" in text for text in made("guard", "return a * b"))


def test_a_raised_exception_widens_the_handler():
    fragment = "try:\n        g()\n    except OSError:\n        pass"
    got = made("exception", fragment, Evidence(raised=("UnicodeDecodeError",)))
    assert any("except (OSError, UnicodeDecodeError):" in text for text in got)


def test_an_argument_is_passed_on_to_a_parameter_of_the_same_name():
    text = dedent("""
        def g(x, *, size=1):
            return x * size

        def f(x, size):
            return g(x)
    """)
    source = ModuleSource("m.py", text.encode())
    (family,) = (each for each in all_families() if each.name == "argument")
    got = {
        apply_edits(source.text, proposal.edits)
        for node in ast.walk(source.tree)
        for proposal in family.propose(node, ModuleView(source))
    }
    assert text.replace("return g(x)", "return g(x, size=size)") in got


def test_docstrings_are_never_edited():
    fragment = '"""Adds 1."""\n    return a + 1'
    for family in all_families():
        for text in made(family.name, fragment):
            assert '"""Adds 1."""' in text, family.name


def test_a_name_bound_only_later_is_no_candidate():
    got = made("name", "r = a\n    late = 1\n    return r")
    assert not any("r = late" in text for text in got)


def test_a_guard_of_a_sibling_is_offered_where_its_names_are_known():
    sibling = "def g(a):\n    if not callable(a):\n        a = f(a)\n    return a\n\n\n"
    other = "def h(q):\n    if q is None:\n        return q\n    return 1\n\n\n"
    got = made("sibling-guard", "return a(b)", header=f"{sibling}{other}def f(a, b, xs, d):")
    after = "def f(a, b, xs, d):\n    if not callable(a):\n        a = f(a)\n    return a(b)\n"
    assert {text[text.index("def f") :] for text in got} >= {after}
    assert not any("q is None:\n        return q\n    return a(b)" in text for text in got)


def test_the_name_a_test_compares_with_is_a_way_to_leave():
    evidence = Evidence(names=("EMPTY",))
    got = made("guard", "return xs[0]", evidence, header="EMPTY = object()\ndef f(a, b, xs, d):")
    assert any("if not xs:\n        return EMPTY\n    return xs[0]" in text for text in got)
