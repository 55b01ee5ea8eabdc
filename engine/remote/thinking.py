"""Watches whether a server heeds what it is told about thinking, and says once when it does not."""

from __future__ import annotations

from ..chat import Effort, ReasoningDelta, StepDiscarded, StreamEvent, Usage

LOW_IS_LESS_THAN = 8_192
"""Thinking tokens of one step; more at the tier ``low`` is no low effort of any model."""

_CHARACTERS_PER_TOKEN = 5.0
"""More than prose has, so that a guess from the text never accuses wrongly."""

_SLACK = 1.25


class ThinkingWatch:
    """Of one model; each remark is made once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._told: set[str] = set()
        self._pending = ""

    def known_to_be_ignored(self) -> None:
        """A probe has shown it: told with the next step."""
        self._pending = f"{self._name} does not heed the thinking tier (as its probe found)"

    def step(self, effort: Effort | None, cap: int | None) -> StepWatch:
        """A new step at this tier (None: thinking is off), with this cap on thinking tokens."""
        return StepWatch(self, effort, cap)

    def say_once(self, topic: str, text: str) -> str:
        if topic in self._told:
            return ""
        self._told.add(topic)
        return f"{self._name} {text}"

    def pending(self) -> str:
        text, self._pending = self._pending, ""
        return text


class StepWatch:
    """Of one step."""

    def __init__(self, owner: ThinkingWatch, effort: Effort | None, cap: int | None) -> None:
        self._owner = owner
        self._effort = effort
        self._cap = cap
        self._characters = 0

    def see(self, event: StreamEvent) -> str:
        """A remark for the person, or an empty string."""
        remark = self._owner.pending()
        if isinstance(event, StepDiscarded):
            self._characters = 0
        elif isinstance(event, ReasoningDelta):
            self._characters += len(event.text)
        elif isinstance(event, Usage):
            return remark or self._judge(event.reasoning_tokens)
        if self._effort is None and self._characters > 200:
            return remark or self._owner.say_once("off", "thinks although thinking is switched off")
        return remark

    def _judge(self, counted: int | None) -> str:
        tokens = counted if counted is not None else int(self._characters / _CHARACTERS_PER_TOKEN)
        about = "" if counted is not None else "about "
        if self._cap is not None and tokens > self._cap * _SLACK:
            return self._owner.say_once(
                "cap", f"ignores the thinking budget: {about}{tokens} tokens where {self._cap} were allowed"
            )
        if self._effort == "low" and tokens > LOW_IS_LESS_THAN:
            return self._owner.say_once(
                "low", f"seems to ignore the thinking tier: {about}{tokens} tokens of thinking at low"
            )
        return ""
