"""Grammars (GBNF) that let a model write nothing but calls of the tools there are.

The rules for JSON come from the converter that llama-cpp-python brings. It gets the structure of each
tool's schema only: limits of length and number would blow a grammar up, and are checked later anyway.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from .tags import CALL, END_CALL

_KEPT = ("type", "enum", "const", "required")
_NESTED = ("anyOf", "oneOf", "allOf")
_DEEPEST = 24


def call_grammar(tools: Sequence[Mapping[str, Any]], *, opened: bool, several: bool = True) -> str:
    """GBNF text with the rule ``root``: one call, or ``several`` one after the other.

    Args:
        tools: entries with ``name`` and ``parameters`` (JSON schema).
        opened: whether the tag of the first call has been written already.
    """
    library = importlib.import_module("llama_cpp.llama_grammar")
    alternatives = [_call(tool, _usable(library, tool)) for tool in tools]
    rules = _rules(library, {"anyOf": alternatives})
    another = f'"{CALL}" space call "{END_CALL}"'
    first = f'space call "{END_CALL}"' if opened else another
    more = f" ( space {another} )*" if several else ""
    return f"{rules}\nroot ::= {first}{more}\n"


def _usable(library: Any, tool: Mapping[str, Any]) -> dict[str, Any]:
    """The structure of a tool's arguments; any object where the converter does not take it."""
    parameters = tool.get("parameters")
    schema = structure(parameters, parameters)
    schema = {**schema, "type": "object"} if not schema.get("type") else schema
    try:
        _rules(library, _call(tool, schema))
    except Exception:  # noqa: BLE001 - somebody else's schema in somebody else's converter: any failure
        return {"type": "object"}
    return schema


def _call(tool: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": tool["name"]}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _rules(library: Any, schema: dict[str, Any]) -> str:
    converter = library.SchemaConverter(
        prop_order={"name": 0, "arguments": 1}, allow_fetch=False, dotall=False, raw_pattern=False
    )
    converter.visit(schema, "call")
    return str(converter.format_grammar())


def structure(schema: Any, whole: Any, depth: int = 0) -> dict[str, Any]:
    """A schema without limits and remarks, and with local references put in; recursion ends in anything."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return {}
    given = cast(dict[str, Any], schema)
    if isinstance(given.get("$ref"), str):
        return structure(_referred(given["$ref"], whole), whole, depth + 1)
    kept = {key: given[key] for key in _KEPT if key in given}
    if isinstance(given.get("properties"), dict):
        fields = cast(dict[str, Any], given["properties"])
        kept["properties"] = {name: structure(each, whole, depth + 1) for name, each in fields.items()}
        kept["additionalProperties"] = False
        kept["required"] = [name for name in kept.get("required", ()) if name in fields]
    for key in ("items", "additionalProperties"):
        if isinstance(given.get(key), dict) and key not in kept:
            kept[key] = structure(given[key], whole, depth + 1)
    for key in _NESTED:
        if isinstance(given.get(key), list):
            kept[key] = [structure(each, whole, depth + 1) for each in given[key]]
    return kept


def _referred(reference: str, whole: Any) -> Any:
    if not reference.startswith("#/"):
        return None
    value = whole
    for name in reference[2:].split("/"):
        value = value.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(value, dict) else None
    return value
