"""`kimi:DIR` as a model of the agent and behind the server, with tiny random checkpoints: they write noise,
but under every rule that was set for them."""

from __future__ import annotations

import base64
import json
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from whimbrel.engine.chat import (
    Finished,
    ImagePart,
    Message,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCallEnd,
    ToolCallPart,
    ToolSpec,
    Usage,
    user,
)
from whimbrel.engine.kimi.answering import VENDOR, sampling_of
from whimbrel.engine.kimi.backend import NativeBackend
from whimbrel.engine.kimi.constraints import Form, k2_grammar, k3_grammar
from whimbrel.engine.kimi.opening import resolve_folder
from whimbrel.engine.kimi.tiny import TinyOptions, make_tiny
from whimbrel.engine.models import load_model
from whimbrel.engine.remote.failures import Failure, RemoteError
from whimbrel.engine.serve.backend import (
    GenerationRequest,
    PromptTooLong,
    Refused,
    Sampling,
    StoppedBy,
    Structure,
    TokenLogprobs,
    ToolChoice,
)
from whimbrel.sandbox.base.errors import ConfigError

READ = ToolSpec(
    "read_file",
    "Reads a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "maxLength": 30},
            "lines": {"type": "array", "items": {"type": "integer", "maximum": 99}, "maxItems": 3},
            "mode": {"enum": ["text", "bytes", None]},
            "deep": {"$ref": "#/$defs/flag"},
        },
        "required": ["path", "deep"],
        "$defs": {"flag": {"type": "boolean"}},
    },
)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "size": {"type": "integer", "maximum": 999}},
    "required": ["name", "size"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for family in ("k3", "kimi-linear"):
        made[family] = tmp_path_factory.mktemp("tiny") / family
        make_tiny(made[family], TinyOptions(family, hidden=32, layers=4, experts=4, max_context=4096))
    return made


@pytest.fixture(scope="module")
def backends(folders: dict[str, Path]):
    made = {
        family: NativeBackend.open(str(folder), ["tiny"], {"WHIMBREL_KIMI_EXACT": "1"})
        for family, folder in folders.items()
    }
    yield made
    for backend in made.values():
        if backend._answering is not None:
            backend._answering.close()


async def ask(backend: NativeBackend, request: GenerationRequest) -> list:
    await backend.start()
    async with aclosing(backend.generate(request)) as events:
        return [event async for event in events]


def request(text: str = "hello", **more) -> GenerationRequest:
    given = {"max_tokens": 400, "thinking_budget": 5, "sampling": Sampling(seed=3), **more}
    return GenerationRequest("r1", (user(text),), **given)


def joined(events: list, kind: type) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


@pytest.mark.parametrize("family", ["k3", "kimi-linear"])
@pytest.mark.parametrize("seed", range(3))
async def test_text_under_a_schema_parses_and_fits_it(backends, family: str, seed: int):
    given = request(
        structure=Structure("json_schema", SCHEMA),
        sampling=Sampling(seed=seed),
        thinking_budget=5 if family == "k3" else None,
    )
    events = await ask(backends[family], given)
    jsonschema.validate(json.loads(joined(events, TextDelta)), SCHEMA)
    assert events[-1] == Finished(reason="stop")


@pytest.mark.parametrize("family", ["k3", "kimi-linear"])
@pytest.mark.parametrize("mode", ["required", "named"])
async def test_a_call_that_must_come_comes_and_fits_its_schema(backends, family: str, mode: str):
    given = request(
        tools=(READ, ToolSpec("other", "", {"type": "object", "properties": {}})),
        tool_choice=ToolChoice(mode, "read_file"),
        parallel_tool_calls=False,
        thinking_budget=5 if family == "k3" else None,
        max_tokens=2000,
        # Noise would fill free text for ever; what ends it is made likelier.
        sampling=Sampling(
            seed=1, logit_bias={backends[family]._local.chat().tokenizer.special("<|close|>"): 6}
        )
        if family == "k3"
        else Sampling(seed=1, logit_bias={ord('"'): 5}),
    )
    events = await ask(backends[family], given)
    (call,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert call.name == "read_file" or mode == "required"
    if call.name == "read_file":
        jsonschema.validate(json.loads(call.arguments), READ.parameters)
    assert events[-1] == Finished(reason="tool_calls")


def written(name: str, arguments: dict) -> Message:
    call = ToolCallPart(id="1", name=name, arguments=json.dumps(arguments))
    return Message(role="assistant", parts=(ReasoningPart(text="so"), TextPart(text="I look."), call))


@pytest.mark.parametrize("family", ["k3", "kimi-linear"])
@pytest.mark.parametrize("must", [True, False])
def test_the_formats_own_rendering_of_a_call_is_what_the_grammar_allows(backends, folders, family, must):
    """The markers the grammar writes are those of past turns in a prompt."""
    chat = resolve_folder(str(folders[family]), {}).chat()
    before = chat.render([user("hi")], [READ], effort=None).ids
    form = Form(tools=[READ], must_call=must)
    for arguments, fits in (
        ({"path": "a <|sep|> b", "lines": [1, 2], "deep": True}, True),
        ({"path": "a", "mode": None, "deep": False}, True),
        ({"path": "", "deep": True}, False),
        ({"path": "a", "deep": 1}, False),
    ):
        after = chat.render(
            [user("hi"), written("read_file", arguments)], [READ], effort=None, add_generation_prompt=False
        )
        tokens = after.ids[len(before) :]
        assert after.ids[: len(before)] == before
        if family == "k3":
            grammar = k3_grammar(chat.tokenizer, form, thinking=True)
        else:
            grammar = k2_grammar(chat.tokenizer, form)
            tokens = tokens[tokens.index(chat.tokenizer.special("<|tool_calls_section_begin|>")) :]
        backend = backends[family]
        if backend._answering is None:
            backend._answering = backend._local.load()
        guide = backend._answering.vocabulary().guide(grammar.text, after=grammar.after)
        allowed = True
        for token in tokens:
            if (mask := guide.allowed()) is not None and not mask[token]:
                allowed = False
                break
            guide.accept(token)
        assert allowed == fits, arguments
        assert not fits or guide.satisfied


def no_markers(backend: NativeBackend, seed: int, **more) -> Sampling:
    """Noise without the tokens of the chat format."""
    special = backend._local.chat().tokenizer.special
    names = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>", "[EOS]")
    return Sampling(seed=seed, logit_bias={special(name): -100 for name in names}, **more)


@pytest.mark.parametrize("budget", [0, 1, 17])
async def test_thinking_ends_at_its_budget_and_the_answer_begins(backends, budget: int):
    given = request(thinking_budget=budget, max_tokens=40, sampling=no_markers(backends["k3"], 2))
    events = await ask(backends["k3"], given)
    assert [event.reasoning_tokens for event in events if isinstance(event, Usage)][-1] == budget
    assert bool(joined(events, ReasoningDelta)) == (budget > 0) and joined(events, TextDelta)
    assert events[-1] == Finished(reason="length")


async def test_a_stop_text_ends_the_answer_before_it_and_chances_belong_to_the_text(backends):
    plain = await ask(
        backends["k3"], request(max_tokens=60, top_logprobs=2, sampling=no_markers(backends["k3"], 3))
    )
    text = joined(plain, TextDelta)
    chances = [event for event in plain if isinstance(event, TokenLogprobs)]
    assert b"".join(each.chosen.data for each in chances).decode("utf-8", "replace") == text
    assert all(each.chosen.logprob <= each.top[0].logprob <= 0 and len(each.top) == 2 for each in chances)
    stop = next(text[at : at + 3] for at in range(10, len(text)) if "\ufffd" not in text[at : at + 3])
    stopped = await ask(
        backends["k3"], request(max_tokens=60, sampling=no_markers(backends["k3"], 3, stop=(stop,)))
    )
    assert joined(stopped, TextDelta) == text[: text.index(stop)]
    assert StoppedBy(stop) in stopped and stopped[-1] == Finished(reason="stop")


async def test_a_conversation_that_goes_on_is_not_computed_again(backends):
    first = await ask(backends["k3"], request("a long question " * 20, max_tokens=30))
    answer = Message(
        role="assistant",
        parts=(ReasoningPart(text=joined(first, ReasoningDelta)), TextPart(text=joined(first, TextDelta))),
    )
    given = request(max_tokens=5)
    history = (user("a long question " * 20), answer, user("and?"))
    events = await ask(
        backends["k3"],
        GenerationRequest("r2", history, max_tokens=5, thinking_budget=5, sampling=given.sampling),
    )
    usage = [event for event in events if isinstance(event, Usage)][-1]
    assert usage.cached_tokens >= next(e for e in first if isinstance(e, Usage)).input_tokens
    figures = {figure.name: figure for figure in backends["k3"].figures()}
    assert figures["engine_prefix_hits"].value >= 1 and figures["engine_pages_used"].value > 0
    assert figures["engine_first_token_seconds"].buckets[-1][1] >= 2


async def test_what_cannot_be_served_is_refused_by_the_field_at_fault(backends):
    backend = backends["k3"]
    await backend.start()
    picture = Message(role="user", parts=(ImagePart(media_type="image/png", data_base64="AAAA"),))
    for given, field in (
        (GenerationRequest("r", (picture,)), "messages"),
        (request(structure=Structure("grammar", "root ::= x")), "structured_outputs.grammar"),
        (request(template={"other": 1}), "chat_template_kwargs.other"),
        (request(sampling=Sampling(top_p=3)), "top_p"),
        (request(structure=Structure("json_schema", {"type": "nothing"})), "response_format"),
        (request(structure=Structure("regex", "(")), "response_format"),
        (request(tool_choice=ToolChoice("named", "none")), "tool_choice"),
    ):
        with pytest.raises(Refused) as refused:
            backend.check(given)
            await ask(backend, given)
        assert refused.value.parameter == field
    with pytest.raises(PromptTooLong):
        await ask(backend, request("word " * 3000))


@pytest.mark.parametrize("family", ["k3", "kimi-linear"])
async def test_the_agent_talks_to_a_folder(folders, family: str):
    model = load_model(
        f"kimi:{folders[family]}", environ={"WHIMBREL_KIMI_EXACT": "1", "WHIMBREL_KIMI_SPECULATE": "4"}
    )
    history = [user("hi"), written("read_file", {"path": "a"}), user("go on")]
    streams = []
    for seed in (7, 7, 8):
        streams.append(
            [
                event
                async for event in model.stream(
                    history, [READ], effort="low", max_output_tokens=24, seed=seed
                )
            ]
        )
    assert streams[0][-2].input_tokens == model.count_tokens(history, [READ])
    told = [
        [event for event in stream if isinstance(event, TextDelta | ReasoningDelta)] for stream in streams
    ]
    assert told[0] == told[1] != told[2] and isinstance(streams[0][-1], Finished)
    assert all(event.source == model.name for event in told[0] if isinstance(event, ReasoningDelta))
    async with aclosing(model.stream(history, [], effort="max", seed=7)) as stream:
        async for _ in stream:
            break
    with pytest.raises(RemoteError) as full:
        async for _ in model.stream([user("word " * 3000)], []):
            pass
    assert full.value.failure is Failure.CONTEXT_OVERFLOW
    picture = Message(role="user", parts=(ImagePart(media_type="image/png", data_base64="AAAA"),))
    assert model.count_tokens([picture], []) > 5
    engine = model._answering.engine
    await engine.drain()
    assert engine.metrics.finished.get("cancelled") == 1
    await model.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, {}),
        ("no json", {}),
        (
            '{"temperature": 0.6, "top_k": 20, "top_p": "high", "do_sample": true}',
            {"temperature": 0.6, "top_k": 20},
        ),
        ('{"temperature": -1}', None),
    ],
)
def test_sampling_is_the_checkpoints_own_where_it_names_one(tmp_path: Path, text, expected):
    if text is not None:
        (tmp_path / "generation_config.json").write_text(text)
    if expected is None:
        with pytest.raises(ConfigError, match="temperature is -1"):
            sampling_of(tmp_path)
    else:
        assert sampling_of(tmp_path) == replace(VENDOR, **expected)


async def test_a_vocabulary_of_another_checkpoint_is_told_by_the_first_step(tmp_path: Path):
    make_tiny(tmp_path / "k3", TinyOptions(hidden=32, layers=4, experts=4))
    ranks = tmp_path / "k3" / "tiktoken.model"
    lines = ranks.read_bytes().splitlines()
    more = [base64.b64encode(b"zz%d" % n) + b" %d" % (len(lines) + n) for n in range(300)]
    ranks.write_bytes(b"\n".join([*lines, *more]) + b"\n")
    (tmp_path / "k3" / "tokenizer_config.json").unlink()
    model = load_model(f"kimi:{tmp_path / 'k3'}", environ={"WHIMBREL_KIMI_CACHE_MIB": "16"})
    assert model.count_tokens([user("hi")], []) > 0
    with pytest.raises(ConfigError, match="token ids"):
        async for _ in model.stream([user("hi")], []):
            pass


def test_a_folder_that_is_no_checkpoint_and_settings_that_are_no_numbers_are_told(folders, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"config\.json"):
        load_model(f"kimi:{tmp_path}", environ={})
    with pytest.raises(ConfigError, match="WHIMBREL_KIMI_BATCH"):
        load_model(f"kimi:{folders['k3']}", environ={"WHIMBREL_KIMI_BATCH": "many"})
    with pytest.raises(ConfigError, match="neither stored nor int8"):
        load_model(f"kimi:{folders['k3']}", environ={"WHIMBREL_KIMI_DENSE": "int3"})
    with pytest.raises(ConfigError, match="none of bf16, fp8 and f32"):
        load_model(f"kimi:{folders['k3']}", environ={"WHIMBREL_KIMI_CACHE": "fp4"})
    with pytest.raises(ConfigError, match=r"512 \+ 64"):
        # The window is asked for before a model is loaded, and says what the cache cannot hold.
        resolve_folder(str(folders["k3"]), {"WHIMBREL_KIMI_CACHE": "fp8"}).window()


ODD = [
    {},
    {"type": "object"},
    {"type": "object", "properties": {}, "additionalProperties": False},
    {"properties": {"a": True, "b": {}, "c": {"type": ["string", "null", "integer"]}, "d": {"const": 5}}},
    {"properties": {"a": {"anyOf": [{"type": "string", "maxLength": 3}, {"$ref": "#/$defs/x"}]}}, "$defs": {"x": {"type": "array", "items": {"$ref": "#/$defs/x"}}}},
    {"properties": {"a": {"$ref": "#/properties/a"}, 'odd "name" & <more>': {"enum": ["x", 'y"z', 3, None, {"k": 1}]}}},
    {"properties": {"a": {"type": "string", "pattern": "(?<=x)y", "minLength": 10_000}, "n": {"type": "number", "multipleOf": 0.3}}, "required": ["zz", "a"]},
    {"properties": {"a": {"type": "object", "patternProperties": {"(": {}}, "not": {"type": "object"}}}, "required": ["a"]},
]  # fmt: skip


@pytest.mark.parametrize("family", ["k3", "kimi-linear"])
@pytest.mark.parametrize("number", range(len(ODD)))
async def test_no_schema_of_a_tool_keeps_it_from_being_offered_or_called(backends, family: str, number: int):
    backend = backends[family]
    await backend.start()
    tools = (ToolSpec("odd", "", ODD[number]),)
    for choice in (ToolChoice(), ToolChoice("required")):
        given = request(tools=tools, tool_choice=choice, thinking_budget=None)
        prompt = backend._answering.render(given)
        asked, _ = backend._answering.prepare(given, prompt)
        assert asked.guide is not None
