"""``result.json``: what a run found, did and proved. The schema is documented in docs/result-schema.md."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import ConfigError, WhimbrelError
from ...sandbox.base.files import atomic_write
from ..version import __version__

SCHEMA_VERSION = 1


@dataclass
class FixResult:
    """Filled in phase by phase; can be written at any moment, also after a failure."""

    run_id: str
    session_id: str = ""
    repository: str = ""
    status: str = "internal_error"
    exit_code: int = 1
    message: str = ""
    hint: str = ""
    base_commit: str | None = None
    base_tree: str = ""
    end_tree: str = ""
    dirty: bool = False
    branch: str | None = None
    patch: str = ""
    """The verified patch (text as in patch.diff), or empty."""
    files: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    test_files_changed: list[str] = field(default_factory=list[str])
    explanation: str = ""
    claimed: str = ""
    """What the model said at the end, verbatim: a claim, not evidence."""
    located: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    target_tests: list[str] = field(default_factory=list[str])
    tests_before: dict[str, Any] = field(default_factory=dict[str, Any])
    tests_after: dict[str, Any] = field(default_factory=dict[str, Any])
    flaky_tests: list[str] = field(default_factory=list[str])
    regressions: list[str] = field(default_factory=list[str])
    attempts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    evidence: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sandbox: dict[str, Any] = field(default_factory=dict[str, Any])
    environment: dict[str, Any] = field(default_factory=dict[str, Any])
    model: str = ""
    effort: str = ""
    seed: int = 0
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    steps: int = 0
    search: dict[str, Any] = field(default_factory=dict[str, Any])
    timings_s: dict[str, float] = field(default_factory=dict[str, float])
    started_at: str = ""
    applied: bool = False
    output: str = ""
    """Folder of the result files."""
    notes: list[str] = field(default_factory=list[str])

    def end_with(self, error: WhimbrelError) -> None:
        self.status, self.exit_code = error.status, error.exit_code
        self.message, self.hint = " ".join(error.message.split()), " ".join(error.hint.split())

    def note(self, text: str) -> None:
        if text and text not in self.notes:
            self.notes.append(text)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "version": __version__,
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
        }


def write_result(result: FixResult, folder: Path, attempts: dict[str, str]) -> None:
    """Writes ``result.json``, ``patch.diff`` (verified patches only) and ``attempts/*.diff``.

    Each file is replaced atomically. A patch left by an earlier run in the same folder
    is removed first, so that ``patch.diff`` never belongs to another result.

    Raises:
        ConfigError: the folder cannot be written (full disk, permissions).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        patch_path = folder / "patch.diff"
        if result.patch:
            # git's own bytes went through surrogateescape, so odd encodings come out unchanged.
            atomic_write(patch_path, result.patch.encode("utf-8", "surrogateescape"))
        else:
            patch_path.unlink(missing_ok=True)
        attempts_dir = folder / "attempts"
        if attempts_dir.is_dir():
            for old in attempts_dir.glob("*.diff"):
                old.unlink()
        for name, diff in sorted(attempts.items()):
            attempts_dir.mkdir(exist_ok=True)
            atomic_write(attempts_dir / f"{name}.diff", diff.encode("utf-8", "surrogateescape"))
        text = json.dumps(result.to_json(), indent=2, ensure_ascii=True, default=str)
        atomic_write(folder / "result.json", (text + "\n").encode("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot write the result to {folder}: {error.strerror or error}",
            hint="free some space or give another --output",
        ) from error
