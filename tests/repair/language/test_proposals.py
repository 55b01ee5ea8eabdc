"""Lines of the language model as candidates: a real model in a real llama.cpp."""

from __future__ import annotations

from pathlib import Path

import pytest
from project import opened
from whimbrel.app.repair import hunt
from whimbrel.app.repair.candidates import Candidate
from whimbrel.app.repair.language import proposals
from whimbrel.app.repair.language.proposals import FAMILY, SAMPLES, propose_lines
from whimbrel.app.repair.source import ModuleSource
from whimbrel.app.repair.trust import trust_of
from whimbrel.app.tools.repair import RepairArguments, RepairTool

from .test_ranker import _model  # noqa: F401  (the model must be there)

NAMES = '''"""Names."""


def unique(items):
    """The items without repetitions, in order."""
    seen = set()
    result = []
    for item in items:
        if item not in seen:
            seen.add(item)
    return result
'''


async def proposed(text: str, lines: dict[int, float], seed: int = 0) -> list[Candidate]:
    source = ModuleSource("names.py", text.encode())
    found = await propose_lines({"names.py": lines}, {"names.py": source}, seed, 120.0)
    assert not found.out_of_time
    return list(found.candidates)


async def test_the_forgotten_statement_is_among_the_lines_the_model_writes():
    found = await proposed(NAMES, {11: 0.9})
    texts = [each.text(ModuleSource("names.py", NAMES.encode())) for each in found]
    wanted = NAMES.replace("seen.add(item)\n", "seen.add(item)\n            result.append(item)\n")
    assert wanted in texts
    assert 2 <= len(found) <= 2 * SAMPLES
    assert {each.family for each in found} == {FAMILY}
    assert all(0.0 < each.score <= 0.3 and trust_of(each) < 0.5 for each in found)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


async def test_the_same_seed_gives_the_same_lines_and_another_one_others():
    first, again = await proposed(NAMES, {11: 0.9}), await proposed(NAMES, {11: 0.9})
    assert first == again
    assert {each.description for each in first} != {
        each.description for each in await proposed(NAMES, {11: 0.9}, seed=1)
    }


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
async def test_line_ends_of_the_file_are_kept(line_end: str):
    text = NAMES.replace("\n", line_end)
    source = ModuleSource("names.py", text.encode())
    for each in await proposed(text, {11: 0.9}):
        changed = each.text(source)
        assert changed.count("\n") == changed.count(line_end) * line_end.count("\n")
        assert changed.count(line_end) - text.count(line_end) in (0, 1)


async def test_without_the_model_there_are_no_such_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WHIMBREL_RANKER", "off")
    assert await proposed(NAMES, {11: 0.9}) == []


async def test_a_search_that_finds_nothing_else_tries_the_lines_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Only the model's lines: what the families and the synthesis find is another test's business.
    async def nothing(*_: object) -> None:
        return None

    async def no_edits(*_: object) -> list[Candidate]:
        return []

    monkeypatch.setattr("whimbrel.app.repair.repairer.single_edits", no_edits)
    monkeypatch.setattr(hunt, "_build", nothing)
    monkeypatch.setattr(proposals, "PLACES", 3)
    tests = (
        "from names import unique\n\n\ndef test_order():\n    assert unique([3, 1, 3]) == [3, 1]\n\n\n"
        "def test_empty():\n    assert unique([]) == []\n"
    )
    async with opened(tmp_path, {"names.py": NAMES, "test_names.py": tests}) as context:
        result = await RepairTool().run(context, RepairArguments())
        patches = result.data["patches"] + result.data["alternatives"]
        assert any("+            result.append(item)" in each["diff"] for each in patches)
        assert all(each["family"] == FAMILY for each in patches)
        assert result.data["candidates_generated"] >= result.data["candidates_tried"] > 0
