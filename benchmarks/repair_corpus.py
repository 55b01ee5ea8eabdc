"""Repair by search, measured on the bugs of tests/repair_corpus (`make bench-repair`).

Each bug becomes a git repository of the buggy program and its visible tests. The repair tool works
on it as it does for a user (real workspace, sandbox "host", fresh-process proofs); --command runs
the whole `whimbrel fix-issue` instead. What comes back is then judged by what the repair never saw:

localised  a changed function is among the five most suspicious
plausible  some patch passed all visible tests
correct    returned; passes the hidden tests too and agrees with the right program on 200 generated
           inputs (value, exception type, arguments afterwards), run in processes of their own
wrong      returned, and not correct
abstained  nothing returned: not fixed, or ambiguous (rank: place of a correct patch among those shown)

    python benchmarks/repair_corpus.py [NAMES] [--kind K] [--sample N] [--locked] [--command]
                                       [--limit S] [--seed N] [--out FILE]
    python benchmarks/repair_corpus.py --page docs/repair-corpus.md --results FILE [FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "repair"), str(ROOT / "tests" / "repair_corpus")]

from corpus import BUGS, LOCKED, Bug, Scopes, load_all, write  # noqa: E402
from observe import agrees, observe  # noqa: E402

TOP = 5
_GRACE_S = 15.0
_COLUMNS = ("bugs", "localised", "plausible", "correct", "wrong", "abstained", "median s", "median tried")


def repair_in_process(bug: Bug, base: Path, limit_s: float, seed: int) -> dict[str, Any]:
    """The repair tool on a copy of the repository, as tests/repair does it."""
    from whimbrel.app.tools.base import Progress

    located: list[Progress] = []
    try:
        found = asyncio.run(asyncio.wait_for(_tool(bug, base, limit_s, seed, located), limit_s + _GRACE_S))
    except TimeoutError:
        found = {"status": "over the limit", "patch": "", "others": []}
    except Exception as error:  # a crash of the tool is a result of the measurement
        found = {"status": f"error: {type(error).__name__}: {error}", "patch": "", "others": []}
    places = [each.data for each in located if each.phase == "locate" and isinstance(each.data, list)]
    return {**found, "located": places[-1] if places else []}


async def _tool(bug: Bug, base: Path, limit_s: float, seed: int, progress: list[Any]) -> dict[str, Any]:
    from project import opened
    from whimbrel.app.repo.testing.patience import seconds_for_one_test
    from whimbrel.app.tools.repair import RepairArguments, RepairTool

    async with opened(base, bug.repository(), progress=progress) as context:
        context.seed = seed
        context.deadline = time.monotonic() + limit_s
        context.tests.test_timeout_s = seconds_for_one_test(limit_s)
        result = await RepairTool().run(context, RepairArguments(max_seconds=limit_s))
        data: Any = result.data
        diff = (await context.workspace.diff()).decode("utf-8", "replace")
    fixed = data["status"] == "fixed"
    shown = [*([] if fixed else data["patches"]), *data["alternatives"]]
    return {
        "status": data["status"],
        "patch": diff if fixed else "",
        "others": [each["diff"] for each in shown],
        "families": [each["family"] for each in [*data["patches"], *data["alternatives"]]],
        "ended_by": data["limit"],
        "tried": data["candidates_tried"],
        "generated": data["candidates_generated"],
        "phases": data["phases"],
    }


def repair_by_command(bug: Bug, base: Path, limit_s: float, seed: int) -> dict[str, Any]:
    """The whole `whimbrel fix-issue` in a process of its own."""
    from project import make_repository

    root = asyncio.run(make_repository(base / "repository", bug.repository()))
    output = base / "output"
    argv = [sys.executable, "-m", "whimbrel.app.cli", "fix-issue", "--repo", str(root), "--sandbox", "host",
            "--trust", "--python", sys.executable, "--output", str(output), "--max-time", f"{limit_s:g}s",
            "--seed", str(seed), "--json"]  # fmt: skip
    environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    environment["WHIMBREL_STATE_DIR"] = str(base / "state")
    try:
        subprocess.run(argv, capture_output=True, env=environment, timeout=limit_s + 2 * _GRACE_S)
        data = json.loads((output / "result.json").read_text())
    except (subprocess.TimeoutExpired, OSError, json.JSONDecodeError) as error:
        return {"status": f"error: {type(error).__name__}", "patch": "", "others": [], "located": []}
    others = [(output / each["diff_file"]).read_text() for each in data["attempts"] if each.get("diff_file")]
    search = data.get("search") or {}
    return {
        "status": data["status"],
        "patch": data["patch"],
        "others": others,
        "located": data["located"],
        "ended_by": search.get("limit"),
        "tried": search.get("candidates_tried"),
        "generated": search.get("candidates_generated"),
        "phases": search.get("phases"),
    }


def measure(bug: Bug, *, command: bool, limit_s: float, seed: int) -> dict[str, Any]:
    """Repairs one bug and judges what comes back."""
    with tempfile.TemporaryDirectory(prefix="bench-repair-") as temporary:
        base = Path(temporary).resolve()
        begun, used = time.monotonic(), _cpu()
        found = (repair_by_command if command else repair_in_process)(bug, base / "run", limit_s, seed)
        took, cpu = time.monotonic() - begun, _cpu() - used
        judge = _Judge(bug, base / "judged", seed)
        verdict = judge.of(found["patch"]) if found["patch"] else None
        ranks = [n for n, diff in enumerate(found["others"], 1) if verdict != "correct" and judge.good(diff)]
    outcome = "abstained" if verdict is None else "correct" if verdict == "correct" else "wrong"
    return {
        "name": bug.name,
        "kind": bug.kind,
        "edits": bug.edits,
        "outcome": outcome,
        "why": verdict,
        "status": found["status"],
        "plausible": found["status"] in ("fixed", "ambiguous"),
        "localised": localised(bug, found["located"]),
        "rank": ranks[0] if ranks else None,
        "seconds": round(took, 2),
        "cpu_seconds": round(cpu, 2),
        "tried": found.get("tried"),
        "generated": found.get("generated"),
        "ended_by": found.get("ended_by"),
        "families": found.get("families"),
        "phases": found.get("phases"),
        "patch": found["patch"],
        "others": found["others"],
    }


def _cpu() -> float:
    """Seconds of processor time so far, of this process and of those it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class _Judge:
    """Tells right patches from wrong ones by hidden tests and generated inputs."""

    def __init__(self, bug: Bug, base: Path, seed: int) -> None:
        self._bug, self._base, self._seed = bug, base, seed
        self._right: list[Any] | None = None
        self._count = 0

    def good(self, diff: str) -> bool:
        return self.of(diff) == "correct"

    def of(self, diff: str) -> str:
        """``correct``, or what tells that it is not."""
        self._count += 1
        folder = self._base / f"patched-{self._count}"
        write(folder, self._bug.repository())
        applied = subprocess.run(
            ["git", "apply", "-"], input=diff.encode(), cwd=folder, capture_output=True,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(self._base)},
        )  # fmt: skip
        if applied.returncode:
            return "does not apply"
        # The judged tests are those of the corpus, whatever the patch does to them.
        write(folder, {**self._bug.visible, **self._bug.hidden})
        if not _passes(folder, sorted(self._bug.visible)):
            return "fails visible tests"
        if not _passes(folder, sorted(self._bug.hidden)):
            return "fails hidden tests"
        if self._right is None:
            write(self._base / "right", self._bug.right)
            self._right = observe(self._base / "right", self._bug.inputs, seed=self._seed)["outcomes"]
        seen = observe(folder, self._bug.inputs, seed=self._seed)["outcomes"]
        return "correct" if agrees(self._right, seen) else "differs on generated inputs"


def _passes(folder: Path, paths: Sequence[str]) -> bool:
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        "-c",
        os.devnull,
    ]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    files = [path for path in paths if path.endswith(".py") and "test" in Path(path).name]
    try:
        done = subprocess.run([*argv, *files], cwd=folder, capture_output=True, timeout=30, env=environment)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def localised(bug: Bug, located: Sequence[dict[str, Any]]) -> int | None:
    """Rank (from 1) of the first suspicious place in a function that the bug changed."""
    changed = bug.changed_functions()
    buggy = bug.buggy()
    for rank, place in enumerate(located[:TOP], 1):
        path = place["path"]
        if path in changed:
            name = Scopes(buggy[path]).at(place["line"])
            if name in changed[path] or place.get("function") in changed[path]:
                return rank
    return None


def wilson(good: int, total: int) -> tuple[float, float]:
    """The 95 % score interval of a share (Wilson 1927)."""
    if not total:
        return (0.0, 1.0)
    z, share = 1.959964, good / total
    middle = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return ((middle - spread) / scale, (middle + spread) / scale)


def table(results: Sequence[dict[str, Any]], *, markdown: bool = False) -> list[str]:
    """Lines of the table, one row per kind and one overall."""
    kinds = sorted({each["kind"] for each in results})
    rows = [(kind, [each for each in results if each["kind"] == kind]) for kind in kinds]
    cells = [("kind", *_COLUMNS)]
    for kind, group in [*rows, ("all", list(results))]:
        count = {
            name: sum(each["outcome"] == name for each in group) for name in ("correct", "wrong", "abstained")
        }
        tried = [each["tried"] for each in group if each["tried"] is not None]
        cells.append((
            kind, str(len(group)), str(sum(each["localised"] is not None for each in group)),
            str(sum(each["plausible"] for each in group)), *(str(number) for number in count.values()),
            f"{statistics.median(each['seconds'] for each in group):.1f}",
            f"{statistics.median(tried):.0f}" if tried else "-",
        ))  # fmt: skip
    if markdown:
        head, *body = [f"| {' | '.join(row)} |" for row in cells]
        return [head, "|---|" + "---:|" * len(_COLUMNS), *body]
    widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    ]


def summary(results: Sequence[dict[str, Any]]) -> list[str]:
    """Recall, precision and what else the outcomes say, a sentence a line."""
    correct = sum(each["outcome"] == "correct" for each in results)
    returned = sum(each["outcome"] != "abstained" for each in results)
    places = [each["localised"] for each in results]
    ranked = [each["rank"] for each in results if each["outcome"] != "correct" and each["rank"]]
    lines = [
        f"Seconds a bug: median {statistics.median(each['seconds'] for each in results):.1f}, "
        f"of processor time {statistics.median(each['cpu_seconds'] for each in results):.1f}.",
        f"Correct (recall): {_share(correct, len(results))}.",
        f"Of the returned patches correct (precision): {_share(correct, returned)}.",
        f"Changed function first: {_share(sum(p == 1 for p in places), len(places))}; among the first {TOP}: "
        f"{_share(sum(p is not None for p in places), len(places))}.",
        f"Not returned, but a correct patch is among those shown: {len(ranked)}.",
    ]
    two = [each for each in results if each["edits"] > 1]
    if two:
        good = sum(each["outcome"] == "correct" for each in two)
        lines.append(f"Bugs that need two edits: {good} of {len(two)} correct.")
    broken = [each["name"] for each in results if each["status"].startswith(("error", "over"))]
    if broken:
        lines.append(f"Errors or over the limit: {', '.join(broken)}.")
    return lines


def _share(good: int, total: int) -> str:
    low, high = wilson(good, total)
    value = f"{100 * good / total:.1f} %" if total else "-"
    return f"{good} of {total} = {value} (95 % interval {100 * low:.1f} to {100 * high:.1f})"


def page(paths: Sequence[Path]) -> str:
    """The page of docs, wholly from result files."""
    parts = [
        "# Repair on bugs it has never seen\n\nMade by `benchmarks/repair_corpus.py --page` from its result files.\n"
    ]
    parts.append("```text\n" + "\n\n".join((__doc__ or "").split("\n\n")[1:-1]) + "\n```\n")
    for path in paths:
        data = json.loads(path.read_text())
        results, setup = data["results"], data["setup"]
        title = "Locked bugs" if setup["folder"] == "locked" else "The corpus"
        parts.append(f"## {title}: {len(results)} bugs\n")
        parts.append(
            f"{setup['route']}, {setup['limit_s']:g} s a bug, seed {setup['seed']}, "
            f"{setup['cores']} core{'s' if setup['cores'] != 1 else ''} a bug, "
            f"Python {setup['python']}, commit {setup['commit']}.\n"
        )
        if setup.get("note"):
            parts.append(f"{setup['note']}\n")
        parts.append("\n".join(table(results, markdown=True)) + "\n")
        parts.append("\n".join(f"- {line}" for line in summary(results)) + "\n")
        for outcome, text in (("wrong", "Returned and wrong"), ("abstained", "Not repaired")):
            names = [
                f"`{e['name']}`" + (f" ({e['why']})" if e["why"] else f" ({e['status']})")
                for e in results
                if e["outcome"] == outcome
            ]
            if names:
                parts.append(f"{text}: {', '.join(names)}.\n")
    return "\n".join(parts)


def chosen(arguments: argparse.Namespace) -> list[Bug]:
    """The bugs that the options name."""
    bugs = load_all(LOCKED if arguments.locked else BUGS)
    if arguments.names:
        bugs = [
            bug
            for bug in bugs
            if any(bug.name == name or bug.name.startswith(name + "-") for name in arguments.names)
        ]
    if arguments.kind:
        bugs = [bug for bug in bugs if bug.kind in arguments.kind]
    if arguments.sample and arguments.sample < len(bugs):
        bugs = sorted(random.Random(arguments.seed).sample(bugs, arguments.sample), key=lambda bug: bug.name)
    return bugs


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="bugs, or beginnings of their names up to a hyphen")
    parser.add_argument("--only", dest="more", action="append", default=[], help="the same, repeatable")
    parser.add_argument("--kind", action="append", help="bugs of this kind (repeatable)")
    parser.add_argument("--sample", type=int, help="so many bugs, drawn by --seed")
    parser.add_argument("--locked", action="store_true", help="the locked bugs")
    parser.add_argument("--command", action="store_true", help="run the whole fix-issue command")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a bug")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    parser.add_argument("--show", action="store_true", help="print patches that are not correct")
    parser.add_argument("--note", default="", help="a sentence for the page about how it was measured")
    parser.add_argument("--page", type=Path, help="write the documentation page from --results and stop")
    parser.add_argument("--results", type=Path, nargs="+", default=[], help="result files for --page")
    arguments = parser.parse_args()
    arguments.names += arguments.more
    return arguments


def main() -> int:
    arguments = options()
    if arguments.page:
        arguments.page.write_text(page(arguments.results), encoding="utf-8")
        return 0
    bugs = chosen(arguments)
    if not bugs:
        print("no bug of that name or kind", file=sys.stderr)
        return 2
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    setup = {
        "folder": "locked" if arguments.locked else "bugs",
        "route": "`whimbrel fix-issue`" if arguments.command else "The repair tool in process",
        "limit_s": arguments.limit, "seed": arguments.seed, "cores": len(os.sched_getaffinity(0)),
        "note": arguments.note,
        "python": platform.python_version(), "commit": commit.stdout.strip(),
    }  # fmt: skip
    results: list[dict[str, Any]] = []
    for number, bug in enumerate(bugs, 1):
        result = measure(bug, command=arguments.command, limit_s=arguments.limit, seed=arguments.seed)
        results.append(result)
        place = f"place {result['localised']}" if result["localised"] else "not localised"
        right = f", correct one is shown as {result['rank']}" if result["rank"] else ""
        print(
            f"[{number}/{len(bugs)}] {bug.name}: {result['outcome']} ({result['why'] or result['status']}), {place}, "
            f"{result['tried']} tried, {result['seconds']:.1f} s{right}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        if arguments.show and result["outcome"] != "correct":
            print(result["patch"] or "\n".join(result["others"][:1]), file=sys.stderr, flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps({"setup": setup, "results": results}, indent=1) + "\n")
    print("\n".join([*table(results), "", *summary(results)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
