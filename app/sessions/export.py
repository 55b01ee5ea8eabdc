"""Sessions as JSON lines (complete, for programs) and as a Markdown transcript (for people)."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from ...sandbox.base.tokens import mask, mask_json
from .store import SessionEvent, SessionInfo, SessionStore

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def json_lines(store: SessionStore, info: SessionInfo, *, blobs: bool = False) -> Iterator[str]:
    """One JSON object a line: the session's head, its events in order, then (if asked) its blobs."""
    yield _line({"kind": "session", **asdict(info)})
    handles: dict[str, None] = {}
    for event in store.events(info.id):
        yield _line(event.to_json())
        handles.update(dict.fromkeys(_handles(event.payload)))
    if blobs:
        for handle in handles:
            try:
                data, media = store.blob(handle)
            except KeyError:
                yield _line({"kind": "missing_blob", "handle": handle})
                continue
            encoded = base64.b64encode(data).decode("ascii")
            # The digits, not the values in them, could look like a secret: a blob goes out as it was stored.
            blob = {"kind": "blob", "handle": handle, "media": media, "data_base64": encoded}
            yield json.dumps(blob, ensure_ascii=True) + "\n"


def markdown_head(info: SessionInfo) -> str:
    """The title and facts of a transcript."""
    started = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(info.created))
    return (
        f"# Session {info.id}\n\n{_inline(info.title)}\n\n"
        f"- status: {_inline(info.status)}\n- started: {started}\n- repository: {_inline(info.repository)}\n"
        f"- model: {_inline(info.model)}\n- whimbrel {_inline(info.product_version)}\n\n"
    )


def markdown_events(events: Iterable[SessionEvent]) -> Iterator[str]:
    """The body of a transcript, block by block; every block ends with an empty line."""
    for event in events:
        text = _event_markdown(event)
        if text:
            yield text + "\n\n"


def visible(text: str) -> str:
    """Control, bidirectional and unpaired surrogate characters as escapes; newlines and tabs kept.

    Values of secrets in the present environment are masked, also where they were stored without it.
    """
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), mask(text))


def _event_markdown(event: SessionEvent) -> str:
    payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {"value": event.payload}
    if "unreadable" in payload:
        return f"*Event {event.seq} ({_inline(event.kind)}) is damaged and cannot be shown.*"
    if event.kind == "message":
        parts = payload.get("parts")
        blocks = (
            [_part_markdown(part) for part in parts if isinstance(part, dict)]
            if isinstance(parts, list)
            else []
        )
        body = "\n\n".join(block for block in blocks if block)
        return f"## {_inline(str(payload.get('role', '?'))).capitalize()}\n\n{body}" if body else ""
    if event.kind == "evidence":
        return _evidence_markdown(payload)
    if event.kind in ("notice", "model_notice", "limit_reached", "context_compacted", "context_loaded"):
        return f"> **{event.kind.replace('_', ' ')}**: {_inline(str(payload.get('text', '')))}"
    if event.kind == "run_finished":
        return _inline(f"**Run finished: {payload.get('status')}** after {payload.get('steps')} steps")
    return ""


def _part_markdown(part: dict[str, Any]) -> str:
    # Sessions of other versions and damaged ones may lack fields: what is there is shown.
    kind, text, name = part.get("kind"), str(part.get("text", "")), _inline(str(part.get("name", "?")))
    if kind == "text":
        return visible(text)
    if kind == "reasoning":
        if not text.strip():
            return ""
        return "*Thinking*\n\n" + "\n".join(f"> {line}" for line in visible(text).splitlines())
    if kind == "tool_call":
        return f"**Call `{name}`**\n\n{_fenced(str(part.get('arguments', '')), 'json')}"
    if kind == "tool_result":
        mark = "Error from" if part.get("is_error") else "Result of"
        handles = [_inline(str(handle)) for handle in part.get("artifacts") or ()]
        kept = "".join(f"\n\nComplete output: `artifact:{handle}`" for handle in handles)
        return f"**{mark} `{name}`**\n\n{_fenced(text)}{kept}"
    if kind == "image":
        return f"*Image, {_inline(str(part.get('media_type', '')))}*"
    return ""


def _evidence_markdown(row: dict[str, Any]) -> str:
    command = _inline(" ".join(str(word) for word in row.get("argv") or ()))
    process = "fresh process" if row.get("fresh_process") else "forked helper"
    end = "timed out" if row.get("timed_out") else f"exit code {row.get('exit_code')}"
    head = _inline(f"**evidence {row.get('number')}** ({row.get('purpose')}):")
    tail = _inline(f"{row.get('sandbox_kind')}, {process}, tree {str(row.get('tree'))[:12]}, {end}")
    return f"> {head} `{command}`, {tail}"


def _fenced(text: str, language: str = "") -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{visible(text)}\n{fence}"


def one_line(text: str) -> str:
    """``visible`` for a table cell: white space folded to single spaces."""
    return " ".join(visible(text).split())


def _inline(text: str) -> str:
    return " ".join(visible(text).replace("`", "'").split())


def _line(value: dict[str, Any]) -> str:
    return json.dumps(mask_json(value), ensure_ascii=True) + "\n"


def _handles(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "artifacts" and isinstance(item, list):
                yield from (handle for handle in item if isinstance(handle, str))
            elif key == "diff" and isinstance(item, str) and re.fullmatch("[0-9a-f]{12,64}", item):
                yield item  # the files of a turn
            else:
                yield from _handles(item)
    elif isinstance(value, list):
        for item in value:
            yield from _handles(item)
