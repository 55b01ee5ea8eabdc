"""A Messages request as a ``GenerationRequest``."""

from __future__ import annotations

import json
from typing import Any

from ..chat import (
    Effort,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
)
from .backend import GenerationRequest, Sampling, Structure, ToolChoice, Unsupported
from .conversation import (
    EFFORTS,
    MOST_MESSAGES,
    MOST_PARTS,
    MOST_TOOLS,
    check_tool_name,
    check_tools,
    image,
    tier,
)
from .fields import Fields
from .openai_read import Asked, read_stops

_NEUTRAL: dict[str, Any] = {
    "cache_control": ..., "mcp_servers": [], "metadata": ...,
    "service_tier": ..., "speed": "standard",
}  # fmt: skip
_READ = frozenset(
    [
        "max_tokens",
        "messages",
        "model",
        "output_config",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    ]
)
_FIELD = "thinking"


def read_messages(body: dict[str, Any], request_id: str, *, count_only: bool = False) -> Asked:
    """Raises Refused: anything that cannot be taken, by the name of its field.

    Args:
        count_only: the request is to be counted, and needs no ``max_tokens``.
    """
    fields = Fields(body)
    fields.known(_READ, _NEUTRAL)
    model = fields.need_text("model")
    most = fields.integer("max_tokens", 1)
    if most is None and not count_only:
        fields.refuse("max_tokens", "is missing")
    tools = tuple(_tool(entry) for entry in fields.objects("tools", most=MOST_TOOLS))
    choice, parallel = _choice(fields)
    check_tools(tools, choice)
    thinking, budget = _thinking(fields)
    effort, structure = _output(fields)
    request = GenerationRequest(
        id=request_id,
        messages=(*_system(fields), *_messages(fields)),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        structure=structure,
        sampling=Sampling(
            temperature=fields.number("temperature", 0, 1),
            top_p=fields.number("top_p", 0, 1),
            top_k=fields.integer("top_k", 1, 1 << 31),
            stop=read_stops(fields, "stop_sequences"),
        ),
        max_tokens=most,
        effort=effort,
        thinking=thinking,
        thinking_budget=budget,
    )
    return Asked(model, request, stream=bool(fields.flag("stream")))


def _system(fields: Fields) -> tuple[Message, ...]:
    value = fields.get("system")
    if value is None or value == "":
        return ()
    return (Message(role="system", parts=_texts(fields, "system")),)


def _texts(entry: Fields, key: str) -> tuple[TextPart, ...]:
    """A text, or a list of text blocks."""
    value = entry.get(key)
    if isinstance(value, str):
        return (TextPart(text=value),)
    blocks = entry.objects(key, most=MOST_PARTS)
    for block in blocks:
        if block.need_text("type") != "text":
            raise Unsupported(block.name("type"), "only text is taken here")
    return tuple(TextPart(text=block.need_text("text")) for block in blocks)


def _messages(fields: Fields) -> list[Message]:
    entries = fields.objects("messages", most=MOST_MESSAGES)
    if not entries:
        fields.refuse("messages", "must have at least one entry")
    names: dict[str, str] = {}
    found: list[Message] = []
    for entry in entries:
        role = entry.need_text("role")
        if role == "assistant":
            message = _assistant(entry)
            names.update((call.id, call.name) for call in message.tool_calls())
            found.append(message)
        elif role == "user":
            found += _user(entry, names)
        else:
            entry.refuse("role", "must be user or assistant")
    return found


def _blocks(entry: Fields) -> list[Fields]:
    content = entry.get("content")
    if isinstance(content, str):
        return [Fields({"type": "text", "text": content}, entry.name("content"))]
    if content is None:
        entry.refuse("content", "is missing")
    return entry.objects("content", most=MOST_PARTS)


def _assistant(entry: Fields) -> Message:
    parts: list[Part] = []
    for block in _blocks(entry):
        kind = block.need_text("type")
        if kind == "text":
            parts.append(TextPart(text=block.need_text("text")))
        elif kind == "thinking":
            parts.append(ReasoningPart(text=block.need_text("thinking"), field=_FIELD))
        elif kind == "redacted_thinking":
            continue  # sealed by another provider: there is nothing in it for this model
        elif kind == "tool_use":
            arguments = json.dumps(block.need_inner("input").values, ensure_ascii=False)
            parts.append(
                ToolCallPart(
                    id=block.need_text("id", longest=512),
                    name=block.need_text("name", longest=512),
                    arguments=arguments,
                )
            )
        else:
            raise Unsupported(block.name("type"), f"blocks of type {kind[:40]!r} are not taken here")
    return Message(role="assistant", parts=tuple(parts))


def _user(entry: Fields, names: dict[str, str]) -> list[Message]:
    """Results first, then what the person says, as two messages."""
    results: list[Part] = []
    said: list[Part] = []
    for block in _blocks(entry):
        kind = block.need_text("type")
        if kind == "tool_result":
            call_id = block.need_text("tool_use_id", longest=512)
            if call_id not in names:
                block.refuse("tool_use_id", "answers no tool_use of a message before it")
            text, images = _result(block)
            failed = bool(block.flag("is_error"))
            results.append(ToolResultPart(call_id=call_id, name=names[call_id], text=text, is_error=failed))
            said += images
        else:
            said.append(_said(block, kind))
    found = [Message(role="tool", parts=tuple(results))] if results else []
    if said or not results:
        found.append(Message(role="user", parts=tuple(said)))
    return found


def _result(block: Fields) -> tuple[str, list[ImagePart]]:
    content = block.get("content")
    if content is None or isinstance(content, str):
        return content or "", []
    parts = [_said(each, each.need_text("type")) for each in block.objects("content", most=MOST_PARTS)]
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    return text, [part for part in parts if isinstance(part, ImagePart)]


def _said(block: Fields, kind: str) -> TextPart | ImagePart:
    if kind == "text":
        return TextPart(text=block.need_text("text"))
    if kind == "image":
        source = block.need_inner("source")
        if source.need_text("type") != "base64":
            raise Unsupported(source.name("type"), "images come as base64: this server fetches nothing")
        return image(source.need_text("media_type"), source.need_text("data"), source.name("data"))
    raise Unsupported(block.name("type"), f"blocks of type {kind[:40]!r} are not taken here")


def _tool(entry: Fields) -> ToolSpec:
    if entry.text("type") not in (None, "custom"):
        raise Unsupported(entry.name("type"), "this server has no tools of its own")
    name = check_tool_name(entry.need_text("name"), entry.name("name"))
    return ToolSpec(name, entry.text("description") or "", entry.need_inner("input_schema").values)


def _choice(fields: Fields) -> tuple[ToolChoice, bool]:
    given = fields.inner("tool_choice")
    if given is None:
        return ToolChoice(), True
    kind = given.choice("type", ("auto", "any", "tool", "none"))
    parallel = not given.flag("disable_parallel_tool_use")
    if kind == "tool":
        return ToolChoice("named", given.need_text("name")), parallel
    if kind == "any":
        return ToolChoice("required"), parallel
    if kind is None:
        given.refuse("type", "is missing")
    return ToolChoice("none" if kind == "none" else "auto"), parallel


def _thinking(fields: Fields) -> tuple[bool | None, int | None]:
    given = fields.inner("thinking")
    if given is None:
        return None, None
    kind = given.choice("type", ("enabled", "disabled", "adaptive"))
    if kind is None:
        given.refuse("type", "is missing")
    if kind == "disabled":
        return False, None
    budget = given.integer("budget_tokens", 1)
    if kind == "enabled" and budget is None:
        given.refuse("budget_tokens", "is missing")
    most = fields.integer("max_tokens", 1)
    if budget is not None and most is not None and budget >= most:
        given.refuse("budget_tokens", f"must be less than max_tokens ({most})")
    return True, budget


def _output(fields: Fields) -> tuple[Effort | None, Structure | None]:
    given = fields.inner("output_config")
    if given is None:
        return None, None
    for name in given.given():
        if name not in ("effort", "format"):
            raise Unsupported(given.name(name)[:80], "this server does not know it")
    word = given.choice("effort", EFFORTS[1:])
    form = given.inner("format")
    structure = None
    if form is not None:
        form.choice("type", ("json_schema",))
        structure = Structure("json_schema", form.need_inner("schema").values)
    return (tier(word) if word else None), structure
