"""End-to-end repairs of real projects: source archives of three libraries, two injected bugs each.

One bug of each pair is an operator, the other a missing guard. Each repair starts from a
clean commit that contains the bug, runs the installed `whimbrel fix-issue` with the embedded
policy, and is compared with the original source.

    python benchmarks/real_projects.py [--sandbox docker] [--only NAME] [--keep DIR]

Needs pip's package index once per project; the repair itself has no network.
Prints a table; exit code 1 when a repair fails.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bug:
    kind: str
    path: str
    right: str
    wrong: str


@dataclass(frozen=True)
class Project:
    requirement: str
    requires: tuple[str, ...]
    bugs: tuple[Bug, ...]


PROJECTS = (
    Project(
        "toolz==1.0.0",
        ("pytest",),
        (
            Bug("operator", "toolz/itertoolz.py", "is_no_default = init == no_default", "is_no_default = init != no_default"),
            Bug("missing guard", "toolz/itertoolz.py", "    if not callable(key):\n        key = getter(key)\n    d = collections.defaultdict", "    d = collections.defaultdict"),
        ),
    ),
    Project(
        "sqlparse==0.5.3",
        ("pytest",),
        (
            Bug("operator", "sqlparse/sql.py", "indexes = range(start - 2, -1, -1)", "indexes = range(start - 1, -1, -1)"),
            Bug("missing guard", "sqlparse/sql.py", "        if idx is None:\n            return None, None\n        idx += 1  #", "        idx += 1  #"),
        ),
    ),
    Project(
        "more-itertools==10.8.0",
        ("pytest",),
        (
            Bug("operator", "more_itertools/more.py", "stop += q + 1 if i <= r else q", "stop += q + 1 if i < r else q"),
            Bug("missing guard", "more_itertools/more.py", "    if not head:\n        # empty iterable, e.g. zip([], [], [])\n        return ()\n", ""),
        ),
    ),
)  # fmt: skip


def fetch(project: Project, folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
         "--dest", folder, project.requirement],
        check=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    archive.unlink()
    (root,) = [path for path in folder.iterdir() if path.is_dir()]
    return root


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, stdout=subprocess.DEVNULL)


def inject(root: Path, bug: Bug) -> str:
    path = root / bug.path
    original = path.read_text(encoding="utf-8")
    if original.count(bug.right) < 1:
        raise SystemExit(f"{bug.path} does not hold the line to break: {bug.right!r}")
    path.write_text(original.replace(bug.right, bug.wrong, 1), encoding="utf-8")
    return original


def repair(root: Path, sandbox: str, output: Path) -> tuple[dict, float]:
    begin = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "whimbrel.app.cli", "fix-issue", "--repo", root, "--sandbox", sandbox,
         "--output", output, "--max-time", "15m", "--json"],
        capture_output=True, text=True,
        env={key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"},
    )  # fmt: skip
    took = time.monotonic() - begin
    path = output / "result.json"
    if not path.is_file():
        raise SystemExit(f"no result.json; exit code {process.returncode}\n{process.stderr[-2000:]}")
    return json.loads(path.read_text()), took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sandbox", default="docker")
    parser.add_argument("--only", help="one project by name")
    parser.add_argument("--keep", type=Path, help="keep projects and results here")
    arguments = parser.parse_args()
    rows, failures = [], 0
    with tempfile.TemporaryDirectory(prefix="whimbrel-projects-") as temporary:
        base = arguments.keep or Path(temporary)
        for project in PROJECTS:
            name = project.requirement.partition("==")[0]
            if arguments.only and arguments.only != name:
                continue
            folder = base / name
            folder.mkdir(parents=True)
            root = fetch(project, folder)
            subprocess.run([sys.executable, "-m", "venv", root / ".venv"], check=True)
            subprocess.run(
                [root / ".venv/bin/python", "-m", "pip", "install", "--quiet", *project.requires],
                check=True, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            (root / ".gitignore").write_text(".venv/\n__pycache__/\n")
            git(root, "init", "--quiet")
            for number, bug in enumerate(project.bugs):
                original = inject(root, bug)
                git(root, "add", "--all")
                git(root, "commit", "--quiet", "--message", f"With a bug: {bug.kind}")
                output = folder / f"result-{number}"
                result, took = repair(root, arguments.sandbox, output)
                fixed = result["status"] == "fixed"
                failures += not fixed
                same = ""
                if fixed:
                    patched = subprocess.run(
                        ["git", "apply", "-"], cwd=root, input=result["patch"].encode(), check=True
                    ).returncode == 0 and (root / bug.path).read_text(encoding="utf-8")
                    same = "same AST as the original" if ast.dump(ast.parse(patched)) == ast.dump(ast.parse(original)) else "differs from the original"  # fmt: skip
                changed = [
                    line for line in result["patch"].splitlines()
                    if line[:1] in "+-" and not line.startswith(("+++", "---"))
                ]  # fmt: skip
                tried = result.get("search", {}).get("candidates_tried", "?")
                rows.append(
                    (
                        project.requirement,
                        bug.kind,
                        result["status"],
                        f"{took:.0f}",
                        str(tried),
                        " / ".join(x.strip() for x in changed) or result["message"],
                        same,
                    )
                )
                (root / bug.path).write_text(original, encoding="utf-8")
                git(root, "commit", "--quiet", "--all", "--message", "Without the bug")
                print(*rows[-1], sep=" | ", flush=True)
    print("\n| project | bug | status | seconds | candidates tried | patch | compared |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
