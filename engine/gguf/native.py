"""llama.cpp through its C interface: tokens of a text, and text after tokens.

Only the process of ``child.py`` uses this. The same prompt and seed give the same answer, whatever was
asked before: a prompt is decoded in blocks at fixed places, and of an earlier prompt only whole blocks
are used again, so that every number is made in the same company.
"""

from __future__ import annotations

import codecs
import ctypes
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .library import NativeFailure, load_library
from .tags import CALL, END_THINK, TAGS, THINK, TagParser
from .wanted import Answer, Chance, Wanted

BLOCK = 256
"""Tokens per call while a prompt is read."""
_CONTROL = 1 << 3
_PIECE = 512
_PENALISED = 4096
"""Tokens of the answer, the last ones, that count for repetition, frequency and presence."""


class GrammarRefused(NativeFailure):
    """llama.cpp does not take a grammar; one line."""


class Overflow(Exception):
    """A prompt that does not fit; one line."""


class Vocabulary:
    """A model's tokens; loads nothing else of the file unless ``model`` is given."""

    def __init__(self, path: Path) -> None:
        self.api: Any = load_library()
        self.api.llama_backend_init()
        parameters = self.api.llama_model_default_params()
        parameters.vocab_only = True
        # Kept for good: its texts are looked up from two threads.
        self._model = self.api.llama_model_load_from_file(str(path).encode(), parameters)
        if not self._model:
            raise NativeFailure(f"{path} is not a model that llama.cpp can load")
        self.pointer = self.api.llama_model_get_vocab(self._model)
        self.size = int(self.api.llama_vocab_n_tokens(self.pointer))
        template = self.api.llama_model_chat_template(self._model, None)
        self.template = template.decode("utf-8", "replace") if template else ""
        self.control = [text for token in range(self.size) if (text := self._control_text(token))]
        self.bos, self.eos = (
            self._text(int(each(self.pointer)))
            for each in (self.api.llama_vocab_bos, self.api.llama_vocab_eos)
        )
        self._bos_token = int(self.api.llama_vocab_bos(self.pointer))
        self._adds_bos = bool(self.api.llama_vocab_get_add_bos(self.pointer))

    def tokens(self, parts: Sequence[str]) -> list[int]:
        """Tokens of a prompt in parts; a control token that is split between two parts is plain text."""
        found: list[int] = []
        for part in parts:
            found += self._tokens(part)
        if self._adds_bos and self._bos_token >= 0 and found[:1] != [self._bos_token]:
            found.insert(0, self._bos_token)
        return found

    def plain(self, text: str) -> list[int]:
        """Tokens of a piece of an answer."""
        return self._tokens(text)

    def piece(self, token: int) -> bytes:
        """What a token adds to an answer; control tokens add nothing, unless they are our tags."""
        shown = self._text(token) in TAGS
        buffer = ctypes.create_string_buffer(_PIECE)
        count = int(self.api.llama_token_to_piece(self.pointer, token, buffer, _PIECE, 0, shown))
        return buffer.raw[: max(0, count)]

    def ends(self, token: int) -> bool:
        return bool(self.api.llama_vocab_is_eog(self.pointer, token))

    def _tokens(self, text: str) -> list[int]:
        data = text.encode("utf-8", "replace")
        if not data:
            return []
        room = len(data) + 8
        found = (ctypes.c_int32 * room)()
        count = self.api.llama_tokenize(self.pointer, data, len(data), found, room, False, True)
        if count < 0:
            raise NativeFailure("a text cannot be cut into tokens")
        return list(found[:count])

    def _text(self, token: int) -> str:
        if token < 0:
            return ""
        text = self.api.llama_vocab_get_text(self.pointer, token)
        return text.decode("utf-8", "replace") if text else ""

    def _control_text(self, token: int) -> str:
        attributes = int(self.api.llama_vocab_get_attr(self.pointer, token))
        text = self._text(token) if attributes & _CONTROL else ""
        return "" if text in TAGS else text


class Engine:
    """Weights and a context in memory."""

    def __init__(self, path: Path, vocabulary: Vocabulary, *, window: int, threads: int) -> None:
        """Raises NativeFailure: the file or the memory does not suffice."""
        self._vocabulary = vocabulary
        self._api = api = vocabulary.api
        parameters = api.llama_model_default_params()
        self._model = api.llama_model_load_from_file(str(path).encode(), parameters)
        if not self._model:
            raise NativeFailure(f"{path} cannot be loaded: it is damaged, or there is not enough memory")
        settings = api.llama_context_default_params()
        settings.n_ctx = window
        settings.n_batch = settings.n_ubatch = BLOCK
        settings.n_threads = settings.n_threads_batch = threads
        # Its partial sums would depend on the number of threads.
        settings.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.no_perf = True
        self._context = api.llama_init_from_model(self._model, settings)
        if not self._context:
            raise NativeFailure(
                f"{path.name} loads, but there is no memory for a context of {window} tokens "
                "(WHIMBREL_LLAMA_CONTEXT sets a smaller one)"
            )
        self._window = int(api.llama_n_ctx(self._context))
        self._memory = api.llama_get_memory(self._context)
        self._batch = api.llama_batch_init(BLOCK, 0, 1)
        self._known: list[int] = []
        """Tokens of the last prompt, whole blocks only, that the context still holds."""

    def answer(
        self,
        prompt: Sequence[int],
        wanted: Wanted,
        say: Callable[[str, list[Chance]], None],
        stopped: Callable[[], bool],
        *,
        thinking: bool,
        begun: Callable[[int], None] = lambda _: None,
    ) -> Answer:
        """Writes an answer piece by piece.

        Args:
            say: takes a piece, and where they are wanted the chances of its token, the chosen one first.
            thinking: whether the prompt ends inside of a thinking block.
            stopped: asked between tokens and blocks.
            begun: told how many tokens of the prompt were known before, when it is read.

        Raises:
            Overflow: the prompt leaves no room for an answer.
            NativeFailure: llama.cpp gave an error.
        """
        if len(prompt) + 1 >= self._window:
            raise Overflow(f"the prompt has {len(prompt)} tokens, the context window {self._window}")
        cached = self._read(prompt, stopped)
        if cached is None:
            return Answer("aborted", len(prompt), 0, 0, 0, False)
        begun(cached)
        run = _Run(self._vocabulary, wanted, thinking)
        position, reason = len(prompt), "aborted"
        try:
            while not stopped():
                token = run.sample(self._context)
                if self._vocabulary.ends(token):
                    reason = "stop"
                    break
                chances = run.chances(self._context, token)
                say(run.take(token), chances)
                following = [token, *run.closing()]
                for extra in following[1:]:
                    say(run.take(extra), [])
                if run.full or position + len(following) >= self._window:
                    reason = "length"
                    break
                for each in following:
                    self._decode([each], position)
                    position += 1
            say(run.end(), [])
        finally:
            run.close()
        return Answer(reason, len(prompt), cached, run.count, run.thought, run.cut)

    def _read(self, prompt: Sequence[int], stopped: Callable[[], bool]) -> int | None:
        """Decodes a prompt; how many of its tokens were known before, or None when stopped."""
        kept = 0
        while kept + BLOCK < len(prompt) and self._known[kept : kept + BLOCK] == prompt[kept : kept + BLOCK]:
            kept += BLOCK
        if not self._api.llama_memory_seq_rm(self._memory, 0, kept, -1):
            # Some kinds of models cannot forget a part.
            self._api.llama_memory_clear(self._memory, True)
            kept = 0
        self._known = list(prompt[:kept])
        for start in range(kept, len(prompt), BLOCK):
            if stopped():
                return None
            block = list(prompt[start : start + BLOCK])
            self._decode(block, start)
            if len(block) == BLOCK:
                self._known += block
        return kept

    def _decode(self, tokens: Sequence[int], position: int) -> None:
        batch = self._batch
        for number, token in enumerate(tokens):
            batch.token[number] = token
            batch.pos[number] = position + number
            batch.n_seq_id[number] = 1
            batch.seq_id[number][0] = 0
            batch.logits[number] = number == len(tokens) - 1
        batch.n_tokens = len(tokens)
        if (code := self._api.llama_decode(self._context, batch)) != 0:
            self._known = []
            raise NativeFailure(f"llama.cpp could not decode a batch (code {code})")


class _Run:
    """What one answer keeps track of: where in the text it is, and what may come next."""

    def __init__(self, vocabulary: Vocabulary, wanted: Wanted, thinking: bool) -> None:
        self._vocabulary = vocabulary
        self._api = vocabulary.api
        self._wanted = wanted
        self._parser = TagParser(thinking=thinking)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.count = self.thought = 0
        self.cut = False
        self._free_once = False
        self._constrained = False
        # What holds for the whole of the answer; thinking is free.
        self._whole = wanted.grammar(False) if wanted.call_first and wanted.grammar else wanted.form
        self._chain = self._sampler("" if thinking else self._whole)
        self._constrained = bool(self._whole) and not thinking

    @property
    def full(self) -> bool:
        """Whether the answer is as long as it may be."""
        wanted = self._wanted
        return self.count >= wanted.most_tokens or self.count - self.thought >= wanted.answer_tokens

    def sample(self, context: Any) -> int:
        return int(self._api.llama_sampler_sample(self._chain, context, -1))

    def take(self, token: int) -> str:
        """The text of a token that was chosen."""
        text = self._decoder.decode(self._vocabulary.piece(token))
        self.count += 1
        before = self._parser.state
        self._parser.feed(text)
        if before == "reasoning":
            self.thought += 1
        if self._whole and not self._constrained and self._parser.state != "reasoning":
            self._constrain(self._whole)
        if self._parser.state != "call":
            self._free_once = False
        elif not self._constrained and not self._free_once and self._wanted.grammar is not None:
            self._constrain(self._wanted.grammar(True))
        return text

    def chances(self, context: Any, token: int) -> list[Chance]:
        """The model's own, at temperature 1: of a token before it is decoded, and of the likeliest."""
        if self._wanted.top_logprobs is None or self._parser.state != "text":
            return []
        numbers: Any = importlib.import_module("numpy")
        raw = self._api.llama_get_logits_ith(context, -1)
        logits = numbers.ctypeslib.as_array(raw, shape=(self._vocabulary.size,)).astype(numbers.float64)
        top = logits.max()
        logits -= top + numbers.log(numbers.exp(logits - top).sum())
        count = self._wanted.top_logprobs
        best = numbers.argsort(-logits, kind="stable")[:count] if count else []
        return [
            Chance(self._vocabulary.piece(each), float(logits[each])) for each in (token, *map(int, best))
        ]

    def closing(self) -> list[int]:
        """Tokens that end thinking when it has had its share."""
        if self._parser.state != "reasoning" or self.thought < self._wanted.thinking_tokens or self.cut:
            return []
        self.cut = True
        return self._vocabulary.plain(f"\n{END_THINK}\n\n")

    def end(self) -> str:
        """The rest of a character that never became whole."""
        return self._decoder.decode(b"", True)

    def close(self) -> None:
        self._api.llama_sampler_free(self._chain)

    def _constrain(self, grammar: str) -> None:
        """From here on only what the grammar allows; it is told what came after the tag already."""
        chain = self._sampler(grammar)
        for token in self._vocabulary.plain(self._parser.held.lstrip()):
            if not self._allows(chain, token):
                # The model has begun in a form of its own: the loop will tell it what is wrong.
                self._api.llama_sampler_free(chain)
                self._free_once = True
                return
            self._api.llama_sampler_accept(chain, token)
        self._api.llama_sampler_free(self._chain)
        self._chain, self._constrained = chain, True

    def _allows(self, chain: Any, token: int) -> bool:
        """Whether the grammar at the head of a chain takes a token; one it does not take would end us."""
        grammar = self._api.llama_sampler_chain_get(chain, 0)
        data = (self._api.llama_token_data * 1)(self._api.llama_token_data(token, 1.0, 0.0))
        array = self._api.llama_token_data_array(data, 1, -1, False)
        self._api.llama_sampler_apply(grammar, ctypes.byref(array))
        return data[0].logit > -1e30

    def _sampler(self, grammar: str) -> Any:
        api = self._api
        chain = api.llama_sampler_chain_init(api.llama_sampler_chain_default_params())
        if grammar:
            head = api.llama_sampler_init_grammar(self._vocabulary.pointer, grammar.encode(), b"root")
            if not head:
                raise GrammarRefused("llama.cpp does not take the grammar of this schema")
            api.llama_sampler_chain_add(chain, head)
        for part in self._choosing():
            api.llama_sampler_chain_add(chain, part)
        return chain

    def _choosing(self) -> list[Any]:
        api, how = self._api, self._wanted.sampling
        parts: list[Any] = []
        if (how.repetition, how.frequency, how.presence) != (1.0, 0.0, 0.0):
            size = self._vocabulary.size
            parts.append(
                api.llama_sampler_init_penalties(
                    size, _PENALISED, how.repetition, how.frequency, how.presence
                )
            )
        if how.temperature <= 0:
            return [*parts, api.llama_sampler_init_greedy()]
        return [
            *parts,
            api.llama_sampler_init_top_k(how.top_k),
            api.llama_sampler_init_top_p(how.top_p, 1),
            api.llama_sampler_init_min_p(how.min_p, 1),
            api.llama_sampler_init_temp(how.temperature),
            api.llama_sampler_init_dist((self._wanted.seed + self.count) & 0xFFFFFFFF),
        ]


def ends_inside_thinking(prompt: str) -> bool:
    """Whether a template has opened the thinking block itself."""
    return prompt.rfind(THINK) > max(prompt.rfind(END_THINK), prompt.rfind(CALL))
