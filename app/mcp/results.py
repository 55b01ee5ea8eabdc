"""What a server's tool gave, as a tool result: text for the model, bounded, everything else kept aside."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, Final, cast

from ..invisible import visible, visible_line
from ..tools.base import ToolResult

MAX_TEXT: Final = 30_000
_MAX_BLOCKS: Final = 200

Keep = Callable[[bytes, str], str]


def tool_result(raw: dict[str, Any], keep: Keep) -> ToolResult:
    """The result of ``tools/call``; data is the structured content, artifacts are images and full texts."""
    artifacts: list[str] = []
    blocks: Any = raw.get("content")
    listed = cast("list[Any]", blocks) if isinstance(blocks, list) else []
    parts = [_block(block, keep, artifacts) for block in listed[:_MAX_BLOCKS]]
    if len(listed) > _MAX_BLOCKS:
        parts.append(f"[{len(listed) - _MAX_BLOCKS} more parts are not shown]")
    structured: Any = raw.get("structuredContent")
    if structured is not None and not any(part.strip() for part in parts):
        parts.append(json.dumps(structured, ensure_ascii=False, indent=1))
    if not parts and isinstance(raw.get("inputRequests"), list | dict):
        return ToolResult(
            "the server wants to ask a person something, which is not possible here", is_error=True
        )
    text, removed = visible("\n".join(part for part in parts if part))
    if removed:
        text = f"[{removed} invisible characters were taken out]\n{text}"
    if len(text) > MAX_TEXT:
        handle = keep(text.encode("utf-8", "replace"), "text/plain")
        artifacts.append(handle)
        half = MAX_TEXT // 2
        hidden = f"{len(text) - 2 * half} of {len(text)} characters not shown"
        gap = f"[... {hidden}; all of it: artifact:{handle} ...]"
        text = f"{text[:half]}\n{gap}\n{text[-half:]}"
    data = structured if len(json.dumps(structured)) <= 4 * MAX_TEXT else None
    return ToolResult(text or "(no output)", data, tuple(artifacts), is_error=raw.get("isError") is True)


def _block(block: Any, keep: Keep, artifacts: list[str]) -> str:
    if not isinstance(block, dict):
        return ""
    part = cast("dict[str, Any]", block)
    match part.get("type"):
        case "text":
            return str(part.get("text", ""))
        case "image" | "audio" as kind:
            return _binary(kind, part.get("data"), part.get("mimeType"), keep, artifacts)
        case "resource_link":
            return f"[resource {_short(part.get('name'))}: {_short(part.get('uri'))}]"
        case "resource":
            inner: Any = part.get("resource")
            resource = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
            where = _short(resource.get("uri"))
            if isinstance(resource.get("text"), str):
                return f"[resource {where}]\n{resource['text']}"
            return _binary(
                f"resource {where}", resource.get("blob"), resource.get("mimeType"), keep, artifacts
            )
        case kind:
            return f"[a part of kind {_short(kind)} that cannot be shown]"


def _binary(what: str, data: Any, media_type: Any, keep: Keep, artifacts: list[str]) -> str:
    kind = _short(media_type) or "application/octet-stream"
    try:
        content = base64.b64decode(data if isinstance(data, str) else "", validate=True)
    except (binascii.Error, ValueError):
        return f"[{what} of type {kind} whose data is damaged]"
    if not content:
        return f"[empty {what} of type {kind}]"
    handle = keep(content, kind)
    artifacts.append(handle)
    return f"[{what}, {kind}, {len(content)} bytes: artifact:{handle}]"


def _short(value: Any) -> str:
    return visible_line(str(value), 200) if value is not None else ""
