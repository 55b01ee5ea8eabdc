"""Candidates that edit several files: tried, proven, written and explained as one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from project import opened
from whimbrel.app.repair.baseline import Baseline, take_baseline
from whimbrel.app.repair.candidates import Candidate, Part
from whimbrel.app.repair.choice import choose, literals_of
from whimbrel.app.repair.diffs import patch_of
from whimbrel.app.repair.explain import explain
from whimbrel.app.repair.family import Harm
from whimbrel.app.repair.limits import Clock, Limits
from whimbrel.app.repair.minimise import minimise
from whimbrel.app.repair.novelty import Novelty
from whimbrel.app.repair.proof import prove
from whimbrel.app.repair.search import Search, SearchState
from whimbrel.app.repair.source import Edit, ModuleSource
from whimbrel.app.repair.validate import FORK, SWAP, Trial, Validator
from whimbrel.app.repair.workspace_edit import TestFileTouched, applied, encodable, keep
from whimbrel.app.tools.base import ToolContext
from whimbrel.sandbox.base.git import Git

FILES = {
    "rates.py": """\
BASE = 2


def rate(kind):
    return BASE + (1 if kind == "far" else 2)


def label(kind):
    return kind.upper()
""",
    "cart.py": """\
import rates

MOST = 20


def total(count, kind):
    value = count + rates.rate(kind)
    return min(value, MOST)
""",
    "later.py": """\
def note(text):
    return text + "?"
""",
}
TESTS = """\
import cart, rates

def test_rate(): assert rates.rate("far") == 4
def test_label(): assert rates.label("Far") == "far"
def test_total(): assert cart.total(3, "near") == 9
def test_few(): assert cart.total(0, "far") <= 4
def test_most(): assert cart.total(100, "near") == 20
def test_note():
    import later
    assert later.note(rates.label("Far")) == "far!"
"""
SOURCES = {path: ModuleSource(path, text.encode()) for path, text in FILES.items()}


def part(path: str, *changes: tuple[str, str], fault: str = "was wrong") -> Part:
    text = FILES[path]
    edits = tuple(sorted(Edit(text.index(old), text.index(old) + len(old), new) for old, new in changes))
    lines = [text.count("\n", 0, edit.start) + 1 for edit in edits]
    return Part(path, lines[0], lines[-1], edits, fault)


def candidate(*parts: Part) -> Candidate:
    first = parts[0]
    one = Candidate(
        first.path, first.line, first.end_line, first.edits, "x", first.fault, "", Harm.PRECISE, 1.0
    )
    return one.with_parts(parts)


RATE = part("rates.py", ('"far" else', '"near" else'), fault="compared with the wrong text")
TOTAL = part("cart.py", ("count +", "count *"), fault="used the wrong operator")
BASE = part("rates.py", ("BASE = 2", "BASE = 3"))
LABEL = part("rates.py", ("upper", "lower"))
NOTE = part("later.py", ('"?"', '"!"'))
BOTH = candidate(TOTAL, RATE)


@dataclass
class Trying:
    context: ToolContext
    baseline: Baseline
    validator: Validator

    async def on(self, one: Candidate, *tests: str) -> Trial:
        """A trial that begins with these tests; whatever it shows, the files are as before."""
        wanted = [test for test in self.baseline.suite if test.rpartition("::")[2] in tests]
        assert len(wanted) == len(tests)
        trial = await self.validator.trial(one, SOURCES, [self.validator.stage(wanted, stop_first=False)])
        for path, text in FILES.items():
            assert self.context.workspace.read(path) == text.encode()
        return trial


@asynccontextmanager
async def trying(folder: Path, tests: str = TESTS) -> AsyncIterator[Trying]:
    async with opened(folder, {**FILES, "test_cart.py": tests}) as context:
        baseline = await take_baseline(context)
        validator = await Validator.open(context.tests, baseline)
        try:
            yield Trying(context, baseline, validator)
        finally:
            await validator.close()


async def test_edits_of_several_files_are_tried_together_the_fastest_way_that_all_allow(tmp_path: Path):
    async with trying(tmp_path) as at:
        exchanged = await at.on(BOTH, "test_rate", "test_total", "test_few", "test_most")
        assert (exchanged.good, exchanged.mode) == (True, SWAP)
        half = await at.on(candidate(RATE), "test_rate", "test_total")
        assert list(half.outcomes[0].values()) == ["passed", "failed"]
        one_file = part("rates.py", ('"far" else', '"near" else'), ("upper", "lower"))
        functions = await at.on(candidate(one_file), "test_rate", "test_label")
        assert (functions.good, functions.mode) == (True, SWAP)
        not_yet_imported = await at.on(candidate(LABEL, NOTE), "test_label", "test_note")
        assert (not_yet_imported.good, not_yet_imported.mode) == (True, "import")
        laid_over = await at.on(candidate(TOTAL, BASE), "test_rate", "test_few", "test_most")
        assert (laid_over.good, laid_over.mode) == (True, FORK)
        broken = candidate(TOTAL, part("rates.py", ("upper()", "upper(")))
        assert not (await at.on(broken, "test_total")).good
        other = candidate(
            TOTAL, part("rates.py", ('"far" else', '"near" else'), ("kind.upper()", "str.upper(kind)"))
        )
        alone = candidate(TOTAL)
        seen = await at.validator.compare([BOTH, other, alone], sorted(FILES))
        assert seen.same(BOTH, other) and seen.differ(BOTH, alone)
        assert seen.difference(BOTH, alone) == "`rate('far')`: 4 here, 3 there"


async def test_programs_that_tests_start_see_all_edited_files_on_disk(tmp_path: Path):
    program = (
        "import subprocess, sys\n"
        "def test_it():\n"
        "    code = \"import cart; assert cart.total(3, 'near') == 9\"\n"
        '    assert subprocess.run([sys.executable, "-c", code]).returncode == 0\n'
    )
    async with trying(tmp_path, program) as at:
        assert "start programs" in at.validator.note
        assert not (await at.on(candidate(TOTAL), "test_it")).good
        assert (await at.on(BOTH, "test_it")).good


async def test_a_patch_of_two_files_is_proven_as_one_applies_with_git_and_names_both(tmp_path: Path):
    tests = "\n".join(line for line in TESTS.splitlines() if "label" not in line and "later" not in line)
    tests = tests.replace("def test_note():", "")
    async with opened(tmp_path, {**FILES, "test_cart.py": tests + "\n"}) as context:
        baseline = await take_baseline(context)
        clock = Clock.start(Limits(), None, 0)
        assert not (await prove(context, SOURCES, candidate(TOTAL), baseline, clock)).good
        proof = await prove(context, SOURCES, BOTH, baseline, clock)
        purposes = [row.purpose for row in context.ledger.rows if row.number in proof.rows]
        assert proof.good and purposes == [
            "verification",
            "verification: hash seed 1",
            "verification: hash seed 2",
            "verification",
        ]
        assert context.workspace.read("cart.py") == FILES["cart.py"].encode()
        text = explain(BOTH, SOURCES, baseline)
        assert "`total` in cart.py used the wrong operator: line 7 was" in text
        assert "`rate` in rates.py compared with the wrong text: line 5 was" in text
        keep(context.workspace, SOURCES, BOTH)
        changed = await context.workspace.changed_files()
        assert [each.path for each in changed] == ["cart.py", "rates.py"]
        repository = tmp_path / "repository"
        git = Git(repository / ".git", repository)
        await git.run("apply", "-", input=patch_of(BOTH, SOURCES).encode())
        for each in ("cart.py", "rates.py"):
            assert (repository / each).read_bytes() == context.workspace.read(each)


async def test_either_all_files_are_written_or_none(tmp_path: Path):
    async with opened(tmp_path, FILES) as context:
        workspace = context.workspace
        with pytest.raises(TestFileTouched):
            keep(workspace, SOURCES, BOTH.with_parts([TOTAL, Part("test_a.py", 1, 1, RATE.edits, "")]))
        with applied(workspace, SOURCES, BOTH):
            assert b"count *" in workspace.read("cart.py") and b'"near" else' in workspace.read("rates.py")
        (workspace.root / "rates.py").unlink()
        (workspace.root / "rates.py").mkdir()
        with pytest.raises(Exception, match=r"rates\.py"), applied(workspace, SOURCES, BOTH):
            raise AssertionError("half a candidate was in place")
        assert workspace.read("cart.py") == FILES["cart.py"].encode()


def test_the_first_file_by_name_stands_for_the_candidate():
    assert candidate(RATE, TOTAL) == BOTH
    assert (BOTH.path, BOTH.line, BOTH.fault) == ("cart.py", 7, "used the wrong operator")
    assert list(BOTH.by_path) == ["cart.py", "rates.py"]


def test_a_candidate_of_two_files_is_new_once_and_only_when_both_change():
    novelty = Novelty(SOURCES)
    assert novelty.is_new(BOTH) and not novelty.is_new(candidate(RATE, TOTAL))
    assert novelty.is_new(candidate(TOTAL))
    unchanged = part("rates.py", ("kind.upper()", "(kind.upper())"))
    assert not novelty.is_new(candidate(part("cart.py", ("count +", "count -")), unchanged))
    assert not novelty.is_new(candidate(TOTAL, part("rates.py", ("upper()", "upper("))))


def test_text_that_one_of_the_files_cannot_hold_is_no_candidate():
    latin = ModuleSource("later.py", b"# coding: latin-1\n" + FILES["later.py"].encode())
    sources = {**SOURCES, "later.py": latin}
    edits = (Edit(latin.text.index("?"), latin.text.index("?") + 1, "\u2026"),)
    assert not encodable(sources, candidate(TOTAL, Part("later.py", 3, 3, edits, "")))
    assert encodable(sources, BOTH)


def test_constants_of_the_test_count_in_every_file():
    baked = candidate(TOTAL, part("later.py", ('text + "?"', '"far!"')))
    rival = candidate(part("cart.py", ("count +", "count **")), NOTE)
    chosen = choose([baked, rival], SOURCES, literals_of('assert note("far") == "far!"'))
    assert chosen.ranked[0] is rival


@pytest.mark.parametrize("needed", [{"cart.py"}, {"rates.py"}, {"cart.py", "rates.py"}])
async def test_edits_of_a_whole_file_that_are_not_needed_are_undone(needed: set[str]):
    extra = part("rates.py", ('"far" else', '"near" else'), ("upper", "lower"))

    async def passes(one: Candidate) -> bool:
        await asyncio.sleep(0)
        return needed <= one.by_path.keys() and ("rates.py" not in needed or RATE.edits[0] in one_edits(one))

    def one_edits(one: Candidate) -> tuple[Edit, ...]:
        return tuple(edit for each in one.parts if each.path == "rates.py" for edit in each.edits)

    smallest = await minimise(candidate(TOTAL, extra), passes)
    assert smallest.by_path.keys() == needed
    assert one_edits(smallest) == (RATE.edits if "rates.py" in needed else ())


async def test_partial_candidates_are_known_by_the_targets_they_turn_green_and_by_what_they_break(
    tmp_path: Path,
):
    nine = part("cart.py", ("min(value, MOST)", "9"))
    tried = [candidate(each) for each in (TOTAL, RATE, nine, LABEL)]
    expected = [("test_rate", False), ("test_total", True), ("test_label", False)]
    async with trying(tmp_path) as at:
        for workers in (1, 2):
            at.validator.workers = workers
            state = SearchState()
            search = Search(SOURCES, at.baseline, at.validator, state, lambda _: None)
            assert [test.rpartition("::")[2] for test in search.telling] == [
                "test_rate",
                "test_label",
                "test_total",
                "test_note",
            ]
            clock = Clock.start(Limits(), None, 0)
            await search.run(tried, Limits(), clock)
            assert all(each.breaks is None for each in state.partial)
            await search.look_at_partial(10, clock)
            found = [
                (green.rpartition("::")[2], each.breaks) for each in state.partial for green in each.green
            ]
            assert found == expected
            assert not state.plausible


async def test_what_passes_with_one_hash_seed_alone_is_not_proven(tmp_path: Path):
    program = "def seed():\n    return hash('whimbrel')\n\n\ndef right():\n    return 1\n"
    wanted = run_python("print(hash('whimbrel'))", PYTHONHASHSEED="0")
    tests = f"import names\n\ndef test_it(): assert names.right() in ({wanted}, 3)\n"
    lucky, right = (
        Candidate("names.py", 6, 6, (Edit(at, at + 1, text),), "test", "", "", Harm.PRECISE, 1.0)
        for at, text in ((program.index("1"), "seed()"), (program.index("1"), "3"))
    )
    async with opened(tmp_path, {"names.py": program, "test_names.py": tests}) as context:
        baseline = await take_baseline(context)
        sources = {"names.py": ModuleSource("names.py", program.encode())}
        clock = Clock.start(Limits(), None, 0)
        by_luck = await prove(context, sources, lucky, baseline, clock)
        assert by_luck.verdict.still_bad == ("test_names.py::test_it",)
        assert len(by_luck.rows) == 2, "the first seed showed nothing, the second did"
        assert (await prove(context, sources, right, baseline, clock)).good


def run_python(code: str, **environment: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
