"""Ctrl-C and SIGTERM at several moments: the best so far is kept, nothing else is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import TALLY, TEST_TALLY, WHIMBREL, Ran, Repo

# Every candidate, and every proof, takes a moment: time enough to be interrupted in.
SLOW_TALLY = TEST_TALLY.replace("import unittest\n", "import time\nimport unittest\n").replace(
    'self.assertEqual(most_common(["a", "b", "b"]), "b")',
    'time.sleep(0.2)\n        self.assertEqual(most_common(["a", "b", "b"]), "b")',
)

Moment = Callable[[dict[str, Any]], bool]


def _tool(event: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    data = event.get("data") or {}
    return data if event["event"] == "agent" and data.get("kind") == kind and data["name"] == name else {}


def searching(event: dict[str, Any]) -> bool:
    data = _tool(event, "tool_progress", "repair").get("data") or {}
    return isinstance(data, dict) and data.get("tried", 0) >= 2


def something_is_plausible(event: dict[str, Any]) -> bool:
    data = _tool(event, "tool_progress", "repair").get("data") or {}
    return isinstance(data, dict) and data.get("plausible", 0) >= 1


def proving(event: dict[str, Any]) -> bool:
    return _tool(event, "tool_progress", "repair").get("phase") == "verify"


def verifying(event: dict[str, Any]) -> bool:
    return event["event"] == "phase" and event["phase"] == "verify"


def _left_over(place: Path) -> list[str]:
    """Processes that still work somewhere below ``place``, or were started for it."""
    wanted, found = os.fsencode(place), list[str]()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            seen = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            inside = os.fsencode(os.readlink(process / "cwd")).startswith(wanted)
        except OSError:
            continue
        if inside or wanted in seen:
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.mark.parametrize(
    ("moment", "number", "code", "attempts"),
    [
        pytest.param(searching, signal.SIGINT, 130, False, id="searching"),
        pytest.param(something_is_plausible, signal.SIGTERM, 143, True, id="something is plausible"),
        pytest.param(proving, signal.SIGINT, 130, True, id="proving"),
        pytest.param(verifying, signal.SIGTERM, 143, True, id="verifying"),
    ],
)
def test_the_best_so_far_is_kept_and_no_process_is_left(
    repo: Repo, tmp_path: Path, home: dict[str, str], moment: Moment, number: int, code: int, attempts: bool
):
    repo.write(**{"tally.py": TALLY, "test_tally.py": SLOW_TALLY}).commit()
    before = repo.fingerprint()
    home["WHIMBREL_RUN_DIR"] = str(tmp_path / "runs")
    output = tmp_path / "out"
    command = [
        *WHIMBREL, "fix-issue", "--repo", str(repo.root), "--sandbox", "host", "--output", str(output), "--json",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, env=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if moment(json.loads(line)):
                break
        process.send_signal(number)
        sent = time.monotonic()
        out, err = process.communicate(timeout=60)
        took = time.monotonic() - sent
    finally:
        process.kill()
        process.wait()
    ran = Ran(process.returncode, out, err, output)
    assert (ran.code, err) == (code, ""), out
    result = ran.result
    assert result["status"] == ("cancelled" if number == signal.SIGINT else "terminated")
    assert result["patch"] == "" and not (output / "patch.diff").exists(), "nothing is verified yet"
    kept = [attempt for attempt in result["attempts"] if attempt.get("diff_file")]
    if attempts:
        first = output / kept[0]["diff_file"]
        repo.git("apply", "--check", str(first))
        assert "+        if count > most:" in first.read_text().splitlines()
    assert repo.fingerprint() == before
    assert _left_over(tmp_path) == [], f"after {took:.1f} s"
    assert list((tmp_path / "runs").iterdir()) == []
