"""What the interface knows about its runs: the options they start with, the session, the last result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .driver import Driver

if TYPE_CHECKING:
    from ...engine.chat import ImagePart
    from ..fix.options import FixOptions


@dataclass(frozen=True)
class Launch:
    """How the interface was started. ``prepare`` reads the settings: it runs after the first paint."""

    repository: Path
    prepare: Callable[[], FixOptions]
    resume: str | None = None
    latest: bool = False
    attach: str | None = None
    theme: str = ""
    inline: bool = False


@dataclass
class Runs:
    """One conversation; ``ready`` is set when the options are there."""

    launch: Launch
    driver: Driver = field(default_factory=Driver)
    options: FixOptions | None = None
    session_id: str = ""
    latest: bool = False
    model_given: bool = True
    last: dict[str, Any] = field(default_factory=dict[str, Any])
    """The last result, as its file says it."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    problem: str = ""
    """Why there are no options."""

    @property
    def model(self) -> str:
        return self.options.model if self.options is not None else ""

    @property
    def effort(self) -> str:
        return self.options.effort if self.options is not None else "auto"

    def change(self, **fields: Any) -> None:
        """Other options from the next run on."""
        if self.options is not None:
            self.options = replace(self.options, **fields)

    def talk(self, prompt: str, images: tuple[ImagePart, ...] = ()) -> None:
        """Starts a turn."""
        from ..talk.options import TalkOptions

        assert self.options is not None
        self.driver.talk(
            TalkOptions(
                base=replace(self.options, spent_s=0.0),
                prompt=prompt,
                images=images,
                resume=self.session_id or None,
                latest=self.latest and not self.session_id,
                model_given=self.model_given,
            )
        )

    def fix(self, issue: str) -> None:
        """Starts the fix-issue job; without a text the failing tests speak."""
        assert self.options is not None
        self.driver.fix(replace(self.options, spent_s=0.0, issue=issue or None, issue_is_text=issue == "-"))

    def ended(self, result: dict[str, Any]) -> None:
        """A result came."""
        self.last = result
        self.session_id = str(result.get("session_id") or self.session_id)
        self.latest = False
        self.model_given = True
