"""Two sentences on what was wrong: the place with old and new code, and why the test saw it."""

from __future__ import annotations

from collections.abc import Mapping

from ..repo.testing.report import CollectionError, TestCase
from .baseline import Baseline
from .candidates import Candidate, Part
from .localise import owner_of
from .source import ModuleSource, apply_edits

_MOST_CODE = 120
_MOST_MESSAGE = 160


def explain(candidate: Candidate, sources: Mapping[str, ModuleSource], baseline: Baseline) -> str:
    """E.g. "`Cart.total` in shop/cart.py compared with the wrong operator: line 9 was ...".

    A sentence for each file that is edited.
    """
    return " ".join((*(_what(part, sources[part.path]) for part in candidate.parts), _why(baseline)))


def _what(part: Part, source: ModuleSource) -> str:
    owner = owner_of(source, part.line)
    subject = f"`{owner}` in {part.path}" if owner != "<module>" else f"The top level of {part.path}"
    old, new = changed_lines(source.text, apply_edits(source.text, part.edits))
    place = f"line {part.line}"
    if old and new:
        change = f"{place} was `{_code(old)}` and is now `{_code(new)}`"
    elif new:
        change = f"before {place}, `{_code(new)}` was added"
    else:
        change = f"{place}, `{_code(old)}`, was removed"
    return f"{subject} {part.fault}: {change}."


def _why(baseline: Baseline) -> str:
    first: TestCase | CollectionError = (*baseline.failing, *baseline.broken)[0]
    name = first.id if isinstance(first, TestCase) else first.path
    message = first.message.strip().splitlines()[0] if first.message.strip() else ""
    if first.exception and not message.startswith(first.exception):
        message = f"{first.exception}: {message}" if message else first.exception
    others = len(baseline.targets) - 1
    more = f" (and {others} more)" if others else ""
    return f"The test {name}{more} saw it: {_short(message or 'it failed', _MOST_MESSAGE).rstrip('.')}."


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """The differing lines of two texts, without what they share at both ends."""
    old, new = before.splitlines(), after.splitlines()
    while old and new and old[0] == new[0]:
        del old[0], new[0]
    while old and new and old[-1] == new[-1]:
        del old[-1], new[-1]
    return old, new


def _code(lines: list[str]) -> str:
    return _short("; ".join(line.strip() for line in lines if line.strip()).replace(":; ", ": "), _MOST_CODE)


def _short(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
