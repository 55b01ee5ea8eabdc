"""A session as one HTML page that needs nothing else: no script, no address, everything escaped."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from .export import visible
from .store import SessionEvent, SessionInfo

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
body{color:#1b1f24;background:#fff}
h1{font-size:1.4rem}h2{font-size:1rem;margin:1.6rem 0 .3rem;color:#57606a}pre{white-space:pre-wrap;
overflow-wrap:anywhere;background:#f6f8fa;padding:.6rem;border-radius:6px;margin:.3rem 0}
.user{border-left:3px solid #0969da;padding-left:.8rem}.text{white-space:pre-wrap;overflow-wrap:anywhere}
details>summary{cursor:pointer;color:#57606a}.error summary{color:#a40e26}.note{color:#9a6700}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}dt{color:#57606a}dd{margin:0}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}pre{background:#161b22}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def html_page(info: SessionInfo, events: Iterable[SessionEvent]) -> Iterator[str]:
    """The page in pieces; secrets of the environment are masked."""
    started = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(info.created))
    facts = {
        "session": info.id, "status": info.status, "started": started, "repository": info.repository,
        "model": info.model, "whimbrel": info.product_version,
    }  # fmt: skip
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(info.title)}</title>\n<style>{_STYLE}</style></head><body>\n<h1>{_text(info.title)}</h1>\n<dl>"
    )
    yield "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in facts.items()) + "</dl>\n"
    for event in events:
        yield _event(event)
    yield "</body></html>\n"


def _event(event: SessionEvent) -> str:
    payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
    if "unreadable" in payload:
        return f'<p class="note">Event {event.seq} is damaged and cannot be shown.</p>\n'
    if event.kind == "message":
        role, parts = str(payload.get("role", "?")), payload.get("parts")
        body = (
            "".join(_part(part) for part in parts if isinstance(part, dict))
            if isinstance(parts, list)
            else ""
        )
        if role == "system":
            body = f"<details><summary>what the model is told</summary>{body}</details>"
        kind = "user" if role == "user" else "other"
        return (
            f'<section class="{kind}" id="m{event.seq}"><h2>{_text(role)} {event.seq}</h2>{body}</section>\n'
            if body
            else ""
        )
    if event.kind in ("notice", "model_notice", "limit_reached"):
        return f'<p class="note">{_text(payload.get("text", ""))}</p>\n'
    if event.kind == "rewound":
        return f'<p class="note">taken back to message {_text(payload.get("to"))}</p>\n'
    if event.kind == "run_ended":
        return f"<p><b>{_text(payload.get('status', ''))}</b> {_text(payload.get('message', ''))}</p>\n"
    return ""


def _part(part: dict[str, Any]) -> str:
    kind, text = part.get("kind"), part.get("text", "")
    if kind == "text":
        return f'<div class="text">{_text(text)}</div>'
    if kind == "reasoning":
        return _folded("thinking", text) if str(text).strip() else ""
    if kind == "tool_call":
        return _folded(f"call {part.get('name')}", part.get("arguments"))
    if kind == "tool_result":
        if part.get("is_error"):
            return _folded(f"error from {part.get('name')}", text, mark=' class="error"')
        return _folded(f"result of {part.get('name')}", text)
    if kind == "image":
        return _image(part)
    return ""


def _folded(summary: str, text: Any, *, mark: str = "") -> str:
    return f"<details{mark}><summary>{_text(summary)}</summary><pre>{_text(text)}</pre></details>"


def _image(part: dict[str, Any]) -> str:
    media = part.get("media_type")
    try:
        data = base64.b64encode(base64.b64decode(str(part.get("data_base64", "")), validate=True)).decode(
            "ascii"
        )
    except (binascii.Error, ValueError):
        data = ""
    if media not in _IMAGES or not data:
        return f"<p>[image, {_text(media)}]</p>"
    return f'<img alt="" style="max-width:100%" src="data:{media};base64,{data}">'


def _text(value: Any) -> str:
    return escape(visible(str(value)))
