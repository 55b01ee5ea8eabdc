"""Reports straight from a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "test_it.py").write_text(
        "import unittest\n\n\nclass T(unittest.TestCase):\n    def test(self): ...\n"
    )
    words = "init -q . && git add -A && git -c user.name=T -c user.email=t@example.invalid commit -qm x"
    subprocess.run(f"git {words}", shell=True, check=True, cwd=root)
    return root


def fix(project: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    place = project.parent
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "WHIMBREL_STATE_DIR": str(place / "state"),
    } | env
    command = [sys.executable, "-m", "whimbrel.app.cli", "fix-issue", "--sandbox", "host", "--json"]
    return subprocess.run(
        [*command, *words], cwd=project, env=environ, capture_output=True, text=True, timeout=100
    )


def test_reports_lie_beside_the_result_and_where_they_are_wanted(project: Path, tmp_path: Path) -> None:
    out, summary = tmp_path / "out", tmp_path / "summary"
    done = fix(
        project, "--output", str(out), "--report", "junit", "--report", f"sarif={tmp_path / 'deep/x.sarif'}",
        "--report", "github", "--report", "jsonl", "--report", "swebench", GITHUB_STEP_SUMMARY=str(summary),
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert (out / "junit.xml").is_file() and (tmp_path / "deep/x.sarif").is_file()
    assert json.loads((out / "predictions.jsonl").read_text())["model_patch"] == ""
    assert all(json.loads(line) for line in done.stdout.splitlines())  # nothing but JSON there
    assert done.stderr.startswith("::notice title=Whimbrel::nothing_to_fix")
    assert summary.read_text().startswith("## Whimbrel: Nothing to fix")
    last = json.loads((out / "report.jsonl").read_text().splitlines()[-1])
    assert last == json.loads(done.stdout.splitlines()[-1])


def test_a_report_that_cannot_be_made_is_told_and_a_wrong_one_refused(project: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = fix(project, "--output", str(tmp_path / "out"), "--report", f"junit={tmp_path / 'file/x'}")
    notes = json.loads(done.stdout.splitlines()[-1])["data"]["notes"]
    assert any(note.startswith("no junit report: cannot write the report") for note in notes)
    for wrong in ("pdf", "junit="):
        done = fix(project, "--report", wrong)
        assert done.returncode == 2 and "the formats are jsonl, junit" in done.stderr
