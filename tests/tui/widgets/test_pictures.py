"""Pictures of the widgets in one theme, and their readability in every theme."""

from collections.abc import Callable
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from whimbrel.app.tui.widgets.diff_review import DiffReview
from whimbrel.app.tui.widgets.diff_view import DiffView
from whimbrel.app.tui.widgets.plan_view import PlanView
from whimbrel.app.tui.widgets.rail import Rail
from whimbrel.app.tui.widgets.reasoning import Reasoning
from whimbrel.app.tui.widgets.sandbox_facts import SandboxFacts
from whimbrel.app.tui.widgets.streaming_markdown import StreamingMarkdown
from whimbrel.app.tui.widgets.tests_tree import TestTree
from whimbrel.app.tui.widgets.tool_card import ToolCard
from whimbrel.sandbox.protocol import SandboxDescription, SandboxLimits

from tests.tui.widgets.stage import Stage, finished, started
from tests.tui.widgets.test_diff_view import PATCH
from tests.tui.widgets.test_markdown import DOCUMENT
from tests.tui.widgets.test_rail import a_run, ticking
from tests.tui.widgets.test_tool_card import CALLS

BEFORE = {
    "tests/test_a.py::one": "failed",
    "tests/test_a.py::two": "passed",
    "tests/test_b.py::three": "passed",
}
AFTER = {
    "tests/test_a.py::one": "passed",
    "tests/test_a.py::two": "passed",
    "tests/test_b.py::three": "failed",
}


def a_card(name: str) -> ToolCard:
    arguments, data = CALLS[name]
    card = ToolCard(started(name, **arguments))
    card.expanded = True
    card.finish(finished(name, "a line\nanother line", data))
    return card


def a_rail() -> Rail:
    rail = Rail(window=100_000, clock=ticking(0.7))
    for event in a_run():
        rail.see(event)
    return rail


def facts() -> SandboxFacts:
    made = SandboxFacts()
    made.description = SandboxDescription(
        "bwrap", True, workdir="/home/x/repo", warnings=("no limit of processes",)
    )
    made.limits = SandboxLimits()
    return made


PLAN = [
    {"text": "Locate the fault", "status": "done"},
    {"text": "Patch it", "status": "in_progress"},
    {"text": "Run the tests", "status": "pending"},
]
WIDGETS: dict[str, tuple[Callable[[], Widget], ...]] = {
    "markdown": (lambda: StreamingMarkdown(DOCUMENT),),
    "cards": (
        lambda: Reasoning("I think about it."),
        *(lambda name=name: a_card(name) for name in ("bash", "edit", "read", "search", "run_tests", "todo")),
    ),
    "rail": (a_rail,),
    "diff": (lambda: DiffView(PATCH, "split"),),
    "review": (lambda: DiffReview(PATCH, "unified"),),
    "panels": (lambda: TestTree(BEFORE, AFTER), lambda: PlanView(PLAN), facts),
}


@pytest.mark.parametrize("name", WIDGETS)
def test_picture(name: str, snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(Stage(*WIDGETS[name]), terminal_size=(100, 44))


class Together(App[None]):
    """A conversation with the rail beside it."""

    CSS = "#talk { width: 1fr; padding: 0 1; } #talk > * { margin-bottom: 1; }"

    def compose(self) -> ComposeResult:
        with Horizontal():
            with Vertical(id="talk"):
                yield Reasoning("Which function is it?")
                yield StreamingMarkdown(
                    "I will look at `low` first.\n\n- it compares with `>`\n- the test wants `>=`"
                )
                yield a_card("edit")
                yield PlanView(PLAN)
            yield a_rail()


def test_picture_of_all_together(snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(Together(), terminal_size=(110, 36))


def test_picture_of_wide_characters_after_scrolling(snap_compare: Callable[..., bool]) -> None:
    from textual.containers import VerticalScroll

    text = "漢字かな `コード` 交じり文と emoji 🎉 and `code 한국어` in one line that wraps somewhere\n\n" * 20

    async def scroll(pilot: Any) -> None:
        pilot.app.query_one(VerticalScroll).scroll_to(y=7, animate=False)
        await pilot.pause()

    app = Stage(lambda: VerticalScroll(StreamingMarkdown(text)))
    assert snap_compare(app, terminal_size=(80, 24), run_before=scroll)


@pytest.mark.parametrize("name", WIDGETS)
async def test_no_text_has_the_colour_of_its_background_in_any_theme(name: str) -> None:
    app = Stage(*WIDGETS[name])
    async with app.run_test(size=(100, 44)) as pilot:
        app.screen.query("*").first().focus()
        for theme in app.available_themes:
            app.theme = theme
            await pilot.pause()
            for strip in app.screen._compositor.render_strips():
                for text, style, _ in strip:
                    if style is None or style.color is None or not text.strip(" ─━│▌▎█▁▔▃▆▂▅▇"):
                        continue
                    same = style.color == style.bgcolor and not style.color.is_default
                    assert not same, f"{theme}: {text!r} in {style}"
