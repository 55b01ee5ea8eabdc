"""Snippets of an issue as statements, each with what the issue shows or says about it."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from .blocks import Block, Kind, parse_python
from .claims import Claim, Role, label_role, read_comment
from .names import bound_names, free_names
from .reading import IssueText
from .values import is_exception_name

MAX_SNIPPETS = 20
MAX_STEPS = 80
_MAX_SOURCE = 8000


class Form(Enum):
    """What a statement is to a test."""

    VALUE = "value"
    """An expression whose value a session would show."""
    PRINT = "print"
    """``print`` of one expression."""
    ASSERT = "assert"
    OTHER = "other"


@dataclass(frozen=True)
class Step:
    """One statement."""

    source: str
    form: Form
    line: int
    """1-based line of the issue, or 0."""
    expression: str = ""
    """Of VALUE the statement, of PRINT its argument."""
    shown: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Attachment:
    """A file whose content the issue gives."""

    name: str
    text: str


@dataclass(frozen=True)
class Snippet:
    """Statements to run in order in one namespace."""

    steps: tuple[Step, ...]
    origin: str
    """``code``, ``session``, ``sentence``, ``traceback`` or ``test``, for people to read."""
    line: int
    outputs: tuple[Claim, ...] = ()
    """What running all of it prints, or how that ends."""
    loose: tuple[Claim, ...] = ()
    """Said near it without naming the expression."""
    attachments: tuple[Attachment, ...] = ()
    session: bool = False
    text: str = ""
    """Of a test that the issue brings: as it stands there."""

    @property
    def source(self) -> str:
        return "\n".join(step.source for step in self.steps)


def collect_snippets(issue: IssueText) -> tuple[Snippet, ...]:
    """Everything in the issue that could be run, in its order; bounded."""
    found: list[Snippet] = []
    for block in issue.blocks:
        if block.kind is Kind.PYTHON:
            found += _from_code(block)
        elif block.kind is Kind.SESSION:
            found += _from_session(block)
        elif block.kind is Kind.OUTPUT and found and not _is_attachment(block, issue):
            found[-1] = _with_output(found[-1], block)
        elif block.kind is Kind.TRACEBACK and found:
            found[-1] = replace(found[-1], outputs=(*found[-1].outputs, *_ending(block.text)))
    found += _from_traces(issue)
    found = _with_sentences(found, issue)
    attachments = _attachments(issue)
    if attachments:
        found = [_with_attachments(snippet, attachments) for snippet in found]
    unique: dict[str, Snippet] = {}
    for snippet in found:
        if snippet.steps and len(snippet.source) <= _MAX_SOURCE:
            known = unique.setdefault(snippet.source, snippet)
            if known is not snippet:
                # Said twice: what is shown at either place counts.
                unique[snippet.source] = replace(
                    known, outputs=(*known.outputs, *snippet.outputs), loose=(*known.loose, *snippet.loose)
                )
    return tuple(unique.values())[:MAX_SNIPPETS]


# ---------------------------------------------------------------- code


def _from_code(block: Block) -> list[Snippet]:
    text = block.text
    if parse_python(text) is None:
        text = re.sub(r"^(\s*)print (?!\()(.+)$", r"\1print(\2)", text, flags=re.MULTILINE)
    steps = steps_of(text, block.line)
    if not steps:
        return []
    if any(_is_test(step.source) for step in steps):
        return [Snippet(tuple(steps), "test", block.line, text=textwrap.dedent(text).strip("\n"))]
    return [Snippet(tuple(steps), "code", block.line)]


def _is_test(source: str) -> bool:
    return (
        re.match(r"(?:@.*\n)*(?:async )?def test_\w+\(|class \w+\(.*TestCase\)|class Test\w*[(:]", source)
        is not None
    )


def steps_of(text: str, line: int = 1) -> list[Step]:
    """The statements of a text with their comments' claims; () when it is no Python.

    Args:
        line: the issue's line on which the text begins.
    """
    text = textwrap.dedent(text).expandtabs(4)
    tree = parse_python(text)
    if tree is None:
        return []
    lines = text.split("\n")
    if len(tree.body) and _is_main_guard(tree.body[-1]):
        guard = tree.body[-1]
        assert isinstance(guard, ast.If)
        before = "\n".join(lines[: guard.lineno - 1])
        first, last = guard.body[0].lineno, guard.end_lineno or guard.lineno
        inner = textwrap.dedent("\n".join(lines[first - 1 : last]))
        return [*steps_of(before, line), *steps_of(inner, line + first - 1)]
    comments = _comments(text)
    steps: list[Step] = []
    for node in tree.body[:MAX_STEPS]:
        source = _source(node, text, lines)
        form, expression = _form(node)
        steps.append(Step(source, form, line + node.lineno - 1, expression))
    ends = [(node.lineno, node.end_lineno or node.lineno) for node in tree.body[:MAX_STEPS]]
    for at, comment in comments:
        position = _owner(at, ends, lines)
        if position is not None:
            claims = tuple(replace(claim, line=line + at - 1) for claim in read_comment(comment))
            steps[position] = replace(steps[position], shown=(*steps[position].shown, *claims))
    return steps


def _is_main_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).startswith("__name__ == ") and not node.orelse


def _source(node: ast.stmt, text: str, lines: Sequence[str]) -> str:
    decorators = getattr(node, "decorator_list", [])
    if decorators:
        return "\n".join(lines[decorators[0].lineno - 1 : node.end_lineno])
    return ast.get_source_segment(text, node) or ast.unparse(node)


def _form(node: ast.stmt) -> tuple[Form, str]:
    if isinstance(node, ast.Assert):
        return Form.ASSERT, ast.unparse(node.test)
    if not isinstance(node, ast.Expr):
        return Form.OTHER, ""
    value = node.value
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in ("print", "pprint")
    ):
        single = len(value.args) == 1 and not value.keywords and not isinstance(value.args[0], ast.Starred)
        return (Form.PRINT, ast.unparse(value.args[0])) if single else (Form.OTHER, "")
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return Form.OTHER, ""
    return Form.VALUE, ast.unparse(value)


def _comments(text: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found.append((token.start[0], token.string))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return found
    return found


def _owner(at: int, ends: Sequence[tuple[int, int]], lines: Sequence[str]) -> int | None:
    """The statement a comment speaks about: its own line's, the one right above, else the one right below."""
    for position, (first, last) in enumerate(ends):
        if first <= at <= last:
            return position
    above = [position for position, (_, last) in enumerate(ends) if last < at]
    if above and all(lines[row].lstrip().startswith("#") for row in range(ends[above[-1]][1], at)):
        return above[-1]
    below = [position for position, (first, _) in enumerate(ends) if first > at]
    if below and all(lines[row].lstrip().startswith("#") for row in range(at - 1, ends[below[0]][0] - 1)):
        return below[0]
    return None


# ---------------------------------------------------------------- sessions

_IN = re.compile(r"^(?P<indent>\s*)(?:>>>(?: |$)|In \[\d*\]: ?)(?P<code>.*)$")
_MORE = re.compile(r"^\s*(?:\.\.\.(?: |$)|\.{3,}: ?)(?P<code>.*)$")
_OUT = re.compile(r"^\s*Out\[\d*\]: ?")


def _from_session(block: Block) -> list[Snippet]:
    role = label_role(block.lead) or Role.UNKNOWN
    steps: list[Step] = []
    lines = block.text.split("\n")
    at = 0
    while at < len(lines):
        match = _IN.match(lines[at])
        if not match:
            at += 1
            continue
        first = at
        code = [match["code"]]
        at += 1
        while at < len(lines) and (more := _MORE.match(lines[at])):
            code.append(more["code"])
            at += 1
        want: list[str] = []
        trace = at < len(lines) and "Traceback (most recent call last)" in lines[at]
        while at < len(lines) and not _IN.match(lines[at]) and (lines[at].strip() or trace):
            want.append(lines[at].removeprefix(match["indent"]))
            at += 1
        parsed = steps_of("\n".join(code), block.line + first)
        if parsed and any(line.strip() for line in want):
            shown = _want("\n".join(want), role, block.line + first)
            parsed[-1] = replace(parsed[-1], shown=(*shown, *parsed[-1].shown))
        steps += parsed
    return [Snippet(tuple(steps[:MAX_STEPS]), "session", block.line, session=True)] if steps else []


def _want(text: str, role: Role, line: int) -> list[Claim]:
    ending = _ending(text)
    if ending:
        return [replace(claim, role=role if role is not Role.UNKNOWN else claim.role) for claim in ending]
    value = _OUT.sub("", textwrap.dedent(text).strip("\n"))
    value, comment = _without_remark(value)
    claims = [Claim(role, value, quote=value[:200], line=line)] if value.strip() else []
    return claims + [replace(each, line=line) for each in comment]


def _without_remark(value: str) -> tuple[str, list[Claim]]:
    """A value and what a comment or arrow behind it says (``4   # should be 3``, ``4  <-- expected 3``)."""
    if "\n" in value:
        return value, []
    match = re.match(r"^(?P<value>.*?\S)\s+(?:#|<-+|←|//)\s*(?P<remark>.+)$", value)
    if not match:
        return value, []
    claims = read_comment(match["remark"])
    return (match["value"], claims) if claims or not match["value"].startswith(("'", '"')) else (value, [])


_RAISED = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?::\s*(?P<message>.*))?$")


def _ending(text: str) -> list[Claim]:
    """The exception that a traceback, or a bare last line of one, ends with."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        return []
    trace = any("Traceback (most recent call last)" in line for line in lines)
    for line in reversed(lines):
        match = _RAISED.match(line.strip())
        if match and ((trace and not line.startswith("  ")) or is_exception_name(match["name"])):
            value = f"{match['name']}: {match['message']}" if match["message"] else match["name"]
            return [Claim(Role.ACTUAL, value, quote=line.strip()[:200], exception=True)]
        if not trace:
            break
    return []


# ---------------------------------------------------------------- what stands around


def _with_output(snippet: Snippet, block: Block) -> Snippet:
    ending = _ending(block.text)
    role = label_role(block.lead) or Role.UNKNOWN
    if ending:
        return replace(snippet, outputs=(*snippet.outputs, *ending))
    lines = [line for line in block.text.strip("\n").split("\n") if not re.match(r"^\s*\$ ", line)]
    text = "\n".join(lines).strip("\n")
    if not text.strip() or len(text) > _MAX_SOURCE:
        return snippet
    claim = Claim(role, text, quote=text[:200], line=block.line)
    return replace(snippet, outputs=(*snippet.outputs, claim))


def _from_traces(issue: IssueText) -> list[Snippet]:
    """The calls with which tracebacks enter the project: the last line of foreign code before it."""
    found: list[Snippet] = []
    for trace in issue.traces:
        frames = trace.all_frames()
        entry = next((k for k, frame in enumerate(frames) if frame.in_repository), len(frames))
        outside = frames[entry - 1] if entry else None
        if outside is None or not outside.code or "site-packages" in outside.path:
            continue
        code = outside.code.strip()
        if code.endswith(":") or parse_python(code) is None:
            code = re.sub(r"^(?:if|while|elif|with|for \w+ in)\s+(.*?)(?: as \w+)?:$", r"\1", code)
        if code.startswith("return "):
            code = code.removeprefix("return ")
        value = f"{trace.exception}: {trace.message}" if trace.message else trace.exception
        claim = Claim(Role.ACTUAL, value, quote=value[:200], line=trace.first_line + 1, exception=True)
        steps = steps_of(code, trace.first_line + 1)
        if steps and trace.exception:
            found.append(Snippet(tuple(steps), "traceback", trace.first_line + 1, outputs=(claim,)))
    return found


def _with_sentences(snippets: Sequence[Snippet], issue: IssueText) -> list[Snippet]:
    """Claims about a call become snippets; the others go to the snippet they stand near."""
    found = list(snippets)
    subjects: dict[str, list[Claim]] = {}
    loose: list[Claim] = []
    for claim in issue.claims:
        if claim.subject:
            subjects.setdefault(claim.subject, []).append(claim)
        else:
            loose.append(claim)
    for subject, claims in subjects.items():
        tree = parse_python(subject)
        printed = (
            tree is not None and isinstance(tree.body[0], ast.Expr) and _form(tree.body[0])[0] is Form.PRINT
        )
        steps = steps_of(subject, claims[0].line)
        if not steps:
            continue
        step = replace(steps[0], shown=tuple(claims))
        base = _defining(snippets, free_names(subject))
        if base is not None and not printed:
            # The sentence speaks about a variable of the snippet: it is run behind it.
            before = tuple(replace(each, shown=()) for each in base.steps)
            found.append(Snippet((*before, step), "sentence", claims[0].line))
        else:
            found.append(Snippet((step,), "sentence", claims[0].line))
    for claim in loose:
        at = _nearest(found[: len(snippets)], claim.line)
        if at is not None:
            found[at] = replace(found[at], loose=(*found[at].loose, claim))
    return found


def _nearest(snippets: Sequence[Snippet], line: int) -> int | None:
    """The last snippet above a line, else the first below it."""
    above = [position for position, snippet in enumerate(snippets) if snippet.line <= line]
    if above:
        return max(above, key=lambda position: snippets[position].line)
    below = [position for position, snippet in enumerate(snippets) if snippet.line > line]
    return min(below, key=lambda position: snippets[position].line, default=None)


def _defining(snippets: Iterable[Snippet], names: frozenset[str]) -> Snippet | None:
    """The last snippet that binds one of some names by something other than an import."""
    for snippet in reversed(list(snippets)):
        if names & bound_names(snippet.source, imports=False):
            return snippet
    return None


# ---------------------------------------------------------------- files that the issue shows

_FILE_NAME = re.compile(r"[\w./-]*\w\.(?!py\b)[A-Za-z]\w{0,6}\b")


def _is_attachment(block: Block, issue: IssueText) -> bool:
    name = _file_name(block)
    return name is not None and any(
        name.rpartition("/")[2] in each.text for each in issue.of_kind(Kind.PYTHON, Kind.SESSION)
    )


def _file_name(block: Block) -> str | None:
    """The name that the issue gives to a shown file: in the fence, or in the line above."""
    if block.title and not block.title.endswith(".py"):
        return block.title
    last = block.lead.strip().split("\n")[-1] if block.lead.strip() else ""
    names = _FILE_NAME.findall(last)
    return names[-1] if names and len(last) < 120 else None


def _attachments(issue: IssueText) -> tuple[Attachment, ...]:
    found: dict[str, Attachment] = {}
    for block in issue.of_kind(Kind.OUTPUT):
        if _is_attachment(block, issue):
            name = _file_name(block)
            assert name is not None
            found[name] = Attachment(name.lstrip("./"), block.text.rstrip("\n") + "\n")
    return tuple(found.values())


def _with_attachments(snippet: Snippet, attachments: Sequence[Attachment]) -> Snippet:
    used = tuple(
        each for each in attachments if each.name in snippet.source and ".." not in each.name.split("/")
    )
    return replace(snippet, attachments=used)
