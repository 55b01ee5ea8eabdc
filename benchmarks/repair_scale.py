"""Repair in a project of 100,000 lines with 5,000 tests and one injected bug, with the real command.

The project is made here: 250 modules in 25 packages that build on one another, with 20 tests for
each; some of the tests use files, time, seeded randomness, threads or a database file. Three runs:

    found       the bug is a wrong comparison; the run ends with a verified patch
    cut short   the same, with a `--max-time` that ends while it is being proved or searched for
    never       no small edit repairs it: only `--max-time` (60 s) ends the search

Measured are the suite alone and with coverage, peak memory of the command and of the largest
process it started, candidates per second, and the seconds by which `--max-time` was missed.

    python benchmarks/repair_scale.py [--sandbox bwrap] [--modules N] [--max-time S] [--page FILE]

Exit code 1 when the bug was not repaired, or a limit was missed by more than a second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PER_PACKAGE = 10
FUNCTIONS = 16
LATE_S = 1.0

HEAD = '''\
"""Orders of kind {n}: what they cost, how they are sent, and what is kept of them."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import OrderedDict
{imports}

LIMIT = {limit}
RATE = {rate}
'''

FUNCTION = '''

def {name}(amounts, limit=LIMIT, fee=RATE):
    """Sums up what lies within the limit, counts the rest, and says what is due.

    Amounts are whole numbers; what is negative was sent back and does not count.
    """
    total = 0
    above = []
    back = 0
    for position, amount in enumerate(amounts):
        if amount < 0:
            back += 1
            continue
        if amount {compared} limit:
            above.append((position, amount))
        else:
            total += amount
    due = total + fee * len(above)
    if back and due > {n}:
        due -= min(back, fee)
    return {{"total": total, "above": above, "back": back, "due": due}}
'''

TAIL = '''

def {name}_all(groups, limit=LIMIT):
    """The same for groups of amounts, by the name of the group; the dearest first."""
    found = OrderedDict()
    for name in sorted(groups):
        found[name] = {called}(groups[name], limit)
    return sorted(found.items(), key=lambda item: (-item[1]["due"], item[0]))


def save(path, amounts):
    """Writes amounts with what is due for them."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump({{"amounts": amounts, "due": {first}(amounts)["due"]}}, file)


def store(path, amounts):
    """Puts amounts into a database file; gives their number and their sum."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("create table if not exists amounts (amount integer)")
        connection.executemany("insert into amounts values (?)", [(each,) for each in amounts])
    row = connection.execute("select count(*), sum(amount) from amounts").fetchone()
    connection.close()
    return row


def at_once(groups):
    """What is due for each group, worked out side by side."""
    found = {{}}
    lock = threading.Lock()

    def work(name):
        value = {first}(groups[name])["due"]
        with lock:
            found[name] = value

    threads = [threading.Thread(target=work, args=(name,)) for name in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def timed(amounts):
    """What is due, and the seconds it took to say so."""
    begin = time.monotonic()
    time.sleep(0.001)
    return {first}(amounts)["due"], time.monotonic() - begin
'''

TESTS = """\
import random
import json

import pytest

from {module} import *


@pytest.mark.parametrize("number", range({parametrized}))
def test_amounts_within_the_limit_are_summed_up(number):
    function = [{names}][number]
    found = function([1, 2, LIMIT + 5, -3, LIMIT - 1])
    assert found["total"] == LIMIT + 2
    assert found["above"] == [(2, LIMIT + 5)] and found["back"] == 1


def test_files(tmp_path):
    save(tmp_path / "saved.json", [3, 4])
    assert json.loads((tmp_path / "saved.json").read_text()) == {{"amounts": [3, 4], "due": 7}}


def test_a_database_file(tmp_path):
    assert store(tmp_path / "orders.db", [1, 2, 3]) == (3, 6)
    assert store(tmp_path / "orders.db", [4]) == (4, 10)


def test_threads():
    assert at_once({{"a": [1, 2], "b": [3], "c": []}}) == {{"a": 3, "b": 3, "c": 0}}


def test_time():
    due, seconds = timed([2, 2])
    assert due == 4 and seconds > 0


def test_seeded_randomness():
    random.seed({n})
    amounts = [random.randrange(LIMIT) for _ in range(20)]
    assert {last}(amounts)["total"] == sum(amounts)


def test_groups_come_dearest_first():
    found = {last}_all({{"x": [1], "y": [LIMIT - 1], "z": []}})
    assert [name for name, _ in found] == ["y", "x", "z"]
"""

AT_THE_LIMIT = """

def test_an_amount_at_the_limit_is_within_it():
    found = {last}_all({{"x": [LIMIT, 1], "y": [LIMIT + 1]}})
    assert dict(found)["x"]["total"] == LIMIT + 1 and dict(found)["x"]["above"] == []
"""
NEVER = """

def test_nobody_can_please():
    assert {last}([LIMIT, 1])["total"] == LIMIT + 1
    assert {last}([LIMIT, 1])["total"] == LIMIT * 7 + 13
"""


def write(root: Path, modules: int, extra: str) -> tuple[int, int]:
    """The project with its bug in the module in the middle; (lines of code, tests)."""
    lines = tests = 0
    broken = modules // 2
    for n in range(modules):
        package = root / f"orders{n // PER_PACKAGE:02d}"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("")
        names = [f"sum_up_{n}_{number}" for number in range(FUNCTIONS)]
        neighbour = n - 1 if n % PER_PACKAGE else n
        called = names[-1] if neighbour == n else f"sum_up_{neighbour}_{FUNCTIONS - 1}"
        imports = "" if neighbour == n else f"\nfrom .module_{neighbour:03d} import {called}"
        parts = [HEAD.format(n=n, imports=imports, limit=100 + n, rate=3 + n % 5)]
        for number, name in enumerate(names):
            wrong = n == broken and number == FUNCTIONS - 1
            parts.append(FUNCTION.format(name=name, n=n, compared=">=" if wrong else ">"))
        last = names[-1]
        tail = TAIL.format(name=last, called=last if n == broken else called, first=names[0])
        text = "".join([*parts, tail])
        (package / f"module_{n:03d}.py").write_text(text)
        lines += text.count("\n")
        own = TESTS.format(
            module=f"{package.name}.module_{n:03d}", names=", ".join(names), parametrized=14, n=n, last=last
        )
        if n == broken:
            own += extra.format(last=last)
        folder = root / "tests" / package.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"test_module_{n:03d}.py").write_text(own)
        tests += 14 + own.count("\ndef test_") - 1
    (root / "conftest.py").write_text("")
    (root / "README.md").write_text("Orders.\n")
    return lines, tests


@dataclass(frozen=True)
class Measured:
    name: str
    status: str
    limit_s: float
    seconds: float
    code: int
    own_mb: float
    largest_mb: float
    result: dict[str, Any]

    @property
    def late_s(self) -> float:
        return max(0.0, self.seconds - self.limit_s)


def run(
    name: str, root: Path, sandbox: str, limit_s: float, output: Path, extra: Sequence[str] = ()
) -> Measured:
    command = [
        sys.executable, "-m", "whimbrel.app.cli", "fix-issue", "--repo", str(root), "--sandbox", sandbox,
        "--python", sys.executable, "--output", str(output), "--max-time", f"{limit_s:g}s", *extra,
    ]  # fmt: skip
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    peaks = Peaks(process.pid)
    out, _ = process.communicate()
    took = time.monotonic() - begin
    peaks.stop()
    path = output / "result.json"
    if not path.is_file():
        raise SystemExit(f"no result.json; exit code {process.returncode}\n{out[-3000:]}")
    result = json.loads(path.read_text())
    return Measured(
        name,
        result["status"],
        limit_s,
        took,
        process.returncode,
        peaks.own / 2**20,
        peaks.others / 2**20,
        result,
    )


class Peaks(threading.Thread):
    """Peak resident memory, in bytes, of a process and of the largest one below it."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._over = threading.Event()
        self.own = self.others = 0
        self.start()

    def run(self) -> None:
        while not self._over.wait(0.2):
            below = {self._pid}
            parents = dict(_processes())
            for pid in sorted(parents):
                if parents[pid] in below:
                    below.add(pid)
            for pid in below:
                peak = _peak(pid)
                if pid == self._pid:
                    self.own = max(self.own, peak)
                else:
                    self.others = max(self.others, peak)

    def stop(self) -> None:
        self._over.set()
        self.join()


def _processes() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                rest = (entry / "stat").read_text().rpartition(")")[2].split()
                found.append((int(entry.name), int(rest[1])))
    return found


def _peak(pid: int) -> int:
    with contextlib.suppress(OSError):
        match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(match[1]) * 1024 if match else 0
    return 0


def suite_s(root: Path) -> float:
    begin = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=root, capture_output=True, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    return time.monotonic() - begin


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"]
    subprocess.run(["git", "-C", root, *identity, *arguments], check=True, stdout=subprocess.DEVNULL)


def commit(root: Path) -> None:
    (root / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "As it is today")


def table(runs: Sequence[Measured]) -> str:
    head = (
        "run", "ended as", "exit code", "limit s", "seconds", "late s", "baseline s", "coverage s",
        "candidates tried", "candidates/s", "best so far", "peak MB, command", "peak MB, largest below it",
    )  # fmt: skip
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for each in runs:
        search = each.result.get("search") or {}
        phases = search.get("phases") or {}
        tried, searching = search.get("candidates_tried", 0), phases.get("validate_s", 0.0)
        best = "patch" if each.status == "fixed" else f"{len(each.result['attempts'])} attempts"
        baselines = [row["duration_s"] for row in each.result["evidence"] if row["purpose"] == "baseline"]
        cells = (
            each.name, each.status, str(each.code), f"{each.limit_s:.0f}", f"{each.seconds:.1f}",
            f"{each.late_s:.1f}", f"{sum(baselines[:1]):.1f}", f"{sum(baselines[1:]):.1f}", str(tried),
            f"{tried / searching:.0f}" if searching and tried else "-", best,
            f"{each.own_mb:.0f}", f"{each.largest_mb:.0f}",
        )  # fmt: skip
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sandbox", default="bwrap")
    parser.add_argument("--modules", type=int, default=250)
    parser.add_argument("--max-time", type=float, default=60.0)
    parser.add_argument("--only", choices=("found", "cut short", "never"))
    parser.add_argument("--keep", type=Path, help="keep projects and results here")
    parser.add_argument("--page", type=Path, help="write the table as a page")
    arguments = parser.parse_args()
    runs: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="whimbrel-scale-") as temporary:
        base = arguments.keep or Path(temporary)
        base.mkdir(parents=True, exist_ok=True)
        base.chmod(0o755)
        lines = tests = 0
        alone = 0.0
        for name, extra, limit in (
            ("found", AT_THE_LIMIT, 1800.0),
            ("cut short", AT_THE_LIMIT, arguments.max_time),
            ("never", NEVER, arguments.max_time),
        ):
            if arguments.only not in (None, name):
                continue
            root = base / name.replace(" ", "-")
            root.mkdir()
            lines, tests = write(root, arguments.modules, extra)
            commit(root)
            if not alone:
                alone = suite_s(root)
                print(f"{lines:,} lines, {tests:,} tests; the suite alone takes {alone:.1f} s", flush=True)
            runs.append(run(name, root, arguments.sandbox, limit, base / f"{root.name}-result"))
            print(table(runs[-1:]).splitlines()[-1], flush=True)
    print("\n" + table(runs))
    if arguments.page:
        cores = len(os.sched_getaffinity(0))
        arguments.page.write_text(
            f"""# Scale

Made by `python benchmarks/repair_scale.py --page {arguments.page}`: a generated project of {lines:,}
lines with {tests:,} tests (files, time, seeded randomness, threads and a database file among them),
repaired by `whimbrel fix-issue --sandbox {arguments.sandbox}`. The suite alone takes {alone:.1f} s.

{table(runs)}

"Baseline" is the suite as it is, "coverage" the runs that record lines (of the failing tests, and of those
near them). "found" ends with a verified patch. "cut short" is the same under the limit; "never" has a test that
no edit can please. Late is by how much the whole command missed `--max-time`. Memory is the peak
resident size. Measured with Python {platform.python_version()} on {cores} core{"s" if cores > 1 else ""}.
""",
            encoding="utf-8",
        )
    found = [each for each in runs if each.name == "found"]
    good = all(each.status == "fixed" for each in found) and all(each.late_s <= LATE_S for each in runs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
