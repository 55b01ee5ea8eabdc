"""Constrained decoding with llguidance: grammars over any vocabulary of token bytes.

A grammar is Lark text. ``ids`` writes exact token ids into it, so that the markers of a chat format are
the tokens the model was trained on, and cannot be spelled by text.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from ...sandbox.base.errors import ModelError
from .guides import Marker
from .request import Array, InvalidRequest

_BLANKS = r"[ \n]{0,32}"
"""Between the parts of a JSON text: indented as anyone likes, but no model can go on with blanks for ever."""


class Vocabulary:
    """A vocabulary as llguidance wants it; made once per model (about a second for 160,000 tokens)."""

    def __init__(
        self,
        pieces: Sequence[bytes],
        special: Iterable[int],
        stop: Sequence[int],
        encode: Callable[[str], Sequence[int]],
        size: int | None = None,
    ) -> None:
        """
        Args:
            pieces: bytes per token id; for control tokens a name that tells them apart.
            special: ids of control tokens, which no text spells.
            stop: ids that end an answer, the usual one first.
            encode: ordinary text to ids, control tokens not recognised.
            size: rows of the model's logits, where there are more than pieces.
        """
        library = importlib.import_module("llguidance")
        self.pieces = list(pieces)
        self.size = len(self.pieces) if size is None else size
        self.tokens: Sequence[bytes] = self.pieces
        self.eos_token_id = stop[0]
        self.bos_token_id = None
        self.special_token_ids = sorted(set(special))
        self._encode = encode
        self.native: Any = library.LLTokenizer(
            library.TokenizerWrapper(self), n_vocab=max(self.size, len(self.pieces)), eos_token=list(stop)
        )
        self._matcher: Any = library.LLMatcher
        self.compile = lru_cache(maxsize=64)(self._compile)

    def __call__(self, text: str | bytes) -> list[int]:
        """Called by llguidance for the tokens of forced text."""
        return list(self._encode(text.decode("utf-8", "replace") if isinstance(text, bytes) else text))

    def _compile(self, grammar: str) -> Any:
        """A matcher at the start of a grammar (copy it, never use it).

        Raises:
            InvalidRequest: it is none, or one that is too large.
        """
        matcher = self._matcher(self.native, grammar, log_level=0)
        if matcher.is_error():
            lines = [line.strip() for line in str(matcher.get_error()).splitlines() if line.strip()]
            said = lines[0] if lines else "no reason given"
            raise InvalidRequest(
                f"the grammar or schema cannot be used: {said[:300]}", parameter="response_format"
            )
        return matcher

    def guide(self, grammar: str, *, after: Sequence[int] = ()) -> Constraint:
        """A guide for Lark text; with ``after``, it holds from the end of that run of tokens on."""
        return Constraint(self.compile(grammar).deep_copy(), self.size, after)


class Constraint:
    """Lets nothing pass that the grammar does not allow; writes what only one way is left for."""

    def __init__(self, matcher: Any, size: int, after: Sequence[int]) -> None:
        self._matcher = matcher
        self._size = size
        self._marker = Marker(after) if after else None
        self.active = not after

    @property
    def satisfied(self) -> bool:
        """Whether what was written is a complete text of the grammar."""
        return self.active and bool(self._matcher.is_accepting())

    def forced(self) -> Sequence[int]:
        if not self.active or self._matcher.is_stopped():
            return ()
        return self._matcher.compute_ff_tokens()

    def allowed(self) -> Array | None:
        if not self.active:
            return None
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._sound()
        return np.unpackbits(bits, count=self._size, bitorder="little").view(np.bool_)

    def accept(self, token: int) -> None:
        if self._marker is not None:
            if self._marker.see(token):
                self._marker, self.active = None, True
            return
        if not self._matcher.consume_token(token):
            self._sound()

    def _sound(self) -> None:
        if self._matcher.is_error():
            said = str(self._matcher.get_error()).strip().partition("\n")[0]
            raise ModelError(f"constrained decoding failed: {said[:300]}")


def ids(tokens: Iterable[int]) -> str:
    """Lark for exactly these tokens."""
    return " ".join(f"<[{token}]>" for token in tokens)


def json_rule(schema: Any) -> str:
    """Lark for a JSON text of a schema (True or {}: any)."""
    given = cast(dict[str, Any], schema) if isinstance(schema, dict) else {}
    return f"%json {json.dumps({**given, 'x-guidance': {'whitespace_pattern': _BLANKS}})}"


def text_rule(choices: Sequence[str]) -> str:
    """Lark for one of several texts."""
    return "( " + " | ".join(json.dumps(choice) for choice in choices) + " )"
