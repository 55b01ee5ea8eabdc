"""What a grammar allows is all that is ever written."""

from __future__ import annotations

import json
import re

import jsonschema
import numpy as np
import pytest
from whimbrel.engine.scheduling.grammar import Vocabulary, ids, json_rule, text_rule
from whimbrel.engine.scheduling.guides import Both, ThinkingBudget
from whimbrel.engine.scheduling.request import InvalidRequest, Request, Sampling

from tests.engine.scheduling.hash_runner import HashRunner
from tests.engine.scheduling.test_scheduler import run, scheduler

PIECES = [bytes([value]) for value in range(256)] + [b'{"', b'":', b'", "', b"true", b"name", b"12", b" the"]
STOP, OPEN, CLOSE, SEP = range(len(PIECES), len(PIECES) + 4)
NAMES = [b"<|eom|>", b"<|open|>", b"<|close|>", b"<|sep|>"]
THINK, RESPONSE = ord("t"), ord("r")


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(
        [*PIECES, *NAMES], [STOP, OPEN, CLOSE, SEP], [STOP], lambda text: list(text.encode()), len(PIECES) + 6
    )


def written(
    vocabulary: Vocabulary, grammar: str, seed: int, *, guide=None, stop: float = 8.0, **more
) -> tuple[list[int], str]:
    model = HashRunner(vocab=vocabulary.size)
    # Random logits end a text rarely, so what ends it is made likelier.
    bias = {STOP: stop, ord('"'): 4.0, ord("}"): 5.0, ord("]"): 5.0, CLOSE: 4.0}
    request = Request(
        [1, 2], Sampling(seed=seed, logit_bias=bias), max_tokens=2000, stop_ids=frozenset({STOP}),
        guide=guide or vocabulary.guide(grammar), **more,
    )  # fmt: skip
    (answer,) = run(scheduler(model), request)
    assert answer.last.reason == "stop", answer.last
    text = b"".join(PIECES[token] for token in answer.ids if token < len(PIECES))
    return answer.ids, text.decode("utf-8", "strict" if guide is None else "replace")


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 12},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 1, "maxItems": 3},
        "size": {"type": "integer", "minimum": 3, "maximum": 70},
        "inner": {"$ref": "#/$defs/node"},
    },
    "required": ["name", "tags", "size"],
    "additionalProperties": False,
    "$defs": {"node": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}},
}


@pytest.mark.parametrize("speculate", [0, 4])
@pytest.mark.parametrize("seed", range(6))
def test_an_answer_under_a_schema_always_parses_and_fits_it(
    vocabulary: Vocabulary, seed: int, speculate: int
):
    _, text = written(vocabulary, f"start: {json_rule(SCHEMA)}", seed, speculate=speculate)
    jsonschema.validate(json.loads(text), SCHEMA)


def test_any_json_a_pattern_and_a_choice_hold_too(vocabulary: Vocabulary):
    assert isinstance(json.loads(written(vocabulary, f"start: {json_rule({'type': 'object'})}", 3)[1]), dict)
    assert re.fullmatch("[a-c]{3}-[0-9]+", written(vocabulary, "start: /[a-c]{3}-[0-9]+/", 1)[1])
    choices = ['say "hi"', "größe\n"]
    assert written(vocabulary, f"start: {text_rule(choices)}", 1)[1] in choices


def test_markers_are_exact_tokens_and_text_cannot_spell_them(vocabulary: Vocabulary):
    end = ids([CLOSE, RESPONSE, SEP])
    grammar = f"start: {ids([OPEN, RESPONSE, SEP])} TEXT {end}\nTEXT: /(?s:.*)/"
    tokens, _ = written(vocabulary, grammar, 2)
    assert tokens[:3] == [OPEN, RESPONSE, SEP] and tokens[-4:] == [CLOSE, RESPONSE, SEP, STOP]
    assert not {OPEN, CLOSE, SEP, STOP}.intersection(tokens[3:-4])


def test_a_grammar_can_wait_for_the_end_of_thinking(vocabulary: Vocabulary):
    end = (CLOSE, THINK, SEP)
    structure = vocabulary.guide(f"start: {json_rule(SCHEMA)}", after=end)
    guide = Both(ThinkingBudget(9, end), structure)
    tokens, _ = written(vocabulary, "", 4, guide=guide, stop=-100)
    at = next(n for n in range(len(tokens)) if tuple(tokens[n : n + 3]) == end)
    jsonschema.validate(json.loads(b"".join(PIECES[token] for token in tokens[at + 3 : -1])), SCHEMA)
    assert structure.satisfied and at <= 9


def test_what_only_one_way_is_left_for_is_written_without_asking_the_model(vocabulary: Vocabulary):
    model = HashRunner(vocab=vocabulary.size)
    request = Request(
        [1], max_tokens=99, stop_ids=frozenset({STOP}), guide=vocabulary.guide('start: "a long fixed text"')
    )
    (answer,) = run(scheduler(model), request)
    assert bytes(answer.ids[:-1]) == b"a long fixed text" and len(model.steps) <= 2


def test_a_grammar_that_is_none_is_refused_with_its_error(vocabulary: Vocabulary):
    for grammar in ("start: (", f"start: {json_rule({'type': 'nothing'})}"):
        with pytest.raises(InvalidRequest, match="cannot be used"):
            vocabulary.guide(grammar)


def test_guides_of_one_grammar_do_not_share_their_place(vocabulary: Vocabulary):
    one, two = (vocabulary.guide("start: /[ab]{2}/") for _ in range(2))
    one.accept(ord("a"))
    one.accept(ord("b"))
    assert one.satisfied and not two.satisfied
    assert np.flatnonzero(two.allowed()).tolist() == [ord("a"), ord("b")]
