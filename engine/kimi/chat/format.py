"""The one face of the chat format: what a scheduler and a server need to talk with a model of the family."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from ....sandbox.base.files import read_regular
from ...chat import FinishReason, Message, StreamEvent, ToolSpec
from ..tokenizer import Tokenizer
from ..vision.sizes import IN_PATCH_LIMIT, ImageLimits
from .images import PAD, Image, ImagePlace, read_image
from .k2 import TURN_END, TemplateParser, TemplateRenderer, read_template
from .messages import Plain, content_parts, plain_history, plain_tools
from .parser import K3Parser, new_call_id
from .render import IMAGE_PLACEHOLDER, render_segments
from .sentences import Sentences, load_sentences
from .syntax import CLOSE, CONTROL, END, OPEN, SEP, PromptError, Segment

__all__ = [
    "IMAGE_PLACEHOLDER",
    "ChatFormat",
    "K3Format",
    "OutputParser",
    "Prompt",
    "PromptError",
    "TemplateFormat",
]


@dataclass(frozen=True)
class Prompt:
    """A rendered conversation.

    Args:
        ids: token ids, image placeholders already repeated.
        images: where each image's embeddings go, in order.
    """

    ids: tuple[int, ...]
    images: tuple[ImagePlace, ...] = ()


class OutputParser(Protocol):
    """What the model writes, as stream events (all but usage and the finish)."""

    @property
    def thinking(self) -> bool:
        """Whether the next token belongs to the thinking (a hard budget counts these)."""
        ...

    @property
    def in_marker(self) -> bool:
        """Whether a marker has begun and is not complete: no place to cut in."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the model ended its message."""
        ...

    def feed(self, ids: Iterable[int]) -> list[StreamEvent]: ...

    def finish(self) -> list[StreamEvent]:
        """Once, when no more tokens come."""
        ...

    def finish_reason(self, *, truncated: bool) -> FinishReason:
        """After `finish`; ``truncated``: the token limit came before the model's own end."""
        ...


class ChatFormat(ABC):
    """How one checkpoint talks."""

    tokenizer: Tokenizer
    stop_ids: frozenset[int]
    """Ids after which nothing more is to be generated."""
    think_close_ids: tuple[int, ...]
    """What a thinking budget forces: they close the thinking and open the response. Empty: there is none."""
    notices: tuple[str, ...]
    """What a person should be told once."""

    @staticmethod
    def load(
        folder: Path,
        *,
        vocab_size: int | None = None,
        chat_template: Path | None = None,
        source: str = "",
    ) -> ChatFormat:
        """The format of a checkpoint folder: K3's message language where its control tokens exist.

        Args:
            vocab_size: the model's, to refuse a tokenizer of another checkpoint.
            chat_template: a file the person named in place of the checkpoint's own.
            source: the model's name, for thinking that other models left in a history.

        Raises:
            TokenizerError: the vocabulary is absent, broken or another model's.
            ConfigError: a template is absent or broken.
        """
        tokenizer = Tokenizer.load(folder, vocab_size=vocab_size)
        if all(name in tokenizer.specials for name in CONTROL) and not _is_linear(folder):
            sentences = load_sentences(folder, chat_template)
            return K3Format(tokenizer, sentences, patch_limit=_patch_limit(folder), source=source)
        return TemplateFormat(tokenizer, read_template(folder, chat_template), folder, source=source)

    @abstractmethod
    def render(
        self,
        history: Sequence[Message | Plain],
        tools: Sequence[ToolSpec | Plain] = (),
        *,
        effort: str | None = "max",
        thinking: bool = True,
        tool_choice: str | None = None,
        response_format: Plain | None = None,
        add_generation_prompt: bool = True,
    ) -> Prompt:
        """The conversation as a prompt.

        Args:
            history: our messages, or plain ones in the form of the OpenAI API.
            effort: low, high, max; None says nothing about it.
            tool_choice: auto, none, required (None: auto).
            response_format: text, json_object or json_schema, in the form of the OpenAI API.

        Raises:
            PromptError: what cannot be expressed, in one line.
        """

    @abstractmethod
    def parser(self, *, thinking: bool = True, call_id: Callable[[], str] = new_call_id) -> OutputParser:
        """A parser of the answer to a prompt that was rendered with the same ``thinking``."""


class K3Format(ChatFormat):
    """K3 and K3.1: the message language of segments."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        sentences: Sentences,
        *,
        patch_limit: int = IN_PATCH_LIMIT,
        source: str = "",
    ) -> None:
        self.tokenizer = tokenizer
        self.sentences = sentences
        self.stop_ids = frozenset((tokenizer.special(END), tokenizer.special("[EOS]")))
        closing: list[Segment] = [(CLOSE, True), ("think", False), (SEP, True)]
        opening: list[Segment] = [(OPEN, True), ("response", False), (SEP, True)]
        self.think_close_ids = tuple(tokenizer.encode_segments([*closing, *opening]))
        self.notices = (sentences.notice,) if sentences.notice else ()
        self._patch_limit = patch_limit
        self._source = source

    def segments(
        self,
        history: Sequence[Message | Plain],
        tools: Sequence[ToolSpec | Plain] = (),
        *,
        effort: str | None = "max",
        thinking: bool = True,
        tool_choice: str | None = None,
        response_format: Plain | None = None,
        add_generation_prompt: bool = True,
    ) -> tuple[list[Segment], list[Image]]:
        """The prompt before it becomes tokens, and its images in order."""
        messages = plain_history(history, self._source)
        images = [
            read_image(part)
            for message in messages
            for part in content_parts(message)
            if not isinstance(part, str)
        ]
        segments = render_segments(
            messages,
            self.sentences,
            tools=plain_tools(tools),
            thinking=thinking,
            thinking_effort=effort,
            tool_choice=tool_choice,
            response_format=response_format,
            image_prompts=[image.prompt for image in images],
            add_generation_prompt=add_generation_prompt,
        )
        return segments, images

    def render(
        self,
        history: Sequence[Message | Plain],
        tools: Sequence[ToolSpec | Plain] = (),
        *,
        effort: str | None = "max",
        thinking: bool = True,
        tool_choice: str | None = None,
        response_format: Plain | None = None,
        add_generation_prompt: bool = True,
    ) -> Prompt:
        segments, images = self.segments(
            history,
            tools,
            effort=effort,
            thinking=thinking,
            tool_choice=tool_choice,
            response_format=response_format,
            add_generation_prompt=add_generation_prompt,
        )
        ids = self.tokenizer.encode_segments(segments)
        return _with_places(ids, images, self.tokenizer, self._patch_limit) if images else Prompt(tuple(ids))

    def parser(self, *, thinking: bool = True, call_id: Callable[[], str] = new_call_id) -> OutputParser:
        return K3Parser(self.tokenizer, thinking=thinking, call_id=call_id)


class TemplateFormat(ChatFormat):
    """Kimi-Linear: a template of the checkpoint's own. It knows neither thinking nor effort."""

    def __init__(self, tokenizer: Tokenizer, template: str, folder: Path, *, source: str = "") -> None:
        self.tokenizer = tokenizer
        self._renderer = TemplateRenderer(template, tokenizer, folder)
        self.think_close_ids = ()
        ends = {
            tokenizer.specials[name] for name in (TURN_END, "[EOS]", "[EOT]") if name in tokenizer.specials
        }
        self.stop_ids = frozenset(ends | _ends_of(folder))
        self.notices = ()
        self._source = source

    def render(
        self,
        history: Sequence[Message | Plain],
        tools: Sequence[ToolSpec | Plain] = (),
        *,
        effort: str | None = "max",
        thinking: bool = True,
        tool_choice: str | None = None,
        response_format: Plain | None = None,
        add_generation_prompt: bool = True,
    ) -> Prompt:
        messages = plain_history(history, self._source)
        offered = [] if tool_choice == "none" else plain_tools(tools)
        segments = self._renderer.segments(messages, offered, answer=add_generation_prompt)
        return Prompt(tuple(self.tokenizer.encode_segments(segments)))

    def parser(self, *, thinking: bool = True, call_id: Callable[[], str] = new_call_id) -> OutputParser:
        return TemplateParser(self.tokenizer, call_id=call_id)


def _with_places(
    ids: Sequence[int], images: Sequence[Image], tokenizer: Tokenizer, patch_limit: int
) -> Prompt:
    """Repeats each image's placeholder to its number of embeddings."""
    pad = tokenizer.special(PAD)
    repeated: list[int] = []
    places: list[ImagePlace] = []
    for token in ids:
        if token != pad:
            repeated.append(token)
            continue
        image = images[len(places)]
        count = ImageLimits(patches=patch_limit).rows(image.width, image.height)
        places.append(ImagePlace(len(repeated), count, image.width, image.height, image.data))
        repeated += [pad] * count
    return Prompt(tuple(repeated), tuple(places))


def _json(path: Path) -> Mapping[str, Any]:
    try:
        data: Any = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return cast(Mapping[str, Any], data) if isinstance(data, dict) else {}


def _is_linear(folder: Path) -> bool:
    """K2's and K3's vocabularies may name the same slots; the model's kind decides."""
    return _json(folder / "config.json").get("model_type") == "kimi_linear"


def _patch_limit(folder: Path) -> int:
    settings = _json(folder / "preprocessor_config.json").get("media_proc_cfg")
    limit = cast(Mapping[str, Any], settings).get("in_patch_limit") if isinstance(settings, dict) else None
    return limit if isinstance(limit, int) and limit > 0 else IN_PATCH_LIMIT


def _ends_of(folder: Path) -> set[int]:
    for name in ("generation_config.json", "config.json"):
        ends = _json(folder / name).get("eos_token_id")
        if isinstance(ends, int) and not isinstance(ends, bool):
            return {ends}
        if isinstance(ends, list):
            return {each for each in cast(list[Any], ends) if isinstance(each, int)}
    return set()
