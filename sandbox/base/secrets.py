"""Keeps the values of secrets out of everything that is written or shown.

A secret is the value of an environment variable whose name says so (``*_API_KEY``,
``*_TOKEN``, ``*_PASSWORD``, ...). Values are matched whatever their letter case,
because logs and error texts often change it, and also in the form they take inside
a JSON string.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MIN_SECRET_LENGTH = 8
"""Shorter values (``test``, ``1``) would tear holes in ordinary text."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:api_?key|access_?key|secret_?key|private_?key|key|token|secret|pass(?:w(?:or)?d|phrase)?|pat"
    r"|credentials?|bearer)(?:_|$)|(?:token|secret|passw(?:or)?d|apikey)\d*$",
    re.IGNORECASE,
)
_PASSWORD_IN_URL = re.compile(r"^[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@", re.IGNORECASE)
_NOT_SECRET_NAME = re.compile(r"(?:_file|_path|_dir|_id|_url|_name)$", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether an environment variable of this name holds a secret by its name."""
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET_NAME.search(name)


_registered: dict[str, str] = {}
"""Secrets that came from elsewhere than the environment (a keyring)."""


def register_secret(name: str, value: str) -> None:
    """Treats a value as a secret from now on, in this process."""
    _registered[name] = value


def secret_values(environ: Mapping[str, str] | None = None) -> tuple[tuple[str, str], ...]:
    """``(name, value)`` of every secret in the environment, longest value first.

    Whatever a variable is called, a password inside an address (``DATABASE_URL``) is one too.
    """
    source = os.environ if environ is None else environ
    found: list[tuple[str, str]] = list(_registered.items())
    for name, value in source.items():
        if is_secret_name(name):
            found.append((name, value.strip()))
        elif match := _PASSWORD_IN_URL.match(value):
            found.append((name, match[1]))
    found = [(name, value) for name, value in found if len(value) >= MIN_SECRET_LENGTH]
    return tuple(sorted(found, key=lambda pair: (-len(pair[1]), pair[0])))


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
        for form in dict.fromkeys((value, json.dumps(value)[1:-1])):
            forms.append(f"({re.escape(form)})")
            names[len(forms)] = name
    return re.compile("|".join(forms), re.IGNORECASE), names


@lru_cache(maxsize=16)
def _bytes_pattern(known: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[bytes], dict[int, str]]:
    names: dict[int, str] = {}
    forms: list[bytes] = []
    for name, value in known:
        forms.append(b"(" + re.escape(value.encode("utf-8", "surrogateescape")) + b")")
        names[len(forms)] = name
    return re.compile(b"|".join(forms), re.IGNORECASE), names
