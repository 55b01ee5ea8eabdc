"""What the repair tool promises beyond finding a patch."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from project import opened
from whimbrel.app.repair.repairer import SCRATCH
from whimbrel.app.tools.base import Progress, ToolContext
from whimbrel.app.tools.locate import LocateArguments, LocateTool
from whimbrel.app.tools.repair import RepairArguments, RepairTool
from whimbrel.sandbox.base.errors import ToolError
from whimbrel.sandbox.base.git import Git

BUGGY = {
    "cart.py": "def total(prices):\n    result = 0\n    for price in prices:\n        result -= price\n"
    "    return result\n",
    "tests/test_cart.py": "from cart import total\n\n\ndef test_total():\n    assert total([1, 3]) == 4\n\n\n"
    "def test_nothing():\n    assert total([]) == 0\n",
}
UNFIXABLE = {
    "cart.py": "def total(prices):\n    return 'a long way from a number'\n",
    "tests/test_cart.py": "from cart import total\n\n\ndef test_total():\n    assert total([1, 3]) == 4711\n",
}


async def repair(context: ToolContext, **arguments: object):
    return await RepairTool().run(context, RepairArguments.model_validate(arguments))


async def test_the_patch_is_applied_to_the_copy_applies_to_the_original_and_is_explained(tmp_path: Path):
    progress: list[Progress] = []
    async with opened(tmp_path, BUGGY, progress=progress) as context:
        before = (tmp_path / "repository" / "cart.py").read_bytes()
        result = await repair(context)
        (patch,) = result.data["patches"]
        assert b"result += price" in context.workspace.read("cart.py")
        assert (tmp_path / "repository" / "cart.py").read_bytes() == before
        git = Git(tmp_path / "repository" / ".git", tmp_path / "repository")
        await git.run("apply", "--check", "-", input=patch["diff"].encode())
        assert patch["explanation"] == (
            "`total` in cart.py updated a variable with the wrong operator: line 4 was `result -= price` and "
            "is now `result += price`. The test tests/test_cart.py::test_total saw it: "
            + patch["explanation"].split("saw it: ")[1]
        )
        assert "AssertionError" in patch["explanation"]
    phases = [each.phase for each in progress]
    assert phases.index("locate") < phases.index("patch") < phases.index("verify")


async def test_no_failing_test_is_an_error_the_model_can_read(tmp_path: Path):
    files = {**BUGGY, "cart.py": BUGGY["cart.py"].replace("-=", "+=")}
    async with opened(tmp_path, files) as context:
        with pytest.raises(ToolError, match="no test fails"):
            await repair(context)
        located = await LocateTool().run(context, LocateArguments())
        assert located.data == {"locations": []}


async def test_the_candidate_limit_ends_the_search_and_is_named(tmp_path: Path):
    async with opened(tmp_path, UNFIXABLE) as context:
        tree = await context.workspace.snapshot()
        result = await repair(context, max_candidates=3)
        assert result.data["status"] == "not_fixed"
        assert result.data["limit"] == "candidates"
        assert result.data["candidates_tried"] == 3
        assert await context.workspace.snapshot() == tree


async def test_the_time_limit_ends_the_search_and_is_named(tmp_path: Path):
    async with opened(tmp_path, UNFIXABLE) as context:
        result = await repair(context, max_seconds=0.01)
        assert result.data["status"] == "not_fixed"
        assert result.data["limit"] == "time"


async def test_two_edits_that_the_tests_cannot_tell_apart_are_ambiguous_and_none_is_applied(tmp_path: Path):
    files = {
        "size.py": "def size():\n    return 40\n",
        "tests/test_size.py": "from size import size\n\n\ndef test_size():\n    assert size() in (39, 41)\n",
    }
    async with opened(tmp_path, files) as context:
        tree = await context.workspace.snapshot()
        result = await repair(context)
        assert result.data["status"] == "ambiguous"
        both = [*result.data["patches"], *result.data["alternatives"]]
        new = {line for patch in both for line in patch["diff"].splitlines() if line.startswith("+    ")}
        assert {"+    return 39", "+    return 41"} <= new
        assert await context.workspace.snapshot() == tree


async def test_cancelling_restores_the_workspace_and_keeps_the_best_so_far(tmp_path: Path):
    progress: list[Progress] = []
    async with opened(tmp_path, UNFIXABLE, progress=progress) as context:
        tree = await context.workspace.snapshot()
        task = asyncio.create_task(repair(context))
        while not any(each.phase == "patch" and each.fraction for each in progress):
            await asyncio.sleep(0.01)
            assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await context.workspace.snapshot() == tree
        assert context.scratch[SCRATCH]["status"] == "interrupted"
        assert context.scratch[SCRATCH]["candidates_tried"] >= 1


async def test_candidates_that_never_end_do_not_stop_the_search(tmp_path: Path):
    """The bug is an endless loop, so its test only ends by its limit."""
    files = {
        "count.py": "def steps(n):\n    done = 0\n    while n > 0:\n        n += 1\n        done += 1\n"
        "    return done\n",
        "tests/test_count.py": "from count import steps\n\n\ndef test_steps():\n    assert steps(3) == 3\n\n"
        "\ndef test_zero():\n    assert steps(0) == 0\n",
    }
    async with opened(tmp_path, files, test_timeout_s=2) as context:
        result = await repair(context)
        assert result.data["status"] == "fixed", result.text
        assert b"n -= 1" in context.workspace.read("count.py")


async def test_a_flaky_test_is_neither_a_target_nor_held_against_the_patch(tmp_path: Path):
    marks = tmp_path / "marks"
    flaky = (
        "from pathlib import Path\n\n\ndef test_every_other_time():\n"
        f"    marks = Path({str(marks)!r})\n"
        "    count = int(marks.read_text()) if marks.exists() else 0\n"
        "    marks.write_text(str(count + 1))\n"
        "    assert count % 2\n"
    )
    async with opened(tmp_path, {**BUGGY, "tests/test_flaky.py": flaky}) as context:
        result = await repair(context)
        assert result.data["status"] == "fixed", result.text
        assert "test_every_other_time" not in result.data["patches"][0]["explanation"]


async def test_files_that_tests_rewrite_are_not_part_of_the_result(tmp_path: Path):
    files = {
        **BUGGY,
        "data.txt": "0\n",
        "tests/test_data.py": "from pathlib import Path\n\n\ndef test_rewrites():\n"
        "    path = Path(__file__).parent.parent / 'data.txt'\n"
        "    path.write_text(path.read_text() + 'x')\n",
    }
    async with opened(tmp_path, files) as context:
        context.scratch.clear()
        start = await context.workspace.snapshot()
        result = await repair(context)
        assert result.data["status"] == "fixed", result.text
        assert {each.path for each in await context.workspace.changed_files(start)} <= {"cart.py", "data.txt"}
        assert "data.txt" not in result.data["patches"][0]["diff"]


async def test_a_module_that_cannot_be_imported_is_repaired(tmp_path: Path):
    files = {
        "limits.py": "LOWEST = 3\nHIGHEST = LOWST + 4\n\n\ndef inside(n):\n"
        "    return LOWEST <= n <= HIGHEST\n",
        "tests/test_limits.py": "from limits import inside\n\n\ndef test_inside():\n    assert inside(7)\n"
        "    assert not inside(8)\n",
    }
    async with opened(tmp_path, files) as context:
        result = await repair(context)
        assert result.data["status"] == "fixed", result.text
        assert b"HIGHEST = LOWEST + 4" in context.workspace.read("limits.py")


async def test_the_test_is_never_edited_even_when_that_would_be_the_easy_way(tmp_path: Path):
    files = {
        "answer.py": "def answer():\n    return 'a long way from a number'\n",
        "tests/helper.py": "def expected():\n    return 42\n",
        "tests/test_answer.py": "import sys\nfrom pathlib import Path\n\n"
        "sys.path.insert(0, str(Path(__file__).parent))\n"
        "from answer import answer\nfrom helper import expected\n\n\ndef test_answer():\n"
        "    assert answer() == expected()\n",
    }
    async with opened(tmp_path, files) as context:
        result = await repair(context, max_candidates=60)
        assert result.data["status"] == "not_fixed"
        for patch in result.data["patches"]:
            assert not patch["path"].startswith("tests/")
        assert not await context.workspace.changed_files()


async def test_only_the_tests_asked_for_have_to_turn_green(tmp_path: Path):
    files = {
        **BUGGY,
        "other.py": "def size():\n    return 'a long way from a number'\n",
        "tests/test_other.py": "from other import size\n\n\ndef test_other():\n    assert size() == 4711\n",
    }
    async with opened(tmp_path, files) as context:
        result = await repair(context, tests=["tests/test_cart.py::test_total"])
        assert result.data["status"] == "fixed", result.text


async def test_a_failure_outside_the_projects_code_does_not_hide_the_bug(tmp_path: Path):
    missing = "def test_machine():\n    assert open('/no/such/file/on/this/machine').read()\n"
    progress: list[Progress] = []
    async with opened(tmp_path, {**BUGGY, "tests/test_machine.py": missing}, progress=progress) as context:
        result = await repair(context)
        assert result.data["status"] == "fixed", result.text
    assert any("left out" in each.text and "test_machine" in each.text for each in progress)


async def test_locate_ranks_the_faulty_function_two_calls_away_with_reasons(tmp_path: Path):
    from scenarios import all_scenarios

    (scenario,) = (each for each in all_scenarios() if each.name == "two-calls-away")
    async with opened(tmp_path, scenario.files) as context:
        result = await LocateTool().run(context, LocateArguments(limit=3))
        places = result.data["locations"]
        assert [place["function"] for place in places].count("share") == 1
        assert len(places) == 3
        share = next(place for place in places if place["function"] == "share")
        assert share["path"] == "desk/money.py"
        assert any("failing and" in reason for reason in share["reasons"])
        assert set(share) == {"path", "function", "line", "end_line", "score", "reasons"}
