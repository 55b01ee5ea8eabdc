"""Views of a text for edit messages: the surroundings of lines, and the lines most like a given text."""

from __future__ import annotations

__all__ = ["around", "nearest"]

_MAX_LINES = 20_000
_MAX_SHOWN = 60
_MAX_WIDTH = 300
_MIN_SCORE = 50


def around(text: str, first: int, last: int, context: int = 3) -> str:
    """Numbered lines ``first`` to ``last`` (1-based) with ``context`` more on both sides, bounded."""
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    start, end = max(1, first - context), min(len(lines), last + context)
    width = len(str(end))
    numbers = list(range(start, end + 1))
    if len(numbers) > _MAX_SHOWN:
        half = _MAX_SHOWN // 2
        hidden = len(numbers) - 2 * half
        shown = [_numbered(lines, n, width) for n in numbers[:half]]
        return "\n".join(
            [*shown, f"[... {hidden} lines ...]", *(_numbered(lines, n, width) for n in numbers[-half:])]
        )
    return "\n".join(_numbered(lines, n, width) for n in numbers)


def nearest(text: str, wanted: str) -> tuple[int, int] | None:
    """(first line, likeness in percent) of the lines most like ``wanted``, or None when nothing is."""
    from rapidfuzz import fuzz, process

    lines = text.split("\n")[:_MAX_LINES]
    target = wanted.strip("\n").split("\n")
    # The longest line tells the place best; windows around its best matches are then compared whole.
    key = max(range(len(target)), key=lambda index: len(target[index].strip()))
    candidates = process.extract(
        target[key].strip(),
        [line.strip() for line in lines],
        scorer=fuzz.ratio,
        limit=8,
        score_cutoff=_MIN_SCORE,
    )
    best: tuple[float, int] | None = None
    for _line, _score, index in candidates:
        start = max(0, index - key)
        window = "\n".join(lines[start : start + len(target)])
        score = fuzz.ratio(window, "\n".join(target))
        if best is None or score > best[0]:
            best = (score, start)
    if best is None or best[0] < _MIN_SCORE:
        return None
    return best[1] + 1, round(best[0])


def _numbered(lines: list[str], number: int, width: int) -> str:
    line = lines[number - 1]
    if len(line) > _MAX_WIDTH:
        line = f"{line[:_MAX_WIDTH]}[... {len(line) - _MAX_WIDTH} more characters ...]"
    return f"{number:>{width}}\t{line}"
