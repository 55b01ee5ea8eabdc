"""Kimi-Linear's conversations: the checkpoint's own template, and the calls in what the model writes.

The template comes with the checkpoint and runs in jinja2's sandbox. Names of control tokens in what people,
files and tools say are taken apart before it runs, so that they stay text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ....sandbox.base.errors import ConfigError
from ....sandbox.base.files import read_regular
from ...chat import (
    FinishReason,
    ModelNotice,
    StreamEvent,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
)
from ...gguf.template import MARK, ChatTemplate, TemplateFailure
from ..tokenizer import Tokenizer
from .messages import Plain, content_parts, reasoning, tool_calls
from .parser import new_call_id
from .syntax import PromptError, Segment

TURN_END = "<|im_end|>"
SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, CALL_END = "<|tool_call_begin|>", "<|tool_call_end|>"
ARGUMENTS = "<|tool_call_argument_begin|>"
_MARKERS = (SECTION, SECTION_END, CALL, CALL_END, ARGUMENTS)
_CALL_NAME = re.compile(r"^(?:functions\.)?(.+?)(?::\d+)?$", re.DOTALL)


def read_template(folder: Path, chosen: Path | None) -> str:
    """The template's source: the named file, ``chat_template.jinja``, or the tokenizer config's entry.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    path = chosen or folder / "chat_template.jinja"
    try:
        return read_regular(path).decode("utf-8")
    except FileNotFoundError as error:
        if chosen is not None:
            raise ConfigError(f"there is no {chosen}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}") from error
    template = _settings(folder).get("chat_template")
    if isinstance(template, list):
        named = [cast(dict[str, Any], each) for each in cast(list[Any], template) if isinstance(each, dict)]
        template = next((each.get("template") for each in named if each.get("name") == "default"), None)
    if not isinstance(template, str) or not template:
        raise ConfigError(
            f"{folder} has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)",
            hint="name one with WHIMBREL_KIMI_CHAT_TEMPLATE",
        )
    return template


def _settings(folder: Path) -> dict[str, Any]:
    try:
        data: Any = json.loads(read_regular(folder / "tokenizer_config.json"))
    except (OSError, ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], data) if isinstance(data, dict) else {}


def _token(settings: Mapping[str, Any], key: str, default: str) -> str:
    found = settings.get(key)
    if isinstance(found, dict):
        found = cast(dict[str, Any], found).get("content")
    return found if isinstance(found, str) else default


class TemplateRenderer:
    """Conversations to segments through a template."""

    def __init__(self, source: str, tokenizer: Tokenizer, folder: Path) -> None:
        settings = _settings(folder)
        bos, eos = _token(settings, "bos_token", "[BOS]"), _token(settings, "eos_token", "[EOS]")
        names = sorted(tokenizer.specials, key=len, reverse=True)
        self._split = re.compile("(" + "|".join(re.escape(name) for name in names) + ")")
        try:
            self._template = ChatTemplate(source, bos=bos, eos=eos, control=names, declares_tools=True)
        except TemplateFailure as error:
            raise ConfigError(str(error), hint="name another with WHIMBREL_KIMI_CHAT_TEMPLATE") from error

    def segments(
        self, messages: Sequence[Plain], tools: Sequence[Mapping[str, Any]], *, answer: bool
    ) -> list[Segment]:
        """The prompt; only control tokens that the template itself wrote are special.

        Raises:
            PromptError: the template refuses the conversation.
        """
        try:
            text = self._template.render(_numbered([_flat(each) for each in messages]), tools, answer=answer)
        except TemplateFailure as error:
            raise PromptError(str(error)) from error
        pieces = self._split.split(text)
        return [
            (piece.replace(MARK, ""), bool(position % 2)) for position, piece in enumerate(pieces) if piece
        ]


def _flat(message: Plain) -> dict[str, Any]:
    parts = content_parts(message)
    if any(not isinstance(part, str) for part in parts):
        raise PromptError("this model cannot see images", hint="leave the image out, or use another model")
    entry: dict[str, Any] = {**message, "content": "".join(str(part) for part in parts)}
    if message["role"] == "assistant":
        entry["reasoning_content"] = reasoning(message) or None
        if calls := tool_calls(message):
            entry["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": _text(arguments)}}
                for call_id, name, arguments in calls
            ]
    return {key: value for key, value in entry.items() if value is not None}


def _numbered(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ids of calls as the model itself writes them: ``functions.NAME:N``, counted through the conversation.

    Templates of this style print the id and nothing else of a call's name.
    """
    count = 0
    known: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            known = {}
            for call in message.get("tool_calls", ()):
                number = f"functions.{call['function']['name']}:{count}"
                count += 1
                known.setdefault(call["id"], number)
                call["id"] = number
        elif message["role"] == "tool" and "tool_call_id" in message:
            given = str(message["tool_call_id"])
            message["tool_call_id"] = known.get(given, given)
    return messages


def _text(arguments: Any) -> str:
    return str(arguments) if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)


class TemplateParser:
    """Parses one answer of a model that writes calls between its own control tokens."""

    def __init__(self, tokenizer: Tokenizer, *, call_id: Callable[[], str] = new_call_id) -> None:
        self._tokenizer = tokenizer
        known = tokenizer.specials
        self._markers = {known[name]: name for name in _MARKERS if name in known}
        self._ends = {known[name] for name in (TURN_END, "[EOS]", "[EOT]") if name in known}
        self._text = tokenizer.decoder()
        self._call_id = call_id
        self._name: list[int] | None = None
        self._call: tuple[str, str] | None = None
        self._arguments: list[str] = []
        self._events: list[StreamEvent] = []
        self._section = False
        """Between the calls, where only blanks stand."""
        self.calls = 0
        self.ended = False
        self.thinking = False
        self.in_marker = False

    def finish_reason(self, *, truncated: bool) -> FinishReason:
        if truncated and not self.ended:
            return "length"
        return "tool_calls" if self.calls else "stop"

    def feed(self, ids: Iterable[int]) -> list[StreamEvent]:
        """Events of the next tokens; nothing after the end of the turn."""
        for token in ids:
            if self.ended:
                break
            if token in self._ends:
                self._flush()
                self.ended = True
            elif token in self._markers:
                self._marker(self._markers[token])
            elif self._name is not None:
                self._name.append(token)
            elif not self._tokenizer.is_special(token):
                self._say(self._text.feed((token,)))
        events, self._events = self._events, []
        return events

    def finish(self) -> list[StreamEvent]:
        """What was held back; a call that was cut off ends with what came of its arguments."""
        self._flush()
        events, self._events = self._events, []
        return events

    def _flush(self) -> None:
        self._say(self._text.finish())
        if self._name is not None:
            self._name = None
            self._events.append(ModelNotice(text="a tool call of the model has no arguments and is left out"))
        self._end_call()

    def _marker(self, name: str) -> None:
        self._say(self._text.finish())
        if name == CALL:
            self._end_call()
            self._name = []
        elif name == ARGUMENTS and self._name is not None:
            written = self._tokenizer.decode(self._name).strip()
            self._name = None
            match = _CALL_NAME.match(written)
            self._call = (self._call_id(), match.group(1) if match else written)
            self.calls += 1
            self._events.append(ToolCallStart(id=self._call[0], name=self._call[1]))
        else:
            self._end_call()
            self._section = name in (SECTION, CALL_END)

    def _say(self, text: str) -> None:
        if not text:
            return
        if self._call is not None:
            self._arguments.append(text)
            self._events.append(ToolCallArguments(id=self._call[0], delta=text))
        elif not self._section:
            self._events.append(TextDelta(text=text))

    def _end_call(self) -> None:
        if self._call is None:
            return
        arguments = "".join(self._arguments)
        if not arguments.strip():
            arguments = "{}"
            self._events.append(ToolCallArguments(id=self._call[0], delta=arguments))
        self._events.append(ToolCallEnd(id=self._call[0], name=self._call[1], arguments=arguments))
        self._call, self._arguments = None, []
