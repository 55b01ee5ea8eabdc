"""Reading the file of issues: one JSON object a line, checked before anything runs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import UsageError

ALIASES = {
    "instance_id": "id",
    "problem_statement": "issue",
    "base_commit": "commit",
    "repository": "repo",
    "test": "tests",
}
"""Names that other harnesses use for the same thing."""
KEYS = ("id", "repo", "issue", "issue_file", "tests", "commit", "branch", "python", "model")
MAX_BYTES = 1 << 30
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


@dataclass(frozen=True)
class Task:
    """One issue in one repository."""

    id: str
    repo: str
    """Absolute path."""
    issue: str = ""
    """Its text; empty: only the failing tests speak."""
    tests: tuple[str, ...] = ()
    commit: str = ""
    branch: str = ""
    python: str = ""
    model: str = ""
    """Instead of the batch's own, or empty."""

    @property
    def digest(self) -> str:
        """Changes when anything of the task changes: then a stored result is not its result."""
        fields = [
            self.id,
            self.repo,
            self.issue,
            *self.tests,
            self.commit,
            self.branch,
            self.python,
            self.model,
        ]
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]

    @property
    def folder(self) -> str:
        """The id as the name of a folder."""
        if _SAFE.fullmatch(self.id):
            return self.id
        tail = hashlib.sha256(self.id.encode("utf-8", "surrogatepass")).hexdigest()[:10]
        return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', self.id)[:60].strip('.-') or 'task'}-{tail}"

    def arguments(self) -> list[str]:
        """Arguments of fix-issue; the text of the issue goes to its standard input."""
        pairs = [("--commit", self.commit), ("--branch", self.branch), ("--python", self.python)]
        pairs += [("--model", self.model), *(("--tests", test) for test in self.tests)]
        found = [item for name, value in pairs if value for item in (name, value)]
        return ["--repo", self.repo, *found, *(["--issue", "-"] if self.issue else [])]


def read_tasks(lines: Iterable[str], base: Path) -> tuple[list[Task], set[str]]:
    """The tasks in order, and the names of fields that mean nothing here.

    Args:
        base: the folder that relative paths start from.

    Raises:
        UsageError: names the line: no JSON, a missing or wrong field, an id that is there twice.
    """
    tasks: list[Task] = []
    seen: dict[str, int] = {}
    ignored: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"line {number} is no JSON: {error}", hint="one JSON object a line") from error
        if not isinstance(value, dict):
            raise UsageError(f"line {number} is no JSON object", hint='like {"id": "1", "repo": "path"}')
        task, unknown = _task(value, number, base)
        if task.id in seen:
            raise UsageError(f"line {number} has the id {task.id!r} of line {seen[task.id]} again")
        seen[task.id] = number
        ignored |= unknown
        tasks.append(task)
    if not tasks:
        raise UsageError("there is no issue to work on: the file has no line", hint="one JSON object a line")
    return tasks, ignored


def _task(value: dict[str, Any], number: int, base: Path) -> tuple[Task, set[str]]:
    given: dict[str, Any] = {}
    for name, item in value.items():
        given.setdefault(ALIASES.get(name, name), item)
    unknown = {name for name in given if name not in KEYS}
    texts: dict[str, str] = {}
    for name in KEYS:
        item = given.get(name)
        if name == "tests" or item is None:
            continue
        if name == "id" and isinstance(item, int):
            item = str(item)
        if not isinstance(item, str):
            raise UsageError(f"line {number}: {name} is no text")
        texts[name] = item
    for name in ("id", "repo"):
        if not texts.get(name, "").strip():
            raise UsageError(f"line {number} has no {name}", hint='like {"id": "1", "repo": "path"}')
    tests = given.get("tests") or []
    tests = [tests] if isinstance(tests, str) else tests
    if not isinstance(tests, list) or not all(isinstance(test, str) and test.strip() for test in tests):
        raise UsageError(f"line {number}: tests is a text or a list of texts")
    file = texts.pop("issue_file", "")
    if file:
        try:
            texts["issue"] = (base / file).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"line {number}: issue_file {file} cannot be read: {error}") from error
    texts["repo"] = str((base / Path(texts["repo"]).expanduser()).absolute())
    return Task(tests=tuple(tests), **texts), unknown
