"""What a snippet leaves out: imports of the names it uses, from the project or the standard library."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence

from .corpus import SourceText, is_source

_DEFINED = re.compile(
    r"^(?:async\s+def|def|class)\s+(\w+)|^([A-Za-z_]\w*)\s*(?::[^=\n]+)?=[^=]", re.MULTILINE
)
_USUAL = {
    "Counter": "from collections import Counter", "Decimal": "from decimal import Decimal",
    "Fraction": "from fractions import Fraction", "Path": "from pathlib import Path",
    "StringIO": "from io import StringIO", "BytesIO": "from io import BytesIO",
    "OrderedDict": "from collections import OrderedDict",
    "defaultdict": "from collections import defaultdict",
    "deque": "from collections import deque", "namedtuple": "from collections import namedtuple",
    "date": "from datetime import date", "timedelta": "from datetime import timedelta",
    "timezone": "from datetime import timezone", "dataclass": "from dataclasses import dataclass",
    "np": "import numpy as np", "pd": "import pandas as pd",
}  # fmt: skip


class Namespace:
    """The project's modules and what they define at their top level.

    Args:
        sources: the project's files.
        import_roots: directories from which modules are imported, relative; the top is always one.
    """

    def __init__(self, sources: Iterable[SourceText], import_roots: Sequence[str] = ()) -> None:
        roots = {root.strip("/") for root in (*import_roots, "src", "lib")} - {"", "."}
        self._roots = sorted(roots, key=len, reverse=True)
        self._modules: dict[str, None] = {}
        self._defined: dict[str, list[str]] = {}
        for source in sorted(sources, key=lambda each: (each.path.count("/"), each.path)):
            if not source.path.endswith(".py") or not is_source(source.path):
                continue
            module = self.module_of(source.path)
            if module is None:
                continue
            self._modules[module] = None
            for match in _DEFINED.finditer(source.text):
                places = self._defined.setdefault(match[1] or match[2], [])
                if module not in places:
                    places.append(module)

    def module_of(self, path: str) -> str | None:
        """The dotted name of a file; None where it is none."""
        for root in self._roots:
            if path.startswith(f"{root}/"):
                path = path.removeprefix(f"{root}/")
                break
        parts = path.removesuffix(".py").split("/")
        if parts[-1] == "__init__":
            parts.pop()
        if not parts or not all(part.isidentifier() for part in parts):
            return None
        return ".".join(parts)

    def import_for(self, name: str, issue_text: str) -> str | None:
        """The line that makes a name known; None when nobody can tell.

        Of several modules that define it, the one that the issue names is taken; when it names
        none, one alone must define it in public.
        """
        modules = [module for module in self._defined.get(name, ()) if not _is_script(module)]
        if len(modules) > 1:
            named = [module for module in modules if _names_module(issue_text, module)]
            public = [module for module in modules if not any(p.startswith("_") for p in module.split("."))]
            modules = named[:1] or (public if len(public) == 1 else [])
        if modules:
            return f"from {modules[0]} import {name}"
        if name in self._modules:
            return f"import {name}"
        tails = [module for module in self._modules if module.endswith(f".{name}")]
        if len(tails) == 1:
            return f"from {tails[0].rpartition('.')[0]} import {name}"
        if name in _USUAL:
            return _USUAL[name]
        if name in sys.stdlib_module_names:
            return f"import {name}"
        return None

    def resolve(self, names: Iterable[str], issue_text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(import lines, names that stay unknown), both sorted."""
        lines: set[str] = set()
        unknown: list[str] = []
        for name in sorted(names):
            line = self.import_for(name, issue_text)
            if line is None:
                unknown.append(name)
            else:
                lines.add(line)
        return tuple(sorted(lines)), tuple(unknown)


def _is_script(module: str) -> bool:
    return module.rpartition(".")[2] in ("setup", "conftest", "noxfile", "__main__")


def _names_module(text: str, module: str) -> bool:
    path = module.replace(".", "/")
    return re.search(rf"\b{re.escape(module)}\b|{re.escape(path)}(?:\.py|/)", text) is not None
