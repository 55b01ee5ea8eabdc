"""A shell command taken apart into every simple command it can run.

Parsed by tree-sitter's bash grammar. Whatever it cannot read is reported, never guessed: a
command with a problem must not be taken for one that was understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from .words import Hole, Word, decode, plain

MAX_CHARACTERS = 10_000
"""A longer command is not looked at; it is asked about."""
MAX_DEPTH = 8
"""Of shells inside shells."""
MAX_COMMANDS = 500


@dataclass(frozen=True)
class Redirect:
    """A file opened by the shell itself."""

    target: Word
    writes: bool


class Danger(str):
    """A doubt about what surrounds a command: other programs, another user, the network."""

    __slots__ = ()


@dataclass(frozen=True)
class Command:
    """One simple command, wrappers taken off by ``unwrap``."""

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why no allow rule may vouch for it."""
    stdin: str | None = None
    """A here-document or here-string it reads, when known."""
    via: tuple[str, ...] = ()
    """Wrappers it was found in, outermost first."""
    mentions: tuple[Word, ...] = ()
    """Words it may get by way of a variable: what a loop goes over, the arguments of ``sh -c``."""

    @property
    def name(self) -> str | None:
        """The program as written, or None when it is only known at run time."""
        return self.words[0].literal if self.words else ""

    @property
    def shown(self) -> str:
        """One line for a person."""
        names = [f"{name}={value.shown}" for name, value in self.assignments]
        files = [f"{'>' if each.writes else '<'} {each.target.shown}" for each in self.redirects]
        return " ".join([*names, *(word.shown or "''" for word in self.words), *files])

    @property
    def dangers(self) -> tuple[str, ...]:
        """Those of the doubts that are worth a question even where running is allowed."""
        return tuple(doubt for doubt in self.doubts if isinstance(doubt, Danger))

    def doubted(self, *why: str) -> Command:
        return replace(self, doubts=(*self.doubts, *why))


@dataclass
class Parsed:
    """Everything a command line can run."""

    text: str
    commands: list[Command] = field(default_factory=list[Command])
    problems: list[str] = field(default_factory=list[str])
    """What could not be understood; empty when all of it was."""


_ODD = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f\u0085\u00a0\u1680\u2000-\u200f\u2028-\u202f\u205f\u2060\u3000\ufeff]"
)
_HOLES = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"}
)
_NOT_WORDS = frozenset(
    {"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect", "comment"}
)


def parse(text: str) -> Parsed:
    """Takes a command line apart (wrappers are still on)."""
    parsed = Parsed(text)
    if len(text) > MAX_CHARACTERS:
        parsed.problems.append(f"it is {len(text)} characters long, too long to be looked at")
        return parsed
    if odd := _ODD.search(text):
        parsed.problems.append(f"it holds the invisible or control character U+{ord(odd[0]):04X}")
        return parsed
    source = text.encode("utf-8", "surrogatepass")
    tree = _parser().parse(source)
    if tree.root_node.has_error:
        parsed.problems.append("it cannot be parsed as a shell command")
        return parsed
    try:
        _Walk(source, parsed).visit(tree.root_node, ())
    except RecursionError:
        parsed.problems.append("it is nested too deeply to be looked at")
    if len(parsed.commands) > MAX_COMMANDS:
        parsed.problems.append(f"it runs more than {MAX_COMMANDS} commands")
    return parsed


@lru_cache(maxsize=1)
def _parser() -> Any:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def also_named(commands: list[Command], start: int, words: Iterable[Word]) -> None:
    """Adds words to the mentions of the commands from ``start`` on."""
    more = tuple(words)
    for at in range(start, len(commands)):
        commands[at] = replace(commands[at], mentions=(*commands[at].mentions, *more))


class _Walk:
    """Collects commands; redirections of a group hold for every command in it."""

    def __init__(self, source: bytes, parsed: Parsed) -> None:
        self._source = source
        self._out = parsed

    def visit(self, node: Any, redirects: tuple[Redirect, ...], stdin: str | None = None) -> None:
        kind: str = node.type
        if kind == "redirected_statement":
            self._redirected(node, redirects, stdin)
        elif kind in ("command", "declaration_command", "unset_command"):
            self._command(node, redirects, stdin)
        elif kind == "file_redirect":
            # $(<file)
            self._out.commands.append(Command((), redirects=(*redirects, *self._file_redirect(node))))
        elif kind == "test_command":
            words = (plain("["), *(self._word(each) for each in _leaves(node)))
            self._out.commands.append(Command(words, redirects=redirects))
            self._nested(node)
        elif kind in ("variable_assignment", "variable_assignments"):
            assigned = [self._assignment(each) for each in _assignments_of(node)]
            self._out.commands.append(Command((), tuple(assigned), redirects))
            self._nested(node)
        else:
            before = len(self._out.commands)
            if kind == "function_definition":
                name = node.child_by_field_name("name")
                self._out.commands.append(
                    Command((plain("function"), self._word(name) if name else plain("")))
                )
            for child in node.children:
                if child.is_named:
                    self.visit(child, redirects, stdin)
            if kind == "for_statement":
                words = [self._word(each) for each in node.children_by_field_name("value")]
                also_named(self._out.commands, before, words)

    def _redirected(self, node: Any, outer: tuple[Redirect, ...], stdin: str | None) -> None:
        own: list[Redirect] = []
        bodies: list[Any] = []
        rest: list[Any] = []
        for child in node.children:
            if child.type == "file_redirect":
                own += self._file_redirect(child)
            elif child.type in ("heredoc_redirect", "herestring_redirect"):
                stdin, more, following = self._here(child)
                own += more
                rest += following
            elif child.is_named:
                bodies.append(child)
        everything = (*outer, *own)
        for body in bodies:
            self.visit(body, everything, stdin)
        if not bodies:
            self._out.commands.append(Command((), redirects=everything))
        for each in rest:
            self.visit(each, outer)

    def _file_redirect(self, node: Any) -> list[Redirect]:
        operator = next((child.type for child in node.children if not child.is_named), "")
        found: list[Redirect] = []
        for child in node.children:
            if not child.is_named or child.type == "file_descriptor":
                continue
            self._nested(child, itself=True)
            if child.type == "process_substitution":
                continue
            target = self._word(child)
            copies = operator in (">&", "<&", ">&-", "<&-") and re.fullmatch(r"\d+-?|-", target.literal or "")
            if not copies:
                found.append(Redirect(target, ">" in operator))
        return found

    def _here(self, node: Any) -> tuple[str | None, list[Redirect], list[Any]]:
        """What a here-document or here-string gives, redirections beside it, and commands behind it."""
        text: str | None = ""
        redirects: list[Redirect] = []
        following: list[Any] = []
        quoted = False
        for child in node.children:
            if child.type == "heredoc_start":
                quoted = bool(re.search(r"['\"\\]", self._text(child)))
            if child.type == "heredoc_body":
                text = None if any(_holes(child)) else self._text(child)
                if not quoted and re.search(r"(?<!\\)`", self._text(child)):
                    # The grammar knows no backquotes in here; the shell runs what is between them.
                    self._out.problems.append("a here-document holds a backquoted command")
                self._nested(child)
            elif child.type == "file_redirect":
                redirects += self._file_redirect(child)
            elif node.type == "herestring_redirect" and child.is_named and child.type != "file_descriptor":
                text = self._word(child).literal
                self._nested(child, itself=True)
            elif child.is_named and child.type not in ("heredoc_start", "heredoc_end", "file_descriptor"):
                # `cat <<X | sh`, `cat <<X && y`: what follows hangs inside this node.
                following.append(child)
        return text, redirects, following

    def _command(self, node: Any, redirects: tuple[Redirect, ...], stdin: str | None) -> None:
        words: list[Word] = []
        assigned: list[tuple[str, Word]] = []
        own: list[Redirect] = []
        declares = node.type != "command"
        if declares:
            words.append(plain(self._text(node.children[0])))
        for child in node.children[1 if declares else 0 :]:
            if child.type == "variable_assignment":
                assigned.append(self._assignment(child))
            elif child.type == "file_redirect":
                own += self._file_redirect(child)
            elif child.type in ("herestring_redirect", "heredoc_redirect"):
                stdin, more, following = self._here(child)
                own += more
                for each in following:
                    self.visit(each, redirects)
            elif child.type not in _NOT_WORDS:
                inner = child.children[0] if child.type == "command_name" and child.children else child
                words.append(self._word(inner))
        self._out.commands.append(Command(tuple(words), tuple(assigned), (*redirects, *own), stdin=stdin))
        self._nested(node)

    def _assignment(self, node: Any) -> tuple[str, Word]:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        return (
            re.split(r"[\[+]", self._text(name) if name else "")[0],
            self._word(value) if value else plain(""),
        )

    def _nested(self, node: Any, *, itself: bool = False) -> None:
        """Commands inside substitutions, wherever they hang below."""
        if itself and node.type in ("command_substitution", "process_substitution"):
            for child in node.children:
                if child.is_named:
                    self.visit(child, ())
            return
        for child in node.children:
            if child.type not in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                self._nested(child, itself=True)

    def _word(self, node: Any) -> Word:
        if node.type == "array":
            return Word(self._text(node), (Hole.ANY,))
        holes = {
            self._offset(node, each.start_byte): self._offset(node, each.end_byte) for each in _holes(node)
        }
        return decode(self._text(node), holes)

    def _offset(self, node: Any, byte: int) -> int:
        return len(self._source[node.start_byte : byte].decode("utf-8", "replace"))

    def _text(self, node: Any) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _holes(node: Any) -> Iterator[Any]:
    if node.type in _HOLES:
        yield node
        return
    for child in node.children:
        yield from _holes(child)


def _leaves(node: Any) -> Iterator[Any]:
    """The operands of ``[ ... ]`` and ``[[ ... ]]``."""
    for child in node.children:
        if child.type.endswith("_expression"):
            yield from _leaves(child)
        elif child.is_named and child.type != "test_operator":
            yield child


def _assignments_of(node: Any) -> Sequence[Any]:
    if node.type == "variable_assignment":
        return (node,)
    return [child for child in node.children if child.type == "variable_assignment"]
