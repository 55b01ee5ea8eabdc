"""From ``kimi:DIR`` and the environment to a loaded model. Nothing heavy is imported before it is loaded."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...sandbox.base.errors import ConfigError, WhimbrelError

if TYPE_CHECKING:
    from ..scheduling.scheduler import Limits
    from .answering import Answering
    from .chat.format import ChatFormat
    from .load import LoadOptions
    from .pool import CacheKind

_NEEDED = ("numpy", "ml_dtypes", "tiktoken", "llguidance", "jinja2")
PREFIX = "WHIMBREL_KIMI_"
"""Variables: CACHE_MIB (pages), CACHE (bf16, fp8 or f32: how their rows are kept), PREFIX_MIB (kept states),
EXPERTS_MIB (experts read from disk instead of mapped), DENSE (stored or int8), EXACT (1: float32 throughout),
BATCH (requests at a time), STEP_TOKENS (tokens of a step), SPECULATE (tokens guessed ahead), TENSOR and
PIPELINE (processes that share each layer, stages of layers), CHAT_TEMPLATE (a file)."""

_BATCH = 32
_STEP, _STREAMED_STEP = 512, 4096
"""Tokens of a step: short enough for others to be answered meanwhile; where experts are read from disk, every
step may read all of them, so a prompt should take few."""
_STATES = 16
"""States kept for later prompts, where there is memory for so many."""


@dataclass(frozen=True)
class Local:
    """A checkpoint folder and how it is run."""

    name: str
    folder: Path
    cache_bytes: int | None = None
    prefix_bytes: int | None = None
    """None: room for some states, where memory allows it."""
    expert_bytes: int | None = None
    dense: Literal["stored", "int8"] = "stored"
    cache: CacheKind | None = None
    """How cached rows are kept; None: float32 where `exact`, else bfloat16."""
    exact: bool = False
    """Float32 throughout: slower, and an answer does not depend on what else is in the batch."""
    batch: int = _BATCH
    step_tokens: int = _STEP
    speculate: int = 0
    tensor: int = 1
    """Processes that share the heads and experts of each layer."""
    pipeline: int = 1
    """Stages of layers, each on processes of its own."""
    chat_template: Path | None = None

    def chat(self, vocab_size: int | None = None) -> ChatFormat:
        """Its chat format (reads the vocabulary, not the weights)."""
        from .chat.format import ChatFormat

        return ChatFormat.load(
            self.folder, vocab_size=vocab_size, chat_template=self.chat_template, source=self.name
        )

    def window(self) -> int:
        """Tokens of prompt and answer, without loading the model.

        Raises:
            ConfigError: config.json is not what it should be.
        """
        from .load import window

        return window(self.folder, self._options())

    def _options(self) -> LoadOptions:
        from .load import LoadOptions

        return LoadOptions(
            exact=self.exact,
            dense=self.dense,
            cache=self.cache or ("f32" if self.exact else "bf16"),
            cache_bytes=self.cache_bytes,
            expert_cache=self.expert_bytes,
        )

    def _limits(self, state: int) -> Limits:
        """What runs at a time, by the bytes of one sequence's fixed-size state (half a gigabyte in K3)."""
        from ..scheduling.scheduler import Limits
        from .memory import available_memory

        free = available_memory()
        prefix = self.prefix_bytes
        if prefix is None:
            prefix = min(free // 8, max(1 << 30, _STATES * state))
        batch = max(1, min(self.batch, free // 4 // max(1, state)))
        return Limits(batch=batch, step_tokens=max(batch, self.step_tokens), prefix_bytes=prefix)

    def load(self, chat: ChatFormat | None = None) -> Answering:
        """Loads the model; the large tensors stay in the mapped files.

        Raises:
            ConfigError: a file of the checkpoint is absent, broken or does not fit the others.
            ModelError: tensors that are not what config.json describes.
        """
        from .answering import Answering, Options, sampling_of
        from .parallel.layout import Layout
        from .parallel.runner import load_laid_out
        from .vision.eyes import Eyes

        runner = load_laid_out(self.folder, self._options(), Layout(self.tensor, self.pipeline))
        try:
            if chat is None or chat.tokenizer.vocab_size > runner.vocab_size:
                chat = self.chat(runner.vocab_size)  # which says what does not fit
            limits = self._limits(runner.state_bytes)
            eyes = Eyes.of(self.folder, runner.hidden_size)
            options = Options(sampling_of(self.folder), self.speculate, limits)
            return Answering(runner, chat, options, rows_of=eyes)
        except WhimbrelError:
            runner.close()
            raise


def resolve_folder(name: str, environ: Mapping[str, str]) -> Local:
    """Checks the folder and the settings; no weights are read.

    Raises:
        ConfigError: the extra is missing, the folder holds no checkpoint, or a variable has no usable value.
    """
    spec = f"kimi:{name}"
    missing = [each for each in _NEEDED if importlib.util.find_spec(each) is None]
    if missing:
        raise ConfigError(
            f"{spec} needs {', '.join(missing)}, which the extra `native` brings",
            hint="pip install 'whimbrel[native]'",
        )
    folder = Path(name).expanduser().absolute()
    if not (folder / "config.json").is_file():
        what = "holds no config.json" if folder.is_dir() else "is no folder"
        raise ConfigError(f"{folder} {what}", hint="name the folder of a Kimi checkpoint")
    importlib.import_module(".threads", __package__)  # before anything else imports numpy
    dense = environ.get(f"{PREFIX}DENSE", "").strip() or "stored"
    if dense not in ("stored", "int8"):
        raise ConfigError(f"{PREFIX}DENSE is {dense[:40]!r}, which is neither stored nor int8")
    kind = environ.get(f"{PREFIX}CACHE", "").strip() or None
    if kind not in (None, "f32", "bf16", "fp8"):
        raise ConfigError(f"{PREFIX}CACHE is {kind[:40]!r}, which is none of bf16, fp8 and f32")
    template = environ.get(f"{PREFIX}CHAT_TEMPLATE", "").strip()
    cache, prefix = _number(environ, "CACHE_MIB"), _number(environ, "PREFIX_MIB")
    experts = _number(environ, "EXPERTS_MIB")
    return Local(
        spec,
        folder,
        cache_bytes=cache << 20 if cache else None,
        prefix_bytes=None if prefix is None else prefix << 20,
        expert_bytes=experts << 20 if experts else None,
        dense="int8" if dense == "int8" else "stored",
        cache=kind,
        exact=bool(_number(environ, "EXACT")),
        batch=_number(environ, "BATCH") or _BATCH,
        step_tokens=_number(environ, "STEP_TOKENS") or (_STREAMED_STEP if experts else _STEP),
        speculate=min(64, _number(environ, "SPECULATE") or 0),
        tensor=min(64, _number(environ, "TENSOR") or 1),
        pipeline=min(64, _number(environ, "PIPELINE") or 1),
        chat_template=Path(template).expanduser() if template else None,
    )


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(PREFIX + name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 32):
        raise ConfigError(f"{PREFIX}{name} is {text[:40]!r}, which is no number of use")
    return int(text)
