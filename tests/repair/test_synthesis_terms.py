"""Enumeration of small expressions: what is built, what is pruned, and how it is written."""

from __future__ import annotations

import ast

import pytest
from whimbrel.app.repair.scope import ModuleView
from whimbrel.app.repair.source import ModuleSource, apply_edits
from whimbrel.app.repair.synthesis import forcing
from whimbrel.app.repair.synthesis.calls import calls
from whimbrel.app.repair.synthesis.contexts import Context, holes, ingredients
from whimbrel.app.repair.synthesis.distance import Distance, tokens
from whimbrel.app.repair.synthesis.enumeration import Enumeration
from whimbrel.app.repair.synthesis.expected import parts_of
from whimbrel.app.repair.synthesis.samples import Row, constant
from whimbrel.app.repair.synthesis.search import Budget
from whimbrel.app.repair.synthesis.sites import CONDITION, VALUE, Site, find_sites, level_of, needed_level
from whimbrel.app.repair.synthesis.terms import ATOM, Opaque, leaf
from whimbrel.app.repair.values import Seen, Snapshot


def texts(*leaves, **limits) -> dict[str, tuple[object, ...]]:
    return {term.text: term.values for term in Enumeration(leaves, **limits)}


def test_arithmetic_and_comparisons_of_names_are_built_with_their_values():
    found = texts(leaf("a", [3, 8]), leaf("b", [5, 2]), constant(1, 2, 1.0))
    assert found["a + b"] == (8, 10)
    assert found["b - a"] == (2, -6)
    assert found["a <= b"] == (True, False)
    assert found["(b - 1) * a"] == (12, 8)
    assert found["b > 1"] == (True, True)


def test_names_of_different_kinds_are_not_mixed():
    found = texts(leaf("n", [3, 8]), leaf("s", ["x", "yy"]))
    assert "n + s" not in found and "n < s" not in found and "s == n" not in found
    assert found["len(s)"] == (1, 2)


def test_what_raises_in_any_sample_is_dropped():
    found = texts(leaf("xs", [[1, 2], [5]]), leaf("i", [1, 0]), leaf("d", [{1: 2}, {9: 9}]))
    assert found["xs[i]"] == (2, 5)
    assert found["xs[0]"] == (1, 5)
    assert "d[i]" not in found
    assert "xs[i + 1]" not in found
    assert found["i in d"] == (True, False)


def test_missing_values_are_asked_for_only_where_some_are_missing():
    found = texts(leaf("x", [None, 4]), leaf("y", [1, 9]))
    assert found["x is None"] == (True, False)
    assert "y is None" not in found and "x + y" not in found
    assert found["x or y"] == (1, 4)


def test_objects_offer_their_length_and_nothing_that_runs_code():
    box = Opaque(Seen("shop.Box", length=None))
    sized = Opaque(Seen("list", length=900))
    found = texts(leaf("box", [box]), leaf("many", [sized]))
    assert found["len(many)"] == (900,)
    assert not any("box" in text and text != "box" for text in found)


def test_an_operation_without_effect_is_no_new_term():
    found = texts(leaf("a", [3, 8]), leaf("s", ["x", "y"]))
    assert "abs(a)" not in found and "s.lower()" not in found and "s.strip()" not in found
    assert "-a" in found and "s.upper()" in found


def test_nothing_is_built_upon_terms_that_agree_with_another_in_all_samples():
    many = list(range(2, 14))
    found = texts(leaf("a", many), leaf("same", many, cost=1.5), leaf("b", many[::-1]))
    assert "same" in found
    assert "a - b" in found and "same - b" not in found


def test_the_number_of_operations_is_bounded_and_the_order_is_always_the_same():
    leaves = [leaf(f"v{n}", [n, n * n, 7 - n]) for n in range(12)]
    first, again = list(Enumeration(leaves, most=3000)), list(Enumeration(leaves, most=3000))
    assert [term.text for term in first] == [term.text for term in again]
    assert len(first) < 3200
    sizes = [term.size for term in first]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_no_term_is_larger_than_asked_for(size):
    leaves = [leaf("a", [1, 5]), leaf("b", [2, 3])]
    assert max(term.size for term in Enumeration(leaves, max_size=size)) <= size


def test_the_old_expression_may_be_chosen_under_a_condition():
    old = leaf("total / count", [2.5, 4.0], level=13, own=True)
    found = texts(old, leaf("free", [True, False]), leaf("least", [9.0, 1.0]))
    assert found["least if free else total / count"] == (9.0, 4.0)


def test_every_text_means_what_its_values_say():
    scope = {"a": 7, "b": 3, "xs": [4, 5, 6], "s": "Ab "}
    leaves = [leaf(name, [value]) for name, value in scope.items()] + [
        constant(1, 1, 1.0),
        constant(-1, 1, 1.7),
    ]
    count = 0
    for term in Enumeration(leaves, most=4000):
        assert eval(term.text, {}, scope) == term.values[0], term.text
        assert term.level <= level_of(ast.parse(term.text, mode="eval").body) or term.constant, term.text
        count += 1
    assert count > 500


SOURCE = """\
def f(a, b, xs, free):
    if a < b and free:
        return a * (b - 1) // 2
    total = max(0, len(xs) - a)
    return not total
"""


def site(text: str, kind: str = VALUE) -> Site:
    source = ModuleSource("m.py", SOURCE.encode())
    node = next(n for n in ast.walk(source.tree) if isinstance(n, ast.expr) and source.segment(n) == text)
    return Site(source, node, kind, 1.0, "condition" if kind == CONDITION else "returned value")


def row(**names: object) -> Row:
    seen = {name: Seen(type(value).__name__, True, value, repr(value)) for name, value in names.items()}
    return Row("t", 0, Snapshot(seen), None, (None,) * 6)


def test_a_part_is_replaced_and_the_whole_is_computed():
    whole = site("a * (b - 1) // 2")
    parts = {whole.source.segment(hole): hole for hole in holes(whole)}
    assert {"a", "b", "b - 1", "a * (b - 1)", "1", "2"} <= parts.keys()
    assert Context(whole, parts["b"]).value(row(a=3, b=5), 9) == 12
    assert Context(whole, parts["a * (b - 1)"]).value(row(a=3, b=5), 10) == 5


def test_conditions_and_calls_of_builtins_are_computed_too():
    condition, call = site("a < b and free", CONDITION), site("max(0, len(xs) - a)")
    free = next(hole for hole in holes(condition) if condition.source.segment(hole) == "free")
    assert Context(condition, free).value(row(a=1, b=2, free=False), True) is True
    assert Context(condition, free).value(row(a=3, b=2, free=False), True) is False
    name = next(hole for hole in holes(call) if call.source.segment(hole) == "a")
    assert Context(call, name).value(row(a=1, xs=[1, 2, 3]), 2) == 1


def test_text_is_put_in_parentheses_where_its_place_binds_tighter():
    whole = site("a * (b - 1) // 2")
    a = next(hole for hole in holes(whole) if whole.source.segment(hole) == "a")
    inner = next(hole for hole in holes(whole) if whole.source.segment(hole) == "b - 1")
    assert leaf("x + y", [1], level=12).within(needed_level(whole.source, a)) == "(x + y)"
    assert leaf("x + y", [1], level=12).within(needed_level(whole.source, inner)) == "x + y"
    assert leaf("x", [1], level=ATOM).within(needed_level(whole.source, a)) == "x"


def test_conditions_returned_values_and_arguments_are_sites():
    source = ModuleSource("m.py", SOURCE.encode())
    lines = {"m.py": dict.fromkeys(range(1, 6), 1.0)}
    found = {each.text: each.kind for each in find_sites({"m.py": source}, lines, 50)}
    assert found["a < b and free"] == CONDITION and found["not total"] == CONDITION
    assert found["a * (b - 1) // 2"] == VALUE and found["max(0, len(xs) - a)"] == VALUE
    assert found["len(xs) - a"] == VALUE
    assert find_sites({"m.py": source}, {"m.py": {2: 0.01}}, 50) == []


def run_forced(edits_of, calls: int) -> list[object]:
    """Results of ``f(1, 2, [], True)`` under an experiment, evaluated several times in one process."""
    import builtins

    source = ModuleSource("m.py", b"def f(a, b):\n    return a < b\n")
    node = source.tree.body[0].body[0].value  # type: ignore[attr-defined]
    scope: dict[str, object] = {}
    exec(apply_edits(source.text, edits_of(source, node)), scope)
    try:
        return [scope["f"](1, 2) for _ in range(calls)]  # type: ignore[operator]
    finally:
        vars(builtins).pop("_whimbrel_evaluations", None)


def test_outcomes_are_forced_at_the_chosen_evaluations_only():
    assert run_forced(lambda s, n: forcing.always(s, n, False), 3) == [False] * 3
    assert run_forced(lambda s, n: forcing.turned(s, n, (1,)), 3) == [True, False, True]
    assert run_forced(lambda s, n: forcing.given(s, n, "'x'", (0, 2), raises=False), 3) == ["x", True, "x"]
    assert run_forced(lambda s, n: forcing.given(s, n, "a + b", (2,), raises=True), 3) == [True, True, 3]


def test_a_forgotten_parameter_is_likelier_than_one_in_use():
    whole = site("max(0, len(xs) - a)")
    source = ModuleSource("m.py", SOURCE.replace("(a, b, xs, free)", "(a, b, xs, free, most)").encode())
    node = next(
        n for n in ast.walk(source.tree) if isinstance(n, ast.expr) and source.segment(n) == whole.text
    )
    distance = Distance(Site(source, node, VALUE, 1.0, "assigned value"), ModuleView(source))
    assert distance.oddity(leaf("most", [1])) < distance.oddity(leaf("b", [1]))
    assert distance.of("max(0, len(xs) - b)") < distance.of("max(0, len(xs) - a * b - 1)") < distance.of("b")


def test_dotted_names_are_one_word():
    assert tokens("self.count - (x.y + 1)") == ["self.count", "-", "x.y", "+", "1"]


CALLS = """\
def clean(text):
    return text.strip()

def joined(first, second):
    return first + second

def shown(name, title, *, mark=""):
    return joined(title, name)

def quoted(name):
    return '"' + clean(name) + '"'
"""


def test_functions_of_the_file_are_called_with_the_old_expression_and_names_of_its_scope():
    source = ModuleSource("m.py", CALLS.encode())
    found = [n for n in ast.walk(source.tree) if isinstance(n, ast.Name) and n.id == "name" and n.lineno == 8]
    place = Site(source, found[0], VALUE, 1.0, "argument")
    texts = [each.text for each in calls(place, [row(name="a", title="b")], ModuleView(source))]
    assert texts[:2] == ["clean(name)", "quoted(name)"]
    assert "joined(name, title)" in texts and "joined(title, name)" in texts
    assert not any(text.startswith("shown(") for text in texts)


def test_after_the_first_good_expression_the_budget_is_only_for_a_look_around():
    budget = Budget(evaluations=400, after_first=30, used=50)
    budget.found()
    budget.used = 79
    budget.found()
    assert budget.left()
    budget.used = 80
    assert not budget.left()
    assert not Budget(evaluations=0).left()


def test_numbers_inside_expected_containers_are_values_to_try():
    assert parts_of([[(1, 9), (2, "x")], 5, {"k": 7}]) == [7, 1, 9, 2, "x"]


def test_expressions_from_elsewhere_in_the_function_are_leaves_where_their_values_are_known():
    whole = site("a * (b - 1) // 2")
    found = {term.text: term.values for term in ingredients(whole, [row(a=2, b=5, xs=[1, 2, 3])])}
    assert found["len(xs) - a"] == (1,)
    assert "len(xs) - a" not in {term.text for term in ingredients(whole, [row(a=2, b=5)])}
