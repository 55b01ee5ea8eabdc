"""The tests of a result, from the rows of its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def outcomes_of(result: Mapping[str, Any], which: str) -> dict[str, str]:
    """Test id -> outcome of the run ``tests_before`` or ``tests_after``; a later row has the last word."""
    wanted = set((result.get(which) or {}).get("ledger_rows") or [])
    found: dict[str, str] = {}
    for row in result.get("evidence") or []:
        if row.get("number") in wanted:
            found.update({str(test): str(outcome) for test, outcome in (row.get("outcomes") or {}).items()})
    return found


def split_id(test: str) -> tuple[str, str]:
    """Class (or module) and name of a test, as JUnit wants them."""
    if "::" in test:
        path, _, rest = test.partition("::")
        # A parameter may hold anything, also the separator.
        name, bracket, parameter = rest.partition("[")
        *classes, name = name.split("::")
        module = path.removesuffix(".py").replace("/", ".")
        return ".".join([module, *classes]), name + bracket + parameter
    owner, _, name = test.rpartition(".")
    return owner, name


def path_of(test: str, files: Mapping[str, Any] | None = None) -> str:
    """The file of a test, where its id tells; else empty."""
    return test.partition("::")[0] if "::" in test or test.endswith(".py") else ""
