"""Trials and comparisons where tests disturb, die, depend on each other, or where objects are hostile."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from project import opened
from whimbrel.app.repair.baseline import take_baseline
from whimbrel.app.repair.candidates import Candidate
from whimbrel.app.repair.family import Harm
from whimbrel.app.repair.novelty import Novelty
from whimbrel.app.repair.source import Edit, ModuleSource
from whimbrel.app.repair.validate import FORK, SWAP, Validator

SHOP = """\
import os, shutil, time

RATE = 3

def price(count, unit, what=None):
    total = count * unit
    if total > 10:
        return total - RATE
    return total

def clear(folder):
    if folder != "":
        shutil.rmtree(folder, ignore_errors=True)

class Odd:
    def __deepcopy__(self, memo): raise SystemExit(3)

class Slow:
    def __repr__(self):
        while True: time.sleep(60)

class Proxy:
    def __getattr__(self, name): raise RuntimeError(name)
    def __eq__(self, other): raise RuntimeError("eq")
    __hash__ = None
"""


def change(old: str, new: str) -> Candidate:
    start = SHOP.index(old)
    line = SHOP.count("\n", 0, start) + 1
    edits = (Edit(start, start + len(old), new),)
    return Candidate("shop.py", line, line, edits, "x", "was wrong", new, Harm.PRECISE, 1.0)


RIGHT = change("- RATE", "- RATE - 2")
SOURCE = ModuleSource("shop.py", SHOP.encode())

TESTS = """\
import os
import shop

SEEN = []
def test_leaves_a_file():
    assert not os.path.exists("left")
    open("left", "w").close()
    assert shop.price(4, 5) == 15
def test_reads_the_source_once_it_passes():
    assert shop.price(4, 5) == 15
    with open(shop.__file__) as file: assert "RATE - 2" in file.read()
def test_before(): SEEN.append(shop.price(1, 1))
def test_after(): assert SEEN == [1]
def test_dies_where_it_is_forked():
    if "child-" in os.environ["TMPDIR"]: os._exit(0)
def test_plain(): assert shop.price(2, 3) == 6
"""


async def test_trials_say_what_fresh_runs_would_say_though_tests_disturb_each_other(tmp_path: Path):
    async with opened(tmp_path, {"shop.py": SHOP, "test_shop.py": TESTS}) as context:
        baseline = await take_baseline(context)
        validator = await Validator.open(context.tests, baseline)
        try:
            left, read = baseline.targets
            assert {test.rpartition("::")[2] for test in validator.steady} == {"test_before", "test_plain"}
            for _ in range(2):
                trial = await validator.trial(RIGHT, {"shop.py": SOURCE}, [validator.stage([left])])
                assert (trial.good, trial.mode) == (True, SWAP)
            trial = await validator.trial(RIGHT, {"shop.py": SOURCE}, [validator.stage([left, read])])
            assert (trial.good, trial.mode) == (True, FORK)
            assert context.workspace.read("shop.py") == SHOP.encode()
            assert not (context.workspace.root / "left").exists()
            endless = change("total = count", "while True: pass\n    total = count")
            running = asyncio.create_task(
                validator.trial(endless, {"shop.py": SOURCE}, [validator.stage([left])])
            )
            # The other side is a process: nothing here could set an event.
            while not (context.workspace.root / "left").exists() and not running.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            running.cancel()
        finally:
            await validator.close()
        assert not (context.workspace.root / "left").exists()


async def test_when_the_warm_process_is_killed_the_trials_go_on_in_a_slower_way(tmp_path: Path):
    tests = "import shop\ndef test_a(): assert shop.price(4, 5) == 15\n"
    async with opened(tmp_path, {"shop.py": SHOP, "test_shop.py": tests}) as context:
        baseline = await take_baseline(context)
        validator = await Validator.open(context.tests, baseline)
        try:
            stages = [validator.stage(baseline.targets)]
            assert (await validator.trial(RIGHT, {"shop.py": SOURCE}, stages)).mode == SWAP
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                words = entry.read_bytes()
                if b"serve.py" in words and str(tmp_path).encode() in words:
                    os.kill(int(entry.parent.name), signal.SIGKILL)
            wrong = change("- RATE", "- RATE - 1")
            trials = await asyncio.gather(
                *(validator.trial(each, {"shop.py": SOURCE}, stages) for each in (RIGHT, wrong, RIGHT))
            )
        finally:
            await validator.close()
    assert [(trial.good, trial.mode) for trial in trials] == [(True, FORK), (False, FORK), (True, FORK)]


async def test_comparing_survives_hostile_objects_and_touches_nothing_outside_the_process(tmp_path: Path):
    tests = """
import shop
def test_price(): assert shop.price(4, 5) == 15
def test_odd(): assert shop.price(1, 5, shop.Odd()) == 5
def test_slow(): assert shop.price(1, 6, shop.Slow()) == 6
def test_proxy(): assert shop.price(1, 7, shop.Proxy()) == 7
def test_clear(): shop.clear("keepx")
def test_late(): assert shop.price(1, 8, [[[]] * 50] * 50) == 8
"""
    files = {"shop.py": SHOP, "test_shop.py": tests, "keep/file.txt": "precious"}
    async with opened(tmp_path, files) as context:
        baseline = await take_baseline(context)
        validator = await Validator.open(context.tests, baseline)
        try:
            assert validator.steady == baseline.passing
            away = change("shutil.rmtree", "shutil.rmtree")
            behaviour = await validator.compare(
                [RIGHT, change("return total\n", "return total + 0\n"), away], ["shop.py"]
            )
        finally:
            await validator.close()
        assert (context.workspace.root / "keep/file.txt").read_text() == "precious"
    texts = " ".join(call.text for call in behaviour.calls)
    assert "price(4, 5" in texts and "price(1, 8" in texts and "keep" not in texts
    assert not behaviour.same(RIGHT, away)


def test_edits_that_differ_only_in_what_a_handler_protects_are_different():
    text = "def f(a, b):\n    try:\n        a()\n    except KeyError:\n        return 1\n    else:\n        b()\n"
    source = ModuleSource("m.py", text.encode())
    moved = text.index("    except")
    gone = text.index("    else")
    edits = (Edit(moved, moved, "        b()\n"), Edit(gone, len(text), ""))
    inside = Candidate("m.py", 4, 7, edits, "x", "", "", Harm.PRECISE, 1.0)
    novelty = Novelty({"m.py": source})
    assert novelty.is_new(inside) and not novelty.is_new(inside)


def test_an_edit_on_a_line_that_holds_the_beginning_of_another_statement_is_seen():
    text = "a = 1; b = [\n    2,\n]\n"
    source = ModuleSource("m.py", text.encode())
    one = Candidate("m.py", 1, 1, (Edit(4, 5, "3"),), "x", "", "", Harm.PRECISE, 1.0)
    novelty = Novelty({"m.py": source})
    assert novelty.is_new(one) and not novelty.is_new(one)
