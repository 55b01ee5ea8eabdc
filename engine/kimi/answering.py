"""A loaded model that answers conversations: the chat format, the scheduler and the runner put together."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ...sandbox.base.errors import ConfigError, UsageError
from ..chat import ToolSpec, Usage
from ..scheduling import request as tokens
from ..scheduling.engine import Engine
from ..scheduling.grammar import Vocabulary
from ..scheduling.guides import Both, ThinkingBudget
from ..scheduling.request import Guide, InvalidRequest, Span
from ..scheduling.scheduler import Limits
from ..serve.backend import GenerationRequest, PromptTooLong, Refused, Sampling
from .chat.format import ChatFormat, K3Format, Prompt
from .chat.images import ImagePlace
from .chat.syntax import SEP, PromptError
from .constraints import Form, Grammar, k2_grammar, k3_grammar
from .protocol import Runner
from .watching import AnswerWatcher, Event

RowsOf = Callable[[ImagePlace], Span]
"""From an image of the prompt to the rows that stand for it."""

VENDOR = tokens.Sampling(temperature=1.0, top_p=0.95)
"""What the vendor samples with, where neither a request nor the checkpoint says anything."""
_GENERATION = "generation_config.json"
_EFFORT = "max"


@dataclass(frozen=True)
class Options:
    """How a checkpoint answers.

    Args:
        sampling: what holds where a request says nothing.
        speculate: tokens guessed ahead by looking the last ones up in the text; 0: none.
        limits: how much runs at the same time, and what is kept for later requests.
    """

    sampling: tokens.Sampling = VENDOR
    speculate: int = 0
    limits: Limits = field(default_factory=Limits)


class Answering:
    """Answers any number of requests at a time, from any event loop."""

    def __init__(
        self,
        runner: Runner,
        chat: ChatFormat,
        options: Options | None = None,
        *,
        rows_of: RowsOf | None = None,
    ) -> None:
        """``rows_of``: the vision part; None: images are refused."""
        self.options = options or Options()
        self.chat = chat
        self.runner = runner
        self.engine = Engine(runner, self.options.limits)
        self._rows_of = rows_of
        self._vocabulary: Vocabulary | None = None
        self._lock = threading.Lock()

    @property
    def notices(self) -> Sequence[str]:
        """What a person should know of this checkpoint: keys that are ignored, whose sentences are used."""
        return (*getattr(self.runner, "warnings", ()), *self.chat.notices)

    @property
    def window(self) -> int:
        return self.engine.window

    @property
    def sees_images(self) -> bool:
        return self._rows_of is not None

    @property
    def thinks(self) -> bool:
        """Whether answers have a channel for thinking."""
        return bool(self.chat.think_close_ids)

    def render(self, request: GenerationRequest) -> Prompt:
        """The prompt of a request.

        Raises:
            Refused: the conversation cannot be expressed.
        """
        choice = request.tool_choice.mode
        try:
            return self.chat.render(
                request.messages,
                () if choice == "none" else request.tools,
                effort=request.effort or _EFFORT,
                thinking=request.thinking is not False,
                tool_choice={"named": "required", "auto": None}.get(choice, choice),
                response_format=_response_format(request),
            )
        except PromptError as error:
            raise Refused(error.one_line(), parameter="messages") from error

    def prepare(self, request: GenerationRequest, prompt: Prompt) -> tuple[tokens.Request, AnswerWatcher]:
        """The request in token ids, and who reads the answer. Takes a while for the first grammar.

        Raises:
            Refused: a parameter with a value that cannot be used; PromptTooLong.
        """
        thinking = request.thinking is not False and self.thinks
        several = request.parallel_tool_calls and request.tool_choice.mode != "named"
        watcher = AnswerWatcher(
            self.chat.tokenizer,
            self.chat.parser(thinking=thinking),
            request.sampling.stop,
            several=several,
        )
        if prompt.images and self._rows_of is None:
            raise Refused("this model cannot see images", parameter="messages")
        try:
            asked = tokens.Request(
                prompt=prompt.ids,
                sampling=_sampling(request.sampling, request.top_logprobs, self.options.sampling),
                max_tokens=request.max_tokens,
                stop_ids=self.chat.stop_ids,
                guide=self._guide(request, thinking=thinking, several=several),
                watcher=watcher,
                spans=[self._rows_of(place) for place in prompt.images] if self._rows_of else (),
                speculate=self.options.speculate,
            )
            asked.check(self.runner.vocab_size, self.window)
        except tokens.TooLong as error:
            raise PromptTooLong(error.prompt, error.window, request.max_tokens) from error
        except InvalidRequest as error:
            raise Refused(error.message, parameter=error.parameter) from error
        except UsageError as error:  # an image whose header is whole and whose rest is not
            raise Refused(error.one_line(), parameter="messages") from error
        return asked, watcher

    async def answer(self, asked: tokens.Request, watcher: AnswerWatcher) -> AsyncGenerator[Event]:
        """Streams the answer; the last events are ``Usage`` and ``Finished``. Leaving early cancels it.

        Raises:
            ModelError: it failed (QueueFull, Closing: it never began).
        """
        async with aclosing(self.engine.generate(asked)) as items:
            async for item in items:
                if isinstance(item, tokens.Token):
                    for event in item.events:
                        yield event
                    continue
                *rest, finished = watcher.finish(item)
                for event in rest:
                    yield event
                yield Usage(
                    input_tokens=item.prompt_tokens,
                    output_tokens=item.output_tokens,
                    cached_tokens=item.cached_tokens,
                    reasoning_tokens=watcher.thinking_tokens if self.thinks else None,
                )
                yield finished

    def close(self) -> None:
        """Ends everything and frees the model."""
        self.engine.close()
        if (close := getattr(self.runner, "close", None)) is not None:
            close()

    # ------------------------------------------------------------ guides

    def _guide(self, request: GenerationRequest, *, thinking: bool, several: bool) -> Guide | None:
        guides: list[Guide] = []
        if thinking and request.thinking_budget is not None:
            closing = self.chat.think_close_ids
            end = closing.index(self.chat.tokenizer.special(SEP)) + 1
            guides.append(ThinkingBudget(request.thinking_budget, closing[:end], closing[end:]))
        mode = request.tool_choice.mode
        tools: Sequence[ToolSpec] = () if mode == "none" else request.tools
        if mode == "named":
            tools = [tool for tool in tools if tool.name == request.tool_choice.name]
        must = mode in ("required", "named")
        if must and not tools:
            raise Refused("there is no such tool", parameter="tool_choice")
        form = Form(request.structure, tools, must, several)
        if (held := self._held(form, thinking)) is not None:
            guides.append(held)
        return guides[0] if len(guides) == 1 else Both(*guides) if guides else None

    def _held(self, form: Form, thinking: bool) -> Guide | None:
        try:
            return self._constraint(form, thinking)
        except InvalidRequest as error:
            if error.parameter != "response_format" or not form.tools:
                raise
        # A tool's schema may say what no grammar can: its calls are held to their names only.
        loose = replace(form, tools=[replace(tool, parameters={}) for tool in form.tools])
        return self._constraint(loose, thinking)

    def _constraint(self, form: Form, thinking: bool) -> Guide | None:
        tokenizer = self.chat.tokenizer
        grammar: Grammar | None
        if isinstance(self.chat, K3Format):
            grammar = k3_grammar(tokenizer, form, thinking=thinking)
        else:
            grammar = k2_grammar(tokenizer, form)
        if grammar is None:
            return None
        return self.vocabulary().guide(grammar.text, after=grammar.after, barred=grammar.barred)

    def vocabulary(self) -> Vocabulary:
        """The vocabulary for grammars, made when first needed."""
        with self._lock:
            if self._vocabulary is None:
                tokenizer = self.chat.tokenizer
                self._vocabulary = Vocabulary(
                    [tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)],
                    tokenizer.specials.values(),
                    sorted(self.chat.stop_ids),
                    tokenizer.encode,
                    self.runner.vocab_size,
                )
            return self._vocabulary


def sampling_of(folder: Path) -> tokens.Sampling:
    """The sampling that a checkpoint's generation_config.json names, the vendor's where it names none.

    Raises:
        ConfigError: a value that means nothing.
    """
    try:
        data: Any = json.loads((folder / _GENERATION).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return VENDOR
    given = cast(dict[str, Any], data) if isinstance(data, dict) else {}
    named = {
        name: given[name]
        for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
        if isinstance(given.get(name), int | float) and not isinstance(given[name], bool)
    }
    if isinstance(named.get("top_k"), float):
        named["top_k"] = int(named["top_k"])
    sampling = replace(VENDOR, **named)
    try:
        sampling.check(1)
    except InvalidRequest as error:
        raise ConfigError(
            f"{folder / _GENERATION}: {error.message}", hint="correct or remove the value"
        ) from error
    return sampling


def _sampling(given: Sampling, logprobs: int | None, default: tokens.Sampling) -> tokens.Sampling:
    def value(number: float | None, otherwise: float) -> float:
        return otherwise if number is None else number

    return tokens.Sampling(
        temperature=value(given.temperature, default.temperature),
        top_p=value(given.top_p, default.top_p),
        top_k=default.top_k if given.top_k is None else max(0, given.top_k),
        min_p=value(given.min_p, default.min_p),
        repetition_penalty=value(given.repetition_penalty, default.repetition_penalty),
        presence_penalty=value(given.presence_penalty, 0.0),
        frequency_penalty=value(given.frequency_penalty, 0.0),
        logit_bias=given.logit_bias,
        seed=given.seed,
        logprobs=logprobs,
    )


def _response_format(request: GenerationRequest) -> dict[str, object] | None:
    structure = request.structure
    if structure is None or structure.kind not in ("json_object", "json_schema"):
        return None
    if structure.kind == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": structure.value}}
