"""Where modules were really imported from: the editable-install trap, and what to preload."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any, Dict, List, Sequence, Tuple

from .stream import Places


def _file_of(module: Any) -> str:
    try:
        found = getattr(module, "__file__", None)
    except Exception:  # noqa: BLE001  lazy module objects run their own code on attribute access
        return ""
    return found if isinstance(found, str) else ""


def _counterpart(name: str, filename: str, root: str, roots: Sequence[str]) -> str:
    """The repository's own file for a module name, relative to the root, or ''."""
    base = name.replace(".", "/")
    tails = [base + "/__init__.py"] if os.path.basename(filename).startswith("__init__.") else [base + ".py"]
    for folder in roots:
        for tail in tails:
            relative = os.path.normpath(os.path.join(folder, tail)).replace(os.sep, "/")
            if os.path.isfile(os.path.join(root, relative)):
                return relative
    return ""


def imported_elsewhere(places: Places, import_roots: Sequence[str]) -> List[List[str]]:
    """``[module, imported file, the repository's file]`` for modules that bypassed the repository."""
    roots = [*import_roots, "", "src", "lib"]
    found: List[List[str]] = []
    for name, module in sorted(sys.modules.items(), key=lambda pair: str(pair[0])):
        filename = _file_of(module)
        if not filename or name == "__main__" or name.split(".")[0] == "whimbrel_inside":
            continue
        if places.relative(filename) is not None or places.is_ours(filename):
            continue
        if "site-packages" not in filename and "dist-packages" not in filename and _is_standard(filename):
            continue
        counterpart = _counterpart(name, filename, places.root, roots)
        if counterpart:
            found.append([name, filename, counterpart])
    return found[:50]


def _is_standard(filename: str) -> bool:
    return os.path.realpath(filename).startswith(os.path.dirname(os.path.realpath(os.__file__)) + os.sep)


def preloadable(places: Places) -> List[str]:
    """Modules of installed packages and the standard library, in the order of their import,
    that a fork server may import ahead of time.

    Left out: pytest plugins (pytest rewrites their assertions when it imports them
    itself), the repository's own modules, and aliases.
    """
    names: List[str] = []
    for name, module in list(sys.modules.items()):
        filename = _file_of(module)
        installed = "site-packages" in filename or "dist-packages" in filename
        if not filename or not (installed or _is_standard(filename)):
            continue
        if name == "__main__" or name.startswith("whimbrel_inside"):
            continue
        if type(getattr(module, "__loader__", None)).__name__ == "AssertionRewritingHook":
            continue
        if getattr(module, "__name__", name) != name or places.relative(filename) is not None:
            continue
        names.append(name)
    return names


def repository_modules(places: Places) -> List[str]:
    """Names of loaded modules whose file lies in the repository."""
    return sorted(
        name for name, module in list(sys.modules.items()) if places.relative(_file_of(module)) is not None
    )


def locate_modules(names: Sequence[str], root: str) -> Dict[str, Tuple[str, bool]]:
    """Module name to ``(file, lies in the repository)`` without running the module's code.

    Parent packages of dotted names are imported, as the import system needs them.
    """
    places = Places(root)
    answers: Dict[str, Tuple[str, bool]] = {}
    for name in names:
        try:
            spec = importlib.util.find_spec(name)
        except Exception as error:  # noqa: BLE001  importing a parent package runs the project's code
            answers[name] = ("(%s: %s)" % (type(error).__name__, error), False)
            continue
        filename = ""
        if spec is not None:
            filename = spec.origin or next(iter(spec.submodule_search_locations or []), "")
        inside = places.relative(filename) is not None
        if spec is not None and not inside and spec.submodule_search_locations:
            inside = any(places.relative(folder) is not None for folder in spec.submodule_search_locations)
        answers[name] = (filename, inside)
    return answers
