"""kill -9 in each phase: the person's repository is untouched, nothing is left after the next start."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import WHIMBREL, Repo

SLOW_TEST = """\
import time
import unittest


class Slow(unittest.TestCase):
    def test_slow(self):
        time.sleep(2)
"""


def _containers(runs: set[str]) -> set[str]:
    """Those of the given runs; others may be at work on the same daemon."""
    done = subprocess.run(
        ["docker", "ps", "--all", "--filter", "label=whimbrel.run", "--format", '{{.Label "whimbrel.run"}}'],
        capture_output=True,
        text=True,
        check=True,
    )
    return runs & set(done.stdout.split())


def _start_and_kill(buggy: Repo, home: dict[str, str], sandbox: str, phase: str) -> None:
    """Starts a run and kills it without warning as soon as it says that ``phase`` has begun."""
    command = [*WHIMBREL, "fix-issue", "--repo", str(buggy.root), "--sandbox", sandbox, "--json"]
    process = subprocess.Popen(
        command, env=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "phase" and event["phase"] == phase:
                time.sleep(0.7)
                break
        else:
            pytest.fail(f"the run ended before the phase {phase}")
        assert process.poll() is None, "the run must be under way when it is killed"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sandbox",
    [pytest.param("docker", marks=pytest.mark.docker), pytest.param("bwrap", marks=pytest.mark.bwrap)],
)
@pytest.mark.timeout(600)
def test_kill_9_in_any_phase_leaves_the_repository_and_the_machine_clean(
    buggy: Repo, tmp_path: Path, home: dict[str, str], sandbox: str
):
    buggy.write(**{"test_slow.py": SLOW_TEST}).commit()
    buggy.write(**{"notes.txt": "not committed\n"})
    home["WHIMBREL_RUN_DIR"] = str(tmp_path / "runs")
    tmp_path.chmod(0o755)
    before = buggy.fingerprint()
    runs: set[str] = set()
    for phase in ("set_up", "reproduce", "work", "verify"):
        _start_and_kill(buggy, home, sandbox, phase)
        runs |= {folder.name for folder in (tmp_path / "runs").iterdir()}
        assert buggy.fingerprint() == before, f"after kill -9 in {phase}"
        sessions = subprocess.run([*WHIMBREL, "session", "list"], env=home, capture_output=True, text=True)
        assert sessions.returncode == 0, sessions.stderr
    listed = subprocess.run([*WHIMBREL, "session", "list"], env=home, capture_output=True, text=True).stdout
    assert listed.count("interrupted") == 3, "killed in reproduce, work and verify: " + listed
    last = subprocess.run(
        [*WHIMBREL, "fix-issue", "--repo", str(buggy.root), "--sandbox", sandbox, "--output", str(tmp_path / "out")],
        env=home, capture_output=True, text=True,
    )  # fmt: skip
    assert last.returncode == 0, last.stdout + last.stderr
    assert "leftover" in last.stdout, "the next start says what it swept"
    assert list((tmp_path / "runs").iterdir()) == []
    if sandbox == "docker":
        runs.add(json.loads((tmp_path / "out" / "result.json").read_text())["run_id"])
        assert len(runs) == 5 and _containers(runs) == set()
    assert buggy.fingerprint() == before
