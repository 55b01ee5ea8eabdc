"""Two edits together, of one file or two: which pairs are made of single candidates, in which order."""

from __future__ import annotations

from itertools import pairwise
from textwrap import dedent

from whimbrel.app.repair.candidates import Candidate, generate
from whimbrel.app.repair.evidence import Evidence
from whimbrel.app.repair.halves import Halves
from whimbrel.app.repair.localise import Localisation
from whimbrel.app.repair.pairs import pairs, toward, twins
from whimbrel.app.repair.search import Partial
from whimbrel.app.repair.source import ModuleSource

TWICE = """
    def before(times, limit):
        return [each for each in times if each <= limit]


    def split(times, limit):
        early = before(times, limit)
        late = [each for each in times if each > limit]
        return early, late


    def span(times, limit):
        return [each for each in times if each <= limit][-1] - times[0]
"""

AVERAGE = """
    def average(values):
        total = 1
        for value in values:
            total -= value
        return total / len(values)


    def largest(values):
        return max(values)
"""


def singles(text: str) -> tuple[list[Candidate], dict[str, ModuleSource]]:
    source = ModuleSource("m.py", dedent(text).lstrip().encode())
    lines = dict.fromkeys(range(1, source.text.count("\n") + 1), 1.0)
    sources = {"m.py": source}
    return generate(Localisation((), {"m.py": lines}, sources), Evidence()), sources


def rank(made: list[Candidate], source: ModuleSource, *changes: tuple[str, str]) -> int:
    """Which of the candidates makes just these changes."""
    wanted = source.text
    for old, new in changes:
        wanted = wanted.replace(old, new)
    return [each.text(source) for each in made].index(wanted)


def test_the_same_mistake_in_two_functions_is_repaired_by_an_early_pair():
    candidates, sources = singles(TWICE)
    made = list(pairs(candidates, [], sources, 2000))
    assert rank(made, sources["m.py"], ("each <= limit", "each < limit")) < 10


def test_edits_about_the_same_name_of_one_function_are_combined():
    candidates, sources = singles(AVERAGE)
    made = list(pairs(candidates, [], sources, 2000))
    assert rank(made, sources["m.py"], ("total = 1", "total = 0"), ("-=", "+=")) < 200


def test_half_a_repair_is_combined_with_everything_early():
    candidates, sources = singles(AVERAGE)
    (half,) = (each for each in candidates if each.description == "replaces -= by +=")
    changes = (("total = 1", "total = 0"), ("-=", "+="))
    without = rank(list(pairs(candidates, [], sources, 2000)), sources["m.py"], *changes)
    made = list(pairs(candidates, [Partial(half, frozenset({"t"}))], sources, 2000))
    assert rank(made, sources["m.py"], *changes) < min(20, without)
    assert sum(half.edits[0] in each.edits for each in made[:20]) > 10


def test_pairs_are_limited_ranked_and_the_same_every_time():
    candidates, sources = singles(TWICE)
    made = list(pairs(candidates, [], sources, 50))
    assert len(made) == 50
    assert [each.score for each in made] == sorted((each.score for each in made), reverse=True)
    assert made == list(pairs(candidates, [], sources, 50))
    assert all(len(each.edits) >= 2 and each.score <= candidates[0].score for each in made)


def test_edits_of_the_same_text_are_never_combined():
    candidates, sources = singles(AVERAGE)
    for each in pairs(candidates, [], sources, 3000):
        ends = [(edit.start, edit.end) for edit in sorted(each.edits)]
        assert all(before[1] <= after[0] and before != after for before, after in pairwise(ends))


ORDERS = """
    def total(order):
        return sum(line.price for line in order if line.count > 0)


    def first(order):
        return order[1]
"""
ROOMS = """
    def free(rooms):
        return [room for room in rooms if room.count > 0]


    def last(rooms):
        return rooms[0]
"""
NEAR = "replaces > by >="


def two_files() -> tuple[list[Candidate], dict[str, ModuleSource]]:
    texts = {"orders.py": ORDERS, "rooms.py": ROOMS}
    sources = {path: ModuleSource(path, dedent(text).lstrip().encode()) for path, text in texts.items()}
    lines = {path: dict.fromkeys(range(1, 8), 1.0) for path in sources}
    return generate(Localisation((), lines, sources), Evidence()), sources


def single(candidates: list[Candidate], path: str, description: str) -> Candidate:
    return next(each for each in candidates if (each.path, each.description) == (path, description))


def test_the_same_edit_in_two_files_is_one_of_the_twins_and_scores_below_single_ones():
    candidates, _ = two_files()
    halves = [single(candidates, path, NEAR) for path in ("orders.py", "rooms.py")]
    (both,) = (each for each in twins(candidates) if each.description == f"{NEAR}, and {NEAR}")
    assert both.parts == tuple(each.parts[0] for each in halves)
    assert both.score < min(each.score for each in halves)


def test_edits_of_two_files_are_combined_after_those_of_one_function():
    candidates, sources = two_files()
    made = list(pairs(candidates, [], sources, 5000))
    across = [each for each in made if each.others]
    assert {tuple(part.path for part in each.parts) for each in across} == {("orders.py", "rooms.py")}
    assert len({each.parts for each in across}) == len(across)


def test_the_other_half_is_looked_for_where_the_targets_that_are_still_red_run():
    candidates, sources = two_files()
    half = Partial(single(candidates, "orders.py", "replaces 1 by 0"), frozenset({"t::a"}))
    coverage = {"t::a": {"orders.py": {6}}, "t::b": {"rooms.py": {2}}}
    made = [
        each
        for each in pairs(candidates, [half], sources, 5000, coverage)
        if half.candidate.edits[0] in each.edits
    ]
    assert {each.others[0].line for each in made[:5]} == {2}


def test_what_the_red_targets_run_comes_first_and_likelier_edits_before_others():
    candidates, _ = two_files()
    coverage = {"t::a": {"orders.py": {6}}, "t::b": {"rooms.py": {2, 6}}}
    ordered = toward(candidates, ["t::b"], coverage)
    assert sorted(map(id, ordered)) == sorted(map(id, candidates))
    assert [each for each in ordered if each.path == "rooms.py"] == [
        each for each in candidates if each.path == "rooms.py"
    ]
    best = {
        path: max(each.score for each in candidates if each.path == path)
        for path in ("orders.py", "rooms.py")
    }
    late = next(n for n, each in enumerate(ordered) if each.path == "orders.py")
    assert all(each.score >= 0.3 * best["orders.py"] - 1e-9 for each in ordered[:late]) and late > 5
    assert toward(candidates, ["t::b"], {"t::b": {}}) == candidates


def test_halves_that_turn_all_targets_green_together_are_paired_once_and_the_harmless_first():
    candidates, _ = two_files()
    first = Partial(single(candidates, "orders.py", "replaces 1 by 0"), frozenset({"a"}), False)
    second = Partial(single(candidates, "rooms.py", NEAR), frozenset({"b", "c"}), False)
    breaking = Partial(single(candidates, "orders.py", NEAR), frozenset({"a", "c"}), True)
    useless = Partial(single(candidates, "rooms.py", "replaces 0 by 1"), frozenset({"c"}), False)
    halves = Halves(("a", "b", "c"), lambda each: (each.path, each.line))
    known = [useless, breaking, first, second]
    made = halves.pairs(known, 10)
    wanted = [(first, second), (breaking, second)]
    assert [each.parts for each in made] == [(a.candidate.parts[0], b.candidate.parts[0]) for a, b in wanted]
    assert halves.pairs(known, 10) == []
    assert halves.pairs([*known, Partial(useless.candidate, frozenset({"b", "c"}))], 1) != []


def test_halves_in_one_function_wait_until_other_ways_were_tried():
    candidates, _ = singles(AVERAGE)
    one = Partial(single(candidates, "m.py", "replaces -= by +="), frozenset({"a"}))
    two = Partial(single(candidates, "m.py", "replaces 1 by 0"), frozenset({"b"}))
    halves = Halves(("a", "b"), lambda each: (each.path, 0))
    assert halves.pairs([one, two], 10) == []
    (both,) = halves.pairs([one, two], 10, within_functions=True)
    assert both.edits == (*two.candidate.edits, *one.candidate.edits)
