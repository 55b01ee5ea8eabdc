"""Tests as a tree, the plan, the sandbox and pictures."""

import io
from pathlib import Path

import pytest
from PIL import Image
from whimbrel.app.tui.widgets import image_view
from whimbrel.app.tui.widgets.image_view import HalfBlocks, ImageView
from whimbrel.app.tui.widgets.plan_view import PlanView
from whimbrel.app.tui.widgets.sandbox_facts import SandboxFacts
from whimbrel.app.tui.widgets.tests_tree import TestTree, change_of
from whimbrel.sandbox.protocol import SandboxDescription, SandboxLimits

from tests.tui.widgets.stage import ESCAPES, HOSTILE, WIDE, Stage, screen_text, texts


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("failed", "passed", "repaired"),
        ("error", "passed", "repaired"),
        ("timeout", "xfailed", "repaired"),
        ("passed", "failed", "broken"),
        ("passed", "timeout", "broken"),
        ("failed", "failed", "failing"),
        (None, "error", "failing"),
        ("passed", "passed", "passing"),
        (None, "passed", "new"),
        ("passed", None, "gone"),
        ("passed", "skipped", "other"),
    ],
)
def test_what_became_of_a_test(before: str | None, after: str | None, change: str) -> None:
    assert change_of(before, after) == change


class Chooses(Stage):
    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.chosen: list[str] = []

    def on_test_tree_chosen(self, event: TestTree.Chosen) -> None:
        self.chosen.append(event.test_id)


async def test_thousands_of_tests_cost_the_screen_and_the_worst_come_first() -> None:
    before = {f"tests/test_{number % 50}.py::test_{number}[{HOSTILE}]": "passed" for number in range(5000)}
    after = dict(before)
    broken, repaired = list(before)[37], list(before)[12]
    after[broken], before[repaired] = "failed", "failed"
    app = Chooses(lambda: TestTree(before, after))
    async with app.run_test(size=(100, 20)) as pilot:
        tree = app.query_one(TestTree)
        await pilot.pause()
        assert tree.counts() == {"broken": 1, "repaired": 1, "passing": 4998}
        lines = screen_text(app).splitlines()
        assert "tests/test_37.py" in lines[0] and "1 broken" in lines[0]
        assert "✗" in lines[1] and "passed → failed" in lines[1]
        assert HOSTILE[:6] in lines[1]
        assert tree.lines_drawn < 4 * 20
        tree.focus()
        await pilot.press("down", "enter")
        await pilot.pause()
        assert app.chosen == [broken]
        await pilot.press("up", "enter")
        await pilot.pause()
        assert "tests/test_12.py" in screen_text(app).splitlines()[1]
        await pilot.click(tree, offset=(3, 2))
        await pilot.pause()
        assert app.chosen == [broken, repaired]


async def test_one_run_alone_is_told_as_it_is() -> None:
    app = Stage(lambda: TestTree({"a.py::x": "failed", "a.py::y": "passed", "b.py": "error"}))
    async with app.run_test(size=(60, 10)) as pilot:
        await pilot.pause()
        assert app.query_one(TestTree).counts() == {"failing": 2, "new": 1}


async def test_a_plan_is_there_when_there_is_one() -> None:
    app = Stage(PlanView)
    async with app.run_test(size=(40, 20)) as pilot:
        plan = app.query_one(PlanView)
        assert not plan.display or plan.size.height == 0
        plan.show(
            [
                {"text": f"Locate {HOSTILE}", "status": "done"},
                {"text": f"Patch {WIDE} {ESCAPES}", "status": "in_progress"},
                {"text": "Test", "status": "pending"},
                {},
            ]
        )
        await pilot.pause()
        strips = plan.strips_for(38)
        lines = texts(strips)
        assert lines[0].endswith("1/4")
        assert all(strip.cell_length <= 38 for strip in strips)
        assert [line[0] for line in lines if line[:1] in "✓▸○"] == ["✓", "▸", "○", "○"]
        assert HOSTILE[:8] in "".join(lines)
        plan.show([])
        await pilot.pause()
        assert plan.styles.display != "block" or plan.size.height == 0


async def test_the_sandbox_facts_tell_what_holds_and_what_runs() -> None:
    app = Stage(SandboxFacts)
    async with app.run_test(size=(100, 30)) as pilot:
        facts = app.query_one(SandboxFacts)
        await pilot.pause()
        assert "No sandbox" in screen_text(app)
        warnings = (f"no limit {HOSTILE}",)
        described = SandboxDescription("docker", True, image="debian", workdir="/repo", warnings=warnings)
        facts.show(described, SandboxLimits(), [f"bash serve {HOSTILE}"])
        await pilot.pause()
        text = screen_text(app)
        for part in ("Docker container", "isolated", "4 GiB memory", f"no limit {HOSTILE[:10]}", "1 running"):
            assert part in text
        assert f"bash serve {HOSTILE[:10]}" in text
        facts.show(SandboxDescription("host", False))
        await pilot.pause()
        assert "NOT isolated" in screen_text(app) and "nothing is running" in screen_text(app)


def a_picture(wide: int, high: int, mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    Image.new(mode, (wide, high), "red").save(out, "PNG")
    return out.getvalue()


async def loaded(pilot: object, app: Stage) -> str:
    await app.workers.wait_for_complete()
    await pilot.pause()  # type: ignore[attr-defined]
    return screen_text(app)


@pytest.mark.parametrize(("wide", "high"), [(80, 40), (1, 1), (3000, 10), (10, 3000)])
async def test_a_picture_keeps_its_shape_within_the_place_it_has(wide: int, high: int) -> None:
    app = Stage(lambda: ImageView(a_picture(wide, high), f"shot {HOSTILE}", "blocks"))
    async with app.run_test(size=(60, 40)) as pilot:
        text = await loaded(pilot, app)
        assert f"shot {HOSTILE}"[:20] in text
        assert f"{wide} × {high}" in text
        blocks = app.query_one(HalfBlocks)
        columns, rows = blocks.cells(blocks.size.width)
        assert 1 <= columns <= 58 and 1 <= rows <= 24
        assert text.count("▀") == columns * rows


async def test_what_is_no_picture_or_too_large_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_view, "MAX_PIXELS", 2_000)
    huge = tmp_path / "huge.png"
    with huge.open("wb") as file:
        file.truncate(64 << 20)
    cases = {
        b"not a picture": "no picture",
        a_picture(40, 40)[:60]: "cannot be shown",
        a_picture(60, 60): "too many to show",
        huge: "too large to show",
        tmp_path / "gone.png": "cannot be shown",
    }
    for source, said in cases.items():
        app = Stage(lambda source=source: ImageView(source, way="blocks"))
        async with app.run_test(size=(80, 10)) as pilot:
            text = await loaded(pilot, app)
            assert said in text
            assert "▀" not in text


@pytest.mark.parametrize(
    ("environment", "worth"),
    [
        ({"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, True),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, False),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_only_terminals_that_may_show_pictures_are_asked(environment: dict[str, str], worth: bool) -> None:
    assert image_view.worth_asking(environment) is worth
