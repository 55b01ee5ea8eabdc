"""Reads an answer of the family as it is written: channels and calls, stop strings, log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence

from ..chat import Finished, FinishReason, ModelNotice, StepDiscarded, StreamEvent, TextDelta, ToolCallEnd
from ..scheduling.request import Choice, Ended, Seen
from ..serve.backend import StoppedBy, TokenChance, TokenLogprobs
from ..serve.stops import StopFilter
from .chat.format import OutputParser
from .tokenizer import Tokenizer

Event = StreamEvent | TokenLogprobs | StoppedBy


class AnswerWatcher:
    """Implements the scheduler's Watcher; ``finish`` is for whoever reads the end of the answer."""

    def __init__(
        self, tokenizer: Tokenizer, parser: OutputParser, stops: Sequence[str] = (), *, several: bool = True
    ) -> None:
        """
        Args:
            stops: texts of the answer (never of thinking or of calls) before which it ends.
            several: whether more than one call may come; otherwise the answer ends after the first.
        """
        self._tokenizer = tokenizer
        self._parser = parser
        self._stops = StopFilter(stops)
        self._several = several
        self._calls = 0
        self._told: list[TokenLogprobs] = []
        """Of tokens whose text is not out yet."""
        self.thinking_tokens = 0

    def see(self, choice: Choice) -> Seen:
        parser, token = self._parser, choice.token
        outside = not parser.in_marker
        thinks = outside and parser.thinking
        speaks = outside and not (parser.thinking or self._calls or self._tokenizer.is_special(token))
        if speaks and choice.logprob is not None:
            top = tuple(self._chance(other, chance) for other, chance in choice.top)
            self._told.append(TokenLogprobs(self._chance(token, choice.logprob), top))
        out: list[Event] = []
        events = parser.feed((token,))
        # What closes the channel is no thinking.
        self.thinking_tokens += thinks and not (parser.in_marker or parser.ended)
        for event in events:
            if isinstance(event, TextDelta):
                self._say(self._stops.feed(event.text), out)
                if self._stops.found is not None:
                    self._told = []
                    return Seen(out, self._stops.found)
                continue
            if not isinstance(event, ModelNotice | StepDiscarded):
                self._say(self._stops.rest(), out)
            out.append(event)
            if isinstance(event, ToolCallEnd):
                self._calls += 1
                if not self._several:
                    return Seen(out, "")
        return Seen(out)

    def finish(self, ended: Ended) -> list[Event]:
        """The events after the last token; the last is ``Finished``."""
        out: list[Event] = []
        whole = self._parser.ended
        if ended.stop_text is None:
            for event in self._parser.finish():
                if isinstance(event, TextDelta):
                    self._say(self._stops.feed(event.text), out)
                    if self._stops.found is not None:
                        return [*out, StoppedBy(self._stops.found), Finished(reason="stop")]
                else:
                    self._say(self._stops.rest(), out)
                    out.append(event)
            self._say(self._stops.rest(), out)
            out += self._told
        elif ended.stop_text:
            out.append(StoppedBy(ended.stop_text))
        return [*out, Finished(reason=self._reason(ended, whole))]

    def _reason(self, ended: Ended, whole: bool) -> FinishReason:
        if ended.reason == "cancelled":
            return "cancelled"
        if ended.stop_text:
            return "stop"
        if ended.reason == "length" and not whole:
            return "length"
        return self._parser.finish_reason(truncated=ended.reason == "length")

    def _say(self, text: str, out: list[Event]) -> None:
        if text:
            out += self._told
            self._told = []
            out.append(TextDelta(text=text))

    def _chance(self, token: int, logprob: float) -> TokenChance:
        data = self._tokenizer.token_bytes(token)
        return TokenChance(data.decode("utf-8", "replace"), logprob, data)
