"""The promise "same input and seed, same patch": byte for byte, again and with fewer cores."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from .conftest import TALLY, TEST_TALLY, WHIMBREL, Repo

CORES = os.sched_getaffinity(0)
ONE_CORE = {min(CORES)}


def _run(
    repo: Repo, home: dict[str, str], output: Path, cores: set[int], *arguments: str
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The result and every diff beside it, by its name, of a command that may use these cores."""
    command = [
        *WHIMBREL, "fix-issue", "--repo", str(repo.root), "--sandbox", "host", "--output", str(output),
        "--seed", "7", *arguments,
    ]  # fmt: skip
    subprocess.run(command, env=home, capture_output=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    result = json.loads((output / "result.json").read_text())
    return result, {path.name: path.read_bytes() for path in output.rglob("*.diff")}


def test_the_patch_is_the_same_on_one_core_and_on_all(buggy: Repo, home: dict[str, str], tmp_path: Path):
    many, found = _run(buggy, home, tmp_path / "many", CORES)
    one, again = _run(buggy, home, tmp_path / "one", ONE_CORE)
    assert one["status"] == many["status"] == "fixed"
    assert (one["search"]["workers"], many["search"]["workers"]) == (1, min(2, len(CORES)))
    assert one["search"]["limit"] is many["search"]["limit"] is None
    assert one["search"]["candidates_tried"] == many["search"]["candidates_tried"]
    assert found == again and found["patch.diff"].count(b"\n+ ") == 1


def test_what_a_limit_of_candidates_leaves_is_the_same_twice_and_on_one_core(
    repo: Repo, home: dict[str, str], tmp_path: Path
):
    two_faults = TALLY.replace("counts.get(word, 0) + 1", "counts.get(word, 1) + 1")
    repo.write(**{"tally.py": two_faults, "test_tally.py": TEST_TALLY}).commit()
    limit = ("--max-candidates", "60")
    results, diffs = zip(
        *(
            _run(repo, home, tmp_path / str(number), cores, *limit)
            for number, cores in enumerate((CORES, CORES, ONE_CORE))
        ),
        strict=True,
    )
    assert [each["search"]["limit"] for each in results] == ["candidates"] * 3
    assert len({each["search"]["candidates_tried"] for each in results}) == 1
    assert [each["attempts"] for each in results[1:]] == [results[0]["attempts"]] * 2
    assert len(diffs[0]) > 1 and diffs[1:] == (diffs[0],) * 2
