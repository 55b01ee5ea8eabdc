"""The project's files for a ranking: a fast look at all of them, a close one at the likely ones."""

from __future__ import annotations

import ast
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ....sandbox.base.errors import ToolError
from ....sandbox.workspace.names import is_litter, is_test_path
from ...repo.files import looks_binary, read_regular
from ...repo.languages import detect
from ...repo.symbols import outline
from .blocks import parse_python
from .terms import split_name, words

MAX_FILES = 20_000
MAX_FILE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 64 << 20
_SKIPPED = frozenset(
    {".git", ".hg", ".svn", "node_modules", ".venv", "venv", "env", "build", "dist", ".eggs", "site-packages"}
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_K1 = 1.2
_CODE = re.compile(r"\.(?:pyx?|pyi|jsx?|tsx?|mjs|cjs|go|rs|java|rb|php|c|h|cc|cpp|hpp|cs)$")


@dataclass(frozen=True)
class SourceText:
    """One file that was read."""

    path: str
    text: str


@dataclass
class FunctionDoc:
    """One function (or a file's code outside functions) as fields of words."""

    path: str
    name: str
    """Qualified, or ``<module>``."""
    line: int
    end_line: int
    first_body_line: int
    fields: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    strings: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """(literal, line)."""
    calls: dict[str, None] = field(default_factory=dict[str, None])
    """Last parts of the names it calls."""


def source_files(root: Path) -> list[str]:
    """Source files below a folder, relative with forward slashes, sorted; bounded."""
    found: list[str] = []
    for folder, directories, names in os.walk(root):
        directories[:] = sorted(
            each for each in directories if each not in _SKIPPED and not each.endswith(".egg-info")
        )
        base = PurePosixPath(os.path.relpath(folder, root).replace(os.sep, "/"))
        for name in sorted(names):
            path = str(base / name)
            if _CODE.search(name) and not is_litter(path):
                found.append(path)
        if len(found) >= MAX_FILES:
            break
    return found[:MAX_FILES]


def read_sources(root: Path, files: Iterable[str]) -> list[SourceText]:
    """The texts of source files; binary, huge, unreadable and linked ones are left out."""
    texts: list[SourceText] = []
    total = 0
    for path in files:
        if not _CODE.search(path):
            continue
        try:
            data = read_regular(root, path, MAX_FILE_BYTES)
        except (ToolError, OSError):
            continue  # gone, or no regular file: it cannot hold the fault
        if data is None or looks_binary(data[:8192]):
            continue
        total += len(data)
        if total > MAX_TOTAL_BYTES:
            break
        texts.append(SourceText(path, data.decode("utf-8", "replace")))
    return texts


@dataclass(frozen=True)
class FileScores:
    """BM25 of whole files, by substring counts: fast enough for every file there is."""

    scores: Mapping[str, float]
    weights: Mapping[str, float]
    """Word -> its weight in the question times its rarity."""


def score_files(texts: Sequence[SourceText], terms: Mapping[str, float]) -> FileScores:
    counts: dict[str, list[int]] = {}
    lengths: list[int] = []
    names = list(terms)
    for source in texts:
        lowered = source.text.lower()
        path = source.path.lower()
        counts[source.path] = [lowered.count(term) + 3 * path.count(term) for term in names]
        lengths.append(len(lowered))
    average = sum(lengths) / len(lengths) if lengths else 1.0
    number = len(texts)
    weights: dict[str, float] = {}
    for position, term in enumerate(names):
        holding = sum(1 for row in counts.values() if row[position])
        rarity = math.log(1 + (number - holding + 0.5) / (holding + 0.5))
        weights[term] = terms[term] * rarity
    scores: dict[str, float] = {}
    for source, length in zip(texts, lengths, strict=True):
        norm = _K1 * (0.4 + 0.6 * length / max(1.0, average))
        row = counts[source.path]
        scores[source.path] = sum(
            weights[term] * row[position] * (_K1 + 1) / (row[position] + norm)
            for position, term in enumerate(names)
            if row[position]
        )
    return FileScores(scores, weights)


_FIELD_WEIGHTS = {"name": 4.0, "path": 1.5, "doc": 1.5, "string": 2.0, "body": 1.0}
_FIELD_NORMS = {"name": 0.3, "path": 0.0, "doc": 0.6, "string": 0.6, "body": 0.75}


def score_functions(docs: Sequence[FunctionDoc], weights: Mapping[str, float]) -> list[float]:
    """BM25F: words weigh by the field they stand in, and less in long fields."""
    averages: dict[str, float] = {}
    for name in _FIELD_WEIGHTS:
        lengths = [doc.fields[name].total() for doc in docs if doc.fields.get(name)]
        averages[name] = sum(lengths) / len(lengths) if lengths else 1.0
    scores: list[float] = []
    for doc in docs:
        tally: dict[str, float] = {}
        for name, held in doc.fields.items():
            share = _FIELD_NORMS[name]
            norm = 1 - share + share * held.total() / averages[name]
            for term in held.keys() & weights.keys():
                tally[term] = tally.get(term, 0.0) + _FIELD_WEIGHTS[name] * held[term] / norm
        # In a fixed order: sums of floats must not depend on hashing.
        scores.append(sum(weights[term] * tally[term] / (_K1 + tally[term]) for term in sorted(tally)))
    return scores


def function_docs(source: SourceText) -> list[FunctionDoc]:
    """The functions of one file, and its code outside functions."""
    if source.path.endswith((".py", ".pyi")):
        tree = parse_python(source.text)
        if tree is not None:
            return _python_docs(source, tree)
    return _other_docs(source)


def _path_words(path: str) -> Counter[str]:
    return Counter(words(path.rpartition(".")[0].replace("/", " ")))


def _python_docs(source: SourceText, tree: ast.Module) -> list[FunctionDoc]:
    path_words = _path_words(source.path)
    docs: list[FunctionDoc] = []

    def new(name: str, line: int, end: int, body: int) -> FunctionDoc:
        doc = FunctionDoc(source.path, name, line, end, body)
        doc.fields = {key: Counter() for key in ("name", "doc", "string", "body")}
        doc.fields["path"] = path_words
        docs.append(doc)
        return doc

    def visit(node: ast.AST, doc: FunctionDoc, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _FUNCTIONS):
                name = f"{prefix}{child.name}"
                inner = new(name, child.lineno, child.end_lineno or child.lineno, child.body[0].lineno)
                inner.fields["name"].update(words(name))
                _add_docstring(child, inner)
                visit(child, inner, f"{name}.")
            elif isinstance(child, ast.ClassDef):
                doc.fields["name"].update(words(child.name))
                _add_docstring(child, doc)
                visit(child, doc, f"{prefix}{child.name}.")
            else:
                _add_node(child, doc)
                visit(child, doc, prefix)

    module = new("<module>", 1, source.text.count("\n") + 1, 1)
    _add_docstring(tree, module)
    visit(tree, module, "")
    return docs


def _add_docstring(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, doc: FunctionDoc
) -> None:
    text = ast.get_docstring(node, clean=False)
    if text:
        doc.fields["doc"].update(words(text))


def _add_node(node: ast.AST, doc: FunctionDoc) -> None:
    if isinstance(node, ast.Name):
        doc.fields["body"].update(split_name(node.id))
    elif isinstance(node, ast.Attribute):
        doc.fields["body"].update(split_name(node.attr))
    elif isinstance(node, ast.arg):
        doc.fields["body"].update(split_name(node.arg))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        doc.fields["string"].update(words(node.value[:2000]))
        doc.strings.append((node.value[:2000], node.lineno))
    elif isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name):
            doc.calls[called.id] = None
        elif isinstance(called, ast.Attribute):
            doc.calls[called.attr] = None


def _other_docs(source: SourceText) -> list[FunctionDoc]:
    data = source.text.encode("utf-8", "replace")
    if detect(source.path, data) is None:
        return []
    lines = source.text.split("\n")
    path_words = _path_words(source.path)
    docs: list[FunctionDoc] = []
    for symbol in outline(source.path, data).symbols:
        if symbol.kind not in ("function", "method", "constructor", "class_method"):
            continue
        doc = FunctionDoc(
            source.path,
            symbol.qualified_name,
            symbol.line,
            symbol.end_line,
            min(symbol.line + 1, symbol.end_line),
        )
        body = "\n".join(lines[symbol.line - 1 : symbol.end_line])
        doc.fields = {
            "name": Counter(words(symbol.qualified_name)),
            "path": path_words,
            "body": Counter(words(body)),
        }
        for match in re.finditer(r"\"((?:[^\"\\\n]|\\.)+)\"|'((?:[^'\\\n]|\\.)+)'", body):
            text = match[1] or match[2]
            doc.strings.append((text, symbol.line + body[: match.start()].count("\n")))
        doc.calls.update(dict.fromkeys(re.findall(r"([A-Za-z_]\w*)\s*\(", body)))
        docs.append(doc)
    return docs


def is_source(path: str) -> bool:
    """Whether a file can hold the fault: code, and no test."""
    return _CODE.search(path) is not None and not is_test_path(path)


def imported_modules(text: str) -> Iterator[str]:
    """Dotted names that a Python file imports, by its lines: fast, and also for files that do not parse."""
    for match in re.finditer(r"^\s*(?:from\s+([\w.]+)\s+import|import\s+([\w.]+))", text, re.MULTILINE):
        yield match[1] or match[2]
