"""End-to-end repairs of five real projects: source archives of the package index, one injected bug each.

The bugs are of different kinds; they were written down, with what else must hold (``checks``),
before the tool had seen any of them. Each run starts from a commit that contains the bug and calls
the real `whimbrel fix-issue` with the embedded policy. Before that it is checked that the suite is
green on the right code, red on the wrong one (green when only an issue tells of the bug), and, for
bugs that need two edits, that neither edit alone is enough.

    python benchmarks/real_projects.py [--sandbox bwrap] [--only NAME] [--keep DIR] [--page FILE]

Needs pip's package index once per project; the repair itself has no network. Prints a table;
exit code 1 when a project was not repaired rightly.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST_SUITE_S = 1800.0
CHECKS_S = 60.0
RIGHT, WRONG, AMBIGUOUS, NOT_FIXED = "fixed, right", "fixed, wrong", "ambiguous", "not fixed"


@dataclass(frozen=True)
class Edit:
    right: str
    """Occurs exactly once in the file."""
    wrong: str


@dataclass(frozen=True)
class Project:
    """One archive with one bug.

    ``checks``: statements that hold on the right code and say more than the project's own tests.
    """

    requirement: str
    requires: tuple[str, ...]
    kind: str
    path: str
    edits: tuple[Edit, ...]
    checks: str
    issue: str = ""
    source_root: str = "."

    @property
    def name(self) -> str:
        return self.requirement.partition("==")[0]


PROJECTS = (
    Project(
        "cachetools==6.2.0",
        ("pytest",),
        "two edits (the same wrong comparison in two methods)",
        "src/cachetools/__init__.py",
        (
            Edit(
                "        try:\n            link = self.__links[key]  # no reordering\n        except KeyError:\n"
                "            return False\n        else:\n            return self.timer() < link.expires\n",
                "        try:\n            link = self.__links[key]  # no reordering\n        except KeyError:\n"
                "            return False\n        else:\n            return self.timer() <= link.expires\n",
            ),
            Edit(
                "            expired = not (self.timer() < link.expires)\n",
                "            expired = not (self.timer() <= link.expires)\n",
            ),
        ),
        """\
from cachetools import TTLCache
now = [0]
cache = TTLCache(maxsize=4, ttl=3, timer=lambda: now[0])
cache["a"] = 1
now[0] = 2
assert "a" in cache and cache["a"] == 1 and len(cache) == 1
cache["b"] = 2
now[0] = 3
assert "a" not in cache and cache.get("a") is None and cache["b"] == 2
try:
    cache["a"]
except KeyError:
    pass
else:
    raise AssertionError("an expired entry was given")
""",
        source_root="src",
    ),
    Project(
        "more-itertools==10.8.0",
        ("pytest",),
        "an inserted statement (a missing guard)",
        "more_itertools/more.py",
        (Edit("    if not head:\n        # empty iterable, e.g. zip([], [], [])\n        return ()\n", ""),),
        """\
from more_itertools import unzip
assert tuple(unzip([])) == () and tuple(unzip(zip([], []))) == ()
assert [list(each) for each in unzip([("a", 1), ("b", 2)])] == [["a", "b"], [1, 2]]
assert [list(each) for each in unzip([("a", 1, None), ("b", 2)])] == [["a", "b"], [1, 2], [None]]
""",
    ),
    Project(
        "boltons==25.0.0",
        ("pytest<9",),
        "a wrong variable",
        "boltons/setutils.py",
        (
            Edit(
                "            if real_index < d_start:\n",
                "            if index < d_start:\n",
            ),
        ),
        """\
from boltons.setutils import IndexedSet
for gone in ([1], [1, 5], [0, 3, 4, 9], [2, 3, 7, 11, 12]):
    thing = IndexedSet(range(20))
    for each in gone:
        thing.remove(each)
    kept = [each for each in range(20) if each not in gone]
    assert [thing[place] for place in range(len(kept))] == kept
    assert [thing[-place - 1] for place in range(len(kept))] == kept[::-1]
    assert thing.pop(4) == kept.pop(4) and list(thing) == kept
""",
    ),
    Project(
        "tabulate==0.9.0",
        ("pytest",),
        "a boundary comparison (some tests never end)",
        "tabulate/__init__.py",
        (
            Edit(
                "                if cur_len + chunk_len <= width:\n",
                "                if cur_len + chunk_len < width:\n",
            ),
        ),
        """\
import textwrap
from tabulate import _CustomTextWrap
text = "one two three four fivesix seveneight nine ten, and so on to the end"
for width in range(5, 40):
    assert _CustomTextWrap(width=width).wrap(text) == textwrap.wrap(text, width), width
""",
    ),
    Project(
        "humanize==4.13.0",
        ("pytest", "freezegun"),
        "only an issue text (no failing test)",
        "src/humanize/number.py",
        (Edit("    if not 0 <= value < 10:\n", "    if not value < 10:\n"),),
        """\
from humanize import apnumber
words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
for number in range(-40, 40):
    assert apnumber(number) == (words[number] if 0 <= number < 10 else str(number)), number
assert apnumber("-3") == "-3" and apnumber("x") == "x"
""",
        """\
Negative numbers are spelled wrong

I show the change of a counter with `apnumber`, and it may be negative. I get another number then:

```python
>>> from humanize import apnumber
>>> apnumber(-3)
'seven'
```

I expected `'-3'`, the number itself, as for numbers above nine.
""",
        source_root="src",
    ),
)


@dataclass(frozen=True)
class Row:
    project: str
    lines: int
    tests: int
    kind: str
    outcome: str
    compared: str
    candidates: str
    seconds: float
    code: int
    patch: str


def fetch(project: Project, folder: Path) -> Path:
    run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
         "--dest", folder, project.requirement],
    )  # fmt: skip
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    archive.unlink()
    (root,) = [path for path in folder.iterdir() if path.is_dir()]
    run([sys.executable, "-m", "venv", root / ".venv"])
    run([root / ".venv/bin/python", "-m", "pip", "install", "--quiet", *project.requires])
    (root / ".gitignore").write_text(".venv/\n__pycache__/\n")
    git(root, "init", "--quiet")
    return root


def run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"]
    run(["git", "-C", root, *identity, *arguments])


def environment(root: Path, project: Project) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG", "TMPDIR")}
    return {
        **kept,
        "PYTHONPATH": str(root / project.source_root),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_COLOR": "1",
    }


def suite(root: Path, project: Project, limit_s: float) -> tuple[int, int]:
    """Tests that passed and that did not; (0, 1) when it does not end within the limit."""
    try:
        done = subprocess.run(
            [root / ".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            cwd=root, env=environment(root, project), capture_output=True, text=True, timeout=limit_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 0, 1
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-500:]
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", last)}
    if "passed" not in counts:
        raise SystemExit(f"{project.requirement}: its suite does not run: {last}")
    return counts["passed"], counts.get("failed", 0) + counts.get("error", 0)


def checks_hold(root: Path, project: Project) -> bool:
    try:
        done = subprocess.run(
            [root / ".venv/bin/python", "-c", project.checks],
            cwd=root, env=environment(root, project), capture_output=True, timeout=CHECKS_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def with_bug(original: str, project: Project, edits: Sequence[Edit]) -> str:
    text = original
    for edit in edits:
        if text.count(edit.right) != 1:
            raise SystemExit(
                f"{project.path} of {project.requirement} holds the text to break {text.count(edit.right)} times"
            )
        text = text.replace(edit.right, edit.wrong)
    return text


def inject(root: Path, project: Project) -> tuple[str, int]:
    """(the right text, tests of the green suite); the wrong text is in place and does what it should."""
    path = root / project.path
    original = path.read_text(encoding="utf-8")
    begin = time.monotonic()
    passed, bad = suite(root, project, LONGEST_SUITE_S)
    limit_s = 3 * (time.monotonic() - begin) + 30
    if bad or not checks_hold(root, project):
        raise SystemExit(f"{project.requirement}: not green before the bug is put in")
    kept = [project.edits]
    if len(project.edits) > 1:
        # Undoing all but one must not be enough.
        kept += [(edit,) for edit in project.edits]
    for edits in reversed(kept):
        path.write_text(with_bug(original, project, edits), encoding="utf-8")
        _, failed = suite(root, project, limit_s)
        if bool(failed) == bool(project.issue) or checks_hold(root, project):
            raise SystemExit(
                f"{project.requirement}: {failed} tests fail with {len(edits)} of the bug's edits"
            )
    return original, passed


def repair(root: Path, project: Project, sandbox: str, output: Path) -> tuple[dict[str, Any], float, int]:
    command = [
        sys.executable, "-m", "whimbrel.app.cli", "fix-issue", "--repo", root, "--sandbox", sandbox,
        "--output", output, "--max-time", "15m", "--json",
    ]  # fmt: skip
    if project.issue:
        command += ["--issue", project.issue]
    begin = time.monotonic()
    process = subprocess.run(
        command,
        capture_output=True, text=True,
        env={key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"},
    )  # fmt: skip
    took = time.monotonic() - begin
    path = output / "result.json"
    if not path.is_file():
        raise SystemExit(f"no result.json; exit code {process.returncode}\n{process.stderr[-2000:]}")
    (output / "events.jsonl").write_text(process.stdout)
    return json.loads(path.read_text()), took, process.returncode


def judge(root: Path, project: Project, original: str, patch: str) -> tuple[str, str]:
    """(outcome, how it compares) of a patch that was called verified; it is in the tree afterwards."""
    subprocess.run(["git", "apply", "-"], cwd=root, input=patch.encode(), check=True)
    patched = (root / project.path).read_text(encoding="utf-8")
    if ast.dump(ast.parse(patched)) == ast.dump(ast.parse(original)):
        return RIGHT, "the original program"
    _, failed = suite(root, project, LONGEST_SUITE_S)
    holds = checks_hold(root, project)
    if failed or not holds:
        return (
            WRONG,
            f"{failed} tests of the suite fail" if failed else "the suite passes, further checks do not",
        )
    return RIGHT, "differs from the original; the suite and further checks pass"


def measure(project: Project, sandbox: str, base: Path) -> Row:
    folder = base / project.name
    folder.mkdir(parents=True)
    root = fetch(project, folder)
    lines = sum(
        len(path.read_bytes().splitlines())
        for path in root.rglob("*.py")
        if ".venv" not in path.parts and not any(part.startswith("test") for part in path.parts)
    )
    original, tests = inject(root, project)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "As it is today")
    result, took, code = repair(root, project, sandbox, folder / "result")
    changed = [
        line for line in result["patch"].splitlines()
        if line[:1] in "+-" and not line.startswith(("+++", "---"))
    ]  # fmt: skip
    if result["status"] == "fixed":
        outcome, compared = judge(root, project, original, result["patch"])
    else:
        outcome = AMBIGUOUS if result["status"] == "ambiguous" else NOT_FIXED
        compared = result["message"]
    return Row(
        project.requirement, lines, tests, project.kind, outcome, compared,
        str(result.get("search", {}).get("candidates_tried", "-")), took, code,
        " ".join(" ".join(line.split()) for line in changed),
    )  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    head = ("project", "lines", "tests", "kind of bug", "outcome", "compared", "candidates tried", "seconds", "exit code", "patch")  # fmt: skip
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        patch = f"`{row.patch}`" if row.patch else ""
        cells = (
            row.project, f"{row.lines:,}", f"{row.tests:,}", row.kind, row.outcome, row.compared, row.candidates,
            f"{row.seconds:.0f}", str(row.code), patch,
        )  # fmt: skip
        out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(out)


def page(rows: Sequence[Row], sandbox: str) -> str:
    cores = len(os.sched_getaffinity(0))
    return f"""# Real projects

Made by `python benchmarks/real_projects.py --page docs/real-projects.md`. Five source archives from
the package index with their own test suites, one injected bug each, repaired by
`whimbrel fix-issue --sandbox {sandbox}` with the embedded policy and no network. The bugs, of
different kinds, were written down before the tool had seen any of them.

Seconds are those of the whole command, from its start to the verified patch: set-up, the suite
before, the search, and the proof (targets and whole suite in fresh processes). Lines are those of
all Python files without the tests. "The original program" means the same syntax tree;
everything else has to pass the project's suite and further checks that no run has seen.

{table(rows)}

Measured with Python {platform.python_version()} on {cores} core{"s" if cores > 1 else ""}.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sandbox", default="bwrap")
    parser.add_argument("--only", action="append", help="a project by name (repeatable)")
    parser.add_argument("--keep", type=Path, help="keep projects and results here")
    parser.add_argument("--page", type=Path, help="write the table as a page")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="whimbrel-projects-") as temporary:
        base = arguments.keep or Path(temporary)
        if not arguments.keep:
            base.chmod(0o755)  # a sandbox has a user of its own
        for project in PROJECTS:
            if project.name in (arguments.only or [project.name]):
                rows.append(measure(project, arguments.sandbox, base))
                print(table(rows[-1:]).splitlines()[-1], flush=True)
    print("\n" + table(rows))
    if arguments.page:
        arguments.page.write_text(page(rows, arguments.sandbox), encoding="utf-8")
    return 0 if all(row.outcome == RIGHT for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
