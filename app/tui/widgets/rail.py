"""The long-haul rail: where a run is, how it got there, and what it has cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.timer import Timer

from .expandable import seconds, spread, styled
from .rail_state import Leg, RailState
from .strips_widget import StripsWidget, strip_of

__all__ = ["Rail", "short_number"]

SIGNS = {"retry": "↻", "note": "·"}
BAR = 10


class Rail(StripsWidget):
    """Give it every event through ``see``; it draws at most ``RATE`` times a second, and once a
    second while something runs, else never. One line high it shows the essentials in that line."""

    RATE = 10
    COLOURS: ClassVar[Mapping[str, str]] = {
        "title": "bold",
        "muted": "$foreground 60%",
        "done": "$text-success",
        "bad": "$text-error",
        "running": "$text-warning bold",
        "line": "$foreground 38%",
        "bar": "$text-accent",
        "note": "$foreground 60% italic",
    }
    DEFAULT_CSS = """
    Rail {
        height: 1fr; width: 36; color: $foreground; background: $surface; padding: 0 1;
        &.-line { height: 1; width: 1fr; }
    }
    """

    def __init__(
        self,
        *,
        window: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.state = RailState(clock=clock, window=window)
        self._drawn: tuple[int, int, int, int, list[Strip]] | None = None
        self._ticker: Timer | None = None
        self._waiting: Timer | None = None
        self.ticks = 0
        """Times the rail drew itself anew because time went by."""

    def see(self, event: object) -> None:
        """A JobEvent, an agent event, or the JSON form of one."""
        version = self.state.version
        self.state.see(event)
        if self.state.version != version and self.is_mounted and self._waiting is None:
            self._waiting = self.set_timer(1 / self.RATE, self._show)

    @property
    def ticking(self) -> bool:
        """Whether it draws itself once a second."""
        return self._ticker is not None

    def set_window(self, tokens: int | None) -> None:
        """How much the model's context holds."""
        self.state.window = tokens
        self.state.version += 1
        self.refresh()

    def end(self) -> None:
        """The run is over; where it told no result, it was stopped."""
        if self.state.running:
            self.state.end("stopped")
            if self.is_mounted:
                self._show()

    def clear(self) -> None:
        """For another session."""
        self.state = RailState(clock=self.state.clock, window=self.state.window)
        self._drawn = None
        self._show()

    def on_mount(self) -> None:
        self._show()

    def _show(self) -> None:
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None
        if self.state.running != self.ticking:
            if self._ticker is not None:
                self._ticker.stop()
            self._ticker = self.set_interval(1.0, self._tick) if self.state.running else None
        self.refresh()

    def _tick(self) -> None:
        self.ticks += 1
        self._drawn = None
        self.refresh()

    # ------------------------------------------------------------ lines

    def forget_strips(self) -> None:
        self._drawn = None

    def on_resize(self, event: events.Resize) -> None:
        self._drawn = None

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.state.legs) + 6

    def strips_for(self, width: int) -> Sequence[Strip]:
        height, state = self.size.height, self.state
        key = (width, height, state.version, id(state))
        if self._drawn is None or self._drawn[:4] != key:
            lines = [self._line(width)] if height < 3 else self._lines(width, height)
            self._drawn = (*key, [strip_of(line, self.palette) for line in lines])
        return self._drawn[4]

    def _lines(self, width: int, height: int) -> list[Content]:
        facts = self._facts(width)[: max(0, height - 6)]
        room = max(1, height - len(facts) - 3)
        lines = [self._title(width), styled("─" * width, "line")]
        legs = [line for leg in self.state.legs[-room:] for line in self._leg(leg, width)]
        if len(legs) > room or len(self.state.legs) > room:
            legs = [styled("  ⋮ earlier", "muted"), *legs[-room + 1 :]]
        lines += legs
        lines += [Content("")] * max(0, height - len(lines) - len(facts) - 1)
        return [*lines[: height - len(facts) - 1], styled("─" * width, "line"), *facts]

    def _title(self, width: int) -> Content:
        state = self.state
        if state.waiting:
            left = styled("Waiting for you", "running")
        elif state.status:
            good = state.status in ("fixed", "answered", "done")
            left = styled(state.status.replace("_", " ").capitalize(), "done" if good else "bad")
        else:
            left = styled("Under way" if state.running else "Ready", "title")
        if state.attempt > 1:
            left += styled(f"  attempt {state.attempt}", "muted")
        return spread(left, styled(seconds(state.elapsed), "muted"), width)

    def _leg(self, leg: Leg, width: int) -> list[Content]:
        if leg.kind == "note":
            text = styled(f"  · {leg.detail}", "bad" if leg.state == "bad" else "note")
            return [text.truncate(width, ellipsis=True)]
        style = {"running": "running", "bad": "bad"}.get(leg.state, "done")
        sign = SIGNS.get(leg.kind) or {"running": "◉", "bad": "✗"}.get(leg.state, "●")
        count = f" ×{leg.calls}" if leg.calls > 1 else ""
        took = "" if leg.kind == "retry" else seconds(leg.took(self.state.clock()))
        left = Content(" ").join(
            [styled(sign, style), styled(leg.kind, "title" if leg.state == "running" else "")]
        )
        head = spread(left + styled(count, "muted"), styled(took, "muted"), width)
        if not leg.detail or leg.kind == "retry":
            return [head]
        detail = styled("│ ", "line") + styled(leg.detail, "bad" if leg.state == "bad" else "muted")
        return [head, detail.truncate(width, ellipsis=True)]

    def _facts(self, width: int) -> list[Content]:
        state, usage = self.state, self.state.usage
        lines: list[Content] = []
        if state.effort:
            thinking = styled(f"thinking {state.effort}", "title")
            lines.append(spread(thinking, styled(f"step {state.step}", "muted"), width))
            if state.reason:
                lines.append(styled(state.reason, "muted").truncate(width, ellipsis=True))
        if usage.input_tokens is not None or usage.output_tokens is not None:
            cached = (
                f" ({short_number(usage.cached_tokens)} cached)" if usage.cached_tokens is not None else ""
            )
            text = f"in {short_number(usage.input_tokens)}{cached}  out {short_number(usage.output_tokens)}"
            lines.append(styled(text, "muted").truncate(width, ellipsis=True))
        elif usage.estimated_tokens:
            lines.append(styled(f"about {short_number(usage.estimated_tokens)} tokens", "muted"))
        if state.context is not None:
            lines.append(self._context_line(width))
        if usage.cost_usd is not None:
            lines.append(styled(f"${usage.cost_usd:.4f}".rstrip("0").rstrip("."), "muted"))
        return lines

    def _context_line(self, width: int) -> Content:
        used, window = self.state.context or 0, self.state.window
        if not window:
            return styled(f"context {short_number(used)}", "muted")
        share = min(1.0, used / window)
        full = round(share * BAR)
        bar = styled("━" * full, "bad" if share > 0.85 else "bar") + styled("─" * (BAR - full), "line")
        return (
            Content(" ")
            .join(
                [styled("context", "muted"), bar, styled(f"{share:.0%} of {short_number(window)}", "muted")]
            )
            .truncate(width, ellipsis=True)
        )

    def _line(self, width: int) -> Content:
        """Everything on one line, the most important first."""
        state = self.state
        parts = [self._short_title()]
        if state.legs:
            leg = state.legs[-1]
            parts.append(styled(f"{leg.kind} {leg.detail}".strip(), "bad" if leg.state == "bad" else ""))
        right = [f"{state.effort}" if state.effort else ""]
        if state.context is not None and state.window:
            right.append(f"{min(1.0, state.context / state.window):.0%} full")
        if state.usage.tokens:
            right.append(f"{short_number(state.usage.tokens)} tok")
        if state.usage.cost_usd is not None:
            right.append(f"${state.usage.cost_usd:.2f}")
        right.append(seconds(state.elapsed))
        return spread(
            Content(" · ").join(parts), styled(" · ".join(part for part in right if part), "muted"), width
        )

    def _short_title(self) -> Content:
        state = self.state
        word = (
            "waiting"
            if state.waiting
            else state.status.replace("_", " ") or ("●" if state.running else "ready")
        )
        return styled(word, "running" if state.running else "title")


def short_number(value: int | None) -> str:
    """``12.3k`` for 12,345; ``?`` where nobody told."""
    if value is None:
        return "?"
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= limit:
            scaled = value / limit
            return f"{scaled:.1f}{unit}" if scaled < 100 else f"{scaled:.0f}{unit}"
    return str(value)
