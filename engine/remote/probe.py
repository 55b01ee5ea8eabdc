"""Asks a model a few small questions and notes what its endpoint can do and how it wants to be asked.

Every fact says how it was found out; what could not be found out is unknown, never guessed.
Time and tokens are bounded: about a dozen short requests.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from .dialects import structured_forms
from .failures import Failure, RemoteError
from .listing import look
from .probe_asking import Answer, Asker, add_call, add_tool, red_square
from .profile import FACTS, Fact, Profile
from .transport import Transport

LONGEST_S = 120.0
_NOT_REACHED = "not asked: the time of the probe was over"
_THOUGHT = (
    "The person wants the sum of two numbers, so the tool that adds is the right one to call. I give it"
    " both numbers as they stand, wait for what it returns, check that the result is plausible, and answer"
    " in one short sentence. There is no need to add anything by hand, because the tool is there for that"
    " purpose, and its answer is what the person asked to see. After that nothing is left to be done here."
)
_RIDDLE = (
    "A shepherd has 17 sheep. All but 9 run away, then she buys twice as many as she has left, sells a"
    " third of all, and finds 4 of the lost ones again. How many has she now? Answer with the number."
)
_ENDS_IT = frozenset({Failure.AUTH, Failure.QUOTA, Failure.ADDRESS, Failure.CONNECTION})


async def probe(
    transport: Transport, *, seconds: float = LONGEST_S, tell: Callable[[str], None] = lambda _: None
) -> Profile:
    """The profile of a model.

    Args:
        seconds: of all requests together.
        tell: gets a line about what is being tried.

    Raises:
        RemoteError: the endpoint cannot be used at all.
    """
    return await _Probe(transport, seconds, tell).run()


class _Probe:
    def __init__(self, transport: Transport, seconds: float, tell: Callable[[str], None]) -> None:
        self._transport = transport
        self._deadline = time.monotonic() + seconds
        self._tell = tell
        self._facts: dict[str, Fact] = {}
        self._fields: list[str] = []
        self._asker = Asker(transport)

    async def run(self) -> Profile:
        self._tell("reading its lists")
        try:
            async with asyncio.timeout_at(self._loop_deadline()):
                known = await look(self._transport)
        except TimeoutError as error:
            url = self._transport.endpoint.base_url
            raise RemoteError(Failure.TIMEOUT, f"{url} did not answer in time") from error
        self._facts.update(known.facts)
        self._asker.speak(known.dialect)
        steps = (
            ("tool calls", self._tools, ("tools", "parallel_tools")),
            (
                "returned thinking",
                self._two_steps,
                ("reasoning_returned", "reasoning_input", "empty_content"),
            ),
            ("effort", self._effort, ("effort", "thinking_budget", "thinking_token_budget")),
            ("structured output", self._structured, ("structured_output",)),
            ("images", self._images, ("images",)),
        )
        for about, step, names in steps:
            self._tell(about)
            try:
                async with asyncio.timeout_at(self._loop_deadline()):
                    await step()
            except TimeoutError:
                for name in names:
                    self._facts.setdefault(name, Fact(how=_NOT_REACHED))
            except RemoteError as error:
                if error.failure in _ENDS_IT or about == "tool calls":
                    raise
                for name in names:
                    self._facts.setdefault(name, Fact(how=f"the attempt failed: {error.message[:160]}"))
        self._from_all_answers()
        for name in FACTS:
            self._facts.setdefault(name, Fact(how="not found out"))
        facts = {name: self._facts[name] for name in FACTS}
        return known.model_copy(update={"facts": facts, "complete": True, "made_at": time.time()})

    def _loop_deadline(self) -> float:
        return asyncio.get_running_loop().time() + max(0.0, self._deadline - time.monotonic())

    def _say(self, name: str, value: Any, how: str) -> None:
        self._facts[name] = Fact(value=value, how=how)

    # ------------------------------------------------------------ one question each

    async def _tools(self) -> None:
        question = "Use the tool `add` twice at once: for 2 and 3, and for 40 and 2. Make both calls now."
        answer = await self._asker.ask(question, tokens=1024, tested={"tools": [add_tool()]})
        if answer.refused:
            # Told apart from an endpoint that answers nobody, whose error ends the probe.
            plain = await self._asker.ask("Say hello.", tokens=256)
            if plain.refused and plain.error:
                raise plain.error
            self._say("tools", False, f"refused: {answer.refused}")
            self._say("parallel_tools", False, "no tool calls")
            return
        how = "called when asked to"
        if not answer.calls:
            required = {"tools": [add_tool()], "tool_choice": "required"}
            answer = await self._asker.ask(question, tokens=1024, tested=required)
            how = "called only when a call was required"
        if not answer.calls:
            cut = " (its output limit came first)" if answer.finish == "length" else ""
            self._say("tools", None, f"tools are accepted, but none was called when asked to{cut}")
            self._say("parallel_tools", None, "no call was made")
            return
        broken = [call for call in answer.calls if not _is_object(call.arguments)]
        self._say("tools", True, how + (", with broken arguments" if broken else ""))
        count = len(answer.calls)
        told = f"{count} calls in one answer" if count > 1 else "one call where two were asked for"
        self._say("parallel_tools", count > 1, told)

    async def _two_steps(self) -> None:
        """A finished tool round, with the thinking and without it: refused, used or ignored?"""
        bare = await self._after_call({})
        seen = self._asker.field
        names = [seen] if seen else ["reasoning", "reasoning_content"]
        names += [name for name in ("reasoning", "reasoning_content") if name not in names]
        if not bare.refused:
            told = "taken at once" if self._asker.content == "null" else "null is refused"
            self._say("empty_content", self._asker.content, told)
        grown: dict[str, int | None] = {}
        for name in names:
            answer = await self._after_call({name: _THOUGHT})
            if answer.refused:
                continue
            if bare.refused:
                self._say("reasoning_returned", "required", f"without it: {bare.refused}")
                self._say("reasoning_input", name, f"with {name} the same request is taken")
                return
            both = answer.prompt_tokens is not None and bare.prompt_tokens is not None
            grown[name] = (answer.prompt_tokens or 0) - (bare.prompt_tokens or 0) if both else None
            if (grown[name] or 0) > 20:
                self._say("reasoning_returned", "used", f"the prompt grew by {grown[name]} tokens with it")
                self._say("reasoning_input", name, f"sent as {name}, it reached the prompt")
                return
        if bare.refused:
            self._say("reasoning_returned", None, f"a finished tool round is refused: {bare.refused}")
        elif not grown:
            self._say("reasoning_returned", "refused", "neither field name is taken in a message")
        elif None in grown.values():
            self._say("reasoning_returned", None, "no usage is reported, so its effect cannot be seen")
        else:
            self._say("reasoning_returned", "ignored", "the prompt did not grow with it under either name")
        self._facts.setdefault("reasoning_input", Fact(how="no name had an effect"))

    async def _after_call(self, thinking: dict[str, str]) -> Answer:
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": "What is 2 + 3? Use the tool `add`."},
            {"role": "assistant", "content": None, **thinking, "tool_calls": [add_call()]},
            {"role": "tool", "tool_call_id": "call_probe_1", "content": "5"},
        ]
        return await self._asker.ask(messages, tokens=24, tested={"tools": [add_tool()]})

    async def _effort(self) -> None:
        low = await self._asker.ask(_RIDDLE, tokens=700, tier="low")
        most = await self._asker.ask(_RIDDLE, tokens=1400, tier="max")
        self._judge_effort(low, most)
        taken = await self._asker.ask("Say hello.", tokens=24, tested={"thinking_budget": "max"})
        if taken.refused:
            self._say("thinking_budget", False, f"refused: {taken.refused}")
        elif low.thinking_tokens == most.thinking_tokens == 0:
            self._say("thinking_budget", None, "taken without complaint, but no thinking is to be seen")
        else:
            self._say("thinking_budget", True, "taken without complaint; some servers ignore what they take")
        free = low.thinking_tokens
        if free < 40:
            self._say("thinking_token_budget", None, "too little thinking to see a cap at work")
            return
        capped = await self._asker.ask(_RIDDLE, tokens=700, tested={"thinking_token_budget": 16})
        if capped.refused:
            self._say("thinking_token_budget", False, f"refused: {capped.refused}")
        else:
            kept = capped.thinking_tokens <= 24
            told = f"{capped.thinking_tokens} tokens of thinking with a cap of 16, {free} without"
            self._say("thinking_token_budget", kept, told)

    def _judge_effort(self, low: Answer, most: Answer) -> None:
        if not self._asker.steers_thinking:
            self._say("effort", False, f"refused: {self._asker.lessons[-1][:160]}")
            return
        if None not in (low.prompt_tokens, most.prompt_tokens) and low.prompt_tokens != most.prompt_tokens:
            told = f"the prompt has {low.prompt_tokens} tokens at low, {most.prompt_tokens} at max"
            self._say("effort", True, told)
            return
        less, more = low.thinking_tokens, most.thinking_tokens
        told = f"{less} tokens of thinking at low, {more} at max"
        if less == more == 0:
            self._say("effort", False, "no thinking came at either tier")
        elif more - less > 60 and more > 1.5 * less:
            self._say("effort", True, told)
        else:
            self._say("effort", None, f"{told}: no clear difference")

    async def _structured(self) -> None:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {"colour": {"type": "string", "enum": ["teal"]}, "n": {"type": "integer"}},
            "required": ["colour", "n"],
            "additionalProperties": False,
        }
        refused: dict[str, str] = {}
        for form, fields in structured_forms(self._asker.dialect, schema).items():
            answer = await self._asker.ask("Say hello to Ann.", tokens=400, tested=fields)
            if answer.refused:
                refused.setdefault(form, answer.refused)
            elif _fits(answer.text):
                self._say("structured_output", True, f"{form} gave an object of the schema")
                return
            else:
                cut = answer.finish == "length"
                told = "was taken, but the output limit came first" if cut else "was taken and ignored"
                self._say("structured_output", None if cut else False, f"{form} {told}")
        if "structured_output" not in self._facts:
            told = next(iter(refused.values()), "")
            self._say("structured_output", False, f"refused: {told}")

    async def _images(self) -> None:
        content: list[dict[str, Any]] = [
            {"type": "text", "text": "Which colour fills this picture? Answer with one word."},
            {"type": "image_url", "image_url": {"url": red_square()}},
        ]
        answer = await self._asker.ask([{"role": "user", "content": content}], tokens=400)
        if answer.refused:
            self._say("images", False, f"refused: {answer.refused}")
        elif "red" in answer.text.lower():
            self._say("images", True, "it named the colour of a picture")
        else:
            self._say("images", None, "a picture was taken, but its colour was not named")

    def _from_all_answers(self) -> None:
        asker = self._asker
        if asker.field:
            self._say("reasoning_field", asker.field, "seen in its answers")
        elif asker.tags:
            told = "thinking comes as tags inside the text: the server runs without a reasoning parser"
            self._say("reasoning_field", None, told)
        elif asker.answers:
            self._say("reasoning_field", "", f"no thinking in {asker.answers} answers")
        if asker.answers:
            told = "counts came with its answers" if asker.usage else "no counts in any answer"
            self._say("usage", asker.usage, told)
            cached = "named in its answers" if asker.cached else "no answer named them: unknown, not zero"
            self._say("cached_tokens", asker.cached, cached)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _fits(text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and value.get("colour") == "teal" and isinstance(value.get("n"), int)
