"""Keeps the values of secrets out of everything that is written or shown.

A secret is the value of an environment variable whose name says so (``*_API_KEY``,
``*_TOKEN``, ``*_PASSWORD``, ...). Values are matched whatever their letter case,
because logs and error texts often change it, and also as JSON, URL, base64 and hex
encoding write them. ``register`` adds secrets that were found elsewhere.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

MIN_SECRET_LENGTH = 8
"""Shorter values (``test``, ``1``) would tear holes in ordinary text."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:api_?key|access_?key|secret_?key|private_?key|key|token|secret|pass(?:w(?:or)?d|phrase)?|pat"
    r"|credentials?|bearer)(?:_|$)|(?:token|secret|passw(?:or)?d|apikey)\d*$",
    re.IGNORECASE,
)
_PASSWORD_IN_URL = re.compile(r"^[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@", re.IGNORECASE)
_NOT_SECRET_NAME = re.compile(r"(?:_file|_path|_dir|_id|_url|_name)$", re.IGNORECASE)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether an environment variable of this name holds a secret by its name."""
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET_NAME.search(name)


def secret_values(environ: Mapping[str, str] | None = None) -> tuple[tuple[str, str], ...]:
    """``(name, value)`` of every secret in the environment, longest value first.

    Whatever a variable is called, a password inside an address (``DATABASE_URL``) is one too.
    """
    source = os.environ if environ is None else environ
    found: list[tuple[str, str]] = []
    for name, value in source.items():
        if is_secret_name(name):
            found.append((name, value.strip()))
        elif "://" in value and (match := _PASSWORD_IN_URL.match(value)):
            found.append((name, match[1]))
    found = [(name, value) for name, value in found if len(value) >= MIN_SECRET_LENGTH]
    found += [pair for pair in _registered if pair not in found]
    return tuple(sorted(found, key=lambda pair: (-len(pair[1]), pair[0])))


_registered: list[tuple[str, str]] = []


def register(name: str, value: str) -> None:
    """Makes a value that was found somewhere (a file of settings) a secret of this process."""
    pair = (name, value.strip())
    if len(pair[1]) >= MIN_SECRET_LENGTH and pair not in _registered:
        _registered.append(pair)


@lru_cache(maxsize=256)
def forms_of(value: str) -> tuple[str, ...]:
    """The ways a value is written: plain, and as JSON, URL, base64 (anywhere in a longer text) and hex."""
    raw = value.encode("utf-8", "surrogateescape")
    forms = [value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    try:
        forms += [quote(value, safe=""), quote(value), quote_plus(value)]
    except UnicodeEncodeError:
        pass
    forms.append(raw.hex())
    for shift in range(3):
        # What stands before shifts the alignment; only the letters this value alone decides are stable.
        encoded = base64.b64encode(b"\0" * shift + raw).decode()
        first = -(-shift * 8 // 6)
        last = (shift + len(raw)) * 8 // 6
        stable = encoded[first:last]
        if len(stable) >= MIN_SECRET_LENGTH + 2:
            forms += [stable, stable.replace("+", "-").replace("/", "_")]
    return tuple(dict.fromkeys(form for form in forms if len(form) >= MIN_SECRET_LENGTH))


def redact(text: str, environ: Mapping[str, str] | None = None) -> str:
    """The text with every secret value replaced by ``[redacted:NAME]``."""
    known = secret_values(environ)
    if not known or not text:
        return text
    pattern, names = _text_pattern(known)
    return pattern.sub(lambda match: f"[redacted:{names[match.lastindex or 1]}]", text)


def redact_bytes(data: bytes, environ: Mapping[str, str] | None = None) -> bytes:
    """``redact`` for raw output of unknown encoding."""
    known = secret_values(environ)
    if not known or not data:
        return data
    pattern, names = _bytes_pattern(known)
    return pattern.sub(lambda match: f"[redacted:{names[match.lastindex or 1]}]".encode(), data)


def redact_json(value: Any, environ: Mapping[str, str] | None = None) -> Any:
    """A copy of a JSON value (tuples allowed) with every string in it redacted, keys included."""
    known = secret_values(environ)
    if not known:
        return value
    pattern, names = _text_pattern(known)

    def clean(item: Any) -> Any:
        if isinstance(item, str):
            return pattern.sub(lambda match: f"[redacted:{names[match.lastindex or 1]}]", item)
        if isinstance(item, Mapping):
            return {clean(key): clean(content) for key, content in item.items()}
        if isinstance(item, list | tuple):
            return [clean(content) for content in item]
        return item

    return clean(value)


@lru_cache(maxsize=16)
def _text_pattern(known: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], dict[int, str]]:
    """One alternation; group number -> variable name (case folding makes a lookup by text unsafe)."""
    names: dict[int, str] = {}
    forms: list[str] = []
    for name, value in known:
        for form in forms_of(value):
            forms.append(f"({re.escape(form)})")
            names[len(forms)] = name
    return re.compile("|".join(forms), re.IGNORECASE), names


@lru_cache(maxsize=16)
def _bytes_pattern(known: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[bytes], dict[int, str]]:
    names: dict[int, str] = {}
    forms: list[bytes] = []
    for name, value in known:
        for form in forms_of(value):
            forms.append(b"(" + re.escape(form.encode("utf-8", "surrogateescape")) + b")")
            names[len(forms)] = name
    return re.compile(b"|".join(forms), re.IGNORECASE), names
