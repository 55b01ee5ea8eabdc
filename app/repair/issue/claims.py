"""Sentences that say what is and what should be: "returns 4 instead of 3", "expected: ...", "raises E"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from .blocks import parse_python
from .values import balanced, is_exception_name, literal, value_at


class Role(Enum):
    """What an issue shows a value for."""

    EXPECTED = "expected"
    ACTUAL = "actual"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Claim:
    """One value with its role, and the call it is about when the sentence names one."""

    role: Role
    value: str
    """Source of a literal or call, the content of a code span, or the name of an exception class."""
    subject: str = ""
    """Source of a Python expression with a call, or empty."""
    quote: str = ""
    """The sentence, bounded."""
    line: int = 0
    """1-based line of the issue."""
    exception: bool = False


_VERBS = (
    r"(?:be(?:en)?|return(?:s|ed|ing)?|give[sn]?|gave|print(?:s|ed)?|equal|yield(?:s|ed)?|produce[sd]?|"
    r"evaluate[sd]? to|"
    r"output(?:s|ted)?|show[sn]?|display(?:s|ed)?|raise[sd]?|throw[sn]?|result in|become|have|have been"
    r"|report)"
)
_EXPECTED = re.compile(
    rf"\b(?:should|shall|ought to|must|supposed to|expected to|expect(?:ed|ing|s)?(?: it| this| that)? to"
    rf"|would expect(?: it)? to)"
    rf"(?: (?:have|instead|rather|actually|simply|just|only|really|probably|correctly|then)){{0,3}}"
    rf" {_VERBS}(?!\w)"
    r"|\bexpect(?:ed|ation|s|ing)?"
    r"(?: (?:result|output|value|behaviou?r|outcome|answer|return value|exception))?"
    r"(?: (?:is|was|would be|here|to see|to get))?(?!\w)"
    r"|\b(?:correct|right|desired|proper)(?: (?:answer|result|output|value|behaviou?r))?"
    r"(?: (?:is|would be)|:)"
    r"|\bwant(?:ed)?(?!\w)"
    # Other languages write the same lines in their own words.
    r"|\berwart\w*|\bsollte\b|\battendue?s?\b|\bdevrait (?:être|retourner|renvoyer|donner|afficher)\b"
    r"|\besperad[oa]s?\b|\bse esperaba\b|\bdebería (?:ser|devolver|dar|retornar|imprimir)\b|\bdeveria \w+"
    r"|\bожида\w+|\bдолж\w+ (?:быть|вернуть|возвращать)|期望|预期|应该(?:是|返回|为)?|应为|期待",
    re.IGNORECASE,
)
_NOT_EXPECTED = re.compile(
    rf"\b(?:should(?: not|n't)|must(?: not|n't)|not supposed to|not expected to)(?: {_VERBS})(?!\w)"
    r"|\b(?:incorrect|wrong|unexpected)(?: (?:answer|result|output|value|behaviou?r))?(?: is|:)",
    re.IGNORECASE,
)
_ACTUAL = re.compile(
    r"\b(?:but |it |and |I |we |you )*(?:got(?!\w)|gets?(?!\w)|received?(?!\w)|"
    r"returns(?!\w)|returned(?!\w)|"
    r"returning(?!\w)|gives(?!\w)|gave(?!\w)|prints(?!\w)|printed(?!\w)|yields(?!\w)|"
    r"outputs(?!\w)|produces(?!\w)|produced(?!\w)|results? in|resulted in|evaluates to|"
    r"comes? out as|came out as|shows(?!\w)|reports(?!\w)|displays(?!\w)|"
    r"raises(?!\w)|raised(?!\w)|throws(?!\w)|threw(?!\w)|"
    r"(?:fails?|failed|crash(?:es|ed)?|dies|died|ends?|ended|explodes?|blows up|aborts?|errors?(?: out)?)"
    r" with)"
    r"|\bactual(?:ly)?(?: (?:result|output|value|behaviou?r|outcome|answer|exception))?"
    r"(?: (?:is|was|returns|prints|gives|got))?(?!\w)"
    r"|\b(?:observed|currently|current (?:result|output|value|behaviou?r))"
    r"(?: (?:is|returns|prints|gives))?(?!\w)"
    r"|\bbut (?:it )?(?:is|was)(?!\w)|,? not(?= [\"'`\d\[({-])"
    r"|\b(?:liefert|ergibt|erhalten|tatsächlich|retourne|renvoie|obtenue?s?|devuelve|retorna|obtenido"
    r"|получ\w+|возвращает)\b|实际|得到|返回|输出|実際",
    re.IGNORECASE,
)
_NOT_ACTUAL = re.compile(
    r"\b(?:does(?: not|n't)|did(?: not|n't)|no longer|never|instead of|rather than)"
    r" (?:return|returning|give|giving|print|printing|yield|yielding|produce|producing|equal|equalling"
    r"|raise|raising|throw|throwing|output|show|evaluate to)s?(?!\w)",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"\b(?:instead of|rather than|as opposed to|statt|anstatt|au lieu de|en lugar de|en vez de|em vez de"
    r"|вместо)(?!\w)|而不是",
    re.IGNORECASE,
)
_IS_EXPECTED = re.compile(r"\b(?:is|was|were) expected\b(?! to\b)", re.IGNORECASE)
_SHOWN = re.compile(r"(?:→|-+>|=+>|⇒|(?<![=!<>])==(?!=)|\bis(?!\w)|\bwas(?!\w)|\bequals(?!\w))")
_LABEL = re.compile(r"^[\s#>*_-]*(?P<label>[^`\"'\d(\[{:]{3,60}?)\s*[:：]?[\s*_]*$")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"')*_]*\s+(?=[\"'(*_]?[A-Z`\[]|\Z)|(?<=[。！？])")
_SPAN = re.compile(r"(`{1,2})(?P<code>.+?)\1", re.DOTALL)
_CALL = re.compile(r"(?<![\w.`])[A-Za-z_][\w.]*\(")
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "«": '"', "»": '"'})
_MAX_SENTENCE = 1200
_MAX_CLAIMS = 200
_ERROR_LINE = re.compile(
    r"^\s*(?:E\s+)?(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Iteration))"
    r"(?::\s*(?P<message>.*))?$"
)


def read_claims(prose: Sequence[str]) -> tuple[Claim, ...]:
    """All claims of an issue's prose, in order; at most ``_MAX_CLAIMS``."""
    claims: list[Claim] = []
    pending: Role | None = None
    for line, paragraph in _paragraphs(prose):
        label = label_role(paragraph)
        whole = paragraph.strip().strip("*_ ")
        short = len(paragraph) < 80 and value_in(whole) is None
        if label is not None and short and not read_sentence(paragraph):
            pending = label
            continue
        if pending is not None:
            value = value_in(whole)
            if value is not None:
                exception = is_exception_name(value)
                claims.append(Claim(pending, value, quote=whole[:200], line=line, exception=exception))
                pending = None
                continue
        pending = None
        about = ""
        for sentence in _SENTENCE_END.split(paragraph[: 20 * _MAX_SENTENCE]):
            if not sentence or len(claims) >= _MAX_CLAIMS:
                continue
            for claim in read_sentence(sentence[:_MAX_SENTENCE], line):
                # "f(1) raises KeyError. It should return None."
                claims.append(claim if claim.subject or not about else replace(claim, subject=about))
            subjects = _subjects(sentence[:_MAX_SENTENCE])
            about = subjects[-1][2] if subjects else about
    return tuple(claims[:_MAX_CLAIMS])


def read_sentence(sentence: str, line: int = 0) -> list[Claim]:
    """The claims of one sentence; each is about the nearest call before it, or the only one there is."""
    # Blanks inside quotes are part of a value, so only line ends are joined.
    sentence = re.sub(r"\s*\n\s*", " ", sentence.translate(_QUOTES)).strip()
    subjects = _subjects(sentence)
    inside = [(start, end) for start, end, _ in subjects]
    found: list[tuple[int, Claim]] = []
    last: Role | None = None
    for match in _IS_EXPECTED.finditer(sentence):
        before = _value_before(sentence, match.start())
        if before is not None:
            found.append(
                (match.start(), _claim(Role.EXPECTED, before, subjects, match.start(), sentence, line))
            )
    for at, end, role in _cues(sentence):
        if any(start <= at < stop for start, stop in inside):
            continue
        if role is None:  # "instead of": the opposite of what came before
            if last is None:
                before = _value_before(sentence, at)
                if before is None:
                    continue
                found.append((at, _claim(Role.ACTUAL, before, subjects, at, sentence, line)))
                last = Role.ACTUAL
            role = Role.EXPECTED if last is Role.ACTUAL else Role.ACTUAL
        value = value_at(sentence, end)
        if value is None:
            continue
        # "expected to return 3": two cues may lead to one value; the first, longer one says what it is.
        if any(claim.value == value[0] and abs(at - earlier) < 40 for earlier, claim in found):
            continue
        if value[0] in {subject for _, _, subject in subjects} and literal(value[0])[0] is False:
            continue
        if role is not Role.UNKNOWN:
            last = role
        found.append((at, _claim(role, value[0], subjects, at, sentence, line)))
    return [claim for _, claim in sorted(found, key=lambda pair: pair[0])]


def read_comment(text: str) -> list[Claim]:
    """What a comment says about its statement's value: ``# -> 3``, ``# 4, should be 3``, ``# KeyError``."""
    text = text.strip().lstrip("#").strip().translate(_QUOTES)
    error = _ERROR_LINE.match(text)
    if error:
        return [Claim(Role.UNKNOWN, error["name"], quote=text, exception=True)]
    claims = read_sentence(text)
    shown = _bare_value(text)
    if shown is not None and not any(claim.value == shown for claim in claims):
        exception = is_exception_name(shown)
        claims.insert(0, Claim(Role.UNKNOWN, shown, quote=text, exception=exception))
    return claims


def _bare_value(text: str) -> str | None:
    """A comment that begins with a value: ``3``, ``-> [1, 2]``, ``= 'x' (expected 'y')``."""
    body = re.sub(r"^(?:-+>|=+>|→|⇒|={1,3}|>>)\s*", "", text)
    known, _ = literal(body)
    if known:
        return body
    found = value_at(body, 0)
    if found is None or not re.match(
        r"\s*(?:$|[,;(!.–—-]|but\b|instead\b|should\b|expected\b|wrong)", body[found[1] :]
    ):
        return None
    start = body[: found[1]]
    return found[0] if start.lstrip(" `").startswith(found[0][:1]) else None


def label_role(text: str) -> Role | None:
    """The role that a heading or lead-in gives to what follows it; None when it says nothing about that."""
    lines = [line for line in text.split("\n") if line.strip()]
    for line in reversed(lines[-3:]):
        tail = line.strip()[-160:]
        marks: list[tuple[int, Role]] = []
        for pattern, role in (
            (_NOT_EXPECTED, Role.ACTUAL),
            (_EXPECTED, Role.EXPECTED),
            (_NOT_ACTUAL, Role.EXPECTED),
            (_ACTUAL, Role.ACTUAL),
        ):
            for match in pattern.finditer(tail):
                covered = any(start <= match.start() < stop for start, stop in _covered(tail, role))
                if not covered:
                    marks.append((match.start(), role))
        if marks:
            return max(marks, key=lambda mark: mark[0])[1]
        if re.search(
            r"\b(?:output|result|traceback|error|log|bug|wrong|broken|problem)s?\W*$", tail, re.IGNORECASE
        ):
            return Role.ACTUAL
        if re.search(
            r"\b(?:docs?|documentation|docstring|readme|doctests?|specification|manual)\b", tail, re.I
        ):
            return Role.EXPECTED
    return None


def _covered(text: str, role: Role) -> Iterator[tuple[int, int]]:
    """Spans of negated cues, inside which the plain cue of the other role means nothing."""
    pattern = _NOT_EXPECTED if role is Role.EXPECTED else _NOT_ACTUAL
    for match in pattern.finditer(text):
        yield match.span()


def value_in(text: str) -> str | None:
    """The value that a text is, when it is nothing else."""
    found = value_at(text, 0)
    if found is None or text[found[1] :].strip(" .!*_"):
        return None
    return found[0]


def _paragraphs(prose: Sequence[str]) -> Iterator[tuple[int, str]]:
    """(1-based first line, text): headings, list items and labelled lines stand alone."""
    first, held = 0, list[str]()
    for number, line in enumerate(prose, start=1):
        alone = re.match(r"^\s*(?:#{1,6}\s|[-*+]\s|\d+[.)]\s|\|)", line)
        # A label with its value on one line ("Expected: 3") never runs on into the next.
        labelled = re.match(r"^[\s*_]*[A-Za-z\u00c0-\uffff][\w ]{2,30}[*_]*\s*[:：]", line)
        if held and (not line.strip() or alone or labelled):
            yield first, "\n".join(held)
            held = []
        if not line.strip():
            continue
        if alone and line.lstrip().startswith("#"):
            yield number, line.strip().lstrip("# ")
            continue
        if not held:
            first = number
        held.append(line.strip())
    if held:
        yield first, "\n".join(held)


def _cues(sentence: str) -> list[tuple[int, int, Role | None]]:
    """(start, end, role) in order; negated cues win over the plain ones they hold."""
    cues: list[tuple[int, int, Role | None]] = []
    kinds: tuple[tuple[re.Pattern[str], Role | None], ...] = (
        (_NOT_EXPECTED, Role.ACTUAL),
        (_NOT_ACTUAL, Role.EXPECTED),
        (_OTHER, None),
        (_EXPECTED, Role.EXPECTED),
        (_ACTUAL, Role.ACTUAL),
        (_SHOWN, Role.UNKNOWN),
    )
    for pattern, role in kinds:
        for match in pattern.finditer(sentence):
            if not any(start < match.end() and match.start() < end for start, end, _ in cues):
                cues.append((match.start(), match.end(), role))
    return sorted(cues, key=lambda cue: cue[0])


def _subjects(sentence: str) -> list[tuple[int, int, str]]:
    """(start, end, source) of expressions with a call: code spans, and calls in plain words."""
    found: list[tuple[int, int, str]] = []
    for span in _SPAN.finditer(sentence):
        code = span["code"].strip().removeprefix(">>> ")
        if has_call(code):
            found.append((span.start(), span.end(), code))
    spans = [span.span() for span in _SPAN.finditer(sentence)]
    for call in _CALL.finditer(sentence):
        if any(start <= call.start() < end for start, end in spans):
            continue
        end = balanced(sentence, call.end() - 1)
        while end is not None:
            chained = re.match(r"\.[A-Za-z_]\w*\(", sentence[end:])
            longer = balanced(sentence, end + chained.end() - 1) if chained else None
            if longer is None:
                break
            end = longer
        if end is not None and has_call(sentence[call.start() : end]):
            found.append((call.start(), end, sentence[call.start() : end]))
    return sorted(found)


def has_call(code: str) -> bool:
    """Whether a text is one Python expression that calls something which is no exception class."""
    tree = parse_python(code)
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        return False
    value = tree.body[0].value
    if isinstance(value, ast.Call) and is_exception_name(ast.unparse(value.func)):
        return False
    # ``total()`` in a sentence is how people name a function, not a call they made.
    bare = isinstance(value, ast.Call) and not value.args and not value.keywords
    if bare and isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id[:1].isupper() is False and value.func.id != "print"
    return any(isinstance(node, ast.Call) for node in ast.walk(value))


def _claim(
    role: Role, value: str, subjects: Sequence[tuple[int, int, str]], at: int, sentence: str, line: int
) -> Claim:
    before = [subject for _, end, subject in subjects if end <= at]
    subject = before[-1] if before else subjects[0][2] if len(subjects) == 1 else ""
    exception = is_exception_name(re.split(r"[(:]", value, maxsplit=1)[0])
    return Claim(role, value, "" if subject == value else subject, sentence[:300], line, exception)


def _value_before(sentence: str, at: int) -> str | None:
    """The value right before a place: ``4 instead of 3``."""
    head = sentence[:at].rstrip()
    for start in range(len(head) - 1, max(-1, len(head) - 200), -1):
        found = value_at(head, start) if head[start] not in " :,=" else None
        if (
            found is not None
            and found[1] == len(head)
            and not (start and re.match(r"[\w.]", head[start - 1]))
        ):
            return found[0]
    return None
