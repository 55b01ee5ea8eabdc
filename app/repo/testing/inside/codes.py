"""Compiled code of the repository's unchanged files, kept in the fork server for its children.

A child imports the project anew, and compiling is most of what that costs. The server never
imports the project itself: it only compiles what a child says it has loaded. A file is looked
up by its path *and its whole content*, so an edited file is always compiled from the edit.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import sys
from typing import Any, Dict, List, Tuple

MAX_BYTES = 64 << 20
"""Of sources kept; beyond it files are compiled by each child."""


class CodeCache:
    """Path -> (source, code). Filled by the server between requests, read by children."""

    def __init__(self) -> None:
        self._known: Dict[str, Tuple[bytes, Any]] = {}
        self._bytes = 0

    def install(self) -> None:
        """Makes source files' loaders ask here before they compile."""
        loader: Any = importlib.machinery.SourceFileLoader
        original = loader.source_to_code
        known = self._known

        def source_to_code(self: Any, data: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
            found = known.get(path)
            if found is not None and found[0] == data:
                return found[1]
            return original(self, data, path, *args, **kwargs)

        loader.source_to_code = source_to_code

    def learn(self, paths: List[str]) -> None:
        """Compiles files as they are now; what cannot be read or compiled is left to the children."""
        for path in paths:
            try:
                with open(path, "rb") as file:
                    data = file.read()
                before = self._known.get(path)
                if before is not None and before[0] == data:
                    continue
                size = len(data) - (len(before[0]) if before is not None else 0)
                if self._bytes + size > MAX_BYTES:
                    continue
                self._known[path] = (data, compile(data, path, "exec", dont_inherit=True))
                self._bytes += size
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue


def loaded_files(root: str) -> List[str]:
    """Source files of the repository that this process has imported."""
    prefix = root.rstrip(os.sep) + os.sep
    found: List[str] = []
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        origin = getattr(spec, "origin", None)
        if isinstance(origin, str) and origin.endswith(".py") and origin.startswith(prefix):
            found.append(origin)
    return sorted(set(found))


def tell(path: str, root: str) -> None:
    """A child leaves the list of what it loaded for the server."""
    with open(path, "w", encoding="ascii") as file:
        json.dump(loaded_files(root), file)


def told(path: str) -> List[str]:
    """What a child left; nothing when it died before."""
    try:
        with open(path, encoding="ascii") as file:
            names: List[str] = json.load(file)
    except (OSError, ValueError):
        return []
    return names
