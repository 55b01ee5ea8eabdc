"""Counting tokens: by the server where it has counted, with care where it has not."""

from __future__ import annotations

import pytest
from whimbrel.app.context.account import TokenAccount, asked_in, window_in
from whimbrel.engine.chat import Message, TextPart, Usage, user


@pytest.mark.parametrize(
    ("window", "asked", "message"),
    [
        (
            16385,
            18000,
            "This model's maximum context length is 16385 tokens. However, you requested 20000 tokens (18000 in the messages, 2000 in the completion)",
        ),
        (
            4096,
            3000,
            "This model's maximum context length is 4096 tokens and your request has 3000 input tokens (2048 > 4096 - 3000). max_tokens is too large: 2048.",
        ),
        (
            4096,
            3000,
            "'max_tokens' or 'max_completion_tokens' is too large: 2048. This model's maximum context length is 4096 tokens and your request has 3000 input tokens",
        ),
        (4096, None, "the request exceeds the available context size (4096 tokens), try increasing it"),
        (
            4096,
            5000,
            "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        ),
        (2048, 5000, "Requested tokens (5000) exceed context window of 2048"),
        (200000, 210000, "prompt is too long: 210000 tokens > 200000 maximum"),
        (
            200000,
            190000,
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
        ),
        (32768, 33000, "The input (33000 tokens) is longer than the model's context length (32768 tokens)."),
        (32768, 33000, "Input length 33000 exceeds the maximum allowed length 32768"),
        (
            1048576,
            1100000,
            "Input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        (
            32768,
            40000,
            "The engine prompt length 40000 exceeds the max_model_len 32768. Please reduce prompt.",
        ),
        (
            32768,
            40000,
            "The prompt (total length 40000) is too long to fit into the model (context length 32768).",
        ),
        (131072, 140000, "maximum prompt length is 131072 but the request contains 140000 tokens"),
        (None, None, "Your input exceeds the context window of this model."),
        (98304, None, "Range of input length should be [1, 98304]"),
        (
            262144,
            300000,
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
        ),
        (
            4096,
            4000,
            "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1000 `max_new_tokens`",
        ),
        (
            131072,
            140000,
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens (140000 of text input, 10000 in the output).",
        ),
        (4096, 8192, "Prompt has 8,192 tokens; the limit is 4,096 tokens"),
    ],
)
def test_the_window_and_the_size_of_the_prompt_are_read_from_refusals(
    window: int | None, asked: int | None, message: str
) -> None:
    assert (window_in(message), asked_in(message)) == (window, asked)


def answer(text: str) -> Message:
    return Message(role="assistant", parts=(TextPart(text=text),))


def account() -> TokenAccount:
    return TokenAccount(lambda message: len(message.text()), fixed=100)


def test_what_was_added_since_the_last_report_counts_before_it_is_sent() -> None:
    counted, view = account(), [user("x" * 900)]
    assert counted.prompt(view, 0) == 1000
    counted.report(view, 0, Usage(input_tokens=800, output_tokens=30))
    view += [answer("y" * 50), user("z" * 400)]
    # The answer as reported; what nobody counted yet never below the estimate.
    assert counted.prompt(view, 0) == 800 + 30 + 400 and counted.unsure(view, 0) >= 400
    # A server that counts more tokens than we do: so will the rest.
    counted.report(view, 0, Usage(input_tokens=3000, output_tokens=None))
    view += [answer("y" * 10), user("z" * 90)]
    assert counted.prompt(view, 0) >= 3000 + 200


def test_a_new_view_is_counted_anew_and_a_report_that_cannot_be_true_is_not_believed() -> None:
    counted, view = account(), [user("x" * 9900)]
    counted.report(view, 0, Usage(input_tokens=3))
    assert counted.prompt(view, 0) == 2500
    assert counted.prompt([user("short")], 1) < 100
    counted.report(view, 2, None)
    counted.report(view, 2, Usage())
    counted.refused(view, 2, 20_000)
    assert counted.prompt(view, 2) >= 19_999
