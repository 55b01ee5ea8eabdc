"""Two edits together: which pairs are made of single candidates, and in which order."""

from __future__ import annotations

from itertools import pairwise
from textwrap import dedent

from whimbrel.app.repair.candidates import Candidate, generate
from whimbrel.app.repair.evidence import Evidence
from whimbrel.app.repair.localise import Localisation
from whimbrel.app.repair.pairs import pairs
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
