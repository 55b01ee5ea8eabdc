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


class SourceText:
    """A source file's text, and how to write another in its place.

    Raises:
        SyntaxError, UnicodeDecodeError: as the compiler would.
    """

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            data = file.read()
        self.path = path
        self.text, self._encoding = decode(data)
        self._mark = _BOM if data.startswith(_BOM) else b""

    def encode(self, text: str) -> bytes:
        """The bytes of a file with this text. Raises UnicodeEncodeError."""
        return self._mark + text.encode(self._encoding)


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


def install(root: str, overlay: Dict[str, List[List[Any]]]) -> None:
    """Makes later imports read the edited text of these repository-relative files."""
    edited: Dict[str, str] = {}
    content: Dict[str, bytes] = {}
    for relative, edits in overlay.items():
        source = SourceText(os.path.join(root, relative))
        text = apply_edits(source.text, edits)
        edited[source.path] = text
        content[source.path] = source.encode(text)
    lay(edited, content)


def lay(edited: Dict[str, str], content: Dict[str, bytes]) -> None:
    """Whatever asks an import loader for these files gets this content: imports, reloads, resources."""
    # Not ``source_to_code``: loaders of import hooks replace that, and compile what this gives.
    loader: Any = importlib.machinery.SourceFileLoader
    original = loader.get_data
    realpath, fspath = os.path.realpath, os.fspath
    known = {realpath(path): (edited[path], data) for path, data in content.items()}

    def get_data(self: Any, path: Any) -> Any:
        found = known.get(realpath(fspath(path)))
        if found is None:
            return original(self, path)
        show(fspath(path), found[0])
        return found[1]

    loader.get_data = get_data


def show(path: str, text: str) -> None:
    """Tracebacks and ``inspect.getsource`` see this text instead of the file's."""
    # Without a modification time the entry is never compared with the disk.
    lines = io.StringIO(text, newline=None).readlines()
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    linecache.cache[path] = (len(text), None, lines, path)
