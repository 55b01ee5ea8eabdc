"""Schemas of foreign tools: whatever comes in, every endpoint can take what goes out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from whimbrel.app.mcp.schemas import MAX_BYTES, object_schema


def plain(node: Any) -> bool:
    """Only nodes with a single type name or alternatives of such; no references, no booleans."""
    if "anyOf" in node:
        return all(plain(item) for item in node["anyOf"])
    if not isinstance(node.get("type"), str):
        return False
    if node["type"] == "array" and not plain(node["items"]):
        return False
    return all(plain(item) for item in node.get("properties", {}).values())


@pytest.mark.parametrize(
    "raw",
    [
        None,
        True,
        [],
        {"type": ["object", "null"], "properties": None, "required": "x"},
        {"properties": {"a": {}, "b": True, "c": {"type": ["array", "null"]}, "d": {"items": [{}, False]}}},
        {"properties": {"type": {"const": 3}, "$ref": {"type": "string"}, "properties": {"minimum": 1}}},
        {"$ref": "#/definitions/X", "definitions": {"X": {"allOf": [{"$ref": "#/definitions/X"}, {}]}}},
        {
            "properties": {"t": {"$ref": "#/$defs/T"}},
            "$defs": {"T": {"properties": {"t": {"$ref": "#/$defs/T"}}}},
        },
        {"properties": {"u": {"$ref": "https://example.invalid/x"}, "v": {"$ref": "#/nowhere"}}},
        {"oneOf": [{"properties": {"a": {"anyOf": [{"type": "null"}]}}}, True, {"type": "string"}]},
        {"properties": {"n": {"anyOf": [{"type": "null"}, {"enum": ["x", None]}], "not": {}, "if": True}}},
        {"properties": {f"p{n}": {"enum": list(range(200)), "description": "d" * 900} for n in range(90)}},
    ],
)
def test_any_schema_becomes_a_plain_object(raw: Any):
    made = object_schema(raw)
    assert made["type"] == "object" and plain(made) and len(json.dumps(made)) <= MAX_BYTES
    text = json.dumps(made)
    assert "$defs" not in made and '"$ref": "#' not in text and "null" not in text


def test_what_is_said_plainly_stays():
    raw = {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": ["a", "b"], "description": "Which."},
                       "id": {"type": ["integer", "null"], "minimum": 1}},
        "required": ["kind"],
        "additionalProperties": False,
    }  # fmt: skip
    made = object_schema(raw)
    assert made["properties"]["kind"] == raw["properties"]["kind"]  # type: ignore[index]
    assert made["properties"]["id"] == {"type": "integer", "minimum": 1}
    assert made["required"] == ["kind"] and made["additionalProperties"] is False


def test_alternatives_of_arguments_are_offered_together_and_parts_are_joined():
    one = {"properties": {"a": {"type": "string"}, "c": {"type": "string"}}, "required": ["a", "c"]}
    other = {"properties": {"b": {"type": "string"}, "c": {"type": "string"}}, "required": ["b", "c"]}
    assert sorted(object_schema({"anyOf": [one, other]})["properties"]) == ["a", "b", "c"]
    assert object_schema({"anyOf": [one, other]})["required"] == ["c"]
    assert object_schema({"allOf": [one, other]})["required"] == ["a", "c", "b"]
