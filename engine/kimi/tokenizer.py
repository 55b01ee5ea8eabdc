"""Text to token ids and back, for the family's tiktoken vocabulary.

The ranks come from the checkpoint's own ``tiktoken.model`` (one line per token: base64, space, rank) and are
read by us: nothing is ever downloaded. Above the ranks lie 256 slots for special tokens; the names of the
first release are built in, a checkpoint's ``tokenizer_config.json`` may name its own.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import importlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ...sandbox.base.errors import ConfigError
from ...sandbox.base.files import read_regular

RANKS_FILE = "tiktoken.model"
SPECIAL_SLOTS = 256
"""Ids above the ranks that are kept for special tokens."""

# Names by slot; the id is the number of ranks plus the slot (163,584 ranks in the released vocabulary).
K3_SPECIALS: Mapping[int, str] = {
    0: "[BOS]",
    1: "[EOS]",
    2: "<|end_of_msg|>",
    3: "<|open|>",
    4: "<|close|>",
    5: "<|sep|>",
    6: "[start_header_id]",
    7: "[end_header_id]",
    9: "[EOT]",
    18: "<|media_begin|>",
    19: "<|media_content|>",
    20: "<|media_end|>",
    21: "<|media_pad|>",
    65: "<osagent_mode>",
    254: "[UNK]",
    255: "[PAD]",
}

_CUT = 400_000
"""Characters encoded at a time."""
_RUN = 25_000
"""Longest run of spaces, or of anything else, that is encoded in one go."""
_RUNS = re.compile(r"\s+|\S+")

_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PRE_SPLIT = "|".join(
    (
        r"\p{Han}+",
        f"{_LEAD}{_UPPER}*{_LOWER}+{_CONTRACTION}",
        f"{_LEAD}{_UPPER}+{_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""Where text is split before the merges; the class intersections need tiktoken's own regex engine."""


class TokenizerError(ConfigError):
    """The vocabulary file is absent, broken or belongs to another checkpoint."""


class Tokenizer:
    """A byte-level BPE vocabulary with special tokens.

    Args:
        ranks: token bytes to rank, ranks 0..n-1 without a gap, every single byte among them.
        specials: names of special tokens by slot above the ranks (slot 0 has id n).
    """

    def __init__(self, ranks: dict[bytes, int], specials: Mapping[int, str] = K3_SPECIALS) -> None:
        self.base = len(ranks)
        self.vocab_size = self.base + SPECIAL_SLOTS
        named = {self.base + slot: name for slot, name in specials.items()}
        for token in range(self.base, self.vocab_size):
            named.setdefault(token, f"<|reserved_token_{token}|>")
        self._names = named
        self.specials: dict[str, int] = {name: token for token, name in named.items()}
        if len(self.specials) != len(named):
            raise TokenizerError("two special tokens have the same name", hint="check tokenizer_config.json")
        self.named_specials = frozenset(specials.values())
        tiktoken = _library()
        self._encoding: Any = tiktoken.Encoding(
            "kimi", pat_str=PRE_SPLIT, mergeable_ranks=ranks, special_tokens=self.specials
        )
        self._allowed = set(self.specials)

    @classmethod
    def load(cls, folder: Path, *, vocab_size: int | None = None) -> Tokenizer:
        """Reads the vocabulary of a checkpoint folder.

        Args:
            vocab_size: what the config says; a vocabulary of another size is refused.

        Raises:
            TokenizerError: no vocabulary file, a broken one, or one for another model.
        """
        path = folder / RANKS_FILE
        specials = _named_in_config(folder)
        ranks = read_ranks(path)
        if specials is None:
            slots = K3_SPECIALS
        else:
            slots = {token - len(ranks): name for token, name in specials.items()}
            outside = [name for slot, name in slots.items() if not 0 <= slot < SPECIAL_SLOTS]
            if outside:
                raise TokenizerError(
                    f"tokenizer_config.json puts {outside[0]!r} outside the {SPECIAL_SLOTS} special slots "
                    f"above the {len(ranks)} ranks of {path}",
                    hint="the two files belong to different checkpoints",
                )
        made = cls(ranks, slots)
        # A file cut short at the end of a line would move every special token: only an exact fit will do.
        if vocab_size is not None and made.vocab_size != vocab_size:
            raise TokenizerError(
                f"{path} makes {made.vocab_size} token ids and the model's config has {vocab_size}",
                hint="the vocabulary file belongs to another checkpoint, or is cut short",
            )
        return made

    def special(self, name: str) -> int:
        """Id of a special token.

        Raises:
            TokenizerError: the vocabulary has no such token.
        """
        token = self.specials.get(name)
        if token is None:
            raise TokenizerError(f"the vocabulary has no special token {name}")
        return token

    def is_special(self, token: int) -> bool:
        return token in self._names

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of a text. Names of special tokens in it are plain text unless ``special``.

        Halves of surrogate pairs, which UTF-8 cannot hold, become U+FFFD (two that make a pair are joined).
        """
        text = _encodable(text)
        if special:
            return cast(list[int], self._encoding.encode(text, allowed_special=self._allowed))
        ids: list[int] = []
        for piece in _pieces(text):
            ids += self._encoding.encode_ordinary(piece)
        return ids

    def encode_segments(self, segments: Iterable[tuple[str, bool]]) -> list[int]:
        """Ids of segments (text, special), each encoded by itself: no merge crosses a border."""
        ids: list[int] = []
        for text, special in segments:
            token = self.specials.get(text) if special else None
            ids += [token] if token is not None else self.encode(text, special=special)
        return ids

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token; of an id that no token has (a padded embedding table), U+FFFD."""
        if 0 <= token < self.vocab_size:
            name = self._names.get(token)
            return name.encode() if name is not None else self._encoding.decode_single_token_bytes(token)
        return "\ufffd".encode()

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """Text of ids; bytes that are no UTF-8 become U+FFFD."""
        chosen = (token for token in ids if not (skip_special and token in self._names))
        return b"".join(self.token_bytes(token) for token in chosen).decode("utf-8", "replace")

    def decoder(self) -> StreamDecoder:
        return StreamDecoder(self)


class StreamDecoder:
    """Turns ids into text as they come; a character whose bytes are not all there yet is held back."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, ids: Iterable[int]) -> str:
        return self._utf8.decode(b"".join(self._tokenizer.token_bytes(token) for token in ids))

    def finish(self) -> str:
        """What is left: U+FFFD for a character that never became whole, or nothing."""
        text = self._utf8.decode(b"", True)
        self._utf8.reset()
        return text


def read_ranks(path: Path) -> dict[bytes, int]:
    """Parses a ranks file.

    Raises:
        TokenizerError: the file is absent or is not what it should be; names the first bad line.
    """
    try:
        content = read_regular(path)
    except FileNotFoundError as error:
        raise TokenizerError(
            f"there is no {path.name} in {path.parent}",
            hint="copy the vocabulary file of the checkpoint there; it is never downloaded",
        ) from error
    except OSError as error:
        raise TokenizerError(f"cannot read {path}: {error.strerror}") from error
    if content.startswith(b"version https://git-lfs"):
        raise TokenizerError(
            f"{path} is a pointer of Git LFS and not the file", hint="fetch it with git lfs pull"
        )
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        if not line:
            continue
        fields = line.split()
        try:
            encoded, rank = fields
            token = base64.b64decode(encoded, validate=True)
            value = int(rank)
        except (ValueError, binascii.Error) as error:
            raise TokenizerError(
                f"{path}, line {number} is not a token and its rank",
                hint="the file is damaged or of another kind",
            ) from error
        if token in ranks or not token:
            raise TokenizerError(f"{path}, line {number}: the token is empty or occurs twice")
        ranks[token] = value
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise TokenizerError(
            f"{path}: the ranks are not 0 to {len(ranks) - 1}", hint="the file may be cut short"
        )
    if any(bytes((byte,)) not in ranks for byte in range(256)):
        raise TokenizerError(f"{path} has no token for some single bytes", hint="the file may be cut short")
    return ranks


def write_ranks(ranks: Mapping[bytes, int]) -> bytes:
    """The content of a ranks file."""
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ordered)


def _named_in_config(folder: Path) -> dict[int, str] | None:
    """Special tokens that ``tokenizer_config.json`` names, by id; None when it names none."""
    path = folder / "tokenizer_config.json"
    try:
        data: Any = json.loads(read_regular(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise TokenizerError(f"cannot read {path}: it is not JSON") from error
    listed: Any = cast(dict[str, Any], data).get("added_tokens_decoder") if isinstance(data, dict) else None
    if not isinstance(listed, dict) or not listed:
        return None
    named: dict[int, str] = {}
    for token, entry in cast(dict[str, Any], listed).items():
        name = cast(dict[str, Any], entry).get("content") if isinstance(entry, dict) else None
        if not token.isdecimal() or not isinstance(name, str) or not name:
            raise TokenizerError(f"{path}: the special token {token!r} has no name")
        named[int(token)] = name
    return named


def _pieces(text: str) -> Iterator[str]:
    """Cuts that keep the pre-split fast whatever the text: by length, and inside runs without end."""
    if len(text) <= _RUN:
        yield text
        return
    for start in range(0, len(text), _CUT):
        part = text[start : start + _CUT]
        begin = 0
        for run in _RUNS.finditer(part):
            for cut in range(run.start() + _RUN, run.end(), _RUN):
                yield part[begin:cut]
                begin = cut
        yield part[begin:]


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _library() -> Any:
    try:
        return importlib.import_module("tiktoken")
    except ImportError as error:
        raise TokenizerError(
            "the native engine needs tiktoken", hint="install it with: pip install 'whimbrel[native]'"
        ) from error
