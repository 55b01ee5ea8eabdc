"""Grammars for answers: what a client asks of the form of the text, and of the calls of tools.

The markers of the chat format are written as exact token ids, so they are the tokens the model knows, and
no text can spell them. Calls are held to the tools there are and to the types of their arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..chat import ToolSpec
from ..scheduling.grammar import ids, json_rule, text_rule
from ..scheduling.request import InvalidRequest
from ..serve.backend import Structure
from .chat import k2
from .chat.syntax import CLOSE, OPEN, SEP, Segment, escaped
from .tokenizer import Tokenizer

_TYPES = ("string", "number", "boolean", "null", "object", "array")
_LONGEST_COUNTED = 512
"""Characters up to which the length of a raw text is held to its limits."""


@dataclass(frozen=True)
class Form:
    """What an answer must look like.

    Args:
        structure: of the text; None: free.
        tools: that may be called.
        must_call: a call has to come; otherwise it may.
        several: more than one call may come.
    """

    structure: Structure | None = None
    tools: Sequence[ToolSpec] = ()
    must_call: bool = False
    several: bool = True


@dataclass(frozen=True)
class Grammar:
    """Lark text, and the run of tokens after which it holds (empty: from the first token on)."""

    text: str
    after: tuple[int, ...] = ()


def k3_grammar(tokenizer: Tokenizer, form: Form, *, thinking: bool) -> Grammar | None:
    """The grammar of a K3 answer; None where nothing is to be held to anything.

    With free text and calls that may come, it holds from the opening of the tools channel on.

    Raises:
        InvalidRequest: a structure that cannot be used.
    """
    build = _K3(tokenizer)
    close_message = build.close("message")
    if form.structure is None and not form.must_call:
        if not form.tools:
            return None
        calls = build.calls(form, ordered=False)
        return build.grammar(f"{calls} {build.close('tools')} {close_message}", build.opening("tools"))
    respond = "" if not thinking else build.open("response")
    calls = (
        f"{build.open('tools')} {build.calls(form, ordered=True)} {build.close('tools')}"
        if form.tools
        else ""
    )
    end = build.close("response")
    if form.must_call:
        body = f"{respond} {build.free()} {end} {calls}"
    else:
        assert form.structure is not None
        body = f"{respond} {build.body(form.structure)} {end}"
        if calls:
            body = f"( {body} | {respond} {end} {calls} )"
    return build.grammar(f"{body} {close_message}", build.closing("think") if thinking else ())


def k2_grammar(tokenizer: Tokenizer, form: Form) -> Grammar | None:
    """The grammar of an answer in the form of Kimi-Linear's template; calls are JSON there.

    Raises:
        InvalidRequest: a structure that cannot be used, or calls of a vocabulary without markers for them.
    """
    build = _Rules()
    calls = ""
    if form.tools:
        markers = (k2.SECTION, k2.SECTION_END, k2.CALL, k2.CALL_END, k2.ARGUMENTS)
        if all(name in tokenizer.specials for name in markers):
            section, section_end, call, call_end, arguments = (ids([tokenizer.specials[m]]) for m in markers)
            options = [
                f"{json.dumps(f'functions.{tool.name}:')} INDEX {arguments} {json_rule(tool.parameters)}"
                for tool in form.tools
            ]
            build.terminal("INDEX", "/[0-9]{1,3}/")
            one = build.rule("call", f"{call} ( {' | '.join(options)} ) {call_end}")
            calls = f"{section} {one}{'+' if form.several else ''} {section_end}"
        elif form.must_call:
            raise InvalidRequest("this vocabulary has no markers for calls", parameter="tool_choice")
    if form.must_call:
        return build.grammar(calls)
    if form.structure is None:
        if not calls:
            return None
        opening = tokenizer.specials[k2.SECTION]
        return build.grammar(calls.removeprefix(ids([opening])), (opening,))
    body = build.body(form.structure)
    return build.grammar(f"( {body} | {calls} )" if calls else body)


class _Rules:
    """Collects the rules of one grammar."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}
        self._count = 0

    def grammar(self, start: str, after: Iterable[int] = ()) -> Grammar:
        lines = [f"start: {start}", *(f"{name}: {rule}" for name, rule in self._rules.items())]
        return Grammar("\n".join(lines) + "\n", tuple(after))

    def rule(self, name: str, text: str) -> str:
        """A rule of its own; its name."""
        self._count += 1
        name = f"{name}_{self._count}"
        self._rules[name] = text
        return name

    def terminal(self, name: str, text: str) -> str:
        self._rules[name] = text
        return name

    def free(self) -> str:
        """Any text without control tokens."""
        return self.terminal("TEXT", "/(?s:.*)/")

    def body(self, structure: Structure) -> str:
        """A rule for the text of the answer."""
        value = structure.value
        match structure.kind:
            case "json_object":
                return self.rule("body", json_rule({"type": "object"}))
            case "json_schema":
                return self.rule("body", json_rule(value))
            case "regex":
                return self.terminal("PATTERN", f"/{_unslashed(str(value))}/")
            case "choice":
                return self.rule("body", text_rule([str(each) for each in value]))
            case "grammar":
                raise InvalidRequest(
                    "grammars of the client's own are not taken", parameter="structured_outputs"
                )


class _K3(_Rules):
    """Rules with K3's markers."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def opening(self, tag: str) -> list[int]:
        return self._ids((OPEN, True), (tag, False), (SEP, True))

    def closing(self, tag: str) -> list[int]:
        return self._ids((CLOSE, True), (tag, False), (SEP, True))

    def open(self, tag: str) -> str:
        return ids(self.opening(tag))

    def close(self, tag: str) -> str:
        return ids(self.closing(tag))

    def calls(self, form: Form, *, ordered: bool) -> str:
        """One call or several; ``ordered``: required arguments are all there, in the order of the schema."""
        self.terminal("INDEX", "/[1-9][0-9]{0,2}/")
        options = " | ".join(self._call(tool, ordered) for tool in form.tools)
        one = self.rule("call", f"( {options} ) {self.close('call')}")
        return one if not form.several else f"{one}+"

    def _call(self, tool: ToolSpec, ordered: bool) -> str:
        # <|open|>call tool="NAME" index="INDEX"<|sep|>, each segment by itself
        before = ids(
            self._ids(
                (OPEN, True), ("call", False), (" tool", False), ('="', False), (escaped(tool.name), False),
                ('"', False), (" index", False), ('="', False),
            )
        )  # fmt: skip
        after = ids(self._ids(('"', False), (SEP, True)))
        return self.rule("tool", f"{before} INDEX {after} {self._arguments(tool.parameters, ordered)}")

    def _arguments(self, schema: Mapping[str, Any], ordered: bool) -> str:
        properties = _object(schema.get("properties"))
        if not properties:
            return "" if schema.get("additionalProperties") is False else f"{self._any_argument()}*"
        defined = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        required = set(cast(Sequence[str], schema.get("required") or ()))
        rules = [
            (self._argument(name, _resolved(each, schema), defined), name in required)
            for name, each in properties.items()
        ]
        if not ordered:
            return f"( {' | '.join(rule for rule, _ in rules)} )*"
        return " ".join(rule if needed else f"{rule}?" for rule, needed in rules)

    def _argument(self, name: str, schema: Mapping[str, Any], defined: Mapping[str, Any]) -> str:
        key = ids(self._before_key() + self._ids((escaped(name), False), ('"', False)))
        values = " | ".join(self._value(kind, schema, defined) for kind in _kinds(schema))
        return self.rule("argument", f"{key} ( {values} ) {self.close('argument')}")

    def _any_argument(self) -> str:
        values = " | ".join(self._value(kind, {}, {}) for kind in _TYPES)
        quote = ids(self._ids(('"', False)))
        key = f"{ids(self._before_key())} KEY {quote}"
        self.terminal("KEY", '/[^"&<>]{1,64}/')
        return self.rule("argument", f"{key} ( {values} ) {self.close('argument')}")

    def _before_key(self) -> list[int]:
        return self._ids((OPEN, True), ("argument", False), (" key", False), ('="', False))

    def _value(self, kind: str, schema: Mapping[str, Any], defined: Mapping[str, Any]) -> str:
        typed = ids(self._ids((" type", False), ('="', False), (kind, False), ('"', False), (SEP, True)))
        if kind == "string":
            return self.rule("value", f"{typed} {self._raw(schema)}")
        exact = "integer" if kind == "number" and schema.get("type") == "integer" else kind
        listed = schema.get("enum")
        narrowed = {**defined, **schema, "type": exact}
        if isinstance(listed, list):
            narrowed["enum"] = [each for each in cast(list[Any], listed) if _kind_of(each) == kind]
        return self.rule("value", f"{typed} {json_rule(narrowed)}")

    def _raw(self, schema: Mapping[str, Any]) -> str:
        """A string argument: written as it is, without quotation marks."""
        listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(listed, list):
            return text_rule([each for each in cast(list[Any], listed) if isinstance(each, str)])
        low, high = schema.get("minLength", 0), schema.get("maxLength")
        if (isinstance(low, int) and 0 < low <= _LONGEST_COUNTED) or isinstance(high, int):
            bounded = isinstance(high, int) and high <= _LONGEST_COUNTED
            return f"/(?s:.{{{low},{high if bounded else ''}}})/"
        return self.free()

    def _ids(self, *segments: Segment) -> list[int]:
        return self._tokenizer.encode_segments(segments)


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    """The types, in the format's names, that values of a schema can have."""
    named = schema.get("type")
    if isinstance(named, str | list):
        given = [named] if isinstance(named, str) else cast(list[Any], named)
        found = ["number" if each == "integer" else each for each in given]
    elif isinstance(schema.get("enum"), list):
        found = [_kind_of(each) for each in schema["enum"]]
    elif "const" in schema:
        found = [_kind_of(schema["const"])]
    else:
        options = schema.get("anyOf") or schema.get("oneOf")
        found = (
            [kind for each in options for kind in _kinds(_object(each))] if isinstance(options, list) else []
        )
    known = [kind for kind in dict.fromkeys(found) if kind in _TYPES]
    return known or list(_TYPES)


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _resolved(schema: Any, whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """A property's schema with a local reference at its top followed (a few steps: it may go in circles)."""
    for _ in range(8):
        given = _object(schema)
        reference = given.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return given
        schema = whole
        for name in reference[2:].split("/"):
            schema = _object(schema).get(name.replace("~1", "/").replace("~0", "~"))
    return {}


def _object(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _unslashed(pattern: str) -> str:
    """A pattern as it stands between slashes."""
    out, escaped_ = "", False
    for char in pattern:
        out += "\\/" if char == "/" and not escaped_ else "\\n" if char == "\n" else char
        escaped_ = char == "\\" and not escaped_
    return out
