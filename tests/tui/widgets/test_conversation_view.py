"""A long history in a small window."""

from collections.abc import Callable

from textual.widget import Widget
from textual.widgets import Static
from whimbrel.app.tui.widgets.conversation_view import ConversationView, Shelf, Shelved
from whimbrel.app.tui.widgets.streaming_markdown import StreamingMarkdown
from whimbrel.app.tui.widgets.tool_card import ToolCard

from tests.tui.widgets.stage import Stage, finished, screen_text, started


class Said(Static):
    """A person's message."""

    def __init__(self, text: str) -> None:
        super().__init__(text, markup=False)
        self.said = text

    def renew(self) -> Callable[[], Widget]:
        text = self.said
        return lambda: Said(text)


def a_card(number: int, opened: bool = False) -> ToolCard:
    card = ToolCard(started("bash", str(number), command=f"command {number}."))
    card.expanded = opened
    card.finish(finished("bash", f"output of {number}\n" * 5, {"exit_code": 0}, call_id=str(number)))
    return card


class Long(Stage):
    """A conversation of turns with cards and answers."""

    def __init__(self, turns: int) -> None:
        super().__init__(ConversationView)
        self._turns = turns

    @property
    def view(self) -> ConversationView:
        return self.query_one(ConversationView)

    async def fill(self, pilot: object) -> None:
        view = self.view
        for turn in range(self._turns):
            cards = [a_card(turn * 10 + number, opened=number == 3) for number in range(10)]
            await view.mount_all([Said(f"turn {turn}."), *cards, StreamingMarkdown(f"Answer **{turn}**.")])
            view.settle_soon()
        await self.settled(pilot)

    async def settled(self, pilot: object) -> None:
        for _ in range(6):
            await pilot.pause()  # type: ignore[attr-defined]


async def test_far_things_leave_near_things_stay_and_the_end_is_followed() -> None:
    app = Long(20)
    async with app.run_test(size=(80, 30)) as pilot:
        await app.fill(pilot)
        view = app.view
        assert len(view.children) < 160
        assert len(view.entries()) == 20 * 12
        assert view.scroll_y == view.max_scroll_y
        assert "Answer 19." in screen_text(app)
        assert view.virtual_size.height == 20 * (1 + 15 + 1)


async def test_scrolling_anywhere_finds_it_there_in_order_and_as_it_was_left() -> None:
    app = Long(20)
    async with app.run_test(size=(80, 30)) as pilot:
        await app.fill(pilot)
        view = app.view
        for turn in (0, 10, 3, 19):
            view.release_anchor()
            view.scroll_to(y=min(turn * 17, view.max_scroll_y), animate=False)
            await app.settled(pilot)
            shown = [
                child
                for child in view.children
                if child.virtual_region.overlaps(view.scrollable_content_region)
            ]
            text = screen_text(app)
            assert not text.startswith("\n\n\n")
            assert f"turn {turn}." in text
            assert f"output of {turn * 10 + 3}" in text, "the opened card is still open"
            assert shown is not None
        assert [entry.text for entry in view.entries() if entry.turn] == [
            f"turn {turn}." for turn in range(20)
        ]
        assert view.virtual_size.height == 20 * 17


async def test_words_are_found_and_turns_reached_although_they_are_not_mounted() -> None:
    app = Long(20)
    async with app.run_test(size=(80, 30)) as pilot:
        await app.fill(pilot)
        view = app.view
        assert await view.find("COMMAND 57.")
        await app.settled(pilot)
        assert "command 57." in screen_text(app).splitlines()[0]
        assert await view.jump_turn(-1)
        await app.settled(pilot)
        assert "turn 5." in screen_text(app).splitlines()[0]
        assert await view.jump_turn(1)
        await app.settled(pilot)
        assert "turn 6." in screen_text(app).splitlines()[0]
        assert not await view.find("never said")


async def test_what_streams_at_the_end_does_not_move_a_person_who_reads_above() -> None:
    app = Long(10)
    async with app.run_test(size=(80, 30)) as pilot:
        await app.fill(pilot)
        view = app.view
        view.release_anchor()
        view.scroll_to(y=40, animate=False)
        await app.settled(pilot)
        before = screen_text(app)
        answer = StreamingMarkdown()
        await view.mount(answer)
        for _ in range(20):
            answer.append("More and more.\n\n")
            answer.flush()
        await app.settled(pilot)
        now = [line[:76] for line in screen_text(app).splitlines()]
        assert now == [line[:76] for line in before.splitlines()]
        view.scroll_end(animate=False)
        await app.settled(pilot)
        answer.append("The very end.")
        answer.finish()
        await app.settled(pilot)
        assert "The very end." in screen_text(app)


async def test_what_still_grows_never_leaves_and_a_stored_history_costs_no_widgets() -> None:
    app = Stage(ConversationView)
    async with app.run_test(size=(80, 30)) as pilot:
        view = app.query_one(ConversationView)
        view.put_shelved(
            [Shelved(lambda n=number: a_card(n), f"command {number}.", height=1) for number in range(5000)]
        )
        for _ in range(6):
            await pilot.pause()
        assert len(view.entries()) == 5000
        assert len(view.children) < 200
        assert "command 4999." in screen_text(app)
        running = ToolCard(started("bash", command="server"))
        await view.mount(running)
        view.release_anchor()
        view.scroll_to(y=0, animate=False)
        for _ in range(6):
            await pilot.pause()
        assert "command 0." in screen_text(app)
        assert running.is_mounted
        assert view.query_children(Shelf)


async def test_narrowing_and_widening_loses_nothing() -> None:
    app = Long(12)
    async with app.run_test(size=(200, 30)) as pilot:
        await app.fill(pilot)
        for width in (40, 200):
            await pilot.resize_terminal(width, 30)
            await app.settled(pilot)
            assert "Answer 11." in screen_text(app)
        assert len(app.view.entries()) == 12 * 12
