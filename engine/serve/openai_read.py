"""A chat-completions request as a ``GenerationRequest``."""

from __future__ import annotations

from dataclasses import dataclass
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
from .backend import GenerationRequest, Refused, Sampling, Structure, ToolChoice, Unsupported
from .conversation import (
    EFFORTS,
    LONGEST_STOP,
    MOST_MESSAGES,
    MOST_PARTS,
    MOST_STOPS,
    MOST_TOOLS,
    check_tool_name,
    check_tools,
    image_of_address,
    tier,
)
from .fields import Fields

_NEUTRAL: dict[str, Any] = {
    **dict.fromkeys((
        "cache_salt", "metadata", "prediction", "priority", "prompt_cache_key", "prompt_cache_retention",
        "request_id", "safety_identifier", "separate_reasoning", "service_tier", "session_id", "store",
        "stream_reasoning", "user",
    ), ...),
    "add_generation_prompt": True, "add_special_tokens": False, "bad_words": [], "best_of": 1,
    "cache_prompt": True, "continue_final_message": False, "echo": False, "ignore_eos": False,
    "include_reasoning": True, "include_stop_str_in_output": False, "length_penalty": 1, "min_tokens": 0,
    "modalities": ["text"], "return_token_ids": False, "skip_special_tokens": True,
    "spaces_between_special_tokens": True, "stop_token_ids": [], "typical_p": 1, "use_beam_search": False,
    "verbosity": "medium",
}  # fmt: skip
"""Fields, and the value (``...``: any) with which their absence changes nothing of the answer."""
_READ = frozenset([
    "chat_template_kwargs", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens",
    "max_tokens", "messages", "min_p", "model", "n", "parallel_tool_calls", "presence_penalty",
    "reasoning", "reasoning_effort", "repetition_penalty", "response_format", "seed", "stop", "stream",
    "stream_options", "structured_outputs", "temperature", "thinking", "thinking_budget",
    "thinking_token_budget", "tool_choice", "tools", "top_k", "top_logprobs", "top_p",
])  # fmt: skip
_OLD = {"functions": "tools", "function_call": "tool_choice"}
_REASONING = ("reasoning_content", "reasoning")


@dataclass(frozen=True)
class Asked:
    """A request and how its answer is to be sent."""

    model: str
    request: GenerationRequest
    stream: bool
    include_usage: bool = False


def read_chat(body: dict[str, Any], request_id: str) -> Asked:
    """Raises Refused: anything that cannot be taken, by the name of its field."""
    fields = Fields(body)
    for name in fields.given():
        if name in _OLD:
            raise Unsupported(name, f"use {_OLD[name]}")
    fields.known(_READ, _NEUTRAL)
    model = fields.need_text("model")
    if (count := fields.integer("n", 1, 1 << 20)) not in (None, 1):
        raise Unsupported("n", f"one answer a request, not {count}")
    options = fields.inner("stream_options")
    if options:
        options.known(("include_usage",), {"include_obfuscation": ..., "continuous_usage_stats": False})
    tools = tuple(_tool(entry) for entry in fields.objects("tools", most=MOST_TOOLS))
    choice = _choice(fields)
    check_tools(tools, choice)
    thinking, effort, budget, template = _thinking(fields)
    parallel = fields.flag("parallel_tool_calls")
    request = GenerationRequest(
        id=request_id,
        messages=_messages(fields),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel is not False,
        structure=_structure(fields),
        sampling=_sampling(fields),
        max_tokens=_most_tokens(fields),
        effort=effort,
        thinking=thinking,
        thinking_budget=budget,
        top_logprobs=_logprobs(fields),
        template=template,
    )
    return Asked(
        model,
        request,
        stream=bool(fields.flag("stream")),
        include_usage=bool(options and options.flag("include_usage")),
    )


# ---------------------------------------------------------------- messages


def _messages(fields: Fields) -> tuple[Message, ...]:
    entries = fields.objects("messages", most=MOST_MESSAGES)
    if not entries:
        fields.refuse("messages", "must have at least one entry")
    names: dict[str, str] = {}
    found: list[Message] = []
    for entry in entries:
        role = entry.need_text("role")
        if role in ("system", "developer"):
            found.append(Message(role="system", parts=_content(entry, images=False)))
        elif role == "user":
            found.append(Message(role="user", parts=_content(entry, images=True)))
        elif role == "assistant":
            message = _assistant(entry)
            names.update((call.id, call.name) for call in message.tool_calls())
            found.append(message)
        elif role == "tool":
            result = _result(entry, names)
            # Results of one round are one message, as everywhere in the house.
            if found and found[-1].role == "tool":
                result = (*found.pop().parts, *result)
            found.append(Message(role="tool", parts=result))
        else:
            entry.refuse("role", "must be one of system, developer, user, assistant, tool")
    return tuple(found)


def _content(entry: Fields, *, images: bool, needed: bool = True) -> tuple[Part, ...]:
    content = entry.get("content")
    if isinstance(content, str):
        return (TextPart(text=content),)
    if content is None:
        if needed:
            entry.refuse("content", "is missing")
        return ()
    if not isinstance(content, list):
        entry.refuse("content", "must be a string or a list of parts")
    return tuple(_part(part, images) for part in entry.objects("content", most=MOST_PARTS))


def _part(part: Fields, images: bool) -> TextPart | ImagePart:
    kind = part.need_text("type")
    if kind == "text":
        return TextPart(text=part.need_text("text"))
    if kind == "refusal":
        return TextPart(text=part.need_text("refusal"))
    if kind == "image_url" and images:
        value = part.get("image_url")
        where = part.name("image_url.url")
        address = value if isinstance(value, str) else part.need_inner("image_url").need_text("url")
        return image_of_address(address, where)
    raise Unsupported(part.name("type"), f"parts of type {kind[:40]!r} are not taken here")


def _assistant(entry: Fields) -> Message:
    parts: list[Part] = []
    for name in _REASONING:
        if (thought := entry.text(name)) is not None:
            parts.append(ReasoningPart(text=thought, field=name))
            break
    calls = entry.objects("tool_calls", most=MOST_PARTS)
    # An answer that was cut short comes back as it was given: there, and empty.
    parts += _content(entry, images=False, needed=not calls and not parts and "content" not in entry.values)
    for call in calls:
        if call.text("type") not in (None, "function"):
            raise Unsupported(call.name("type"), "calls are of type function")
        function = call.need_inner("function")
        parts.append(
            ToolCallPart(
                id=call.need_text("id", longest=512),
                name=function.need_text("name", longest=512),
                arguments=function.text("arguments") or "{}",
            )
        )
    return Message(role="assistant", parts=tuple(parts))


def _result(entry: Fields, names: dict[str, str]) -> tuple[Part, ...]:
    call_id = entry.need_text("tool_call_id", longest=512)
    if call_id not in names:
        entry.refuse("tool_call_id", "answers no call of an assistant message before it")
    text = "".join(part.text for part in _content(entry, images=False) if isinstance(part, TextPart))
    return (ToolResultPart(call_id=call_id, name=names[call_id], text=text),)


# ---------------------------------------------------------------- tools and form


def _tool(entry: Fields) -> ToolSpec:
    if entry.text("type") not in (None, "function"):
        raise Unsupported(entry.name("type"), "tools are of type function")
    function = entry.need_inner("function")
    name = check_tool_name(function.need_text("name"), function.name("name"))
    parameters = function.inner("parameters")
    schema = parameters.values if parameters else {"type": "object", "properties": {}}
    return ToolSpec(name, function.text("description") or "", schema)


def _choice(fields: Fields) -> ToolChoice:
    value = fields.get("tool_choice")
    if value is None or value == "auto":
        return ToolChoice()
    if value == "none":
        return ToolChoice("none")
    if value in ("required", "any"):
        return ToolChoice("required")
    if not isinstance(value, dict):
        fields.refuse("tool_choice", "must be none, auto, required, or name a function")
    named = fields.need_inner("tool_choice")
    if named.text("type") != "function":
        raise Unsupported("tool_choice.type", "only function is known")
    return ToolChoice("named", named.need_inner("function").need_text("name"))


def _structure(fields: Fields) -> Structure | None:
    """``response_format``, or the ``structured_outputs`` of vLLM."""
    given = fields.inner("response_format")
    extra = fields.inner("structured_outputs")
    if extra is not None:
        if given is not None and given.text("type") != "text":
            fields.refuse("structured_outputs", "and response_format exclude each other")
        return _extra_structure(extra)
    if given is None:
        return None
    kind = given.choice("type", ("text", "json_object", "json_schema"))
    if kind is None:
        given.refuse("type", "is missing")
    if kind == "text":
        return None
    if kind == "json_object":
        schema = given.inner("schema")
        return Structure("json_schema", schema.values) if schema else Structure("json_object")
    return Structure("json_schema", given.need_inner("json_schema").need_inner("schema").values)


def _extra_structure(extra: Fields) -> Structure:
    kinds = [name for name in extra.given() if name in ("json", "json_object", "regex", "choice", "grammar")]
    if len(kinds) != 1 or len(list(extra.given())) != 1:
        raise Refused(
            "structured_outputs must hold exactly one of json, json_object, regex, choice, grammar",
            parameter="structured_outputs",
        )
    kind = kinds[0]
    if kind == "json":
        value = extra.get("json")
        if isinstance(value, bool):
            return Structure("json_schema", {})
        return Structure("json_schema", extra.need_inner("json").values)
    if kind == "json_object":
        return Structure("json_object")
    if kind == "choice":
        choices = extra.list_of("choice", most=10_000)
        if not choices or not all(isinstance(each, str) and each for each in choices):
            extra.refuse("choice", "must be a list of texts")
        return Structure("choice", tuple(choices))
    return Structure("regex" if kind == "regex" else "grammar", extra.need_text(kind))


# ---------------------------------------------------------------- numbers


def _sampling(fields: Fields) -> Sampling:
    top_k = fields.integer("top_k", -1, 1 << 31)
    return Sampling(
        temperature=fields.number("temperature", 0, 2),
        top_p=fields.number("top_p", 0, 1),
        top_k=0 if top_k == -1 else top_k,
        min_p=fields.number("min_p", 0, 1),
        frequency_penalty=fields.number("frequency_penalty", -2, 2),
        presence_penalty=fields.number("presence_penalty", -2, 2),
        repetition_penalty=fields.number("repetition_penalty", 0.01, 10),
        seed=fields.integer("seed", -(1 << 63), (1 << 64) - 1),
        stop=read_stops(fields, "stop"),
        logit_bias=_bias(fields),
    )


def read_stops(fields: Fields, key: str) -> tuple[str, ...]:
    value = fields.get(key)
    entries = [value] if isinstance(value, str) else fields.list_of(key, most=MOST_STOPS)
    for entry in entries:
        if not isinstance(entry, str) or not entry or len(entry) > LONGEST_STOP:
            fields.refuse(key, f"must hold texts of 1 to {LONGEST_STOP} characters")
    return tuple(entries)


def _bias(fields: Fields) -> dict[int, float]:
    given = fields.inner("logit_bias")
    found: dict[int, float] = {}
    for key in given.given() if given else ():
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            fields.refuse("logit_bias", "must have token ids as its keys")
        found[int(key)] = (given.number(key, -100, 100) if given else None) or 0.0
    return found


def _most_tokens(fields: Fields) -> int | None:
    newer, older = (
        # -1 is how clients of llama.cpp say that there is no limit.
        None if fields.get(key) == -1 else fields.integer(key, 1)
        for key in ("max_completion_tokens", "max_tokens")
    )
    return older if newer is None else newer


def _logprobs(fields: Fields) -> int | None:
    wanted, count = fields.flag("logprobs"), fields.integer("top_logprobs", 0, 20)
    if count and not wanted:
        fields.refuse("top_logprobs", "needs logprobs: true")
    return (count or 0) if wanted else None


def _thinking(fields: Fields) -> tuple[bool | None, Effort | None, int | None, dict[str, Any]]:
    """Whether, how hard and how long to think, from all the places where servers look for it."""
    given = fields.inner("chat_template_kwargs")
    template: dict[str, Any] = dict(given.values) if given else {}
    word = fields.choice("reasoning_effort", EFFORTS)
    thinking: bool | None = None
    budget = fields.integer("thinking_token_budget", 0)
    if wish := fields.inner("reasoning"):
        wish.known(("effort", "enabled", "max_tokens"), {"exclude": False, "summary": ...})
        word = wish.choice("effort", EFFORTS) or word
        thinking = wish.flag("enabled")
        budget = wish.integer("max_tokens", 0) if budget is None else budget
    if given:
        for key in ("enable_thinking", "thinking"):
            flag = given.flag(key)
            thinking = flag if flag is not None else thinking
        for key in ("thinking_effort", "reasoning_effort"):
            word = given.choice(key, EFFORTS) or word
        for key in ("enable_thinking", "thinking", "thinking_effort", "reasoning_effort"):
            template.pop(key, None)
    if isinstance(fields.get("thinking"), bool):
        thinking = fields.flag("thinking")
    elif switch := fields.inner("thinking"):
        kind = switch.choice("type", ("enabled", "disabled", "adaptive"))
        thinking = thinking if kind is None else kind != "disabled"
    named = fields.get("thinking_budget")
    if isinstance(named, str):
        word = fields.choice("thinking_budget", EFFORTS) if word is None else word
        fields.choice("thinking_budget", EFFORTS)
    elif budget is None:
        budget = fields.integer("thinking_budget", 0)
    if word == "none":
        thinking = False
    return thinking, (tier(word) if word else None), budget, template
