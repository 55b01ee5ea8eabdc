"""The language model as a judge of candidates: a real model in a real llama.cpp."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import opened
from whimbrel.app.paths import cache_dir
from whimbrel.app.repair.candidates import Candidate
from whimbrel.app.repair.family import Harm
from whimbrel.app.repair.language import judge as judging
from whimbrel.app.repair.language.judge import Judge
from whimbrel.app.repair.language.ordering import in_order, preference
from whimbrel.app.repair.language.weights import find_model
from whimbrel.app.repair.source import Edit, ModuleSource
from whimbrel.app.tools.repair import RepairArguments, RepairTool
from whimbrel.engine.gguf.files import UnusableModel
from whimbrel.engine.gguf.library import lacking_library

SHOP = '''"""Orders of a shop."""


class Order:
    def __init__(self, lines, discount=0):
        self.lines = lines
        self.discount = discount

    def total(self):
        """The sum of price times quantity, less the discount."""
        result = 0
        for line in self.lines:
            result -= line.price * line.quantity
        return result - self.discount


def largest(orders):
    """The order with the highest total; None when there is none."""
    best = None
    for order in orders:
        if best is None or order.total() < best.total():
            best = order
    return best


def names(customers):
    """Names of all customers, in alphabetical order."""
    found = []
    for customer in customers:
        found.append(customer.name)
    return found
'''
SOURCE = ModuleSource("shop.py", SHOP.encode())
SOURCES = {"shop.py": SOURCE}
BUGS = {
    "result -= line": ["result += line", "result //= line", "result -= self.lines", "result -= Order"],
    "< best.total()": ["> best.total()", "is best.total()", "< orders.total()", "< best.discount()"],
    "return found\n": ["return sorted(found)\n", "return customers - found\n", "return abs(found)\n"],
}
"""What is wrong -> the right thing, then nonsense."""


def edit(old: str, new: str, score: float = 1.0) -> Candidate:
    start = SHOP.index(old)
    line = SOURCE.line_of(start)
    return Candidate(
        "shop.py", line, line, (Edit(start, start + len(old), new),), "test", "", new, Harm.PRECISE, score
    )


ALL = [edit(old, new) for old, fixes in BUGS.items() for new in fixes]


@pytest.fixture(autouse=True)
def _model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHIMBREL_RANKER")
    lacking = lacking_library()
    if lacking is None:
        try:
            find_model()
            return
        except UnusableModel as error:
            lacking = str(error)
    if os.environ.get("CI") == "true":
        pytest.fail(lacking)
    pytest.skip(lacking)


async def opinions(candidates: list[Candidate]) -> list[float | None]:
    judge = await Judge.open()
    try:
        found = await judge.differences(candidates, SOURCES)
        assert judge.note.endswith(".gguf")
        return found
    finally:
        await judge.close()


async def test_the_right_fix_of_obvious_bugs_is_liked_better_than_nonsense():
    found = await opinions(ALL)
    position = 0
    for fixes in BUGS.values():
        right, *nonsense = found[position : position + len(fixes)]
        position += len(fixes)
        assert right is not None
        assert all(each is not None and right > each for each in nonsense), (fixes, right, nonsense)


async def test_opinions_are_the_same_in_every_run_and_nearly_so_in_other_company():
    some = ALL[4:9]
    first = await opinions(some)
    judge = await Judge.open()
    try:
        again = await judge.differences(some, SOURCES)
        turned = (await judge.differences(some[::-1], SOURCES))[::-1]
        alone = await judge.differences(some[:1], SOURCES)
    finally:
        await judge.close()
    assert first == again
    assert turned == pytest.approx(first, abs=0.15)
    assert alone == pytest.approx(first[:1], abs=0.15)


async def test_lines_that_come_or_go_are_judged_by_what_follows_them():
    line = "            best = order\n"
    sensible, silly, gone = await opinions(
        [
            edit("    return found\n", "    found.sort()\n    return found\n"),
            edit("    return found\n", "    del customers\n    return found\n"),
            edit(line, ""),
        ]
    )
    assert sensible is not None and silly is not None and gone is not None
    assert sensible > silly


async def test_a_strong_opinion_moves_a_candidate_but_not_its_own_score():
    low, high = edit("result -= line", "result += line", 0.5), edit("result -= line", "result //= line", 0.6)
    ordering = await in_order([high, low], SOURCES)
    assert [each.description for each in ordering.candidates] == ["result += line", "result //= line"]
    assert [ordering.plain(each) for each in ordering.candidates] == [low, high]
    scores, ranker = await preference([high, low], SOURCES)
    assert ranker == ordering.ranker
    assert scores[0] is not None and scores[1] is not None and scores[1] > scores[0]


async def test_only_the_first_candidates_are_judged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judging, "MOST", 3)
    found = await opinions(ALL[:5])
    assert [each is None for each in found] == [False, False, False, True, True]


async def test_a_process_that_is_killed_ends_the_opinions_and_nothing_else():
    judge = await Judge.open()
    assert judge.pid is not None
    os.kill(judge.pid, signal.SIGKILL)
    assert await judge.differences(ALL, SOURCES) == [None] * len(ALL)
    assert judge.note.startswith("none: ") and "ended" in judge.note
    assert judge.pid is None


async def test_a_killed_process_does_not_stop_a_repair(tmp_path: Path):
    files = {
        "shop.py": SHOP,
        "tests/test_shop.py": "from types import SimpleNamespace as Line\n\nfrom shop import Order\n\n\n"
        "def test_total():\n    assert Order([Line(price=2, quantity=3)]).total() == 6\n",
    }
    async with opened(tmp_path, files) as context:
        killer = asyncio.create_task(_kill_when_started())
        result = await RepairTool().run(context, RepairArguments())
        assert killer.done()
        assert result.data["ranker"].startswith("none: ")
        assert result.data["status"] == "fixed"
        assert "+= line.price" in result.data["patches"][0]["diff"]


async def _kill_when_started() -> bool:
    while True:
        for pid in _scoring_processes():
            os.kill(pid, signal.SIGKILL)
            return True
        await asyncio.sleep(0.02)


def _scoring_processes() -> Iterator[int]:
    """Those that this very process started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except (OSError, IndexError, ValueError):
            continue
        if parent == os.getpid() and b"whimbrel.app.repair.language.child" in command:
            yield int(folder.name)


async def test_a_repair_says_which_model_ranked(tmp_path: Path):
    files = {
        "cart.py": "def total(prices):\n    result = 0\n    for price in prices:\n        result -= price\n"
        "    return result\n",
        "test_cart.py": "from cart import total\n\n\ndef test_total():\n    assert total([1, 3]) == 4\n",
    }
    async with opened(tmp_path, files) as context:
        result = await RepairTool().run(context, RepairArguments())
        assert result.data["status"] == "fixed"
        assert result.data["ranker"].endswith(".gguf")
        assert result.data["phases"]["rank_s"] > 0


async def test_a_damaged_model_is_a_reason_in_one_line(tmp_path: Path):
    junk, torn = tmp_path / "junk.gguf", tmp_path / "torn-Q4_1.gguf"
    junk.write_bytes(b"no model at all")
    torn.write_bytes(find_model().read_bytes()[: 1 << 20])
    for path in (junk, torn, tmp_path / "missing.gguf"):
        judge = await Judge.open(model=path)
        assert judge.note.startswith("none: ") and path.name in judge.note
        assert "\n" not in judge.note
        assert await judge.differences(ALL[:1], SOURCES) == [None]


async def test_a_damaged_copy_of_the_model_is_made_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    before = await opinions(ALL[:2])
    (kept,) = (cache_dir() / "models").glob("*.gguf")
    monkeypatch.setenv("WHIMBREL_CACHE_DIR", str(tmp_path))
    (tmp_path / "models").mkdir()
    copy = tmp_path / "models" / kept.name
    copy.write_bytes(kept.read_bytes()[:-4096])
    copy.with_suffix(".sha256").write_bytes(kept.with_suffix(".sha256").read_bytes())
    assert await opinions(ALL[:2]) == before
    assert copy.read_bytes() == kept.read_bytes()
    assert sorted(each.name for each in copy.parent.iterdir()) == sorted([copy.name, f"{copy.stem}.sha256"])
