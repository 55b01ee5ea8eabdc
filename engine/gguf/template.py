"""A model's own chat template, and tools for models whose template knows none.

Tools are always offered in one form (JSON between ``<tool_call>`` tags), because the grammar and the
parser know one form: by the template where it does just that, otherwise in the system message.

Control tokens are the template's alone. Where a message spells one out, a mark goes in between, and
the text is cut there before it becomes tokens: what a file or a web page says can end no message.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from .tags import CALL, END_CALL, END_THINK, THINK

MARK = "\ufdd0"
"""A noncharacter: it has no meaning in any text."""
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_OFFER = """# Tools

You may call one or more functions to assist with the user query. The functions, as JSON schemas:
<tools>
{tools}
</tools>

For each call, answer with a JSON object that holds the function's name and its arguments between tags:
<tool_call>
{{"name": "NAME", "arguments": {{...}}}}
</tool_call>
The result comes in the next message between <tool_response> tags."""


class TemplateFailure(Exception):
    """A template that cannot be read or refuses a conversation; one line."""


class ChatTemplate:
    """Renders conversations to text. Templates come with files from anywhere: they run in a sandbox."""

    def __init__(
        self, source: str, *, bos: str, eos: str, control: Sequence[str], declares_tools: bool = False
    ) -> None:
        """``control`` are the spellings of the control tokens, see above.

        ``declares_tools``: the template's own form of tools is the one that is read back.
        """
        sandbox: Any = importlib.import_module("jinja2.sandbox")
        environment = sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = _no_date
        try:
            self._template = environment.from_string(source)
        except Exception as error:  # whatever the library raises on a text from anywhere
            raise TemplateFailure(f"the file's chat template cannot be read: {_line(error)}") from error
        self._special = {"bos_token": bos, "eos_token": eos}
        self._control = sorted((text for text in control if len(text) > 1), key=len, reverse=True)
        in_tags = "tools" in source and CALL in source and "<function=" not in source
        self._offers_tools = declares_tools or in_tags
        self._keeps_thinking = "reasoning_content" in source
        self._splits_thinking = END_THINK in source and not self._keeps_thinking

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        answer: bool = True,
    ) -> str:
        """The prompt, with ``MARK`` where it must be cut; ``answer`` opens the model's turn at the end.

        Raises:
            TemplateFailure: the template refuses the conversation in every form we know.
        """
        entries = [self._entry(each) for each in messages]
        offered = cast(list[dict[str, Any]], self._defused(list(tools)))
        if not self._offers_tools:
            entries, offered = _in_text(entries, offered), []
        problem = ""
        for form in (entries, _without_system(entries)):
            try:
                return self._template.render(
                    messages=form, tools=offered or None, add_generation_prompt=answer, **self._special
                )
            except Exception as error:  # noqa: BLE001 - a template may fail in any way
                problem = problem or _line(error)
        raise TemplateFailure(f"the file's chat template refuses this conversation: {problem}")

    def _entry(self, message: Mapping[str, Any]) -> dict[str, Any]:
        entry = cast(dict[str, Any], self._defused(dict(message)))
        thought = entry.get("reasoning_content")
        if thought is not None and not self._keeps_thinking:
            del entry["reasoning_content"]
            if self._splits_thinking:
                entry["content"] = f"{THINK}{thought}{END_THINK}\n\n{entry['content']}"
        return entry

    def _defused(self, value: Any) -> Any:
        """The same data with a mark in every control token that a text in it spells out."""
        if isinstance(value, str):
            text = value.replace(MARK, "\ufffd")
            for control in self._control:
                if control in text:
                    text = text.replace(control, control[0] + MARK + control[1:])
            return text
        if isinstance(value, dict):
            return {key: self._defused(each) for key, each in cast(dict[str, Any], value).items()}
        if isinstance(value, list):
            return [self._defused(each) for each in cast(list[Any], value)]
        return value


def _in_text(entries: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The conversation with nothing but system, user and assistant texts, roles in turn."""
    plain: list[dict[str, Any]] = []
    for entry in entries:
        role, content = entry["role"], entry["content"]
        if role == "tool":
            role, content = "user", f"<tool_response>\n{content}\n</tool_response>"
        calls = [
            f"{CALL}\n{json.dumps(call['function'], ensure_ascii=False)}\n{END_CALL}"
            for call in entry.get("tool_calls", ())
        ]
        content = "\n".join([*([content] if content else []), *calls])
        if plain and plain[-1]["role"] == role:
            plain[-1]["content"] += f"\n{content}"
        else:
            plain.append({"role": role, "content": content})
    if tools:
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        offer = _OFFER.format(tools=listed)
        if plain and plain[0]["role"] == "system":
            plain[0]["content"] += f"\n\n{offer}"
        else:
            plain.insert(0, {"role": "system", "content": offer})
    return plain


def _without_system(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For templates that refuse a system message: its text goes before the first of the user."""
    system = "\n\n".join(entry["content"] for entry in entries if entry["role"] == "system")
    rest = [dict(entry) for entry in entries if entry["role"] != "system"]
    if rest and rest[0]["role"] == "user":
        rest[0]["content"] = f"{system}\n\n{rest[0]['content']}"
    elif system:
        rest.insert(0, {"role": "user", "content": system})
    return rest


def _to_json(
    value: Any,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
    **_options: Any,
) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    raise ValueError(message)


def _no_date(_format: str) -> str:
    """Prompts begin alike every day: a date would spoil prefix caches and repeatability."""
    return "today"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
