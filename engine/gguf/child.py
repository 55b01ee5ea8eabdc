"""The process that runs a model: a program of its own, so that native code can end nobody else.

    python -m whimbrel.engine.gguf.child SETTINGS   (JSON: path, window, threads)

It says ``{"ready": {...}}`` or ``{"failed": reason}``, then answers requests, one JSON object a line, each
answer with the ``id`` of its request::

    {"id": 1, "do": "count", "messages": [...], "tools": [...]}     -> {"id": 1, "tokens": 123}
    {"id": 2, "do": "answer", "messages": [...], "tools": [...], "seed": 0, "most_tokens": 100,
     "answer_tokens": 80, "thinking_tokens": 50, "call_first": false} -> {"id": 2, "text": "..."} ...
                                                                       {"id": 2, "done": {...}}
    {"id": 2, "do": "abort"}
    -> instead of any of these: {"id": 2, "failed": reason, "kind": "overflow" | "form" | "failure"}

An answer may also be asked for with ``sampling`` (fields of ``native.Sampling``), ``structure`` (see
``answers``), ``callable`` (names of the tools that may be called), ``several`` (calls at once), and
``top_logprobs``; then text comes with ``chances``: bytes in hexadecimal and log-probability, the chosen
token first.

Counting needs no weights and does not wait for an answer that is being written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .answers import Inexpressible, answer_grammar
from .grammar import call_grammar
from .native import Engine, GrammarRefused, NativeFailure, Overflow, Vocabulary, ends_inside_thinking
from .template import CHATML, MARK, ChatTemplate, TemplateFailure
from .wanted import Chance, Sampling, Wanted


class Child:
    """State of the process: one thread reads requests, the main one writes answers."""

    def __init__(self, settings: dict[str, Any], answers: Any) -> None:
        self._settings = settings
        self._path = Path(settings["path"])
        self._answers = answers
        self._lock = threading.Lock()
        self._work: queue.Queue[dict[str, Any]] = queue.Queue()
        self._aborted: set[int] = set()
        self._vocabulary = Vocabulary(self._path)
        self._engine: Engine | None = None
        source = self._vocabulary.template
        if not source and "<|im_start|>" not in self._vocabulary.control:
            raise TemplateFailure(f"{self._path.name} has no chat template: it is no model to talk to")
        self._template = ChatTemplate(
            source or CHATML,
            bos=self._vocabulary.bos,
            eos=self._vocabulary.eos,
            control=self._vocabulary.control,
        )

    def serve(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        self.say({"ready": {"model": self._path.name}})
        while True:
            request = self._work.get()
            with self._failures(request["id"]):
                self._answer(request)

    def say(self, value: object) -> None:
        with self._lock:
            self._answers.write(json.dumps(value) + "\n")
            self._answers.flush()

    def _listen(self) -> None:
        for line in sys.stdin:
            request = json.loads(line)
            if request["do"] == "abort":
                self._aborted.add(request["id"])
            elif request["do"] == "count":
                with self._failures(request["id"]):
                    self.say({"id": request["id"], "tokens": len(self._prompt(request)[1])})
            else:
                self._work.put(request)
        # Nobody is there any more; native code in the other thread is not asked.
        os._exit(0)

    def _prompt(self, request: dict[str, Any]) -> tuple[str, list[int]]:
        text = self._template.render(request["messages"], request["tools"], answer=request["do"] == "answer")
        return text, self._vocabulary.tokens(text.split(MARK))

    def _answer(self, request: dict[str, Any]) -> None:
        number = request["id"]
        if self._engine is None:
            self._engine = Engine(
                self._path,
                self._vocabulary,
                window=self._settings["window"],
                threads=self._settings["threads"],
            )
        text, tokens = self._prompt(request)
        functions = [tool["function"] for tool in request["tools"]]
        offered = request.get("callable")
        callable_ones = [each for each in functions if offered is None or each["name"] in offered]
        several = request.get("several", True)
        structure = request.get("structure")
        wanted = Wanted(
            seed=request["seed"],
            most_tokens=request["most_tokens"],
            answer_tokens=request["answer_tokens"],
            thinking_tokens=request["thinking_tokens"],
            grammar=(lambda opened: call_grammar(callable_ones, opened=opened, several=several))
            if callable_ones
            else None,
            call_first=request["call_first"],
            form=answer_grammar(structure) if structure else "",
            top_logprobs=request.get("top_logprobs"),
            sampling=Sampling(**request.get("sampling", {})),
        )

        def say(piece: str, chances: list[Chance]) -> None:
            if piece or chances:
                shown = [[each.data.hex(), each.logprob] for each in chances]
                self.say({"id": number, "text": piece} | ({"chances": shown} if shown else {}))

        thinking = ends_inside_thinking(text)
        self.say({"id": number, "thinking": thinking, "input_tokens": len(tokens)})
        answer = self._engine.answer(
            tokens,
            wanted,
            say,
            lambda: number in self._aborted,
            thinking=thinking,
            begun=lambda cached: self.say({"id": number, "cached_tokens": cached}),
        )
        self.say({"id": number, "done": dataclasses.asdict(answer)})
        self._aborted.discard(number)

    @contextlib.contextmanager
    def _failures(self, number: int) -> Any:
        try:
            yield
        except Overflow as error:
            self.say({"id": number, "failed": str(error), "kind": "overflow"})
        except (Inexpressible, GrammarRefused) as error:
            self.say({"id": number, "failed": str(error), "kind": "form"})
        except (NativeFailure, TemplateFailure) as error:
            self.say({"id": number, "failed": " ".join(str(error).split()), "kind": "failure"})


def main(arguments: Sequence[str]) -> int:
    # What native code prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    with contextlib.suppress(OSError):
        # Where memory runs out, this process is the one to go.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    try:
        child = Child(json.loads(arguments[0]), answers)
    except (NativeFailure, TemplateFailure) as error:
        answers.write(json.dumps({"failed": " ".join(str(error).split())}) + "\n")
        answers.flush()
        return 1
    child.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
