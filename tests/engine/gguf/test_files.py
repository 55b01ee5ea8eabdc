"""Which files are taken, and what is said of the others."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from whimbrel.engine.gguf.files import FileFacts, UnusableModel, facts
from whimbrel.engine.models import load_model
from whimbrel.sandbox.base.errors import ConfigError


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(*entries: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(entries)) + b"".join(entries)


ARCHITECTURE = text("general.architecture") + struct.pack("<I", 8) + text("toy")
LENGTH = text("toy.context_length") + struct.pack("<II", 4, 2048)
WORDS = text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc")
NUMBERS = text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, 3) + b"\0" * 12


def test_entries_are_found_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    path.write_bytes(gguf(WORDS, LENGTH, NUMBERS, ARCHITECTURE))
    assert facts(path) == FileFacts("toy", 2048)
    path.write_bytes(gguf(ARCHITECTURE, WORDS))
    assert facts(path) == FileFacts("toy", None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04 not a model", "does not begin like a GGUF file"),
        (b"", "does not begin like a GGUF file"),
        (b"GGUF\x03\x00", "end in the middle"),
        (gguf(ARCHITECTURE, WORDS)[:-3], "end in the middle"),
        (gguf(ARCHITECTURE, LENGTH, version=1), "GGUF version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 1), "GGUF version"),
        (gguf(text("general.architecture") + struct.pack("<IQ", 8, 1 << 60)), "end in the middle"),
        (gguf(text("general.architecture") + struct.pack("<I", 8) + text("clip")), "image encoder"),
    ],
)
def test_a_file_that_is_no_model_is_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a model.gguf"
    path.write_bytes(content)
    with pytest.raises(UnusableModel) as caught:
        facts(path)
    assert words in str(caught.value) and "a model.gguf" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["missing.gguf", "folder"])
def test_what_is_not_there_is_a_configuration_error(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr("whimbrel.engine.gguf.model.lacking_library", lambda: None)
    with pytest.raises(ConfigError) as caught:
        load_model(f"llama:{tmp_path / name}", environ={})
    assert name in caught.value.one_line()


def test_without_the_extra_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)  # as if it were not installed
    with pytest.raises(ConfigError) as caught:
        load_model("llama:smollm2", environ={})
    assert "make local" in caught.value.one_line() and caught.value.exit_code == 10
