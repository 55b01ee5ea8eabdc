"""Recognises candidates that compile to what was seen before, or do not compile at all.

Only the outermost function (or top-level statement) around an edit is compiled again, so the
cost does not grow with the file. Comparing code rather than text or trees also finds edits that
the compiler makes equal, such as constants it folds.
"""

from __future__ import annotations

import ast
import hashlib
import types
import warnings
from collections.abc import Mapping

from .candidates import Candidate, Part
from .source import FUNCTIONS, Edit, ModuleSource, apply_edits


class Novelty:
    """Remembers every candidate it was asked about.

    Args:
        sources: the files candidates edit, by path.
    """

    def __init__(self, sources: Mapping[str, ModuleSource]) -> None:
        self._sources = sources
        self._seen: set[tuple[bytes, ...]] = set()
        self._originals: set[bytes] = set()
        self._known: set[tuple[str, int]] = set()

    def is_new(self, candidate: Candidate) -> bool:
        """False also for what is not Python, and for what compiles to the original in any of its files."""
        keys: list[bytes] = []
        for part in candidate.parts:
            key = self._key_of(part)
            if key is None or key in self._originals:
                return False
            keys.append(key)
        if tuple(keys) in self._seen:
            return False
        self._seen.add(tuple(keys))
        return True

    def _key_of(self, part: Part) -> bytes | None:
        """The same for edits that compile to the same; None when it is not Python."""
        source = self._sources[part.path]
        start, end, head = _region(source, part)
        if (part.path, start) not in self._known:
            self._known.add((part.path, start))
            original = _key(part.path, start, head + source.text[start:end])
            if original is not None:
                self._originals.add(original)
        local = tuple(Edit(each.start - start, each.end - start, each.text) for each in part.edits)
        key = _key(part.path, start, head + apply_edits(source.text[start:end], local))
        if key is None and (start, end) != (0, len(source.text)):
            # Lines shared with other statements are no whole piece.
            key = _key(part.path, -1, apply_edits(source.text, part.edits))
        return key


def _region(source: ModuleSource, part: Part) -> tuple[int, int, str]:
    """Offsets of the smallest piece that can be compiled alone, and the headers it needs before it."""
    first, last = part.edits[0].start, part.edits[-1].end
    head = ""
    body: list[ast.stmt] = source.tree.body
    while True:
        found = None
        for statement in body:
            start, end = source.statement_lines(statement)
            if start <= first and last <= end and not first == last == start:
                found = (start, end, statement)
                if first != end:
                    break
        if found is None:
            return 0, len(source.text), ""
        start, end, statement = found
        if not isinstance(statement, ast.ClassDef):
            break
        # A class is entered only when the edit lies in one of its functions.
        inner = [each for each in statement.body if isinstance(each, (*FUNCTIONS, ast.ClassDef))]
        if not any(
            low <= first and last <= high and not first == last == low
            for low, high in map(source.statement_lines, inner)
        ):
            break
        head += f"{' ' * head.count(chr(10))}class {statement.name}:\n"
        body = list(inner)
    return start, end, head


def _key(path: str, start: int, text: str) -> bytes | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, OverflowError):
        return None
    shape = repr((path, start, _shape(code)))
    return hashlib.sha256(shape.encode("utf-8", "surrogatepass")).digest()


def _shape(code: types.CodeType) -> tuple[object, ...]:
    constants = [_constant(each) for each in code.co_consts]
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    # Which instructions a handler protects stands in a table of its own (from 3.11 on).
    handlers = getattr(code, "co_exceptiontable", b"")
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    return (*names, *counts, code.co_flags, code.co_code, handlers, constants)


def _constant(value: object) -> object:
    if isinstance(value, types.CodeType):
        return _shape(value)
    if isinstance(value, (tuple, frozenset)):
        items = [_constant(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        return (type(value).__name__, sorted(map(repr, items)) if isinstance(value, frozenset) else items)
    # 1, True and 1.0 are equal and not the same.
    return (type(value).__name__, repr(value))
