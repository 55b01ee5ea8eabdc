"""The scoring process: a program of its own, so that native code can end nobody else.

    python -m whimbrel.app.repair.language.child MODEL [CACHE]

It says ``{"ready": {...}}`` or ``{"failed": reason}``, then answers requests, one JSON object a line::

    {"text": str, "changes": [[start, end, text, after], ...]}
    -> {"sums": [[new sum, new tokens, after sum, after tokens, the same four of the original], ...]}

    {"text": str, "lines": how many, "seed": int} -> {"lines": [[line, mean logarithm], ...]}

``after`` is where, in the text, the judged context after the change ends. A change that cannot be
scored has null for its list.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....engine.gguf.files import UnusableModel
from ....engine.gguf.library import NativeFailure
from .native import BATCH, MOST_TOKENS, SEQUENCES, LanguageModel, Tokens
from .weights import prepared

_Ending = tuple[int, Sequence[int]]


def main(arguments: Sequence[str]) -> int:
    # What native code prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)

    def say(value: object) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        cache = Path(arguments[1]) if len(arguments) > 1 else None
        path = prepared(Path(arguments[0]), cache)
        model = LanguageModel(path)
    except (UnusableModel, NativeFailure) as error:
        say({"failed": " ".join(str(error).split())})
        return 1
    say({"ready": {"model": path.name}})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "lines" in request:
                say({"lines": sample(model, request["text"], request["lines"], request["seed"])})
            else:
                say({"sums": score(model, request["text"], request["changes"])})
        except NativeFailure as error:
            say({"failed": " ".join(str(error).split())})
            return 1
    return 0


def sample(model: LanguageModel, text: str, count: int, seed: int) -> list[tuple[str, float]]:
    """Lines that may come after the text, likeliest first; what is no UTF-8 is left out."""
    tokens = model.tokenise(text).ids
    if not 0 < len(tokens) <= MOST_TOKENS:
        return []
    found: list[tuple[str, float]] = []
    for line, mean in model.lines(tokens, min(count, SEQUENCES), seed):
        try:
            found.append((line.decode(), mean))
        except UnicodeDecodeError:
            continue  # half a character is no line of a program
    return sorted(found, key=lambda each: (-each[1], each[0]))


def score(model: LanguageModel, text: str, changes: Sequence[Sequence[Any]]) -> list[list[float] | None]:
    """Sums of log-probabilities, see above; each ending as it is and as it was."""
    whole = model.tokenise(text)
    if len(whole.ids) > MOST_TOKENS:
        return [None] * len(changes)
    endings: list[_Ending] = []
    regions: list[tuple[Tokens, int, int, int] | None] = []
    for start, end, new, after in changes:
        pair = (text[:start] + new + text[end:after], text[:after])
        cut = len(text[:start].encode())
        sizes = (len(new.encode()), len(text[start:end].encode()))
        for ending, size in zip(pair, sizes, strict=True):
            tokens = whole if ending == text else model.tokenise(ending)
            first = _first_from(tokens, cut)
            if first == 0 or len(tokens.ids) - first > BATCH:
                regions.append(None)
                endings.append((1, ()))
                continue
            regions.append((tokens, first, cut + size, len(ending.encode())))
            endings.append((first, tokens.ids[first:]))
    logarithms = model.endings(whole.ids, endings)
    halves = [_sums(region, values) for region, values in zip(regions, logarithms, strict=True)]
    return [
        [*new, *old] if new is not None and old is not None else None
        for new, old in zip(halves[::2], halves[1::2], strict=True)
    ]


def _first_from(tokens: Tokens, offset: int) -> int:
    """Number of the first token that reaches beyond a byte offset."""
    return next((number for number, end in enumerate(tokens.ends) if end > offset), len(tokens.ids))


def _sums(region: tuple[Tokens, int, int, int] | None, values: Sequence[float]) -> list[float] | None:
    """Sum and number of tokens that begin in the changed lines, and of those after them."""
    if region is None:
        return None
    tokens, first, border, _ = region
    begins = [tokens.ends[number - 1] for number in range(first, len(tokens.ids))]
    inside = [value for begin, value in zip(begins, values, strict=True) if begin < border]
    behind = values[len(inside) :]
    return [sum(inside), len(inside), sum(behind), len(behind)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
