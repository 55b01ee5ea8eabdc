"""Checks bug files: the right code passes, the bug fails visibly, the inputs tell them apart.

    python tests/repair_corpus/validate.py [NAMES] [--folder DIR]

For every bug: the right program passes all tests; the buggy one fails a visible test and passes
another; over 200 seeded inputs at least 100 return normally with the right program, at least 20 run
a changed line (or the function around it), and at least one tells the programs apart. Exit code 1
when a bug does not hold. Bugs that no hidden test sees are named, and hold.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from corpus import BUGS, BadBug, Bug, Scopes, load, write
from observe import observe, same

COUNT = 200
LEAST_NORMAL = 100
LEAST_REACHED = 20
_TEST_LIMIT_S = 2
_TESTS_LIMIT_S = 60.0


class _Outcomes:
    """A pytest plugin that keeps test ids by outcome."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.outcomes[report.nodeid] = report.outcome

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.outcomes[report.nodeid] = "failed"


def outcomes(files: Mapping[str, str]) -> dict[str, str]:
    """Test outcomes by id, from a forked process; a run that hangs or dies has one failed entry."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as temporary:
        folder = Path(temporary).resolve() / "project"
        write(folder, files)
        result = folder.with_name("outcomes.json")
        child = os.fork()
        if child == 0:
            _run_tests(folder, result)
        until = time.monotonic() + _TESTS_LIMIT_S
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return {"(the run)": "failed"}
            time.sleep(0.005)
        if not result.is_file():
            return {"(the run)": "failed"}
        return json.loads(result.read_text())


def _run_tests(folder: Path, result: Path) -> None:
    """In the forked process; does not return."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        sys.dont_write_bytecode = True
        plugin = _Outcomes()
        options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "-c", os.devnull]
        options += [f"--timeout={_TEST_LIMIT_S}", "--timeout-method=signal"]
        pytest.main([*options, "."], plugins=[plugin])
        result.write_text(json.dumps(plugin.outcomes))
    finally:
        os._exit(0)


@functools.lru_cache(maxsize=4)
def _right_outcomes(files: frozenset[tuple[str, str]]) -> dict[str, str]:
    """Many bugs share a program, and the right one is run once."""
    return outcomes(dict(files))


def problems(bug: Bug, remarks: list[str]) -> list[str]:
    """What is wrong with a bug, in sentences; nothing for a good one. Lesser things go to ``remarks``."""
    found: list[str] = []
    right = _right_outcomes(frozenset({**bug.right, **bug.visible, **bug.hidden}.items()))
    bad = sorted(test for test, outcome in right.items() if outcome != "passed")
    if bad or not right:
        found.append(f"the right program fails {bad[:3] or 'to run any test'}")
    seen = outcomes({**bug.repository(), **bug.hidden})
    hidden = {test: each for test, each in seen.items() if test.partition("::")[0] in bug.hidden}
    visible = [each for test, each in seen.items() if test not in hidden]
    if "failed" not in visible:
        found.append("no visible test fails on the bug")
    if "passed" not in visible:
        found.append("no visible test passes on the bug")
    if "failed" not in hidden.values():
        remarks.append("no hidden test fails on the bug")
    with tempfile.TemporaryDirectory(prefix="corpus-") as temporary:
        base = Path(temporary).resolve()
        write(base / "right", bug.right)
        write(base / "buggy", bug.buggy())
        good = observe(base / "right", bug.inputs, count=COUNT, watch=_watched(bug))
        other = observe(base / "buggy", bug.inputs, count=COUNT)
    normal = sum(outcome[0] == "returned" for outcome in good["outcomes"])
    if normal < LEAST_NORMAL:
        first = next((each[1] for each in good["outcomes"] if each[0] == "raised"), "nothing ran")
        found.append(f"only {normal} of {COUNT} inputs return normally ({first})")
    if good["reached"] < LEAST_REACHED:
        found.append(f"only {good['reached']} of {COUNT} inputs run a changed line")
    pairs = list(zip(good["outcomes"], other["outcomes"], strict=False))
    if pairs and all(same(a, b) for a, b in pairs):
        found.append("no input tells the bug from the right program")
    if any(outcome == ["timeout"] for outcome in good["outcomes"]):
        found.append("the right program is too slow on an input")
    return found


def _watched(bug: Bug) -> dict[str, set[int]]:
    """Changed lines of each file; where they run at import only, the scope around them."""
    watched: dict[str, set[int]] = {}
    changed = bug.changed_lines()
    buggy = bug.changed_functions()
    for path, lines in changed.items():
        scopes = Scopes(bug.right[path])
        wanted: set[int] = set()
        for line in lines:
            name = scopes.at(line)
            inner = scopes.lines_of(name)
            wanted |= set(inner) if inner and line == inner[0] else {line}
            if not inner or name in scopes.classes:
                wanted |= set(range(1, bug.right[path].count("\n") + 2))
        if not lines:
            for name in buggy[path]:
                wanted |= set(scopes.lines_of(scopes.nearest(name)))
        watched[path] = wanted
    return watched


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="bugs without .bug; default: all")
    parser.add_argument("--folder", type=Path, default=BUGS)
    arguments = parser.parse_args()
    paths = [arguments.folder / f"{name}.bug" for name in arguments.names]
    bad = 0
    for path in paths or sorted(arguments.folder.glob("*.bug")):
        remarks: list[str] = []
        try:
            found = problems(load(path), remarks)
        except BadBug as error:
            found = [str(error)]
        bad += bool(found)
        for sentence in [*found, *(f"(remark) {each}" for each in remarks)]:
            print(f"{path.stem}: {sentence}", flush=True)
    print(f"{len(paths or [*arguments.folder.glob('*.bug')])} bugs, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
