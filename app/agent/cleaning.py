"""Keeps secrets out of what doors see, also where a secret is streamed in several pieces."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...engine.chat import ReasoningDelta, TextDelta, ToolCallArguments
from ...sandbox.base.secrets import forms_of, secret_values
from ...sandbox.base.tokens import begun, mask, mask_json, open_block
from .events import AgentEvent

_Delta = TextDelta | ReasoningDelta | ToolCallArguments


class StreamCleaner:
    """Events in, events out, with every secret of the environment and every known form of a key replaced.

    A piece whose end may be the beginning of a secret is held back until the next one tells.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._known = secret_values(self._environ)
        forms = {form.lower() for _, value in self._known for form in forms_of(value)}
        self._forms = tuple(forms)
        self._ascii = all(form.isascii() for form in forms)
        self._longest = max(map(len, forms), default=0)
        self._held: dict[tuple[str, str], _Delta] = {}

    def feed(self, event: AgentEvent) -> list[AgentEvent]:
        """What may be shown now."""
        if not isinstance(event, _Delta):
            shown: list[AgentEvent] = [
                _with_text(held, self._mask(_text(held))) for held in self._held.values()
            ]
            self._held.clear()
            clean = mask_json(event.model_dump(), self._environ)
            return [*shown, type(event).model_validate(clean)]
        channel = (event.kind, event.id if isinstance(event, ToolCallArguments) else "")
        held = self._held.pop(channel, None)
        text = (_text(held) if held else "") + _text(event)
        # A block of many lines is one secret: it is looked at when its end has come.
        block = open_block(text)
        if block:
            text, rest = text[:-block], text[-block:]
            self._held[channel] = _with_text(event, rest)
            text = self._mask(text)
            return [_with_text(event, text)] if text else []
        text = self._mask(text)
        hold = self._begun(text)
        if hold:
            self._held[channel] = _with_text(event, text[-hold:])
            text = text[:-hold]
        return [_with_text(event, text)] if text else []

    def _mask(self, text: str) -> str:
        # Looked for here first: an answer comes in thousands of pieces, and nearly none holds a secret.
        if text.isascii() and self._ascii:
            lowered = text.lower()
            if not any(form in lowered for form in self._forms):
                return mask(text, {})
        return mask(text, self._environ)

    def _begun(self, text: str) -> int:
        """How many characters at the end may be the beginning of a secret."""
        tail = text[-(self._longest - 1) :].lower() if self._longest > 1 else ""
        for start in range(len(tail)):
            if any(form.startswith(tail[start:]) for form in self._forms):
                return max(len(tail) - start, begun(text))
        return begun(text)


def _text(event: _Delta) -> str:
    return event.delta if isinstance(event, ToolCallArguments) else event.text


def _with_text(event: _Delta, text: str) -> _Delta:
    return event.model_copy(update={"delta" if isinstance(event, ToolCallArguments) else "text": text})
