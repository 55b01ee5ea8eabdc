"""llama.cpp through its C interface: how likely many endings of one text are, and what may follow it.

Only the scoring process (``child.py``) uses this. The text is decoded once; what is known of it
(its keys and values) is shared by up to 32 sequences, and of each ending only the tokens after
the first difference are decoded. Batch size, threads and the order of work are fixed, and a
batch always starts from the same state: the same request gives the same numbers. (Weights and
activations have eight bits: the same ending in another company may differ in the third digit.)
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....engine.gguf.library import NativeFailure, load_library

SEQUENCES = 32
"""Endings that are decoded at a time."""
BATCH = 256
"""Tokens per call; decides the memory for results: 4 bytes x vocabulary x this."""
MOST_TOKENS = 3072
"""Of a text, or of an ending that is decoded; what comes later is refused."""
THREADS = 1
"""More would wait for each other in busy loops, which on a loaded machine takes many times as long."""

_LINE_TOKENS = 40
"""Of a sampled line; longer ones are dropped."""
_TEMPERATURE, _OUT_OF = 0.8, 40
"""How lines are sampled: from so many of the likeliest tokens."""
_TEXT = 0
"""The sequence that holds the text; endings have the numbers after it."""


@dataclass(frozen=True)
class Tokens:
    """Token ids and the byte offset in the text at which each one ends."""

    ids: tuple[int, ...]
    ends: tuple[int, ...]


class LanguageModel:
    """A model in memory (about twice the size of its file while it loads, then once).

    Raises:
        NativeFailure: the library or the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._api: Any = load_library()
        api = self._api
        api.llama_backend_init()
        parameters = api.llama_model_default_params()
        parameters.n_gpu_layers = 0
        self._model = api.llama_model_load_from_file(str(path).encode(), parameters)
        if not self._model:
            raise NativeFailure(f"{path.name} is not a model that llama.cpp can load")
        self._vocabulary = api.llama_model_get_vocab(self._model)
        self._size = int(api.llama_vocab_n_tokens(self._vocabulary))
        settings = api.llama_context_default_params()
        settings.n_ctx = MOST_TOKENS + BATCH * 4
        settings.n_batch = settings.n_ubatch = BATCH
        settings.n_seq_max = SEQUENCES + 1
        settings.n_threads = settings.n_threads_batch = THREADS
        settings.kv_unified = True
        # Its partial sums would depend on the number of threads.
        settings.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.no_perf = True
        self._context = api.llama_init_from_model(self._model, settings)
        if not self._context:
            raise NativeFailure(f"{path.name} loads, but no context of {settings.n_ctx} tokens can be made")
        self._memory = api.llama_get_memory(self._context)
        self._batch = api.llama_batch_init(BATCH, 0, 1)
        self._pieces: dict[int, int] = {}
        self._ends: Any = None
        self._numpy: Any = importlib.import_module("numpy")

    def tokenise(self, text: str) -> Tokens:
        """The tokens of a text; special tokens in it are read as plain text."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        found = (ctypes.c_int32 * room)()
        count = self._api.llama_tokenize(self._vocabulary, data, len(data), found, room, False, False)
        if count < 0:
            raise NativeFailure("a text cannot be cut into tokens")
        ids = tuple(found[:count])
        ends: list[int] = []
        end = 0
        for token in ids:
            end += self._length(token)
            ends.append(end)
        return Tokens(ids, tuple(ends))

    def _length(self, token: int) -> int:
        known = self._pieces.get(token)
        if known is None:
            buffer = ctypes.create_string_buffer(256)
            known = abs(int(self._api.llama_token_to_piece(self._vocabulary, token, buffer, 256, 0, False)))
            self._pieces[token] = known
        return known

    def endings(self, text: Sequence[int], endings: Sequence[tuple[int, Sequence[int]]]) -> list[list[float]]:
        """Log-probability of every token of each ending.

        Args:
            text: the tokens that are decoded once.
            endings: (where it leaves the text, its tokens from there); the place is at least 1, since
                a first token has nothing before it. Tokens that agree with the text are taken from it.

        Returns:
            Per ending the natural logarithms, in the order of its tokens.

        Raises:
            NativeFailure: too long, or llama.cpp gave an error.
        """
        same = [_agreement(text, start, tokens) for start, tokens in endings]
        wanted: dict[int, set[int]] = {}
        results: list[list[float]] = [[0.0] * len(tokens) for _, tokens in endings]
        for (start, tokens), common in zip(endings, same, strict=True):
            for number, token in enumerate(tokens[: common + 1]):
                wanted.setdefault(start + number - 1, set()).add(token)
        known = self._decode_text(text[: max(wanted, default=-1) + 1], wanted)
        rest: list[tuple[int, int, Sequence[int]]] = []
        for number, ((start, tokens), common) in enumerate(zip(endings, same, strict=True)):
            for place, token in enumerate(tokens[: common + 1]):
                results[number][place] = known[start + place - 1, token]
            if len(tokens) > common + 1:
                rest.append((number, common, tokens))
        for group in _groups(rest):
            places = {number: endings[number][0] for number, _, _ in group}
            self._decode_group(group, places, results)
        return results

    def lines(self, text: Sequence[int], count: int, seed: int) -> list[tuple[bytes, float]]:
        """Samples single lines that may follow a text.

        Args:
            text: tokens, at least one; they end where a line does, before its newline (which is one token
                with the indentation of the next line).
            count: lines drawn side by side, at most ``SEQUENCES``; equal ones come once.
            seed: the same text, count and seed give the same lines.

        Returns:
            A line without its end, and the mean natural logarithm of its tokens' probabilities.

        Raises:
            NativeFailure: the text is too long, or llama.cpp gave an error.
        """
        numpy, end = self._numpy, len(text)
        if end > MOST_TOKENS:
            raise NativeFailure(f"a text of {end} tokens is longer than {MOST_TOKENS}")
        self._api.llama_memory_clear(self._memory, False)
        rows: Any = ()
        for first in range(0, end, BATCH):
            part = text[first : first + BATCH]
            self._begin()
            for number, token in enumerate(part):
                self._add(token, first + number, _TEXT, first + number == end - 1)
            rows = self._decode(int(first + len(part) == end))
        for sequence in range(1, count + 1):
            self._api.llama_memory_seq_cp(self._memory, _TEXT, sequence, 0, end)
        draw = numpy.random.Generator(numpy.random.PCG64(seed))
        rows = [rows[0].copy()] * count
        alive, found = list(range(1, count + 1)), dict[bytes, float]()
        written: dict[int, tuple[bytes, float, int]] = {}
        for sequence in alive:
            written[sequence] = (b"", 0.0, 0)
        for step in range(_LINE_TOKENS):
            self._begin()
            going: list[int] = []
            for row, sequence in zip(rows, alive, strict=True):
                token, logarithm = self._draw(row, draw, self._line_ends() if step == 0 else None)
                piece = self._piece(token)
                line, total, tokens = written[sequence]
                line += piece
                if step:
                    total, tokens = total + logarithm, tokens + 1
                written[sequence] = line, total, tokens
                start = line.lstrip(b"\n")
                if b"\n" in start:
                    found.setdefault(start[: start.index(b"\n")], total / tokens)
                elif piece:
                    going.append(sequence)
                    self._add(token, end + step, sequence, True)
            if not going:
                break
            alive, rows = going, self._decode(len(going))
        return list(found.items())

    def _line_ends(self) -> Any:
        """Ids of the tokens that end a line and begin the next one with nothing but its indentation."""
        if self._ends is None:
            pieces = enumerate(map(self._piece, range(self._size)))
            ends = [token for token, piece in pieces if piece[:1] == b"\n" and not piece.strip()]
            self._ends = self._numpy.array(ends)
        return self._ends

    def _draw(self, row: Any, draw: Any, among: Any = None) -> tuple[int, float]:
        """A token out of the likeliest ones (of some), and the logarithm of its probability among all."""
        numpy = self._numpy
        if among is not None:
            others = numpy.full_like(row, -numpy.inf)
            others[among] = row[among]
            row = others
        best = numpy.argpartition(row, -_OUT_OF)[-_OUT_OF:]
        best = best[numpy.lexsort((best, -row[best]))]
        weights = numpy.exp((row[best] - row[best[0]]).astype("float64") / _TEMPERATURE)
        place = int(numpy.searchsorted(numpy.cumsum(weights), draw.random() * weights.sum(), side="right"))
        token = int(best[min(place, _OUT_OF - 1)])
        return token, self._logarithms(row, [token])[0]

    def _piece(self, token: int) -> bytes:
        """The text of a token; empty for one that ends a text."""
        buffer = ctypes.create_string_buffer(256)
        length = int(self._api.llama_token_to_piece(self._vocabulary, token, buffer, 256, 0, False))
        return buffer.raw[: max(0, length)]

    def _decode_text(
        self, text: Sequence[int], wanted: Mapping[int, set[int]]
    ) -> dict[tuple[int, int], float]:
        """Fills the first sequence; the logarithms of the wanted tokens after each position."""
        if len(text) > MOST_TOKENS:
            raise NativeFailure(f"a text of {len(text)} tokens is longer than {MOST_TOKENS}")
        self._api.llama_memory_clear(self._memory, False)
        known: dict[tuple[int, int], float] = {}
        for first in range(0, len(text), BATCH):
            part = text[first : first + BATCH]
            self._begin()
            rows: list[int] = []
            for number, token in enumerate(part):
                position = first + number
                if position in wanted:
                    rows.append(position)
                self._add(token, position, _TEXT, position in wanted)
            logits = self._decode(len(rows))
            for row, position in enumerate(rows):
                asked = sorted(wanted[position])
                for token, value in zip(asked, self._logarithms(logits[row], asked), strict=True):
                    known[position, token] = value
        return known

    def _decode_group(
        self,
        group: Sequence[tuple[int, int, Sequence[int]]],
        places: Mapping[int, int],
        results: list[list[float]],
    ) -> None:
        """Decodes what differs in each ending of a group, in one call."""
        self._begin()
        asked: list[tuple[int, int, int]] = []
        for sequence, (number, common, tokens) in enumerate(group, start=1):
            begin = places[number] + common
            self._api.llama_memory_seq_cp(self._memory, _TEXT, sequence, 0, begin)
            for place in range(common, len(tokens) - 1):
                self._add(tokens[place], places[number] + place, sequence, True)
                asked.append((number, place + 1, tokens[place + 1]))
        logits = self._decode(len(asked))
        for row, (number, place, token) in enumerate(asked):
            (results[number][place],) = self._logarithms(logits[row], [token])
        for sequence in range(1, len(group) + 1):
            self._api.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def _begin(self) -> None:
        self._batch.n_tokens = 0

    def _add(self, token: int, position: int, sequence: int, output: bool) -> None:
        batch = self._batch
        number = batch.n_tokens
        batch.token[number] = token
        batch.pos[number] = position
        batch.n_seq_id[number] = 1
        batch.seq_id[number][0] = sequence
        batch.logits[number] = output
        batch.n_tokens = number + 1

    def _decode(self, rows: int) -> Any:
        """Runs the batch; an array of the asked positions by the vocabulary, valid until the next call."""
        if (code := self._api.llama_decode(self._context, self._batch)) != 0:
            raise NativeFailure(f"llama.cpp could not decode a batch (code {code})")
        if not rows:
            return ()
        pointer = self._api.llama_get_logits(self._context)
        return self._numpy.ctypeslib.as_array(pointer, shape=(rows, self._size))

    def _logarithms(self, row: Any, tokens: Sequence[int]) -> list[float]:
        highest = float(row.max())
        total = float(self._numpy.exp(row - highest).sum(dtype="float64"))
        normal = highest + float(self._numpy.log(total))
        return [float(row[token]) - normal for token in tokens]


def _agreement(text: Sequence[int], start: int, tokens: Sequence[int]) -> int:
    """How many of an ending's first tokens the text has as well."""
    count = 0
    while count < len(tokens) and start + count < len(text) and text[start + count] == tokens[count]:
        count += 1
    return min(count, len(tokens) - 1)


def _groups(
    rest: Sequence[tuple[int, int, Sequence[int]]],
) -> Iterator[list[tuple[int, int, Sequence[int]]]]:
    """In order, as many as fit into one call; an ending that is too long alone is an error."""
    group: list[tuple[int, int, Sequence[int]]] = []
    size = 0
    for each in rest:
        need = len(each[2]) - 1 - each[1]
        if need > BATCH:
            raise NativeFailure(f"an ending of {need} tokens is longer than {BATCH}")
        if group and (len(group) >= SEQUENCES or size + need > BATCH):
            yield group
            group, size = [], 0
        group.append(each)
        size += need
    if group:
        yield group
