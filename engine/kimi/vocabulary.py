"""A small vocabulary for checkpoints that are made for trying things out: 256 bytes and some merges."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

# Some prose, code and JSON, so that the merges are not those of one kind of text.
_TEXT = """The whimbrel crosses the ocean in one flight, and the storms on the way are a part of the journey.
It reads the issue, looks for the place where the error is, changes what has to be changed and runs the tests.
When the tests pass, there is evidence that the error is gone; when they do not, the next attempt knows more.
def find(values, wanted):
    for index, value in enumerate(values):
        if value == wanted:
            return index
    return None
class Reader:
    def __init__(self, path, encoding="utf-8"):
        self.path = path
        self.encoding = encoding
    def read(self):
        with open(self.path, encoding=self.encoding) as file:
            return file.read()
{"name": "read_file", "arguments": {"path": "app/main.py", "start": 10, "lines": 20}}
message role="system" type="tool-declare" name="user" assistant tool think response tools call
"""


def small_ranks(merges: int = 256) -> dict[bytes, int]:
    """Ranks 0..255 for the single bytes, then ``merges`` learned ones; always the same."""
    ranks = {bytes((byte,)): byte for byte in range(256)}
    words = Counter(word for line in _TEXT.splitlines() for word in _words(line))
    pieces = {word: [bytes((byte,)) for byte in word.encode()] for word in words}
    while len(ranks) < 256 + merges:
        pairs: Counter[tuple[bytes, bytes]] = Counter()
        for word, parts in pieces.items():
            for pair in pairwise(parts):
                pairs[pair] += words[word]
        if not pairs:
            break
        # The most frequent, ties by the bytes themselves, so that the outcome depends on nothing else.
        left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        ranks.setdefault(left + right, len(ranks))
        for word, parts in pieces.items():
            pieces[word] = _merged(parts, left, right)
    return ranks


def _words(line: str) -> list[str]:
    words: list[str] = []
    current = ""
    for char in line:
        starts = not char.isalnum() if current else False
        if starts or (current and not current[-1].isalnum() and current != " "):
            words.append(current)
            current = ""
        current += char
    return [*words, current]


def _merged(parts: list[bytes], left: bytes, right: bytes) -> list[bytes]:
    merged: list[bytes] = []
    for part in parts:
        if merged and merged[-1] == left and part == right:
            merged[-1] = left + right
        else:
            merged.append(part)
    return merged
