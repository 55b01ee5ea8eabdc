"""Edits that exist in one process only: its imports see the edited text, the disk stays as it is.

An edit is ``[start, end, text]``, in characters of the decoded file without its byte
order mark, ends of lines as they are in the file.
"""

from __future__ import annotations

import importlib.machinery
import io
import linecache
import os
import tokenize
from typing import Any, Dict, List, Tuple

_BOM = b"\xef\xbb\xbf"


def decode(data: bytes) -> Tuple[str, str]:
    """Text and encoding of a source file. Raises SyntaxError or UnicodeDecodeError as the compiler would."""
    encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    if encoding == "utf-8-sig":
        encoding = "utf-8"
    return (data[len(_BOM) :] if data.startswith(_BOM) else data).decode(encoding), encoding


def apply_edits(text: str, edits: List[List[Any]]) -> str:
    """The text after edits that do not overlap."""
    pieces: List[str] = []
    position = 0
    for start, end, new in sorted(edits):
        pieces.append(text[position:start])
        pieces.append(new)
        position = end
    pieces.append(text[position:])
    return "".join(pieces)


def read_text(path: str) -> str:
    with open(path, "rb") as file:
        return decode(file.read())[0]


def install(root: str, overlay: Dict[str, List[List[Any]]]) -> None:
    """Makes later imports compile the edited text of these repository-relative files."""
    edited: Dict[str, str] = {}
    for relative, edits in overlay.items():
        path = os.path.join(root, relative)
        edited[os.path.realpath(path)] = apply_edits(read_text(path), edits)
    loader: Any = importlib.machinery.SourceFileLoader
    original = loader.source_to_code

    def source_to_code(self: Any, data: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        text = edited.get(os.path.realpath(os.fspath(path)))
        if text is None:
            return original(self, data, path, *args, **kwargs)
        show(os.fspath(path), text)
        return compile(text, path, "exec", dont_inherit=True)

    loader.source_to_code = source_to_code


def show(path: str, text: str) -> None:
    """Tracebacks and ``inspect.getsource`` see this text instead of the file's."""
    # Without a modification time the entry is never compared with the disk.
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
