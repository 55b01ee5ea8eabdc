"""Tool calls and reasoning: one line that opens, whatever the tool printed."""

import pytest
from rich.cells import cell_len
from whimbrel.app.agent.events import ToolProgress
from whimbrel.app.tui.widgets.reasoning import Reasoning
from whimbrel.app.tui.widgets.tool_card import ToolCard

from tests.tui.widgets.stage import ESCAPES, HOSTILE, WIDE, Stage, finished, screen_text, started, texts

NASTY = f"{ESCAPES} {HOSTILE} {WIDE}"
CALLS = {
    "bash": ({"command": f"echo {NASTY}\nls"}, {"exit_code": 1}),
    "edit": ({"path": NASTY, "old": f"a\n{NASTY}", "new": f"b\n{NASTY}"}, {"changed_lines": [1, 2]}),
    "multi_edit": ({"path": "x", "edits": [{"old": "a", "new": NASTY}]}, {"changed_lines": [1, 2]}),
    "write": ({"path": "x", "content": NASTY}, {"changed_lines": [1, 1], "created": True}),
    "apply_patch": ({"patch": f"--- a/x\n+++ b/{NASTY}\n@@ -1 +1 @@\n-a\n+{NASTY}\n"}, {}),
    "read": (
        {"path": NASTY},
        {"path": "x.py", "start": 7, "end": 8, "total_lines": 9, "lines": [NASTY, "def f():"]},
    ),
    "search": (
        {"pattern": NASTY},
        {"matches": [{"path": NASTY, "line": 3, "text": NASTY}], "total_lines": 1},
    ),
    "list": (
        {"path": "."},
        {"entries": [{"path": NASTY, "kind": "directory"}, {"path": "b", "kind": "file"}]},
    ),
    "glob": ({"pattern": "**"}, {"paths": [NASTY], "total": 1}),
    "run_tests": (
        {"tests": [NASTY]},
        {
            "counts": {"failed": 1},
            "tests": [{"id": NASTY, "outcome": "failed", "exception": "E", "message": NASTY, "frames": []}],
            "collection_errors": [{"path": NASTY, "message": NASTY}],
            "flaky": [NASTY],
        },
    ),
    "repair": (
        {},
        {"status": "fixed", "patches": [{"explanation": NASTY, "verified": True, "diff": f"+{NASTY}"}]},
    ),
    "todo": ({"items": []}, {"items": [{"text": NASTY, "status": "in_progress"}]}),
    "locate": ({}, {"locations": []}),
    "server__odd": ({"anything": {"nested": [NASTY]}}, [1, NASTY]),
    "sub_agent": ({"task": NASTY}, None),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("error", [False, True])
async def test_nothing_a_tool_says_is_interpreted_whatever_the_tool(name: str, error: bool) -> None:
    arguments, data = CALLS[name]
    app = Stage(lambda: ToolCard(started(name, **arguments)))
    async with app.run_test(size=(60, 40)) as pilot:
        card = app.query_one(ToolCard)
        card.progress(ToolProgress(call_id="1", name=name, phase="x", text=NASTY))
        card.finish(finished(name, NASTY, data, error=error))
        await pilot.pause()
        card.action_show_all()
        await pilot.pause()
        strips = card.strips_for(40)
        assert all(strip.cell_length <= 40 for strip in strips)
        text = "\n".join(texts(strips))
        assert not any(ord(character) < 32 and character != "\n" for character in text)
        if name not in ("locate", "glob"):
            assert "[/red" in "".join("".join(texts(card.strips_for(4000))).split())


async def test_thousands_of_lines_are_one_line_until_asked_for() -> None:
    app = Stage(lambda: ToolCard(started("bash", command="ls -R /usr")))
    async with app.run_test(size=(80, 30)) as pilot:
        card = app.query_one(ToolCard)
        card.finish(finished("bash", "".join(f"file {number}\n" for number in range(5000)), {"exit_code": 0}))
        await pilot.pause()
        assert card.size.height == 1
        assert "ls -R /usr" in screen_text(app)
        card.focus()
        await pilot.press("enter")
        await pilot.pause()
        lines = texts(card.strips_for(78))
        assert len(lines) == card.LINES + 2
        assert "4,980 more lines" in lines[-1]
        await pilot.press("a")
        await pilot.pause()
        assert len(card.strips_for(78)) == 5001
        await pilot.press("enter")
        await pilot.pause()
        assert card.size.height == 1


async def test_a_click_opens_a_card_and_a_click_on_its_last_line_shows_all() -> None:
    app = Stage(lambda: ToolCard(started("bash", command="x")))
    async with app.run_test(size=(80, 60)) as pilot:
        card = app.query_one(ToolCard)
        card.finish(finished("bash", "line\n" * 30, {"exit_code": 0}))
        await pilot.pause()
        await pilot.click(card, offset=(5, 0))
        await pilot.pause()
        assert card.size.height == card.LINES + 2
        await pilot.click(card, offset=(5, card.LINES + 1))
        await pilot.pause()
        assert card.size.height == 31


async def test_a_running_call_tells_its_last_step_and_an_error_its_reason_unasked() -> None:
    clock = iter(range(100))
    app = Stage(lambda: ToolCard(started("repair"), clock=lambda: float(next(clock))))
    async with app.run_test(size=(80, 10)) as pilot:
        card = app.query_one(ToolCard)
        for number in range(3):
            card.progress(ToolProgress(call_id="1", name="repair", phase="patch", text=f"{number} of 300"))
        await pilot.pause()
        assert texts(card.strips_for(78))[1:] == ["  2 of 300"]
        card.finish(finished("repair", "no test fails\nmore", {"reason": "not_found"}, error=True))
        await pilot.pause()
        head, reason = texts(card.strips_for(78))
        assert "not found" in head
        assert reason == "  no test fails more"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("bash", {"exit_code": 2}, "exit 2"),
        ("bash", {"exit_code": -9, "timed_out": True}, "timed out"),
        ("run_tests", {"counts": {"passed": 3, "failed": 1}}, "3 passed, 1 failed"),
    ],
)
async def test_bad_news_of_a_call_that_worked_is_marked(name: str, data: object, said: str) -> None:
    app = Stage(lambda: ToolCard(started(name)))
    async with app.run_test(size=(80, 10)) as pilot:
        card = app.query_one(ToolCard)
        card.finish(finished(name, "", data))
        await pilot.pause()
        head = texts(card.strips_for(78))[0]
        assert head.startswith("✗")
        assert said in head


async def test_reasoning_is_one_line_and_streams_linearly_when_open() -> None:
    app = Stage(Reasoning)
    async with app.run_test(size=(60, 30)) as pilot:
        thought = app.query_one(Reasoning)
        thought.append("I think [b]that[/b] ")
        await pilot.pause()
        assert thought.size.height == 1
        thought.action_open_close()
        made: list[int] = []
        wrapped = thought._wrapped

        def counting(line: str, width: int) -> list[object]:
            made.append(len(line))
            return wrapped(line, width)  # type: ignore[return-value]

        thought._wrapped = counting  # type: ignore[method-assign,assignment]
        counts = []
        for _ in range(2):
            made.clear()
            for _ in range(100):
                thought.append("so this line of thought goes on " * 8)
                thought.changed()
                thought.strips_for(58)
            counts.append(sum(made))
        assert counts[1] < 1.5 * counts[0]
        thought.finish()
        text = "".join("".join(texts(thought.strips_for(58))[1:]).split())
        assert text == "".join(thought.text.split())
        assert all(cell_len(line) <= 58 for line in texts(thought.strips_for(58)))
        thought.discard()
        assert thought.text == ""
