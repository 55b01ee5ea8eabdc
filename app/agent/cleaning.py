"""Keeps secrets out of what doors see, also where a secret is streamed in several pieces."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from ...engine.chat import ReasoningDelta, TextDelta, ToolCallArguments
from ...sandbox.base.secrets import redact, redact_json, secret_values
from .events import AgentEvent

_Delta = TextDelta | ReasoningDelta | ToolCallArguments


class StreamCleaner:
    """Events in, events out, with every secret of the environment replaced.

    A piece whose end may be the beginning of a secret is held back until the next one tells.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._known = secret_values(self._environ)
        forms = {form.lower() for _, value in self._known for form in (value, json.dumps(value)[1:-1])}
        self._forms = tuple(forms)
        self._ascii = all(form.isascii() for form in forms)
        self._longest = max(map(len, forms), default=0)
        self._held: dict[tuple[str, str], _Delta] = {}

    def feed(self, event: AgentEvent) -> list[AgentEvent]:
        """What may be shown now."""
        if not self._known:
            return [event]
        if not isinstance(event, _Delta):
            shown: list[AgentEvent] = [
                _with_text(held, self._redact(_text(held))) for held in self._held.values()
            ]
            self._held.clear()
            clean = redact_json(event.model_dump(), self._environ)
            return [*shown, type(event).model_validate(clean)]
        channel = (event.kind, event.id if isinstance(event, ToolCallArguments) else "")
        held = self._held.pop(channel, None)
        text = self._redact((_text(held) if held else "") + _text(event))
        hold = self._begun(text)
        if hold:
            self._held[channel] = _with_text(event, text[-hold:])
            text = text[:-hold]
        return [_with_text(event, text)] if text else []

    def _redact(self, text: str) -> str:
        # Looked for here first: an answer comes in thousands of pieces, and nearly none holds a secret.
        if text.isascii() and self._ascii:
            lowered = text.lower()
            if not any(form in lowered for form in self._forms):
                return text
        return redact(text, self._environ)

    def _begun(self, text: str) -> int:
        """How many characters at the end may be the beginning of a secret."""
        tail = text[-(self._longest - 1) :].lower() if self._longest > 1 else ""
        for start in range(len(tail)):
            if any(form.startswith(tail[start:]) for form in self._forms):
                return len(tail) - start
        return 0


def _text(event: _Delta) -> str:
    return event.delta if isinstance(event, ToolCallArguments) else event.text


def _with_text(event: _Delta, text: str) -> _Delta:
    return event.model_copy(update={"delta" if isinstance(event, ToolCallArguments) else "text": text})
