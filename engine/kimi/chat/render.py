"""A conversation as segments, by the rules of the K3 message language."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from .messages import Plain, WrittenArguments, content_parts, reasoning, tool_calls
from .sentences import Sentences
from .syntax import PromptError, Segment, Segments

IMAGE_PLACEHOLDER = "<|kimi_image_placeholder|>"
EFFORTS = ("low", "high", "max")


def render_segments(
    messages: Sequence[Plain],
    sentences: Sentences,
    *,
    tools: Sequence[Plain] = (),
    thinking: bool = True,
    thinking_effort: str | None = None,
    tool_choice: str | None = None,
    response_format: Plain | None = None,
    image_prompts: Sequence[str] = (),
    add_generation_prompt: bool = True,
) -> list[Segment]:
    """The prompt as segments.

    Args:
        messages: plain messages (see `messages.plain_history`).
        sentences: the fixed sentences of tool declarations, effort, tool choice and response format.
        thinking_effort: low, high, max, or None for no sentence about it.
        tool_choice: "required" and "none" are told to the model; anything else is not.
        response_format: ``{"type": "json_object"}`` or ``{"type": "json_schema", "json_schema": {...}}``.
        image_prompts: one prompt per image, in order of the image items.

    Raises:
        PromptError: what cannot be expressed, in one line.
    """
    if thinking_effort is not None and thinking_effort not in EFFORTS:
        raise PromptError(
            f"the thinking effort {thinking_effort!r} is none of {', '.join(EFFORTS)}",
            hint="choose one of them",
        )
    out = _Renderer(sentences, thinking, image_prompts, messages)
    if tools:
        out.declaration(sentences.tool_declare(_compact(list(tools))))
    if thinking and thinking_effort is not None:
        out.system("thinking-effort", sentences.effort(thinking_effort))
    out.conversation(messages)
    if tool_choice in ("required", "none"):
        out.system("tool-choice", sentences.tool_choice(tool_choice))
    if response_format is not None:
        body = _format_body(response_format, sentences)
        if body:
            out.system("response-format", body)
    if add_generation_prompt:
        out.into.open("message", (("role", "assistant"),))
        out.into.open("think" if thinking else "response")
    return out.into.all


class _Renderer:
    def __init__(
        self, sentences: Sentences, thinking: bool, image_prompts: Sequence[str], messages: Sequence[Plain]
    ) -> None:
        self.into = Segments()
        self._sentences = sentences
        self._thinking = thinking
        self._images = list(image_prompts)
        items = sum(isinstance(part, dict) for message in messages for part in content_parts(message))
        if items > len(self._images):
            raise PromptError(
                f"the conversation has {items} images and {len(self._images)} were prepared",
                hint="this model may have been loaded without its vision part",
            )
        # Only prompts that no image item claims may fill a marker in a text.
        self._for_markers = len(self._images) - items

    def system(self, kind: str, body: str) -> None:
        self.into.open("message", (("role", "system"), ("type", kind)))
        self.into.text(body)
        self.into.end_message()

    def declaration(self, body: str) -> None:
        self.system("tool-declare", body)

    def conversation(self, messages: Sequence[Plain]) -> None:
        calls: list[tuple[str, str, Any]] = []
        position = 0
        while position < len(messages):
            message = messages[position]
            if message["role"] == "tool":
                end = position
                while end < len(messages) and messages[end]["role"] == "tool":
                    end += 1
                self._results(messages[position:end], calls)
                position = end
                continue
            if message["role"] == "assistant":
                calls = tool_calls(message)
                self._assistant(message, calls)
            else:
                self._said(message)
            position += 1

    def _said(self, message: Plain) -> None:
        tools = message.get("tools")
        if tools and message["role"] == "system":
            self.declaration(self._sentences.dynamic_tool_declare(_compact(list(tools))))
            if not message.get("content"):
                return
        name = message.get("name")
        attributes = [("role", cast(str, message["role"]))]
        if isinstance(name, str) and name:
            attributes.append(("name", name))
        self.into.open("message", attributes)
        self._content(message)
        self.into.end_message()

    def _assistant(self, message: Plain, calls: Sequence[tuple[str, str, Any]]) -> None:
        into = self.into
        into.open("message", (("role", "assistant"),))
        if self._thinking:
            into.open("think")
            into.text(reasoning(message))
            into.close("think")
        into.open("response")
        self._content(message)
        into.close("response")
        if calls:
            into.open("tools")
            for index, (_, name, arguments) in enumerate(calls, start=1):
                into.open("call", (("tool", name), ("index", str(index))))
                self._arguments(arguments)
                into.close("call")
            into.close("tools")
        into.end_message()

    def _arguments(self, arguments: Any) -> None:
        into = self.into
        values: Any = arguments
        if isinstance(arguments, str):
            if not arguments.strip():
                return
            try:
                values = json.loads(arguments)
            except (ValueError, RecursionError):
                self._raw(arguments)
                return
            # What a model itself wrote goes back as it wrote it; a client's mistake is told to the client.
            if isinstance(arguments, WrittenArguments) and not isinstance(values, dict):
                self._raw(arguments)
                return
        elif values is None:
            return
        if not isinstance(values, dict):
            raise PromptError("the arguments of a tool call are JSON but no object")
        for key, value in cast(dict[str, Any], values).items():
            kind, text = _typed(value)
            into.open("argument", (("key", key), ("type", kind)))
            into.text(text)
            into.close("argument")

    def _raw(self, text: str) -> None:
        self.into.open("json", (("type", "object"),))
        self.into.text(str(text))
        self.into.close("json")

    def _results(self, run: Sequence[Plain], calls: Sequence[tuple[str, str, Any]]) -> None:
        """A run of consecutive results: in the order of the calls where every one belongs to a call."""
        first: dict[str, int] = {}
        for index, (call_id, _, _) in enumerate(calls):
            if call_id:
                first.setdefault(call_id, index)
        places = [first.get(str(message.get("tool_call_id") or "")) for message in run]
        known = [place for place in places if place is not None]
        named = [
            (str(message.get("name") or "") or (calls[place][1] if place is not None else ""), message)
            for place, message in zip(places, run, strict=True)
        ]
        if len(known) == len(run):
            order = sorted(range(len(run)), key=lambda each: known[each])
            named = [(calls[known[each]][1], run[each]) for each in order]
        for index, (name, message) in enumerate(named, start=1):
            tool = [("tool", name)] if name else []
            self.into.open("message", [("role", "tool"), *tool, ("index", str(index))])
            self._content(message)
            self.into.end_message()

    def _content(self, message: Plain) -> None:
        plain_text = isinstance(message.get("content"), str)
        for part in content_parts(message):
            if not isinstance(part, str):
                self.into.special(self._images.pop(0))
            elif plain_text and self._for_markers:
                self._marked(part)
            else:
                self.into.text(part)

    def _marked(self, text: str) -> None:
        pieces = text.split(IMAGE_PLACEHOLDER, self._for_markers)
        for number, piece in enumerate(pieces):
            if number:
                self.into.special(self._images.pop(0))
                self._for_markers -= 1
            self.into.text(piece)


def _typed(value: Any) -> tuple[str, str]:
    if isinstance(value, str):
        return "string", value
    if isinstance(value, bool):
        kind = "boolean"
    elif value is None:
        kind = "null"
    elif isinstance(value, int | float):
        kind = "number"
    else:
        kind = "object" if isinstance(value, dict) else "array"
    try:
        return kind, json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise PromptError("an argument of a tool call cannot be written as JSON") from error


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise PromptError("a tool's declaration or a schema cannot be written as JSON") from error


def _format_body(response_format: Plain, sentences: Sentences) -> str:
    kind = response_format.get("type")
    if kind in (None, "text"):
        return ""
    if kind == "json_object":
        return sentences.json_object()
    if kind == "json_schema":
        holder = response_format.get("json_schema")
        schema: Any = cast(Plain, holder).get("schema") if isinstance(holder, dict) else None
        if not isinstance(schema, dict | bool):
            raise PromptError("the response format json_schema holds no schema")
        return sentences.json_schema(_compact(schema))
    raise PromptError(f"the response format {kind!r} is not known", hint="text, json_object or json_schema")
