"""What is known about a model at an endpoint, and where that is kept between runs.

A fact has a value (True, False, a number, a text; None = unknown) and says how it was
found out. Profiles can be made again at any time: a file that is damaged, of another
version or too old is as good as none.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import Field, ValidationError

from ...sandbox.base.files import atomic_write
from ..chat import Capabilities, Frozen, JsonValue

VERSION = 1
EXPIRES_S = 7 * 24 * 3600.0
MAX_BYTES = 1 << 20

FACTS = {
    "context_window": "context window",
    "reasoning_field": "reasoning field",
    "reasoning_input": "reasoning field for input",
    "reasoning_returned": "reasoning sent back",
    "empty_content": "content beside calls",
    "tools": "tool calls",
    "parallel_tools": "parallel calls",
    "images": "images",
    "structured_output": "structured output",
    "effort": "effort honoured",
    "thinking_budget": "thinking_budget",
    "thinking_token_budget": "thinking_token_budget",
    "usage": "usage reported",
    "cached_tokens": "cached tokens reported",
}
"""Names of facts and what people read, in the order shown."""


class Fact(Frozen):
    """One thing found out."""

    value: JsonValue = None
    how: str


class Profile(Frozen):
    """All that was found out about one model at one address."""

    version: int = VERSION
    base_url: str
    model: str
    dialect: str
    made_at: float
    """Seconds since 1970."""
    complete: bool = False
    """Whether the model was asked, not only its server's lists were read."""
    facts: dict[str, Fact] = Field(default_factory=dict[str, Fact])
    prices: tuple[float, float] | None = None
    """US dollars per million input and output tokens, as the server lists them."""

    def value(self, name: str) -> JsonValue:
        fact = self.facts.get(name)
        return fact.value if fact else None

    def yes(self, name: str) -> bool | None:
        value = self.value(name)
        return value if isinstance(value, bool) else None

    @property
    def context_window(self) -> int | None:
        value = self.value("context_window")
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    @property
    def capabilities(self) -> Capabilities:
        field = self.value("reasoning_field")
        return Capabilities(
            tools=self.yes("tools"),
            parallel_tools=self.yes("parallel_tools"),
            images=self.yes("images"),
            reasoning=bool(field) if field is not None else None,
            effort=self.yes("effort"),
        )


class ProfileStore:
    """One small file per endpoint and model."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock

    def path(self, base_url: str, model: str) -> Path:
        name = hashlib.sha256(f"{base_url}\n{model}".encode("utf-8", "surrogatepass")).hexdigest()[:24]
        return self._folder / f"{name}.json"

    def load(self, base_url: str, model: str) -> Profile | None:
        """The profile, unless there is none that can be used."""
        path = self.path(base_url, model)
        try:
            if path.stat().st_size > MAX_BYTES:
                return None
            profile = Profile.model_validate_json(path.read_bytes())
        except (OSError, ValidationError, ValueError):
            return None
        fresh = 0 <= self._clock() - profile.made_at <= EXPIRES_S
        same = (profile.version, profile.base_url, profile.model) == (VERSION, base_url, model)
        return profile if fresh and same else None

    def listed(self) -> list[Profile]:
        """Every profile that can be used, newest first."""
        found: list[Profile] = []
        try:
            paths = [path for path in self._folder.glob("*.json") if path.stat().st_size <= MAX_BYTES]
        except OSError:
            return []
        for path in paths:
            try:
                one = Profile.model_validate_json(path.read_bytes())
            except (OSError, ValidationError, ValueError):
                continue
            if one.version == VERSION and 0 <= self._clock() - one.made_at <= EXPIRES_S:
                found.append(one)
        return sorted(found, key=lambda one: one.made_at, reverse=True)

    def save(self, profile: Profile) -> bool:
        """Keeps it; False when the folder cannot be written, which costs only another look."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            data = profile.model_dump_json(indent=1).encode("utf-8", "replace")
            atomic_write(self.path(profile.base_url, profile.model), data + b"\n", mode=0o600)
        except OSError:
            return False
        return True
