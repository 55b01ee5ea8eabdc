"""Grammars (GBNF) for answers that must be a JSON value of a schema, or one of some texts.

Unlike the arguments of a tool, which the tool checks once more, an answer goes to a program that relies
on its form: a keyword that the converter of llama-cpp-python does not honour is refused by name.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

_ANNOTATIONS = frozenset(
    ["title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly"]
)
_KEPT = frozenset(["type", "enum", "const", "required", "pattern", "format", "$ref"])
_COUNTS = frozenset(["minItems", "maxItems", "minLength", "maxLength"])
_LISTS = frozenset(["anyOf", "oneOf", "prefixItems"])
_NAMED = frozenset(["properties", "$defs", "definitions"])
_MOST = 1_000
"""Repetitions are written out in a grammar: more would take minutes to read."""


class Inexpressible(Exception):
    """The form cannot be held to; one line."""


def check_structure(structure: Mapping[str, Any]) -> None:
    """Raises Inexpressible: a keyword that would not be honoured; loads nothing."""
    if structure["kind"] == "json_schema":
        _plain(structure["value"], "schema")


def answer_grammar(structure: Mapping[str, Any]) -> str:
    """GBNF text with the rule ``root``.

    Args:
        structure: ``kind`` (json_object, json_schema, choice) and ``value``.

    Raises:
        Inexpressible: the schema is none, or the converter does not take it.
    """
    if structure["kind"] == "choice":
        texts = " | ".join(_literal(str(each)) for each in cast(Sequence[Any], structure["value"]))
        return f"root ::= {texts}\n"
    schema = (
        _plain(structure["value"], "schema") if structure["kind"] == "json_schema" else {"type": "object"}
    )
    library: Any = importlib.import_module("llama_cpp.llama_grammar")
    converter = library.SchemaConverter(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
    try:
        converter.visit(converter.resolve_refs(schema, "schema"), "answer")
        rules = str(converter.format_grammar())
    except Exception as error:  # somebody else's schema in somebody else's converter: any failure
        raise Inexpressible(
            f"the schema cannot be made a grammar: {' '.join(str(error).split())[:200]}"
        ) from error
    return f"{rules}\nroot ::= space answer\n"


def _plain(schema: Any, where: str) -> dict[str, Any]:
    """A schema of nothing but what the converter honours."""
    if schema is True:
        return {}
    if not isinstance(schema, dict):
        raise Inexpressible(f"{where} is no schema")
    given = cast(dict[str, Any], schema)
    if isinstance(given.get("allOf"), list) and len(given["allOf"]) == 1:
        given = {**given, **_plain(given["allOf"][0], where)}
        del given["allOf"]
    kept: dict[str, Any] = {}
    for key, value in given.items():
        place = f"{where}.{key}"
        if key in _ANNOTATIONS:
            continue
        if key in _KEPT:
            kept[key] = value
        elif key in _COUNTS:
            if not isinstance(value, int) or not 0 <= value <= _MOST:
                raise Inexpressible(f"{place} must be a whole number up to {_MOST} here")
            kept[key] = value
        elif key in _LISTS and isinstance(value, list):
            kept[key] = [_plain(each, place) for each in cast(list[Any], value)]
        elif key in _NAMED and isinstance(value, dict):
            entries = cast(dict[str, Any], value)
            kept[key] = {name: _plain(each, f"{place}.{name}") for name, each in entries.items()}
        elif key == "items":
            kept[key] = _plain(value, place)
        elif key == "additionalProperties":
            kept[key] = value if isinstance(value, bool) else _plain(value, place)
        else:
            raise Inexpressible(f"{place} is not supported")
    absent = set(kept.get("required") or ()) - set(kept.get("properties") or ())
    if absent:
        raise Inexpressible(f"{where}.required names {sorted(absent)[0]!r}, which is none of the properties")
    return kept


def _literal(text: str) -> str:
    """A text in the grammar's quotes, which are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\\/", "/")
