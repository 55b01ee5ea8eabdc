"""Synthesis end to end: forced outcomes in real runs, then expressions that also hold for hidden tests."""

from __future__ import annotations

from pathlib import Path

from project import opened
from whimbrel.app.repair.baseline import Baseline, take_baseline
from whimbrel.app.repair.candidates import Candidate
from whimbrel.app.repair.family import Harm
from whimbrel.app.repair.localise import Localisation, localise
from whimbrel.app.repair.synthesis.evaluating import through
from whimbrel.app.repair.synthesis.search import Budget, synthesise
from whimbrel.app.repair.validate import Validator
from whimbrel.app.repair.workspace_edit import applied
from whimbrel.app.tools.base import ToolContext

SHELF = {
    "stock.py": '''\
class Shelf:
    def __init__(self, count, reserved=0):
        self.count = count
        self.reserved = reserved

    def can_pick(self, wanted):
        """Whether so many free pieces are there."""
        return wanted <= self.count

    def pick(self, wanted):
        if not self.can_pick(wanted):
            raise ValueError("not enough")
        self.count -= wanted
        return self.count
''',
    "tests/test_stock.py": """\
from stock import Shelf


def test_all(): assert Shelf(5).can_pick(5)
def test_too_many(): assert not Shelf(5).can_pick(6)
def test_reserved(): assert not Shelf(5, 2).can_pick(4)
def test_rest(): assert Shelf(5, 2).can_pick(3)
def test_pick(): assert Shelf(9).pick(2) == 7
""",
}
HIDDEN_SHELF = """\
from stock import Shelf


def test_nearly_all(): assert not Shelf(10, 8).can_pick(3) and Shelf(10, 8).can_pick(2)
"""
FEES = {
    "fees.py": '''\
GRACE = 3


def late_fee(days, price, rate):
    """Fee for the days after the grace period."""
    if days <= GRACE:
        return 0
    return days * price * rate // 100
''',
    "tests/test_fees.py": """\
from fees import late_fee


def test_in_grace(): assert late_fee(3, 100, 5) == 0
def test_late(): assert late_fee(5, 100, 5) == 10
def test_later(): assert late_fee(13, 40, 10) == 40
def test_free(): assert late_fee(9, 0, 5) == 0
""",
}
HIDDEN_FEES = """\
from fees import late_fee


def test_more(): assert late_fee(4, 200, 2) == 4 and late_fee(10, 50, 10) == 35
"""


async def all_found(
    context: ToolContext, baseline: Baseline, localisation: Localisation, budget: Budget
) -> list[Candidate]:
    validator = await Validator.open(context.tests, baseline)
    found: list[Candidate] = []
    try:
        evaluate = through(validator, localisation.sources)
        async for candidate in synthesise(context, localisation, baseline, evaluate, budget):
            found.append(candidate)
    finally:
        await validator.close()
    return sorted(found, key=lambda each: (each.harm is Harm.REMOVES, -each.score))


async def agrees(context: ToolContext, localisation: Localisation, candidate: Candidate, hidden: str) -> bool:
    context.workspace.write("tests/test_hidden.py", hidden.encode())
    with applied(context.workspace, localisation.sources, candidate):
        run = await context.tests.run(purpose="hidden")
    assert len(run.report.cases) > 4
    return not run.report.failing()


async def test_a_condition_that_forgot_a_value_gets_it_back(tmp_path: Path):
    async with opened(tmp_path, SHELF) as context:
        baseline = await take_baseline(context)
        localisation = localise(context, baseline)
        budget = Budget(evaluations=40)
        found = await all_found(context, baseline, localisation, budget)
        best = found[0]
        assert best.description == "replaces `wanted <= self.count` by `wanted <= self.count - self.reserved`"
        assert best.family == "synthesis" and best.line == 8
        assert await agrees(context, localisation, best, HIDDEN_SHELF)
        assert 0 < budget.used <= 40 and budget.forced >= 1
        rows = [row.purpose for row in context.ledger.rows]
        assert rows.count("values") == 1
        assert len({(each.path, each.edits) for each in found}) == len(found)


async def test_a_part_deep_in_an_expression_is_found_from_the_expected_value(tmp_path: Path):
    async with opened(tmp_path, FEES) as context:
        baseline = await take_baseline(context)
        localisation = localise(context, baseline)
        nothing = Budget(evaluations=0)
        assert await all_found(context, baseline, localisation, nothing) == [] and nothing.used == 0
        best, *_ = await all_found(context, baseline, localisation, Budget(evaluations=25))
        source = localisation.sources["fees.py"]
        assert "return (days - GRACE) * price * rate // 100" in best.text(source)
        assert best.harm is Harm.PRECISE
        assert await agrees(context, localisation, best, HIDDEN_FEES)
