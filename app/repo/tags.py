"""What each file defines and which names it uses, by tree-sitter; kept by content hash between runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ...sandbox.base.errors import ToolError
from .files import read_regular
from .languages import detect
from .symbols import IDENTIFIER_TYPES, MAX_BYTES, outline_and_tree

if TYPE_CHECKING:
    from tree_sitter import Language, Query

_VERSION = 1
_MOST_ROWS = 200_000
_MOST_SYMBOLS = 2_000
_MOST_NAMES = 5_000


@dataclass(frozen=True)
class Tag:
    """One definition, as a map shows it."""

    name: str
    qualified_name: str
    line: int
    end_line: int
    signature: str


@dataclass(frozen=True)
class FileTags:
    """One file. ``uses``: names and how often they stand there as identifiers."""

    path: str
    definitions: tuple[Tag, ...]
    uses: tuple[tuple[str, int], ...]
    bytes: int


class TagStore:
    """Tags by content hash in one SQLite file; without a usable file nothing is remembered."""

    def __init__(self, path: Path | None) -> None:
        self._connection: sqlite3.Connection | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("CREATE TABLE IF NOT EXISTS tags (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
            (rows,) = connection.execute("SELECT count(*) FROM tags").fetchone()
            if rows > _MOST_ROWS:
                connection.execute(
                    "DELETE FROM tags WHERE rowid IN (SELECT rowid FROM tags ORDER BY rowid LIMIT ?)",
                    (rows - _MOST_ROWS // 2,),
                )
        except (sqlite3.Error, OSError):
            return
        self._connection = connection

    def get(self, key: str) -> str | None:
        if self._connection is None:
            return None
        try:
            row = self._connection.execute("SELECT value FROM tags WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error:
            return None
        return row[0] if row else None

    def put(self, pairs: Sequence[tuple[str, str]]) -> None:
        if self._connection is None or not pairs:
            return
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("BEGIN")
            self._connection.executemany("INSERT OR REPLACE INTO tags VALUES (?, ?)", pairs)
            self._connection.execute("COMMIT")

    def __enter__(self) -> TagStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()


@dataclass(frozen=True)
class Source:
    """One readable source file."""

    path: str
    data: bytes


def sources(root: Path, files: Iterable[str], limit: int = MAX_BYTES) -> Iterator[Source]:
    """The files in languages we read that are regular, small enough and readable; the rest is passed over."""
    for path in files:
        if detect(path) is None:
            continue
        try:
            data = read_regular(root, path, limit)
        except (ToolError, OSError, ValueError):
            continue
        if data is not None:
            yield Source(path, data)


def tags_of(found: Iterable[Source], store: TagStore, most_bytes: int) -> list[FileTags]:
    """Tags of the files in their order, until so many bytes have been read (known files count as well)."""
    result: list[FileTags] = []
    fresh: list[tuple[str, str]] = []
    left = most_bytes
    for source in found:
        left -= len(source.data)
        if left < 0:
            break
        info = detect(source.path, source.data)
        if info is None:
            continue
        key = f"{_VERSION}:{info.name}:{hashlib.sha256(source.data).hexdigest()}"
        value = store.get(key)
        if value is None:
            value = _read(source)
            fresh.append((key, value))
            if len(fresh) >= 500:
                store.put(fresh)
                fresh = []
        result.append(_decoded(source, value))
    store.put(fresh)
    return result


def _read(source: Source) -> str:
    found, tree, language = outline_and_tree(source.path, source.data)
    symbols = [
        [each.name, each.qualified_name, each.line, each.end_line, each.signature[:160]]
        for each in found.symbols[:_MOST_SYMBOLS]
    ]
    uses: Counter[str] = Counter()
    if tree is not None and language is not None:
        from tree_sitter import QueryCursor

        for nodes in QueryCursor(_identifiers(language)).captures(tree.root_node).values():
            data = source.data
            raw = Counter(data[node.start_byte : node.end_byte] for node in nodes)
            for name, number in raw.items():
                uses[name.decode("utf-8", "replace")] += number
    named = sorted(uses.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_NAMES]
    return json.dumps([symbols, named], separators=(",", ":"))


def _decoded(source: Source, value: str) -> FileTags:
    symbols, uses = json.loads(value)
    return FileTags(
        source.path,
        tuple(Tag(*each) for each in symbols),
        tuple((name, count) for name, count in uses),
        len(source.data),
    )


@cache
def _identifiers(language: Language) -> Query:
    from tree_sitter import Query

    kinds = {
        language.node_kind_for_id(number)
        for number in range(language.node_kind_count)
        if language.node_kind_is_named(number) and language.node_kind_is_visible(number)
    }
    usable: list[str] = []
    for kind in sorted(kind for kind in kinds if kind and IDENTIFIER_TYPES.search(kind)):
        try:
            Query(language, f"({kind}) @name")
        except (ValueError, SyntaxError):
            continue  # a supertype, which has no nodes of its own
        usable.append(kind)
    return Query(language, "[" + " ".join(f"({kind})" for kind in usable) + "] @name")
