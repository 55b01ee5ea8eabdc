"""Repeated failures bring one concrete suggestion, then an end; batch work brings neither."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.agent.history import Call
from whimbrel.app.agent.limits import MaxSteps
from whimbrel.app.agent.loop_guard import LoopGuard
from whimbrel.app.agent.strategy import Strategy
from whimbrel.app.tools.base import PermissionClass
from whimbrel.app.tools.bash import BashTool
from whimbrel.app.tools.edit import EditTool
from whimbrel.app.tools.read import ReadTool
from whimbrel.app.tools.search import SearchTool
from whimbrel.app.tools.todo import TodoTool
from whimbrel.app.tools.write import WriteTool
from whimbrel.engine.chat import ToolCallPart, ToolResultPart
from whimbrel.sandbox.base.errors import LoopDetected

from ..mock_server import Reply, completion
from .scene import Scene, scene

pytestmark = pytest.mark.timeout(120)
TOOLS: list[Any] = [EditTool(), ReadTool(), SearchTool(), BashTool(), WriteTool(), TodoTool()]


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


async def play(shop: Scene, calls: Iterator[tuple[str, dict[str, Any]]]) -> Any:
    """One call in each step, then an answer."""
    numbered = enumerate(calls)

    def script(_: Any) -> Reply:
        number, call = next(numbered, (0, None))
        return completion(text="over") if call is None else completion(calls=[(f"c{number}", *call)])

    limits = [MaxSteps(100), LoopGuard(), Strategy([tool.name for tool in TOOLS])]
    return await shop.play(script, TOOLS, limits=limits)


def texts(shop: Scene) -> list[str]:
    return [text for _, text, _ in shop.results()]


async def test_an_edit_that_is_not_found_twice_brings_the_advice_to_read_again_once(shop: Scene) -> None:
    wrong = [("edit", {"path": "shop/total.py", "old": f"no such {n}", "new": "x"}) for n in range(4)]
    assert (await play(shop, iter(wrong))).status == "answered"
    advised = ["read shop/total.py again" in text for text in texts(shop)]
    assert advised == [False, True, False, False]


async def test_searches_that_find_nothing_bring_other_ways_and_one_that_finds_brings_none(
    shop: Scene,
) -> None:
    calls = [("search", {"pattern": word}) for word in ("zebra", "total", "giraffe", "okapi", "total")]
    await play(shop, iter(calls))
    assert ["another word" in text for text in texts(shop)] == [False, False, False, True, False]


def after(
    limit: Any,
    name: str,
    data: Any,
    *,
    number: int = 0,
    is_error: bool = False,
    text: str = "said",
    write: bool = False,
) -> str:
    permission = PermissionClass.WRITE if write else PermissionClass.EXECUTE
    part = ToolCallPart(id=f"c{number}", name=name, arguments="{}")
    result = ToolResultPart(call_id=part.id, name=name, text=text, data=data, is_error=is_error)
    return limit.after_call(Call(part, {"n": number}), permission, result)


def test_tests_that_still_fail_after_three_edits_of_one_file_bring_other_ways() -> None:
    strategy = Strategy(["locate", "repair", "bash"])
    red, green = {"tests": [{"id": "t"}]}, {"tests": []}
    for _ in range(2):
        assert not after(strategy, "edit", {"path": "a.py"})
        assert not after(strategy, "run_tests", red)
    assert not after(strategy, "apply_patch", {"files": [{"path": "a.py"}, {"path": "b.py"}]})
    said = after(strategy, "run_tests", red)
    assert (
        "3 edits of a.py" in said and "locate" in said and "repair" in said and "git checkout -- a.py" in said
    )
    assert not after(strategy, "run_tests", red), "once"
    for _ in range(5):
        assert not after(strategy, "edit", {"path": "a.py"})
        assert not after(strategy, "run_tests", green), "never on a success"


async def test_the_same_failure_with_other_arguments_and_other_calls_between_is_a_loop(shop: Scene) -> None:
    def calls() -> Iterator[tuple[str, dict[str, Any]]]:
        for number in range(60):
            yield "edit", {"path": "shop/total.py", "old": f"for each{number} in", "new": "x"}
            yield "read", {"path": "shop/total.py", "start": 1, "end": number + 1}

    outcome = await play(shop, calls())
    assert outcome.status == "loop" and outcome.error.exit_code == 7 and outcome.steps < 40
    assert any("has failed 8 times in the same way" in text for text in texts(shop))


async def test_plans_without_work_between_them_are_a_loop(shop: Scene) -> None:
    calls = (
        ("todo", {"items": [{"text": f"step {n}"}, {"text": f"step {n + 1}"}][: 1 + n % 2]})
        for n in range(99)
    )
    outcome = await play(shop, calls)
    assert outcome.status == "loop" and outcome.steps == 12


async def test_a_command_that_fails_alike_however_it_is_asked_is_a_loop(shop: Scene) -> None:
    calls = (("bash", {"command": f"echo cannot reach the index; : {n}; exit 3"}) for n in range(99))
    outcome = await play(shop, calls)
    assert outcome.status == "loop" and outcome.steps == 16


async def test_sixty_edits_in_a_row_are_work(shop: Scene) -> None:
    def calls() -> Iterator[tuple[str, dict[str, Any]]]:
        text = "".join(f"line_{n} = old\n" for n in range(30))
        yield "write", {"path": "many.txt", "content": text}
        for number in range(30):
            yield "edit", {"path": "many.txt", "old": f"line_{number} = old", "new": f"line_{number} = new"}
        for number in range(30):
            yield "write", {"path": f"made/{number}.txt", "content": "same\n"}

    outcome = await play(shop, calls())
    assert outcome.status == "answered" and outcome.steps == 62
    assert not any("[" in text.splitlines()[-1] for text in texts(shop))


def test_sixty_files_that_each_fail_once_or_a_job_that_runs_long_are_work() -> None:
    guard = LoopGuard()
    for number in range(60):
        refused = {"reason": "not_found", "path": f"src/file{number}.py"}
        assert not after(guard, "edit", refused, number=number, is_error=True, text=f"not in file{number}")
    # The same test stays red while other things are being repaired.
    red = {"exit_code": 1}
    for number in range(60):
        assert not after(guard, "write", {"path": f"made{number}"}, number=number, write=True)
        assert not after(guard, "bash", red, number=number, text="Exit code 1.\nFAILED test_other")
    waiting = {"handle": "job1", "running": True}
    for _ in range(11):
        assert not after(guard, "bash", waiting, text="job1 has been running for 3.0 s. New output:\n(none)")
    with pytest.raises(LoopDetected):
        for _ in range(20):
            after(guard, "bash", waiting, text="job1 has been running for 3.0 s. New output:\n(none)")
