"""What the model writes, as events: every way it may go, and every way it may be cut."""

from __future__ import annotations

import itertools
import json

import pytest
from whimbrel.engine.chat import (
    Message,
    ModelNotice,
    ReasoningDelta,
    StepDiscarded,
    TextDelta,
    TextPart,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallPart,
    ToolCallStart,
)
from whimbrel.engine.kimi.chat.format import ChatFormat, K3Format
from whimbrel.engine.kimi.chat.sentences import own_sentences
from whimbrel.engine.kimi.chat.syntax import Segments
from whimbrel.engine.kimi.tiny import TinyOptions, make_tiny
from whimbrel.engine.kimi.tokenizer import Tokenizer
from whimbrel.engine.kimi.vocabulary import small_ranks

CHAT = K3Format(Tokenizer(small_ranks()), own_sentences())


class Answer(Segments):
    """What a model writes; ``ids`` are its tokens."""

    @property
    def ids(self) -> list[int]:
        return CHAT.tokenizer.encode_segments(self.all)


def think(text: str) -> Answer:
    answer = Answer()
    answer.text(text)
    answer.close("think")
    return answer


def respond(answer: Answer, text: str) -> Answer:
    answer.open("response")
    answer.text(text)
    answer.close("response")
    return answer


def call(answer: Answer, name: str, arguments: list[tuple[str, str, str]], index: int = 1) -> Answer:
    answer.open("call", (("tool", name), ("index", str(index))))
    for key, kind, text in arguments:
        answer.open("argument", (("key", key), ("type", kind)))
        answer.text(text)
        answer.close("argument")
    answer.close("call")
    return answer


def parse(ids, *, size: int = 1, thinking: bool = True, truncated: bool = False):
    numbers = itertools.count(1)
    parser = CHAT.parser(thinking=thinking, call_id=lambda: f"c{next(numbers)}")
    events = []
    for start in range(0, len(ids), size):
        events += parser.feed(ids[start : start + size])
    events += parser.finish()
    return events, parser.finish_reason(truncated=truncated)


def shown(events):
    """Thinking, text, calls, as a consumer that heeds a discarded step would hold them."""
    thought, text, calls, pieces = "", "", [], {}
    for event in events:
        if isinstance(event, StepDiscarded):
            thought, text, calls = "", "", []
        elif isinstance(event, ReasoningDelta):
            thought += event.text
        elif isinstance(event, TextDelta):
            text += event.text
        elif isinstance(event, ToolCallArguments):
            pieces[event.id] = pieces.get(event.id, "") + event.delta
        elif isinstance(event, ToolCallEnd):
            calls.append((event.name, event.arguments))
            assert pieces.get(event.id, "") == event.arguments
    return thought, text, calls


@pytest.fixture(scope="module")
def full_answer() -> Answer:
    answer = respond(think("é: one plus 漢"), "two 👩‍🚀")
    answer.open("tools")
    call(
        answer,
        "run",
        [("cmd", "string", 'ls "a" & b\n<x>'), ("n", "number", "3"), ("o", "object", '{"b": [1, null]}')],
    )
    call(answer, "list", [], 2)
    answer.close("tools")
    answer.end_message()
    return answer


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_an_answer_reads_the_same_however_it_is_cut_into_chunks(full_answer, size):
    events, reason = parse(full_answer.ids, size=size)
    thought, text, calls = shown(events)
    assert (thought, text, reason) == ("é: one plus 漢", "two 👩‍🚀", "tool_calls")
    assert [name for name, _ in calls] == ["run", "list"]
    assert json.loads(calls[0][1]) == {"cmd": 'ls "a" & b\n<x>', "n": 3, "o": {"b": [1, None]}}
    assert calls[1][1] == "{}"
    assert not any(isinstance(event, ModelNotice) for event in events)


def test_what_was_written_renders_to_the_very_tokens_that_were_read(full_answer):
    _, text, calls = shown(parse(full_answer.ids)[0])
    parts = [TextPart(text=text)]
    parts += [ToolCallPart(id=str(n), name=name, arguments=given) for n, (name, given) in enumerate(calls)]
    message = {"role": "assistant", "reasoning_content": "é: one plus 漢", "content": text}
    message["tool_calls"] = [
        {"id": part.id, "function": {"name": part.name, "arguments": part.arguments}} for part in parts[1:]
    ]
    prompt = CHAT.render([], effort=None).ids
    rendered = CHAT.render([message], effort=None, add_generation_prompt=False).ids
    assert rendered == (*prompt, *full_answer.ids)
    assert Message(role="assistant", parts=tuple(parts))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "12", "12"),
        ("number", "1.5e3", 1500.0),
        ("boolean", "true", True),
        ("null", "null", None),
        ("array", ' ["é", 2] ', ["é", 2]),
        ("object", "{broken", "{broken"),
        ("number", "NaN", "NaN"),
        ("number", "twelve", "twelve"),
        ("array", "[" * 100_000, "[" * 100_000),
        ("", "7", 7),
        ("integer", "x y", "x y"),
        ("string", "", ""),
        ("object", "", ""),
    ],
    ids=range(13),
)
def test_arguments_have_their_type_and_fall_back_to_the_text(kind, text, value):
    answer = think("")
    answer.open("tools")
    call(answer, "f", [("a", kind, text), ('b &"', "string", "z")])
    events, _ = parse(answer.ids, size=10_000)
    ((_, arguments),) = shown(events)[2]
    assert json.loads(arguments) == {"a": value, 'b &"': "z"}


def test_a_string_argument_streams_and_other_values_wait_until_they_are_whole():
    answer = think("")
    answer.open("call", (("tool", "f"), ("index", "1")))
    answer.open("argument", (("key", "a"), ("type", "string")))
    answer.text("half")
    parser = CHAT.parser()
    deltas = [event.delta for event in parser.feed(answer.ids) if isinstance(event, ToolCallArguments)]
    assert "".join(deltas) == '{"a": "half'
    more = Answer()
    more.close("argument")
    more.open("argument", (("key", "n"), ("type", "number")))
    more.text("12")
    deltas = [event.delta for event in parser.feed(more.ids) if isinstance(event, ToolCallArguments)]
    assert "".join(deltas) == '", "n": '


def test_arguments_that_came_whole_are_passed_on_as_they_are():
    answer = think("")
    answer.open("call", (("tool", "f"), ("index", "1")))
    answer.open("json", (("type", "object"),))
    answer.text("{not json")
    answer.close("json")
    answer.close("call")
    assert shown(parse(answer.ids)[0])[2] == [("f", "{not json")]


def test_an_answer_that_closes_the_response_without_having_thought_is_the_answer():
    answer = Answer()
    answer.text("42 é")
    answer.close("response")
    answer.end_message()
    events, reason = parse(answer.ids)
    assert shown(events) == ("", "42 é", []) and reason == "stop"
    assert any(isinstance(event, StepDiscarded) for event in events)


@pytest.mark.parametrize("tag", ["response", "tools"])
def test_a_channel_that_opens_ends_the_thinking_that_was_never_closed(tag):
    answer = Answer()
    answer.text("hm")
    answer.open(tag)
    if tag == "response":
        answer.text("yes")
    else:
        call(answer, "f", [])
    answer.end_message()
    thought, text, calls = shown(parse(answer.ids)[0])
    assert thought == "hm"
    assert (text, calls) == (("yes", []) if tag == "response" else ("", [("f", "{}")]))


def test_words_after_the_thinking_are_the_answer_even_without_its_marker():
    answer = think("hm")
    answer.text("\nyes")
    answer.end_message()
    assert shown(parse(answer.ids)[0])[:2] == ("hm", "yes")


@pytest.mark.parametrize("marked", [False, True])
def test_a_limit_in_the_thinking_leaves_thinking_only(marked):
    answer = Answer()
    answer.text("so far 漢")
    ids = answer.ids[: None if marked else -1]
    if marked:
        ids = [*ids, CHAT.tokenizer.special("<|close|>"), *CHAT.tokenizer.encode("thi")]
    events, reason = parse(ids, truncated=True)
    thought, text, _ = shown(events)
    assert reason == "length" and text == ""
    assert thought.startswith("so far ") and ("thi" in thought) == marked


def test_a_call_that_the_limit_cut_off_is_no_whole_json():
    answer = think("")
    answer.open("tools")
    answer.open("call", (("tool", "write"), ("index", "1")))
    answer.open("argument", (("key", "text"), ("type", "string")))
    answer.text("rm -rf /tmp/x")
    events, reason = parse(answer.ids, truncated=True)
    ((name, arguments),) = shown(events)[2]
    assert (name, reason) == ("write", "length")
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(arguments)


def test_a_call_that_ends_with_the_message_is_closed():
    answer = think("")
    answer.open("call", (("tool", "f"), ("index", "1")))
    answer.open("argument", (("key", "a"), ("type", "number")))
    answer.text("1")
    answer.end_message()
    events, reason = parse(answer.ids)
    assert shown(events)[2] == [("f", '{"a": 1}')] and reason == "tool_calls"


def test_nothing_is_shown_of_a_marker_that_is_not_complete():
    parser = CHAT.parser()
    close, sep = CHAT.tokenizer.special("<|close|>"), CHAT.tokenizer.special("<|sep|>")
    assert parser.feed([close, *CHAT.tokenizer.encode("think")]) == []
    assert parser.in_marker and parser.thinking
    assert parser.feed([sep]) == [] and not parser.thinking and not parser.in_marker


def test_control_tokens_where_none_belong_are_left_out_and_told_once():
    special = CHAT.tokenizer.special
    ids = [special("<|sep|>"), *CHAT.tokenizer.encode("a"), special("<|open|>"), special("<|open|>"),
           *CHAT.tokenizer.encode("nonsense x"), special("<|sep|>"), special("<|media_pad|>"),
           *CHAT.tokenizer.encode("b")]  # fmt: skip
    events, _ = parse(ids)
    assert shown(events)[0] == "ab"
    assert sum(isinstance(event, ModelNotice) for event in events) == 1


def test_a_marker_without_end_becomes_text_before_it_fills_the_memory():
    ids = [CHAT.tokenizer.special("<|open|>"), *CHAT.tokenizer.encode("a " * 20_000)]
    parser = CHAT.parser()
    parser.feed(ids)
    assert not parser.in_marker
    assert parser.thinking


def test_names_of_control_tokens_spelt_out_by_the_model_are_text():
    text = "write <|close|>think<|sep|> here"
    assert shown(parse(CHAT.tokenizer.encode(text))[0])[0] == text


def test_a_model_that_goes_on_as_the_user_is_stopped():
    answer = respond(think(""), "done")
    answer.close("message")
    answer.open("message", (("role", "user"),))
    answer.text("and now?")
    parser = CHAT.parser()
    events = parser.feed(answer.ids)
    assert shown(events)[1] == "done" and parser.ended
    assert parser.feed(answer.ids) == []


def test_without_thinking_the_answer_starts_at_once():
    answer = Answer()
    answer.text("hello")
    answer.close("response")
    answer.end_message()
    assert shown(parse(answer.ids, thinking=False)[0]) == ("", "hello", [])


def test_the_tokens_that_close_the_thinking_lead_to_the_response():
    parser = CHAT.parser()
    parser.feed(CHAT.tokenizer.encode("hm"))
    assert parser.thinking
    parser.feed(CHAT.think_close_ids)
    (event,) = parser.feed(CHAT.tokenizer.encode("yes"))
    assert event == TextDelta(text="yes") and not parser.thinking


def test_ids_of_calls_differ_from_answer_to_answer():
    answer = call(think(""), "f", [])
    first, second = (CHAT.parser().feed(answer.ids) for _ in range(2))
    ids = {event.id for event in (*first, *second) if isinstance(event, ToolCallStart)}
    assert len(ids) == 2


# ---------------------------------------------------------------- Kimi-Linear


@pytest.fixture(scope="module")
def linear(tmp_path_factory) -> ChatFormat:
    folder = tmp_path_factory.mktemp("linear") / "model"
    make_tiny(folder, TinyOptions(family="kimi-linear", layers=4, experts=4))
    return ChatFormat.load(folder)


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_calls_between_the_older_models_control_tokens_are_read(linear, size):
    written = (
        "on it 漢<|tool_calls_section_begin|>\n<|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>"
        '{"cmd": "ls"}<|tool_call_end|><|tool_call_begin|>list:1<|tool_call_argument_begin|><|tool_call_end|>'
        "<|tool_calls_section_end|><|im_end|>never"
    )
    ids = linear.tokenizer.encode(written, special=True)
    parser = linear.parser()
    events = []
    for start in range(0, len(ids), size):
        events += parser.feed(ids[start : start + size])
    events += parser.finish()
    assert shown(events)[1:] == ("on it 漢", [("run", '{"cmd": "ls"}'), ("list", "{}")])
    assert parser.ended and parser.finish_reason(truncated=False) == "tool_calls"
    assert linear.tokenizer.special("<|im_end|>") in linear.stop_ids


def test_an_older_models_call_that_was_cut_off_keeps_what_came(linear):
    written = '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": '
    parser = linear.parser()
    events = [*parser.feed(linear.tokenizer.encode(written, special=True)), *parser.finish()]
    assert shown(events)[2] == [("f", '{"a": ')]
    assert parser.finish_reason(truncated=True) == "length"
