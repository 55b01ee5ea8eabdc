"""Runs of a library's tests with line coverage per test, in the product's own helpers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import whimbrel.app.repo.testing as testing
from whimbrel.app.repo.testing.events import Gathered
from whimbrel.app.repo.testing.report import Outcome, TestCase, TestReport, TraceFrame

_LAUNCH = Path(testing.__file__).parent / "inside" / "launch.py"


@dataclass(frozen=True)
class Ran:
    report: TestReport
    ended: bool


def run_tests(
    root: Path, python: Path, *, import_root: str, arguments: Sequence[str], select: Sequence[str] | None,
    coverage: bool, limit_s: float, test_limit_s: float = 10.0,
) -> Ran:  # fmt: skip
    """One fresh process; what a dying process had reported counts, the rest is missing."""
    with tempfile.TemporaryDirectory(prefix="whimbrel-run-") as scratch:
        request = {
            "framework": "pytest", "root": str(root), "report": f"{scratch}/run.report", "scratch": f"{scratch}/s",
            "args": list(arguments), "select": None if select is None else list(select), "coverage": coverage,
            "fail_fast": False, "collect_only": False, "test_timeout": test_limit_s, "seed": 0,
            "import_roots": [import_root] if import_root else [], "survey": False,
        }  # fmt: skip
        Path(scratch, "run.json").write_text(json.dumps(request))
        path = os.pathsep.join(str(root / part) for part in ([import_root] if import_root else ["."]))
        process = subprocess.Popen(
            [python, _LAUNCH, f"{scratch}/run.json"], cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "HOME": scratch, "PYTHONDONTWRITEBYTECODE": "1",
                 "PYTEST_DISABLE_PLUGIN_AUTOLOAD": os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "")},
        )  # fmt: skip
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        report = Path(f"{scratch}/run.report")
        gathered = Gathered()
        gathered.read(report.read_bytes() if report.exists() else b"")
        return Ran(gathered.report(complete=gathered.ended), gathered.ended)


# ------------------------------------------------------------------ as data

Runs = list[list[int]]


def coverage_data(coverage: Mapping[str, Mapping[str, frozenset[int]]]) -> dict[str, dict[str, Runs]]:
    return {
        test: {path: _runs(lines) for path, lines in sorted(files.items())}
        for test, files in coverage.items()
    }


def _runs(lines: frozenset[int]) -> Runs:
    runs: Runs = []
    for line in sorted(lines):
        if runs and runs[-1][1] == line - 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return runs


def coverage_from(data: Mapping[str, Mapping[str, Runs]]) -> dict[str, dict[str, frozenset[int]]]:
    shared: dict[str, frozenset[int]] = {}

    def lines(path: str, runs: Runs) -> frozenset[int]:
        key = f"{path}{runs}"
        if key not in shared:
            shared[key] = frozenset(line for first, last in runs for line in range(first, last + 1))
        return shared[key]

    return {test: {path: lines(path, runs) for path, runs in files.items()} for test, files in data.items()}


def case_data(case: TestCase) -> dict[str, object]:
    frames = [[f.path, f.line, f.function, f.code, f.in_repository] for f in case.frames]
    return {
        "id": case.id, "outcome": case.outcome.value, "exception": case.exception, "message": case.message,
        "frames": frames, "path": case.path, "line": case.line,
    }  # fmt: skip


def case_from(data: Mapping[str, object]) -> TestCase:
    frames = tuple(TraceFrame(*each) for each in data["frames"])  # type: ignore[attr-defined]
    return TestCase(
        id=str(data["id"]), outcome=Outcome(data["outcome"]), exception=str(data["exception"]),
        message=str(data["message"]), frames=frames, path=str(data["path"]), line=int(data["line"]),  # type: ignore[call-overload]
    )  # fmt: skip
