"""Dotted keys and the values given for them on the command line or in the environment."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from .model import Settings


class UnknownKey(ValueError):
    """No setting has this name."""


def split_key(text: str) -> tuple[str, ...]:
    """``prices."a.b".input`` -> its parts, by TOML's own rules.

    Raises:
        ValueError: not a key.
    """
    try:
        table: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{text!r} is not a key") from error
    parts: list[str] = []
    while isinstance(table, dict):
        found = cast("dict[str, Any]", table)
        if len(found) != 1:
            raise ValueError(f"{text!r} is not one key")
        name, table = next(iter(found.items()))
        parts.append(name)
    return tuple(parts)


def join_key(parts: tuple[str, ...]) -> str:
    """The reverse of ``split_key``."""
    return ".".join(
        part if part and all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in part)
        else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for part in parts
    )  # fmt: skip


def parse_value(key: tuple[str, ...], text: str) -> Any:
    """The value a text means for a key: as it stands where a text is wanted, else read as TOML.

    Raises:
        UnknownKey: there is no such setting, or it is a whole section.
        ValueError: the text is no value for it; one line.
    """
    if not is_known(key):
        raise UnknownKey(f"there is no setting {join_key(key)}")
    candidates: list[Any] = [text]
    with contextlib.suppress(tomllib.TOMLDecodeError, KeyError):
        candidates.insert(0, tomllib.loads(f"value = {text}")["value"])
    if text.lower() in ("true", "false"):
        candidates.insert(0, text.lower() == "true")
    problem = ""
    for value in candidates:
        try:
            Settings.model_validate(nested(key, value))
        except ValidationError as error:
            # What is said about the text itself is what the person can use.
            problem = explain(error)
            continue
        return value
    raise ValueError(problem)


def nested(key: tuple[str, ...], value: Any) -> dict[str, Any]:
    """``("a", "b"), 1`` -> ``{"a": {"b": 1}}``."""
    for part in reversed(key):
        value = {part: value}
    return value


def lookup(table: Mapping[str, Any], key: tuple[str, ...]) -> Any:
    """The value below nested tables; raises KeyError."""
    value: Any = table
    for part in key:
        if not isinstance(value, Mapping):
            raise KeyError(part)
        value = cast("Mapping[str, Any]", value)[part]
    return value


def is_known(key: tuple[str, ...]) -> bool:
    """Whether a key names a setting (not a whole section of them)."""
    return bool(key) and _known(Settings, key)


def _known(model: type[BaseModel], key: tuple[str, ...]) -> bool:
    field = model.model_fields.get(key[0])
    if field is None:
        return False
    kind: Any = field.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return len(key) > 1 and _known(kind, key[1:])
    if key[0] == "prices":
        return len(key) == 3 and key[2] in ("input", "output", "cached")
    if key[0] == "profiles":
        return len(key) > 2 and _known(Settings, key[2:])
    if key[0] == "mcp":
        return len(key) > 2
    if key[0] == "keys":
        return len(key) == 2
    return len(key) == 1


def unknown_keys(settings: BaseModel, below: tuple[str, ...] = ()) -> list[str]:
    """Keys that no version known here gives a meaning, dotted."""
    found = [join_key((*below, name)) for name in settings.model_extra or ()]
    for name in type(settings).model_fields:
        value: Any = getattr(settings, name)
        if isinstance(value, BaseModel):
            found += unknown_keys(value, (*below, name))
        elif name == "prices":
            for model, price in cast("dict[str, BaseModel]", value).items():
                found += unknown_keys(price, (*below, name, model))
        elif name == "profiles":
            for profile, table in cast("dict[str, dict[str, Any]]", value).items():
                try:
                    inner = Settings.model_validate(table)
                except ValidationError:
                    continue  # told when the profile is used
                found += unknown_keys(inner, (*below, name, profile))
    return found


def explain(error: ValidationError) -> str:
    """The first problem as one line, named by its dotted key."""
    problem = error.errors(include_url=False)[0]
    where = join_key(tuple(str(part) for part in problem["loc"])) or "the file"
    message = problem["msg"].removeprefix("Value error, ")
    more = len(error.errors()) - 1
    return f"{where}: {message}, not {problem['input']!r:.80}" + (f" (and {more} more)" if more else "")
