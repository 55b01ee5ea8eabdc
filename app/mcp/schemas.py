"""Schemas of foreign tools, rewritten into the plain subset that every endpoint takes.

Endpoints refuse, or compile into a wrong grammar, schemas without ``type``, lists of types,
boolean nodes, references and exotic keywords. What comes out is an object schema made of
``type``, ``properties``, ``required``, ``items``, ``enum``, ``anyOf`` and plain limits; where the
original says more, it becomes wider, never narrower: the server checks its arguments itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from ..invisible import visible_line

MAX_DESCRIPTION: Final = 600
MAX_BYTES: Final = 24_000
_MAX_DEPTH: Final = 10
_MAX_NODES: Final = 600
_TYPES: Final = ("string", "number", "integer", "boolean", "object", "array")
_LIMITS: Final = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
}

Schema = dict[str, Any]


def object_schema(raw: Any) -> Schema:
    """The normalised schema of a tool's arguments; always a JSON object with ``type: object``."""
    result = _Normaliser(raw).arguments()
    if len(json.dumps(result)) > MAX_BYTES:
        result = cast("Schema", _without_descriptions(result))
    if len(json.dumps(result)) > MAX_BYTES:
        return {"type": "object", "properties": {}}
    return result


def anything() -> Schema:
    """A value of which nothing is known, said with types."""
    return {
        "anyOf": [{"type": name} for name in ("string", "number", "boolean", "object")]
        + [{"type": "array", "items": {"type": "string"}}]
    }


class _Normaliser:
    """One schema document; references are resolved within it."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._nodes = 0

    def arguments(self) -> Schema:
        node = self._merged(self._document, (), 0)
        if not isinstance(node, dict):
            return {"type": "object", "properties": {}}
        variants = self._variants(node)
        if variants and "properties" not in node:
            # An alternative of objects: all their properties, of which only the common ones are required.
            merged = [self._object(self._merged(item, (), 1), (), 1) for item in variants]
            properties: Schema = {}
            for item in merged:
                properties |= item["properties"]
            common = (
                set.intersection(*(set(item.get("required", ())) for item in merged))
                if merged
                else set[str]()
            )
            return _object(properties, sorted(common), node)
        return self._object(node, (), 0)

    def _node(self, raw: Any, seen: tuple[str, ...], depth: int) -> Schema | None:
        """One value's schema; None where no value is allowed."""
        self._nodes += 1
        if raw is False:
            return None
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            return anything()
        raw, seen = self._resolved(raw, seen)
        node = self._merged(raw, seen, depth)
        if not isinstance(node, dict):
            return anything()
        if "const" in node and "enum" not in node:
            node = {**node, "enum": [node["const"]]}
        described = _described(node)
        variants = self._variants(node)
        if variants:
            kept = [self._node(item, seen, depth + 1) for item in variants if not _is_null(item)]
            plain = [item for item in kept if item is not None]
            if len(plain) == 1:
                return {**plain[0], **described}
            return {"anyOf": plain, **described} if plain else {"type": "string", **described}
        names = _types(node)
        if not names:
            return {**anything(), **described}
        made = [self._typed(name, node, seen, depth) for name in names]
        return {**made[0], **described} if len(made) == 1 else {"anyOf": made, **described}

    def _typed(self, name: str, node: Schema, seen: tuple[str, ...], depth: int) -> Schema:
        if name == "object":
            return self._object(node, seen, depth)
        result: Schema = {"type": name}
        enum = node.get("enum")
        if isinstance(enum, list):
            values = [value for value in cast("list[Any]", enum) if value is not None and _is(value, name)]
            if values:
                result["enum"] = values
        if name == "array":
            items = node.get("items", node.get("prefixItems"))
            if isinstance(items, list):
                several: list[Any] = [item for item in cast("list[Any]", items) if item is not False]
                items = several[0] if len(several) == 1 else ({"anyOf": several} if several else True)
            result["items"] = self._node(items if items is not None else True, seen, depth + 1) or anything()
        for key in _LIMITS.get(name, ()):
            value = node.get(key)
            if isinstance(value, int | float) and not isinstance(value, bool):
                result[key] = value
        return result

    def _object(self, node: Any, seen: tuple[str, ...], depth: int) -> Schema:
        if not isinstance(node, dict):
            return {"type": "object", "properties": {}}
        table = cast("Schema", node)
        given: Any = table.get("properties")
        properties: Schema = {}
        if isinstance(given, dict):
            for name, raw in cast("Schema", given).items():
                made = self._node(raw, seen, depth + 1)
                if made is not None:
                    properties[name] = made
        required: Any = table.get("required")
        wanted = cast("list[Any]", required) if isinstance(required, list) else []
        return _object(properties, [name for name in wanted if name in properties], table)

    def _resolved(self, raw: Any, seen: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
        while isinstance(raw, dict) and isinstance(cast("Schema", raw).get("$ref"), str):
            table = cast("Schema", raw)
            name: str = table["$ref"]
            if name in seen:
                return {"type": "object", **_described(table)}, seen  # recursive: one level is shown
            seen = (*seen, name)
            target = self._at(name)
            rest = {key: value for key, value in table.items() if key != "$ref"}
            raw = {**cast("Schema", target), **rest} if isinstance(target, dict) else (rest or target)
        return raw, seen

    def _at(self, pointer: str) -> Any:
        """What a reference within the document points at; True (anything) for every other one."""
        if not pointer.startswith("#"):
            return True
        found: Any = self._document
        for part in pointer[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = cast("Schema", found).get(key)
            elif isinstance(found, list) and key.isdigit() and int(key) < len(cast("list[Any]", found)):
                found = cast("list[Any]", found)[int(key)]
            else:
                return True
        return True if found is None or (found is self._document and pointer != "#") else found

    def _merged(self, raw: Any, seen: tuple[str, ...], depth: int) -> Any:
        """The node with its references and its ``allOf`` folded in."""
        raw, seen = self._resolved(raw, seen)
        if not isinstance(raw, dict) or depth > _MAX_DEPTH:
            return cast("Any", raw)
        node = cast("Schema", raw)
        parts: Any = node.get("allOf")
        if not isinstance(parts, list):
            return node
        result: Schema = {key: value for key, value in node.items() if key != "allOf"}
        for part in cast("list[Any]", parts):
            other = self._merged(part, seen, depth + 1)
            if not isinstance(other, dict):
                continue
            for key, value in cast("Schema", other).items():
                if key == "properties" and isinstance(value, dict):
                    mine: Any = result.get(key)
                    result[key] = {
                        **cast("Schema", value),
                        **(cast("Schema", mine) if isinstance(mine, dict) else {}),
                    }
                elif key == "required" and isinstance(value, list):
                    known: Any = result.get(key)
                    result[key] = [
                        *(cast("list[Any]", known) if isinstance(known, list) else []),
                        *cast("list[Any]", value),
                    ]
                else:
                    result.setdefault(key, value)
        return result

    @staticmethod
    def _variants(node: Schema) -> list[Any]:
        for key in ("anyOf", "oneOf"):
            value = node.get(key)
            if isinstance(value, list) and value:
                return cast("list[Any]", value)[:20]
        return []


def _object(properties: Schema, required: list[str], node: Schema) -> Schema:
    result: Schema = {"type": "object", "properties": properties}
    if required:
        result["required"] = list(dict.fromkeys(required))
    if node.get("additionalProperties") is False and properties:
        result["additionalProperties"] = False
    return result


def _types(node: Schema) -> list[str]:
    """Type names of a node without null, told or guessed from what it says; empty when nothing tells."""
    given = node.get("type")
    names = cast("list[Any]", given) if isinstance(given, list) else [given]
    known = [name for name in names if name in _TYPES]
    if known:
        return list(dict.fromkeys(known))
    if isinstance(node.get("properties"), dict) or "additionalProperties" in node:
        return ["object"]
    if "items" in node or "prefixItems" in node:
        return ["array"]
    enum = node.get("enum")
    if isinstance(enum, list):
        values = cast("list[Any]", enum)
        return [name for name in _TYPES if any(_is(value, name) for value in values)][:3]
    if any(key in node for key in ("minLength", "maxLength", "pattern", "format")):
        return ["string"]
    return ["number"] if "minimum" in node or "maximum" in node else []


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if isinstance(value, int):
        return name == "integer"
    kinds: Mapping[str, type] = {"string": str, "number": float, "object": dict, "array": list}
    return name in kinds and isinstance(value, kinds[name])


def _is_null(raw: Any) -> bool:
    return isinstance(raw, dict) and cast("Schema", raw).get("type") == "null"


def _described(node: Schema) -> Schema:
    text = node.get("description")
    return (
        {"description": visible_line(text, MAX_DESCRIPTION)} if isinstance(text, str) and text.strip() else {}
    )


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_descriptions(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    table = cast("Schema", value)
    return {
        # A property may itself be called description; then its value is a schema, not a text.
        key: _without_descriptions(item)
        for key, item in table.items()
        if not (key == "description" and isinstance(item, str))
    }
