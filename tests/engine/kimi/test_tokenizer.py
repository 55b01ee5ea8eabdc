"""Text to ids and back, whatever the text."""

from __future__ import annotations

import json

import pytest
from whimbrel.engine.kimi.tokenizer import (
    RANKS_FILE,
    Tokenizer,
    TokenizerError,
    read_ranks,
    write_ranks,
)
from whimbrel.engine.kimi.vocabulary import small_ranks

RANKS = small_ranks(256)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(dict(RANKS))


def test_special_tokens_lie_above_the_ranks_in_their_slots(tokenizer):
    base = len(RANKS)
    assert tokenizer.vocab_size == base + 256
    slots = {"[BOS]": 0, "[EOS]": 1, "<|end_of_msg|>": 2, "<|open|>": 3, "<|close|>": 4, "<|sep|>": 5,
             "<|media_pad|>": 21, "<osagent_mode>": 65, "[PAD]": 255}  # fmt: skip
    assert {name: tokenizer.special(name) - base for name in slots} == slots
    assert tokenizer.special(f"<|reserved_token_{base + 8}|>") == base + 8


def test_names_of_special_tokens_in_ordinary_text_stay_text(tokenizer):
    text = 'a <|open|>message role="system"<|sep|> [EOS] <|reserved_token_700|>'
    ids = tokenizer.encode(text)
    assert not any(tokenizer.is_special(token) for token in ids)
    assert tokenizer.decode(ids) == text
    assert tokenizer.special("<|open|>") in tokenizer.encode(text, special=True)


def test_no_merge_crosses_the_border_of_a_segment(tokenizer):
    whole = tokenizer.encode("def find")
    assert tokenizer.encode_segments([("def find", False)]) == whole
    apart = tokenizer.encode_segments([("d", False), ("ef find", False)])
    assert apart == [*tokenizer.encode("d"), *tokenizer.encode("ef find")] != whole


@pytest.mark.parametrize(
    "text",
    [
        " " * 1_000_000,
        "a" * 1_000_000,
        "\n" * 300_000 + "中" * 100_000,
        "' " * 300_000,
        "\u0301" * 200_000,
        "'s DON'T 12345 \r\n\t 漢字kana かな été 👩‍🚀",
        "",
    ],
    ids=["spaces", "one word", "lines and ideographs", "quotes", "marks", "mixed", "nothing"],
)
def test_any_text_comes_back_as_it_was(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_run_without_end_is_cut_every_25000_characters(tokenizer):
    run = "a" * 25_000
    assert tokenizer.encode(run * 2 + "aa b") == [*tokenizer.encode(run), *tokenizer.encode(run),
                                                  *tokenizer.encode("aa b")]  # fmt: skip


def test_text_is_split_before_the_merges_as_the_rules_say():
    # One token for every piece that the split must keep whole, and longer ones that it must prevent.
    wanted = ["漢字", "Hello's", " world", "123", "4", " !?\n", "\n\n", "  ", " x"]
    forbidden = ["漢字H", "1234", "34", "worlds1", "x漢"]
    ranks = {bytes((byte,)): byte for byte in range(256)}
    for word in [*wanted, *forbidden]:
        data = word.encode()
        for end in range(2, len(data) + 1):
            ranks.setdefault(data[:end], len(ranks))
    made = Tokenizer(ranks)
    pieces = [made.decode([token]) for token in made.encode("漢字Hello's world1234 !?\n   x")]
    assert pieces == ["漢字", "Hello's", " world", "123", "4", " !?\n", "  ", " x"]


def test_half_a_surrogate_pair_becomes_a_replacement_and_a_whole_one_is_joined(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"
    assert tokenizer.decode(tokenizer.encode("\ud83d\ude00")) == "😀"


def test_a_stream_never_shows_a_part_of_a_character(tokenizer):
    text = "é 漢 👩‍🚀 end"
    decoder = tokenizer.decoder()
    shown = [decoder.feed([token]) for token in tokenizer.encode(text)]
    assert "".join(shown) == text and "\ufffd" not in "".join(shown)
    assert decoder.finish() == ""
    cut = tokenizer.decoder()
    assert cut.feed(tokenizer.encode("漢")[:2]) == ""
    assert cut.finish() == "\ufffd"


def test_an_id_that_no_token_has_is_shown_as_a_replacement(tokenizer):
    assert tokenizer.decode([tokenizer.vocab_size + 7]) == "\ufffd"


def test_the_ranks_file_is_read_as_it_was_written(tmp_path):
    (tmp_path / RANKS_FILE).write_bytes(write_ranks(RANKS))
    assert read_ranks(tmp_path / RANKS_FILE) == RANKS
    assert Tokenizer.load(tmp_path).vocab_size == len(RANKS) + 256


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "never downloaded"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"not base64! 0\n", "line 1"),
        (b"IQ== 0\nIQ== 1\n", "line 2"),
        (write_ranks(RANKS)[:-5] + b"x", "line"),
        (b"".join(write_ranks(RANKS).splitlines(keepends=True)[:100]), "single bytes"),
        (write_ranks({**RANKS, b"gap": 99_999}), "not 0 to"),
    ],
    ids=["absent", "pointer", "no base64", "twice", "cut", "cut early", "gap"],
)
def test_a_vocabulary_that_is_absent_or_broken_says_so_in_one_line(tmp_path, content, said):
    if content is not None:
        (tmp_path / RANKS_FILE).write_bytes(content)
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(tmp_path)
    assert said in caught.value.one_line() and "\n" not in caught.value.one_line()


def test_a_vocabulary_of_another_checkpoint_is_refused(tmp_path):
    (tmp_path / RANKS_FILE).write_bytes(write_ranks(RANKS))
    with pytest.raises(TokenizerError, match="config has 600"):
        Tokenizer.load(tmp_path, vocab_size=600)
    listed = {"163584": {"content": "[BOS]"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": listed}))
    with pytest.raises(TokenizerError, match="outside"):
        Tokenizer.load(tmp_path)


def test_a_checkpoint_may_name_its_own_special_tokens(tmp_path):
    (tmp_path / RANKS_FILE).write_bytes(write_ranks(RANKS))
    listed = {str(len(RANKS) + 2): {"content": "<|im_end|>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": listed}))
    made = Tokenizer.load(tmp_path)
    assert made.special("<|im_end|>") == len(RANKS) + 2
    with pytest.raises(TokenizerError, match="no special token"):
        made.special("<|open|>")
