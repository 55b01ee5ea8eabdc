"""Keys that are recognised by their form alone, whoever they belong to.

For what goes into logs, sessions and doors. Never for files or patches, whose bytes must stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from .secrets import redact, redact_bytes, redact_json

_MAX_HELD = 8192

@dataclass(frozen=True)
class _Form:
    """A kind of key: a literal beginning, which makes looking for it cheap, and the rest."""

    kind: str
    start: str
    rest: str
    alone: bool = True
    """Whether it may not continue a longer word."""

    @cached_property
    def text(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.start) + self.rest)

    @cached_property
    def raw(self) -> re.Pattern[bytes]:
        return re.compile(self.text.pattern.encode())


_WORD = r"[A-Za-z0-9_-]"
_BLOCK_REST = (
    r"(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:(?!-----END)[\s\S]){16,20000}?"
    r"(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
# Every form is long and has a fixed beginning: hashes, identifiers and class names must stay readable.
_FORMS: tuple[_Form, ...] = (
    *(_Form("github-token", f"gh{letter}_", r"[A-Za-z0-9]{30,255}") for letter in "pousr"),
    _Form("github-token", "github_pat_", r"[A-Za-z0-9_]{22,255}"),
    *(_Form("gitlab-token", f"gl{kind}-", _WORD + "{20,}") for kind in ("pat", "dt", "rt", "ptt")),
    # Three digits somewhere: `sk-container-with-a-long-name` is a style sheet's, not a key.
    _Form("api-key", "sk-", r"(?=(?:[A-Za-z_-]*\d){3})" + _WORD + "{20,}"),
    *(_Form("stripe-key", f"{a}k_{b}_", r"[A-Za-z0-9]{16,}") for a in "sr" for b in ("live", "test")),
    *(_Form("aws-key-id", start, r"[A-Z0-9]{16}(?![A-Za-z0-9])") for start in ("AKIA", "ASIA", "AIDA", "AROA")),
    *(_Form("slack-token", f"xox{letter}-", r"[A-Za-z0-9-]{10,}") for letter in "abeoprs"),
    _Form("google-key", "AIza", _WORD + "{35}"),
    _Form("google-token", "ya29.", _WORD + "{30,}"),
    _Form("npm-token", "npm_", r"[A-Za-z0-9]{36}"),
    _Form("pypi-token", "pypi-", _WORD + "{50,}"),
    _Form("hugging-face-token", "hf_", r"[A-Za-z0-9]{30,}"),
    _Form("sendgrid-key", "SG.", _WORD + r"{16,}\." + _WORD + "{16,}"),
    _Form("jwt", "eyJ", _WORD + r"{8,}\.eyJ" + _WORD + r"{8,}\." + _WORD + "{8,}"),
    _Form("private-key", "-----BEGIN ", _BLOCK_REST, alone=False),
    _Form("password", "://", r"[^\s/:@'\"<>{}$%]{0,64}:[^\s/:@'\"<>{}$%]{6,128}(?=@[A-Za-z0-9.\[-])", alone=False),
    *(
        _Form("credential", f"{name}: {scheme} ", r"[A-Za-z0-9._~+/=-]{16,}", alone=False)
        for name in ("Authorization", "authorization")
        for scheme in ("Bearer", "bearer", "Basic", "basic")
    ),
)
_STARTS = tuple(dict.fromkeys(form.start for form in _FORMS if form.alone))
_ENDING = re.compile(r"[A-Za-z0-9_.-]+\Z")
_OPEN_BLOCK = re.compile(r"-----BEGIN (?:(?!-----END [A-Z0-9 ]*-----)[\s\S])*\Z")


def mask(text: str, environ: Mapping[str, str] | None = None) -> str:
    """``redact``, and known forms of keys replaced by ``[redacted:kind]``."""
    return _mask_forms(redact(text, environ))


def mask_bytes(data: bytes, environ: Mapping[str, str] | None = None) -> bytes:
    """``mask`` for raw output of unknown encoding."""
    clean = redact_bytes(data, environ)
    for form in _FORMS:
        if form.start.encode() in clean:
            clean = form.raw.sub(partial(_raw_replacement, form), clean)
    return clean


def mask_json(value: Any, environ: Mapping[str, str] | None = None) -> Any:
    """A copy of a JSON value (tuples allowed) with every string in it masked, keys included."""

    def clean(item: Any) -> Any:
        if isinstance(item, str):
            return _mask_forms(item)
        if isinstance(item, Mapping):
            return {clean(key): clean(content) for key, content in item.items()}
        if isinstance(item, list | tuple):
            return [clean(content) for content in item]
        return item

    return clean(redact_json(value, environ))


def _mask_forms(text: str) -> str:
    if len(text) < 12:
        return text
    for form in _FORMS:
        if form.start in text:
            text = form.text.sub(partial(_replacement, form), text)
    return text


def _replacement(form: _Form, match: re.Match[str]) -> str:
    before = match.string[match.start() - 1 : match.start()]
    if form.alone and before and (before.isalnum() or before in "_-"):
        return match.group()
    if form.kind == "password":
        return f"{match.group().rsplit(':', 1)[0]}:[redacted:password]"
    if form.kind == "credential":
        return f"{form.start}[redacted:credential]"
    return f"[redacted:{form.kind}]"


def _raw_replacement(form: _Form, match: re.Match[bytes]) -> bytes:
    before = match.string[max(0, match.start() - 1) : match.start()]
    text = (before + match.group()).decode("latin-1")
    found = re.compile(form.text.pattern).search(text, len(before))
    return _replacement(form, found).encode("latin-1") if found else match.group()


def open_block(text: str) -> int:
    """How many characters at the end belong to a key block that has not ended yet."""
    start = text.rfind("-----BEGIN ")
    if start < 0 or len(text) - start > _MAX_HELD or not _OPEN_BLOCK.match(text, start):
        return 0
    return len(text) - start


def begun(text: str) -> int:
    """How many characters at the end may be a key that goes on in the next piece."""
    ending = _ENDING.search(text)
    if ending is None:
        return 0
    word = ending.group()
    if len(word) > _MAX_HELD:
        return 0
    if any(word.startswith(start) or start.startswith(word) for start in _STARTS) or "-----BEGIN ".startswith(word):
        return len(word)
    return 0

