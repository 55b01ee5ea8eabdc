"""Sessions as JSON lines (complete, for programs) and as a Markdown transcript (for people)."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

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
            yield _line({"kind": "blob", "handle": handle, "media": media, "data_base64": encoded})


def markdown_head(info: SessionInfo) -> str:
    """The title and facts of a transcript."""
    started = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(info.created))
    return (
        f"# Session {info.id}\n\n{_inline(info.title)}\n\n"
        f"- status: {info.status}\n- started: {started}\n- repository: {_inline(info.repository)}\n"
        f"- model: {info.model}\n- whimbrel {info.product_version}\n\n"
    )


def markdown_events(events: Iterable[SessionEvent]) -> Iterator[str]:
    """The body of a transcript, block by block; every block ends with an empty line."""
    for event in events:
        text = _event_markdown(event)
        if text:
            yield text + "\n\n"


def visible(text: str) -> str:
    """Control, bidirectional and unpaired surrogate characters as escapes; newlines and tabs kept."""
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)


def _event_markdown(event: SessionEvent) -> str:
    payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {"value": event.payload}
    if "unreadable" in payload:
        return f"*Event {event.seq} ({event.kind}) is damaged and cannot be shown.*"
    if event.kind == "message":
        blocks = [_part_markdown(part) for part in payload.get("parts", [])]
        body = "\n\n".join(block for block in blocks if block)
        return f"## {str(payload.get('role', '?')).capitalize()}\n\n{body}" if body else ""
    if event.kind == "evidence":
        return _evidence_markdown(payload)
    if event.kind in ("notice", "model_notice", "limit_reached"):
        return f"> **{event.kind.replace('_', ' ')}**: {_inline(str(payload.get('text', '')))}"
    if event.kind == "run_finished":
        return f"**Run finished: {payload.get('status')}** after {payload.get('steps')} steps"
    return ""


def _part_markdown(part: dict[str, Any]) -> str:
    kind = part.get("kind")
    if kind == "text":
        return visible(part["text"])
    if kind == "reasoning":
        if not part["text"].strip():
            return ""
        return "*Thinking*\n\n" + "\n".join(f"> {line}" for line in visible(part["text"]).splitlines())
    if kind == "tool_call":
        return f"**Call `{_inline(part['name'])}`**\n\n{_fenced(part['arguments'], 'json')}"
    if kind == "tool_result":
        mark = "Error from" if part.get("is_error") else "Result of"
        kept = "".join(f"\n\nComplete output: `artifact:{handle}`" for handle in part.get("artifacts", ()))
        return f"**{mark} `{_inline(part['name'])}`**\n\n{_fenced(part['text'])}{kept}"
    if kind == "image":
        return f"*Image, {_inline(part.get('media_type', ''))}*"
    return ""


def _evidence_markdown(row: dict[str, Any]) -> str:
    command = " ".join(str(word) for word in row.get("argv", ()))
    process = "fresh process" if row.get("fresh_process") else "forked helper"
    end = "timed out" if row.get("timed_out") else f"exit code {row.get('exit_code')}"
    return (
        f"> **evidence {row.get('number')}** ({_inline(str(row.get('purpose')))}): `{_inline(command)}`,"
        f" {row.get('sandbox_kind')}, {process}, tree {str(row.get('tree'))[:12]}, {end}"
    )


def _fenced(text: str, language: str = "") -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{visible(text)}\n{fence}"


def _inline(text: str) -> str:
    return " ".join(visible(text).replace("`", "'").split())


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True) + "\n"


def _handles(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "artifacts" and isinstance(item, list):
                yield from (handle for handle in item if isinstance(handle, str))
            else:
                yield from _handles(item)
    elif isinstance(value, list):
        for item in value:
            yield from _handles(item)
