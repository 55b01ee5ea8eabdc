"""Colours for source code, one line at a time: cheap, and a line never has to be read twice.

A full lexer needs the text from its start. Here the only thing carried from line to line is the
string or comment that is still open, so that a stream, or any window of a large file, costs
what it shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

__all__ = ["Language", "language_of", "spans_of"]

Token = tuple[int, int, str]
"""First and end character, and one of keyword, string, comment, number, name."""

_C_WORDS = (
    "auto break case catch char class const continue default delete do double else enum export"
    " extends extern final finally float for func fn go if impl implements import in inline int"
    " interface let long match mod mut namespace new override package private protected pub public"
    " return short signed sizeof static struct super switch template this throw trait try type typedef"
    " typeof union unsigned use using var virtual void volatile while yield async await function null"
    " nil true false undefined self bool string range defer chan map select where instanceof abstract"
)
_WORDS = {
    "python": (
        "and as assert async await break class continue def del elif else except finally for from"
        " global if import in is lambda match case nonlocal not or pass raise return try while with"
        " yield None True False self cls"
    ),
    "ruby": (
        "alias and begin break case class def defined do else elsif end ensure false for if in module"
        " next nil not or redo rescue retry return self super then true undef unless until when while"
        " yield require"
    ),
    "shell": (
        "if then elif else fi for while until do done case esac function in return export local set"
        " unset cd echo exit source true false"
    ),
    "data": "true false null yes no on off",
    "sql": (
        "select from where insert into update delete create table drop alter join left right inner"
        " outer on and or not null as order by group having limit values set primary key references"
        " distinct union"
    ),
}
_FAMILIES = {
    "python": "py python python3 pyi pytest pycon gyp bzl starlark",
    "c": (
        "c h cc cpp cxx hpp c++ cs csharp java js javascript jsx mjs cjs ts typescript tsx go golang"
        " rs rust swift kt kotlin scala php dart zig css scss less proto glsl cu cuda json5 jsonc"
        " groovy gradle"
    ),
    "ruby": "rb ruby gemfile rake",
    "shell": "sh bash zsh shell console make makefile dockerfile mk fish",
    "data": "json yaml yml toml ini cfg conf properties env",
    "sql": "sql psql mysql sqlite",
}
_BY_NAME = {name: family for family, names in _FAMILIES.items() for name in names.split()}
_STRING = r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
_NUMBER = r"\b(?:0[xXbBoO][0-9a-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b"


@dataclass(frozen=True)
class Language:
    """How one family of languages is read."""

    tokens: re.Pattern[str]
    words: frozenset[str]
    openers: tuple[tuple[str, str, str], ...]
    """What begins something that may end lines later: opener, closer, kind."""
    any_case: bool = False


@lru_cache
def _language(family: str) -> Language:
    openers: tuple[tuple[str, str, str], ...] = ()
    if family == "python":
        openers = (('"""', '"""', "string"), ("'''", "'''", "string"))
    elif family == "c":
        openers = (("/*", "*/", "comment"), ("`", "`", "string"))
    comment = {"c": "//.*", "sql": "--.*"}.get(family, "#.*")
    many = "|".join(re.escape(opener) for opener, _, _ in openers) or "(?!)"
    pattern = re.compile(
        rf"(?P<open>{many})|(?P<comment>{comment})|(?P<string>{_STRING})|(?P<number>{_NUMBER})"
        r"|(?P<word>@?[^\W\d]\w*)(?P<call>(?=\())?"
    )
    words = frozenset((_C_WORDS if family == "c" else _WORDS[family]).split())
    return Language(pattern, words, openers, any_case=family == "sql")


@lru_cache(512)
def language_of(name: str) -> Language | None:
    """The language of a file name, or of the word behind a fence; None: shown without colours."""
    word = name.strip().lower()
    base = PurePosixPath(word).name
    for each in (base.rpartition(".")[2], base, word.split(" ")[0].split("{")[0]):
        if each in _BY_NAME:
            return _language(_BY_NAME[each])
    return None


def opened_before(lines: Sequence[str], language: Language) -> str:
    """What a piece of a file seems to begin in: the opener of a string or comment, or empty."""
    for opener, closer, _ in language.openers:
        for line in lines:
            if opener not in line and closer not in line:
                continue
            if opener != closer:
                closing = line.find(closer)
                if closing >= 0 and not 0 <= line.find(opener) < closing:
                    return opener
            elif len(opener) > 1 and line.rstrip().endswith(opener) and line.count(opener) == 1:
                # A line that ends with the quotes most often ends the string, unless it is opened bare.
                alone = line.strip() == opener
                if not alone or sum(each.count(opener) for each in lines) % 2:
                    return opener
            break
    return ""


def spans_of(line: str, language: Language, inside: str = "") -> tuple[list[Token], str]:
    """The coloured pieces of a line, and the opener that is still open behind it.

    Args:
        line: without its line end.
        language: of ``language_of``.
        inside: what the line before gave, empty at the start.
    """
    found: list[Token] = []
    at = 0
    if len(line) > 2000:
        return found, inside  # generated text: no colours, and no time either
    while True:
        if inside:
            closer, kind = next((end, kind) for start, end, kind in language.openers if start == inside)
            end = line.find(closer, at)
            stop = len(line) if end < 0 else end + len(closer)
            if stop > at:
                found.append((at, stop, kind))
            if end < 0:
                return found, inside
            at, inside = stop, ""
        match = language.tokens.search(line, at)
        if match is None:
            return found, ""
        start, at = match.span()
        if match["open"]:
            inside = match["open"]
            closer, kind = next((end, kind) for begin, end, kind in language.openers if begin == inside)
            end = line.find(closer, at)
            if end < 0:
                found.append((start, len(line), kind))
                return found, inside
            at = end + len(closer)
            found.append((start, at, kind))
            inside = ""
        elif match["comment"]:
            found.append((start, at, "comment"))
        elif match["string"]:
            found.append((start, at, "string"))
        elif match["number"]:
            found.append((start, at, "number"))
        elif match["word"]:
            word = match["word"]
            if (word.lower() if language.any_case else word) in language.words:
                found.append((start, at, "keyword"))
            elif match["call"] is not None or word.startswith("@"):
                found.append((start, at, "name"))
