"""Qualified names, kinds and signatures of definitions, from the spans a grammar query found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .languages import LanguageInfo

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Found", "Symbol", "name_symbols"]

_MAX_SIGNATURE = 240
_CONTAINERS = frozenset(
    {"class", "struct", "interface", "enum", "trait", "union", "record", "scope", "receiver"}
)
_LEAVES = frozenset({"constant", "variable", "type", "macro", "property"})
"""What never qualifies the names written inside it."""
_BODY_CARRIERS = frozenset(
    {
        "arrow_function",
        "class",
        "function_expression",
        "generator_function",
        "interface_type",
        "struct_type",
    }
)


@dataclass(frozen=True)
class Symbol:
    """One definition."""

    path: str
    kind: str
    """function, method, constructor, class, struct, interface, enum, trait, module, constant, ..."""
    name: str
    qualified_name: str
    """Containers and name, joined as the language writes it: ``Cart.total``, ``Cart::total``."""
    line: int
    end_line: int
    signature: str
    """The text from the start of the definition to its body, on one line, bounded."""


@dataclass(frozen=True)
class Found:
    """A definition before its containers are known."""

    kind: str
    name: str
    start: int
    end: int
    node: Node
    receiver: str = ""


def name_symbols(path: str, info: LanguageInfo, data: bytes, found: Sequence[Found]) -> tuple[Symbol, ...]:
    """Gives every definition its containers: those whose span holds it, plus a file-wide namespace."""
    symbols: list[Symbol] = []
    open_now: list[tuple[Found, str]] = []
    file_space = ""
    for item in found:
        while open_now and open_now[-1][0].end < item.end:
            open_now.pop()
        # Equal spans are two views of one node (``const TABLE = {...}``), not one inside the other.
        containers = [o for o in open_now if (o[0].start, o[0].end) != (item.start, item.end)]
        outer_kind = containers[-1][0].kind if containers else ""
        prefix = containers[-1][1] if containers else file_space
        name = item.name
        if item.receiver:
            prefix, outer_kind = _join(info, prefix, item.receiver, item.kind), "receiver"
        if item.kind == "scope":
            name = re.sub(r"<.*", "", name, flags=re.DOTALL).strip()
        qualified = _join(info, prefix, name, item.kind, outer_kind)
        if item.kind == "namespace" and item.node.child_by_field_name("body") is None:
            file_space = qualified
        if item.kind not in _LEAVES:
            open_now.append((item, qualified))
        if item.kind == "scope":
            continue
        kind = _final_kind(info, item, outer_kind)
        symbols.append(
            Symbol(
                path=path,
                kind=kind,
                name=_last_part(info, name),
                qualified_name=qualified,
                line=item.node.start_point[0] + 1,
                end_line=_end_line(item.node),
                signature=_signature(data, item.node),
            )
        )
    return tuple(symbols)


def _end_line(node: Node) -> int:
    row, column = node.end_point
    # Some nodes (preprocessor lines) end at column 0 of the line after.
    return row + 1 if column > 0 or row == node.start_point[0] else row


def _final_kind(info: LanguageInfo, item: Found, outer_kind: str) -> str:
    if item.kind == "class_method":
        return "method"
    if item.kind == "method" and info.name == "ruby" and not outer_kind:
        return "function"
    if item.kind == "function":
        out_of_class = info.name == "cpp" and "::" in item.name
        if outer_kind in _CONTAINERS or out_of_class:
            return "method"
    return item.kind


def _join(info: LanguageInfo, prefix: str, name: str, kind: str, outer_kind: str = "") -> str:
    if not prefix:
        return name
    separator = info.separator
    if info.name == "ruby" and kind in ("method", "class_method"):
        separator = "." if kind == "class_method" else "#"
    if info.name == "php" and outer_kind not in _CONTAINERS:
        separator = "\\"
    return f"{prefix}{separator}{name}"


def _last_part(info: LanguageInfo, name: str) -> str:
    if info.name == "cpp" and not name.startswith("operator"):
        head, _, operator = name.partition("operator")
        return f"operator{operator}" if operator and head.endswith("::") else name.rsplit("::", 1)[-1]
    if info.name == "ruby":
        return name.rsplit("::", 1)[-1]
    return name


def _signature(data: bytes, node: Node) -> str:
    """From the start of the definition to its body, or its first line when it has none."""
    body = _body(node)
    if body is not None and body.start_byte > node.start_byte:
        raw = data[node.start_byte : body.start_byte]
    else:
        raw = (node.text or b"").split(b"\n", 1)[0]
    text = (
        " ".join(raw[: 4 * _MAX_SIGNATURE].decode("utf-8", "replace").split()).rstrip("{ ").removesuffix(" =")
    )
    return text if len(text) <= _MAX_SIGNATURE else text[: _MAX_SIGNATURE - 3] + "..."


def _body(node: Node) -> Node | None:
    body = node.child_by_field_name("body")
    if body is not None:
        return body
    for field in ("value", "right", "type"):
        inner = node.child_by_field_name(field)
        if inner is not None and inner.type in _BODY_CARRIERS:
            body = inner.child_by_field_name("body")
            if body is None:
                body = next((c for c in inner.children if c.type in ("field_declaration_list", "{")), None)
            if body is not None:
                return body
    return next((c for c in node.named_children if c.type in ("accessor_list", "declaration_list")), None)
