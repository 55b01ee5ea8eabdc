"""Regular expressions: anchors, greed, escapes, repetition, classes and flags."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import Edit

_FUNCTIONS = frozenset(
    ("compile", "match", "search", "fullmatch", "findall", "finditer", "sub", "subn", "split")
)
_FLAGS = ("re.IGNORECASE", "re.MULTILINE", "re.DOTALL", "re.VERBOSE")
_UNIT = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[:=!]|\(\?<?[=!]|\(\?P<\w+>|.", re.DOTALL)
_COUNT = re.compile(r"\{(\d+)(,?)(\d*)\}")
_CLASSES = {
    r"\d": (r"\w", "[0-9]", r"\D"),
    r"\w": (r"[\w-]", r"[\w.]", r"\S", r"\d", "[A-Za-z]", r"\W"),
    r"\s": (r"\S", " "),
    r"\S": (r"\w", r"\s"),
    r"\b": (r"\B",),
    r"\W": (r"\w", r"\s"),
    r"\D": (r"\d",),
}
_MOST = 80


class Patterns(Family):
    name = "pattern"
    prior = 0.85
    fault = "matched text with the wrong regular expression"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_matching(node, view):
            yield from self._flags(node, view)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_pattern(node, view):
            yield from self._variants(node, view)

    def _variants(self, node: ast.Constant, view: ModuleView) -> Iterator[Proposal]:
        old = view.source.segment(node)
        opening = re.match(r"([rRbBuU]*)('''|\"\"\"|'|\")", old)
        if opening is None or not old.endswith(opening[2]) or len(old) < len(opening[0]) + len(opening[2]):
            return
        raw = "r" in opening[1].lower()
        body = old[len(opening[0]) : -len(opening[2])]
        if not raw and "\\" in body:
            return
        seen = {body}
        count = 0
        for new, weight, said in _changed(body):
            if new in seen or not _compiles(new):
                continue
            seen.add(new)
            prefix = opening[1] if raw or "\\" not in new else "r" + opening[1]
            literal = f"{prefix}{opening[2]}{new}{opening[2]}"
            yield Proposal(replace(view, node, literal), said, weight)
            count += 1
            if count >= _MOST:
                return

    def _flags(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        end = view.source.span(node)[1]
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        given = [each for each in node.keywords if each.arg == "flags"]
        place = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(name, 2)
        if len(node.args) > place:
            flags: ast.expr | None = node.args[place]
        else:
            flags = given[0].value if given else None
        for flag in _FLAGS:
            if flags is not None:
                text = view.source.segment(flags)
                if flag not in text:
                    yield Proposal(replace(view, flags, f"{text} | {flag}"), f"also sets {flag}", 0.5)
                    yield Proposal(replace(view, flags, flag), f"sets {flag} instead", 0.4)
            elif len(node.args) < 2 or name != "compile":
                text = flag if len(node.args) == place else f"flags={flag}"
                edit = Edit(end - 1, end - 1, f", {text}")
                yield Proposal((edit,), f"sets {flag}", 0.6 if flag == "re.IGNORECASE" else 0.4)


def _is_matching(node: ast.Call, view: ModuleView) -> bool:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in _FUNCTIONS and _text(node.func.value) == "re"
    imported = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
    return imported and node.func.id in view.module_names  # type: ignore[attr-defined]


def _is_pattern(node: ast.Constant, view: ModuleView) -> bool:
    """The first argument of a function of re (also in parts), or a raw string with the look of a pattern."""
    call = view.source.parents.get(node)
    if isinstance(call, ast.Call) and call.args and call.args[0] is node and _is_matching(call, view):
        return True
    text = view.source.segment(node)
    looks = re.search(r"\\[dwsbSWD.]|\(\?|\]\+|\.\*", text) is not None
    return looks and text[:2].lower().startswith(("r'", 'r"')) and "re" in view.module_names


def _text(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _changed(body: str) -> Iterator[tuple[str, float, str]]:
    """Patterns one change away, with weights."""
    yield from _anchored(body)
    units = [(match.start(), match.group()) for match in _UNIT.finditer(body)]
    dots = [at for at, unit in units if unit == "."]
    bare = [at for at in dots if body[at + 1 : at + 2] not in ("*", "+", "?", "{")]
    if len(bare) > 1:
        new = "".join(("\\" + unit if at in set(bare) else unit) for at, unit in units)
        yield new, 0.9, "escapes the dots"
    for position, (at, unit) in enumerate(units):
        end = at + len(unit)

        def put(text: str, at: int = at, end: int = end) -> str:
            return body[:at] + text + body[end:]

        if unit == ".":
            if at in bare:
                yield put(r"\."), 1.0, "escapes the dot"
        elif unit == r"\.":
            yield put("."), 0.3, "lets the dot match anything"
        elif unit in "*+?":
            lazy = unit == "?" and position > 0 and units[position - 1][1] in ("*", "+", "?", "}")
            if lazy:
                yield put(""), 0.8, "matches as much as possible"
                continue
            for new, weight in _repeated(unit):
                yield put(new), weight, f"repeats with {new or 'nothing'} instead of {unit}"
            if unit in "*+" and body[end : end + 1] != "?":
                yield put(unit + "?"), 0.9, "matches as little as possible"
        elif unit in _CLASSES:
            for new in _CLASSES[unit]:
                yield put(new), 0.4, f"matches {new} instead of {unit}"
        elif unit.startswith("[") and len(unit) > 2:
            yield from ((put(new), weight, f"matches {new}") for new, weight in _classes(unit))
        repeatable = unit in _CLASSES or unit.startswith("[") or unit == ")"
        if repeatable and unit not in (r"\b", r"\B") and body[end : end + 1] not in ("*", "+", "?", "{"):
            for new, weight in (("+", 0.8), ("*", 0.6), ("?", 0.6)):
                yield put(unit + new), weight * (0.7 if unit == ")" else 1.0), f"repeats with {new}"
        if unit == "(" and not body.startswith("?", at + 1):
            yield put("(?:"), 0.3, "does not capture the group"
        elif unit == "(?:":
            yield put("("), 0.4, "captures the group"
    for match in _COUNT.finditer(body):
        yield from _counts(body, match)


def _anchored(body: str) -> Iterator[tuple[str, float, str]]:
    starts = body.startswith(("^", r"\A"))
    ends = (body.endswith("$") and not body.endswith(r"\$")) or body.endswith(r"\Z")
    if not starts:
        yield "^" + body, 0.7, "matches only at the start"
    elif body.startswith("^"):
        yield body[1:], 0.5, "matches anywhere"
    if not ends:
        yield body + "$", 0.8, "matches only up to the end"
    elif body.endswith("$"):
        yield body[:-1], 0.5, "does not insist on the end"
        yield body[:-1] + r"\Z", 0.3, "does not accept a last line end"
    if not starts and not ends:
        yield f"^{body}$", 0.6, "matches only the whole text"
        if re.match(r"\\?\w|\(|\[", body):
            yield rf"\b{body}\b", 0.5, "matches whole words only"
    words = body.startswith(r"\b") and body.endswith(r"\b")
    if words:
        yield body[2:-2], 0.4, "matches inside words"
    if "|" in body and not body.startswith("("):
        inner = body[1 if body.startswith("^") else 0 : -1 if ends and body.endswith("$") else len(body)]
        front, back = ("^" if body.startswith("^") else ""), ("$" if ends and body.endswith("$") else "")
        if front or back:
            yield f"{front}(?:{inner}){back}", 0.9, "anchors every alternative"


def _repeated(unit: str) -> tuple[tuple[str, float], ...]:
    return {
        "*": (("+", 1.0), ("?", 0.5), ("", 0.3)),
        "+": (("*", 1.0), ("?", 0.4), ("", 0.4)),
        "?": (("*", 0.6), ("", 0.6), ("+", 0.5)),
    }[unit]


def _classes(unit: str) -> Iterator[tuple[str, float]]:
    negated = unit.startswith("[^")
    inside = unit[2:-1] if negated else unit[1:-1]
    front = "[^" if negated else "["
    lower, upper, digits = "a-z" in inside, "A-Z" in inside, "0-9" in inside or r"\d" in inside
    yield ("[" if negated else "[^") + inside + "]", 0.4
    if lower != upper:
        yield f"{front}{inside}{'A-Z' if lower else 'a-z'}]", 0.8
    if not digits:
        yield f"{front}{inside}0-9]", 0.6
    for extra, weight in (("_", 0.5), ("-", 0.5), (".", 0.4), (r"\s", 0.3), ("+", 0.2)):
        if extra not in inside.replace("a-z", "").replace("A-Z", "").replace("0-9", ""):
            yield (f"{front}{inside}{extra}]"), weight
    if "1-9" in inside:
        yield front + inside.replace("1-9", "0-9") + "]", 0.9
    if "0-9" in inside:
        yield front + inside.replace("0-9", "1-9") + "]", 0.4


def _counts(body: str, match: re.Match[str]) -> Iterator[tuple[str, float, str]]:
    low, comma, high = int(match[1]), match[2], match[3]
    options: list[str] = []
    for change in (1, -1):
        options.append(f"{{{max(0, low + change)}{comma}{high}}}")
        if high:
            options.append(f"{{{low},{int(high) + change}}}")
    options += [f"{{{low}}}"] if comma else [f"{{{low},}}", f"{{1,{low}}}"]
    for new in options:
        yield body[: match.start()] + new + body[match.end() :], 0.6, f"repeats {new} times"


def _compiles(pattern: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
