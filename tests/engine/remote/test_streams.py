"""What real servers stream, and what the loop gets to see of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from whimbrel.engine.chat import (
    Finished,
    Message,
    OpaqueReceived,
    ReasoningDelta,
    ReasoningPart,
    StepDiscarded,
    StreamEvent,
    TextDelta,
    TextPart,
    ToolCallEnd,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    Usage,
    user,
)
from whimbrel.engine.models import load_model

from ...mock_server import CUT, DONE, MockServer, Reply, chunk, completion, sse, stream, usage_chunk

pytestmark = pytest.mark.timeout(60)


async def play(
    *replies: Reply, history: Sequence[Message] = (), tools: Sequence[ToolSpec] = ()
) -> list[StreamEvent]:
    with MockServer(replies) as server:
        model = load_model(server.model(), environ={})
        try:
            return [event async for event in model.stream(history or [user("hi")], tools)]
        finally:
            await model.close()
            assert server.script_errors == []


def calls(events: Sequence[StreamEvent]) -> list[tuple[str, str, str]]:
    return [(event.id, event.name, event.arguments) for event in events if isinstance(event, ToolCallEnd)]


def text(events: Sequence[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def reasoning(events: Sequence[StreamEvent]) -> list[tuple[str, str]]:
    return [(event.field, event.text) for event in events if isinstance(event, ReasoningDelta)]


def finish(events: Sequence[StreamEvent]) -> str:
    last = events[-1]
    assert isinstance(last, Finished)
    return last.reason


def fragment(arguments: str | None = None, *, name: str | None = None, **values: Any) -> bytes:
    function: dict[str, Any] = {}
    if name is not None:
        function["name"] = name
    if arguments is not None:
        function["arguments"] = arguments
    return chunk({"tool_calls": [{**values, "function": function}]})


# ------------------------------------------------------------------ tool calls


async def test_two_calls_that_share_one_index_stay_two_calls() -> None:
    events = await play(
        stream(
            fragment('{"a":', name="one", index=0, id="a"),
            fragment("1}", index=0),
            fragment('{"b":', name="two", index=0, id="b"),
            fragment("2}", index=0),
            chunk(finish="tool_calls"),
        )
    )
    assert calls(events) == [("a", "one", '{"a":1}'), ("b", "two", '{"b":2}')]


async def test_fragments_without_an_index_belong_to_the_call_opened_last() -> None:
    events = await play(
        stream(
            fragment('{"a":', name="one", id="a"),
            fragment("1}"),
            fragment('{"b":', name="two", id="b"),
            fragment("2}"),
            chunk(finish="tool_calls"),
        )
    )
    assert calls(events) == [("a", "one", '{"a":1}'), ("b", "two", '{"b":2}')]


async def test_a_first_index_that_is_not_zero_is_as_good_as_any() -> None:
    events = await play(
        stream(fragment("{", name="one", index=3, id="a"), fragment("}", index=3), chunk(finish="stop"))
    )
    assert calls(events) == [("a", "one", "{}")]
    assert finish(events) == "tool_calls"


async def test_a_tail_under_another_index_joins_its_head() -> None:
    events = await play(
        stream(
            fragment('{"a":', name="one", index=1, id="a"),
            fragment("1}", index=0),
            chunk(finish="tool_calls"),
        )
    )
    assert calls(events) == [("a", "one", '{"a":1}')]


async def test_an_id_seen_again_under_another_index_names_its_call() -> None:
    events = await play(
        stream(
            fragment('{"a":', name="one", index=0, id="a"),
            fragment('{"b":', name="two", index=1, id="b"),
            fragment("1}", index=1, id="a"),
            fragment("2}", index=0, id="b"),
            chunk(finish="tool_calls"),
        )
    )
    assert calls(events) == [("a", "one", '{"a":1}'), ("b", "two", '{"b":2}')]


async def test_repeated_and_empty_names_never_overwrite_the_first() -> None:
    events = await play(
        stream(
            fragment("", name="read", index=0, id="a"),
            fragment('{"p":', name="", index=0),
            fragment("1}", name="read", index=0, id="a"),
            fragment("", name="other", index=0, id="a"),
            chunk(finish="tool_calls"),
        )
    )
    assert calls(events) == [("a", "read", '{"p":1}')]


async def test_calls_without_ids_and_indexes_get_ids_of_their_own() -> None:
    whole = [{"function": {"name": "read", "arguments": {"path": name}}} for name in ("x", "y")]
    events = await play(stream(chunk({"tool_calls": whole}), chunk(finish="tool_calls")))
    ended = calls(events)
    assert [(name, json.loads(arguments)) for _, name, arguments in ended] == [
        ("read", {"path": "x"}),
        ("read", {"path": "y"}),
    ]
    assert len({call_id for call_id, _, _ in ended}) == 2 and all(call_id for call_id, _, _ in ended)


async def test_a_call_that_only_ever_got_a_name_has_empty_arguments() -> None:
    events = await play(stream(fragment(name="run_tests", index=0, id="a"), chunk(finish="tool_calls")))
    assert calls(events) == [("a", "run_tests", "{}")]


async def test_a_call_without_a_name_is_reported_as_it_is() -> None:
    events = await play(stream(fragment('{"x":1}', name="", index=0, id="a"), chunk(finish="tool_calls")))
    assert calls(events) == [("a", "", '{"x":1}')]


async def test_parallel_calls_arrive_complete_and_in_order() -> None:
    wanted = [("a", "read", '{"path": "x"}'), ("b", "search", '{"query": "é\\n"}'), ("c", "read", "{}")]
    events = await play(completion(text="Looking.", calls=[(i, n, a) for i, n, a in wanted]))
    assert calls(events) == wanted
    assert text(events) == "Looking."


# ------------------------------------------------------------------ reasoning


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_is_read_under_either_name_and_keeps_its_name(field: str) -> None:
    events = await play(completion(reasoning="first, second", reasoning_field=field, text="done"))
    assert {name for name, _ in reasoning(events)} == {field}
    assert "".join(piece for _, piece in reasoning(events)) == "first, second"
    assert text(events) == "done"


async def test_reasoning_sent_under_both_names_is_shown_once() -> None:
    both = [chunk({"reasoning": piece, "reasoning_content": piece}) for piece in ("think ", "hard")]
    events = await play(stream(*both, chunk({"content": "ok"}), chunk(finish="stop")))
    assert reasoning(events) == [("reasoning", "think "), ("reasoning", "hard")]


async def test_empty_reasoning_is_kept_and_null_reasoning_is_none() -> None:
    empty = await play(
        stream(chunk({"reasoning_content": "", "content": "a"}), chunk({"content": "b"}, finish="stop"))
    )
    assert reasoning(empty) == [("reasoning_content", "")]
    null = await play(stream(chunk({"reasoning_content": None, "content": "a"}), chunk(finish="stop")))
    assert reasoning(null) == []


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("thought", ["because\n of this", ""])
async def test_reasoning_goes_back_verbatim_under_the_name_it_came_with(field: str, thought: str) -> None:
    history = [
        user("go"),
        Message(
            role="assistant",
            parts=(
                ReasoningPart(text=thought, field=field),
                ToolCallPart(id="a", name="read", arguments='{ "path":"x"}'),
            ),
        ),
        Message(role="tool", parts=(ToolResultPart(call_id="a", name="read", text="content"),)),
    ]
    with MockServer([completion(text="done")]) as server:
        model = load_model(server.model(), environ={})
        async for _ in model.stream(history, []):
            pass
        await model.close()
        sent = server.requests[0].messages
    assert sent[1] == {
        "role": "assistant",
        "content": None,
        field: thought,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{ "path":"x"}'}}
        ],
    }
    assert sent[2] == {"role": "tool", "tool_call_id": "a", "content": "content"}


async def test_reasoning_details_return_unchanged_to_the_server_that_sent_them_only() -> None:
    details = [{"type": "reasoning.encrypted", "data": "b64", "index": 0}]
    with MockServer(
        [stream(chunk({"reasoning_details": details, "content": "a"}), chunk(finish="stop"))] * 2
    ) as server:
        model = load_model(server.model(), environ={})
        events = [event async for event in model.stream([user("hi")], [])]
        (opaque,) = [event for event in events if isinstance(event, OpaqueReceived)]
        parts = (
            TextPart(text="a"),
            opaque_part(opaque.provider, opaque.payload),
            opaque_part("other", {"x": 1}),
        )
        async for _ in model.stream([user("hi"), Message(role="assistant", parts=parts), user("more")], []):
            pass
        await model.close()
        assert server.requests[1].messages[1] == {
            "role": "assistant",
            "content": "a",
            "reasoning_details": details,
        }


def opaque_part(provider: str, payload: Any) -> Any:
    from whimbrel.engine.chat import OpaquePart

    return OpaquePart(provider=provider, payload=payload)


# ------------------------------------------------------------------ usage


def usage(events: Sequence[StreamEvent]) -> list[Usage]:
    return [event for event in events if isinstance(event, Usage)]


async def test_usage_comes_from_the_last_chunk_without_choices() -> None:
    tail = usage_chunk(
        11, 7, prompt_tokens_details={"cached_tokens": 5}, completion_tokens_details={"reasoning_tokens": 3}
    )
    events = await play(stream(chunk({"content": "x"}, finish="stop"), tail))
    assert usage(events) == [Usage(input_tokens=11, output_tokens=7, cached_tokens=5, reasoning_tokens=3)]


async def test_usage_nested_in_the_choice_counts_too() -> None:
    nested = {
        "index": 0,
        "delta": {},
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 4, "completion_tokens": 2},
    }
    events = await play(stream(chunk({"content": "x"}), sse({"choices": [nested]})))
    assert usage(events) == [Usage(input_tokens=4, output_tokens=2)]
    assert usage(events)[0].cached_tokens is None


async def test_missing_usage_is_no_usage_not_zero() -> None:
    assert usage(await play(completion(text="x", usage=None))) == []


# ------------------------------------------------------------------ the stream itself


async def test_keep_alives_crlf_split_bytes_and_missing_blank_lines_are_read() -> None:
    body = (
        ": keep-alive\r\n\r\n"
        'data: {"choices":[{"index":0,"delta":{"content":"é\u2028x"}}]}\r\n'
        'data:{"choices":[{"index":0,"delta":{"content":"y"}}]}\r\n\r\n'
        "event: message\rid: 4\r"
        'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\r\r'
        "data: [DONE]\n\n"
    ).encode()
    events = await play(Reply(pieces=[body[i : i + 1] for i in range(len(body))], headers={}))
    assert text(events) == "é\u2028xy"
    assert finish(events) == "stop"


async def test_an_emoji_cut_in_two_escapes_is_joined_and_a_lone_half_is_replaced() -> None:
    pieces = [
        b'data: {"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ude00b\\udc00"}}]}\n\n',
        chunk(finish="stop"),
    ]
    joined = text(await play(stream(*pieces)))
    assert joined == "a\U0001f600b\ufffd"
    joined.encode("utf-8")


async def test_a_plain_json_answer_is_taken_where_a_stream_was_asked_for() -> None:
    message = {"role": "assistant", "content": "hello", "tool_calls": None}
    body = {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3},
    }
    events = await play(
        Reply(pieces=[json.dumps(body, indent=1).encode()], headers={"content-type": "application/json"})
    )
    assert text(events) == "hello" and finish(events) == "stop"
    assert usage(events) == [Usage(input_tokens=3)]


async def test_a_stream_cut_in_the_middle_is_discarded_and_asked_for_again() -> None:
    events = await play(
        stream(chunk({"content": "half an ans"}), CUT, done=False), completion(text="whole answer")
    )
    kinds = [event.kind for event in events]
    assert kinds.count("step_discarded") == 1
    after = events[kinds.index("step_discarded") + 1 :]
    assert text(after) == "whole answer"


async def test_a_body_that_ends_without_finish_reason_or_done_is_a_cut() -> None:
    events = await play(
        stream(fragment('{"a":', name="x", index=0, id="a"), done=False), completion(text="again")
    )
    assert any(isinstance(event, StepDiscarded) for event in events)
    assert calls(events) == []


async def test_done_without_a_finish_reason_ends_the_step() -> None:
    events = await play(Reply(pieces=[chunk({"content": "x"}), DONE]))
    assert text(events) == "x" and finish(events) == "unknown"


async def test_a_cut_after_the_finish_reason_loses_nothing() -> None:
    events = await play(stream(chunk({"content": "all"}), chunk(finish="stop"), CUT, done=False))
    assert text(events) == "all" and finish(events) == "stop"


async def test_truncation_is_passed_on_as_length() -> None:
    assert finish(await play(completion(calls=[("a", "edit", '{"path": "x')], finish="length"))) == "length"


async def test_calls_in_the_form_before_tool_calls_are_calls() -> None:
    events = await play(
        stream(
            chunk({"function_call": {"name": "read", "arguments": '{"path": '}}),
            chunk({"function_call": {"arguments": '"a.py"}'}}, finish="function_call"),
        )
    )
    (end,) = [event for event in events if event.kind == "tool_call_end"]
    assert (end.name, end.arguments) == ("read", '{"path": "a.py"}')


async def test_a_call_that_is_sent_in_both_forms_is_one_call() -> None:
    def both(piece: str, name: str | None = None) -> dict[str, Any]:
        function = {"name": name, "arguments": piece}
        return {"tool_calls": [{"index": 0, "id": "c", "function": function}], "function_call": function}

    events = await play(stream(chunk(both('{"path": ', "read")), chunk(both('"a.py"}'), finish="tool_calls")))
    (end,) = [event for event in events if event.kind == "tool_call_end"]
    assert (end.name, end.arguments) == ("read", '{"path": "a.py"}')


async def test_a_byte_order_mark_before_the_stream_is_no_text() -> None:
    pieces = [b"\xef\xbb", b"\xbf", chunk({"content": "hi"}), chunk(finish="stop"), DONE]
    events = await play(Reply(pieces=pieces))
    assert [event.text for event in events if event.kind == "text_delta"] == ["hi"]
