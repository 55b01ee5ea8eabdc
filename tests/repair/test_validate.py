"""Trials of candidates: the fastest way that is right, the same result however many run at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from project import opened
from whimbrel.app.repair.baseline import Baseline, take_baseline
from whimbrel.app.repair.behaviour import Behaviour
from whimbrel.app.repair.candidates import Candidate
from whimbrel.app.repair.choice import choose
from whimbrel.app.repair.family import Harm
from whimbrel.app.repair.limits import Clock, Limits
from whimbrel.app.repair.search import Search, SearchState
from whimbrel.app.repair.source import Edit, ModuleSource
from whimbrel.app.repair.validate import FORK, SWAP, Validator
from whimbrel.app.tools.base import ToolContext

SHOP = """\
RATE = 3

def price(count, unit):
    total = count * unit
    if total > 10:
        return total - RATE
    return total + 0
"""
TESTS = """\
import subprocess, sys
from shop import price

def test_large(): assert price(4, 5) == 15
def test_edge(): assert price(2, 5) == 10
def test_small(): assert price(1, 5) == 5
"""
PROGRAM = """\
def test_by_program():
    assert subprocess.run([sys.executable, "-c", "import shop; assert shop.RATE == 5"]).returncode == 0
"""


def change(text: str, old: str, new: str, *, score: float = 1.0) -> Candidate:
    start = text.index(old)
    line = text.count("\n", 0, start) + 1
    edits = (Edit(start, start + len(old), new),)
    return Candidate("shop.py", line, line, edits, "x", "was wrong", new, Harm.PRECISE, score)


@asynccontextmanager
async def validating(
    folder: Path, tests: str = TESTS
) -> AsyncIterator[tuple[ToolContext, Baseline, Validator, ModuleSource]]:
    async with opened(folder, {"shop.py": SHOP, "test_shop.py": tests}) as context:
        baseline = await take_baseline(context)
        validator = await Validator.open(context.tests, baseline)
        try:
            yield context, baseline, validator, ModuleSource("shop.py", SHOP.encode())
        finally:
            await validator.close()


async def test_a_function_is_exchanged_and_a_module_level_edit_is_imported_anew(tmp_path: Path):
    async with validating(tmp_path) as (context, baseline, validator, source):
        stages = [validator.stage(baseline.targets), validator.stage(sorted(validator.steady))]
        inside = await validator.trial(change(SHOP, "- RATE", "- RATE - 2"), {"shop.py": source}, stages)
        outside = await validator.trial(change(SHOP, "RATE = 3", "RATE = 5"), {"shop.py": source}, stages)
        wrong = await validator.trial(change(SHOP, "- RATE", "- 5 * count"), {"shop.py": source}, stages)
        assert (inside.good, inside.mode) == (True, SWAP)
        assert (outside.good, outside.mode) == (True, FORK)
        assert not wrong.good
        assert context.workspace.read("shop.py") == SHOP.encode()
        assert validator.modes == {SWAP: 2, FORK: 1}


async def test_tests_that_start_programs_see_the_edit_on_disk(tmp_path: Path):
    async with validating(tmp_path, TESTS + PROGRAM) as (context, baseline, validator, source):
        assert "start programs" in validator.note
        stages = [validator.stage(baseline.targets)]
        trial = await validator.trial(change(SHOP, "RATE = 3", "RATE = 5"), {"shop.py": source}, stages)
        assert trial.good
        assert context.workspace.read("shop.py") == SHOP.encode()


@pytest.mark.parametrize("workers", [1, 2])
async def test_the_result_does_not_depend_on_how_many_run_at_a_time(tmp_path: Path, workers: int):
    candidates = [
        change(SHOP, "* unit", "+ unit"),
        change(SHOP, "> 10", "> 15", score=0.99),
        change(SHOP, "- RATE", "- RATE - 2", score=0.98),
        change(SHOP, "- RATE", "- 5", score=0.97),
        change(SHOP, "total - RATE", "15", score=0.3),
    ]
    async with validating(tmp_path) as (_, baseline, validator, source):
        validator.workers = workers
        state = SearchState()
        search = Search({"shop.py": source}, baseline, validator, state, lambda _: None)
        await search.run(candidates, Limits(), Clock.start(Limits(), None, 0))
    assert [each.description for each in state.plausible] == ["- RATE - 2", "- 5"]
    assert (state.tried, state.limit) == (4, None)


async def test_patches_are_compared_on_the_tests_calls_and_their_neighbours(tmp_path: Path):
    same, other = change(SHOP, "- RATE", "- RATE - 2"), change(SHOP, "- RATE", "- 5")
    baked = change(SHOP, "total - RATE", "15")
    async with validating(tmp_path) as (_, _baseline, validator, source):
        behaviour = await validator.compare([same, other, baked], ["shop.py"])
    assert behaviour.same(same, other)
    assert not behaviour.same(same, baked)
    assert behaviour.difference(baked, same) == "`price(5, 5)`: 15 here, 20 there"
    choice = choose([same, other, baked], {"shop.py": source}, (), behaviour)
    assert choice.ranked[0] is other  # of the two that do the same, the smaller
    assert choice.confidence == 0.45  # half of what the kind of edit is believed
    alone = choose([same, other], {"shop.py": source}, (), behaviour)
    assert not alone.ambiguous and alone.confidence == 0.9


def test_without_a_comparison_nothing_is_known_to_be_the_same():
    one = change(SHOP, "* unit", "+ unit")
    assert not Behaviour().same(one, one) and Behaviour().difference(one, one) == ""
    assert Behaviour().collateral(one) == 0.0


async def test_a_cancelled_search_leaves_the_file_and_no_process(tmp_path: Path):
    loops = [change(SHOP, "total = count", f"while True: pass\n    total = {n} * count") for n in range(4)]
    async with validating(tmp_path) as (context, baseline, validator, source):
        search = Search({"shop.py": source}, baseline, validator, SearchState(), lambda _: None)
        task = asyncio.create_task(search.run(loops, Limits(), Clock.start(Limits(), None, 0)))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert context.workspace.read("shop.py") == SHOP.encode()
