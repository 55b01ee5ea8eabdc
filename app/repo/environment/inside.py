"""Runs inside the sandbox, by the project's own interpreter: standard library only, Python 3.8 and up.

Reads a JSON object from its first argument: ``workdir``, ``modules`` (top-level names that must
come from below ``workdir``), ``pytest`` (whether it must be importable). Writes one JSON object
on its last line. Finding a module is not importing it: none of the project's code runs here,
since that code may well be what is broken.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from typing import Dict, List, Optional  # noqa: UP035 - 3.8 has no dict[...] at run time


def located(name: str) -> Optional[str]:  # noqa: UP045
    """Real path of where a module would be loaded from, "" for a namespace, None for nowhere."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return None
    if spec.origin and spec.origin not in ("built-in", "frozen", "namespace"):
        return os.path.realpath(spec.origin)
    places = list(spec.submodule_search_locations or [])
    return os.path.realpath(places[0]) if places else ""


def main() -> None:
    wanted = json.loads(sys.argv[1])
    root = os.path.realpath(wanted["workdir"]) + os.sep
    elsewhere: Dict[str, Optional[str]] = {}  # noqa: UP006, UP045
    unreadable: List[str] = []  # noqa: UP006
    problem = ""
    for name in wanted["modules"]:
        try:
            place = located(name)
        except PermissionError as error:
            unreadable.append(str(error.filename))
        except (ImportError, ValueError, AttributeError):
            # A parent that cannot be imported is the project's own affair.
            continue
        else:
            if place is None or (place and not place.startswith(root)):
                elsewhere[name] = place
    if wanted["pytest"]:
        try:
            importlib.import_module("pytest")
        except BaseException as error:  # noqa: BLE001 - whatever stops pytest, SystemExit too, stops the tests
            problem = f"{type(error).__name__}: {error}"
    answer = {
        "version": list(sys.version_info[:3]),
        "executable": sys.executable,
        "elsewhere": elsewhere,
        "unreadable": unreadable,
        "pytest": problem,
    }
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


main()
