"""Scenario files: ``=== path`` lines, each followed by that file's content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CASES = Path(__file__).parent / "cases"
HIDDEN = "tests/test_hidden.py"


@dataclass(frozen=True)
class Scenario:
    name: str
    files: dict[str, str]
    """Without the hidden test."""
    hidden: str


def load(path: Path) -> Scenario:
    files: dict[str, list[str]] = {}
    current: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("=== "):
            current = files.setdefault(line[4:].strip(), [])
        else:
            current.append(line)
    contents = {name: "".join(lines) for name, lines in files.items()}
    return Scenario(path.stem, {k: v for k, v in contents.items() if k != HIDDEN}, contents[HIDDEN])


def all_scenarios() -> list[Scenario]:
    return [load(path) for path in sorted(CASES.glob("*.case"))]
