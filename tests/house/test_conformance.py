"""docs/conformance.md names tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| [A-Z]\d\d \|", line)
]


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_every_test_that_is_named_exists():
    missing: list[str] = []
    for row, _, cell in ROWS:
        if cell.startswith("later: "):
            continue
        named = re.findall(r"`([^`]+)`", cell)
        assert named, f"{row} names neither a test nor what it waits for"
        for test in named:
            path, _, name = test.partition("::")
            if not (ROOT / path).is_file() or name not in names_in(path):
                missing.append(f"{row}: {test}")
    assert missing == []


def test_every_row_is_there_once():
    rows = [row for row, _, _ in ROWS]
    assert len(rows) == len(set(rows)) > 100
