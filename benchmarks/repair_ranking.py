"""What the tiny language model buys as a ranker of candidates (`make local` first).

For each single-edit bug of tests/repair_corpus all candidates are generated as in a repair, up to the
search. The right fix is the candidate whose file has the syntax tree of the right program. Its rank is
measured without and with the model's opinion on the first candidates (app/repair/language). The weight is
chosen on one half of the bugs (by a hash of the name) and reported on the other.

    python benchmarks/repair_ranking.py [NAMES] [--sample N] [--seed N] [--folder DIR] [--page FILE]
                                        [--report-only]

The folder keeps what was generated and judged, so that a run can be continued.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import hashlib
import json
import math
import os
import platform
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "repair"), str(ROOT / "tests" / "repair_corpus")]

from corpus import Bug, load_all  # noqa: E402
from whimbrel.app.repair.candidates import Candidate  # noqa: E402
from whimbrel.app.repair.family import Harm  # noqa: E402
from whimbrel.app.repair.language.judge import MOST, NONE, Judge  # noqa: E402
from whimbrel.app.repair.language.ordering import BOUND, WEIGHT, weighed  # noqa: E402
from whimbrel.app.repair.source import Edit, ModuleSource  # noqa: E402

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0)
TOPS = (1, 5, 20, 100)


@dataclass(frozen=True)
class Case:
    """One bug whose right fix was generated and lies among the judged ones."""

    name: str
    kind: str
    scores: tuple[float, ...]
    opinions: tuple[float | None, ...]
    right: frozenset[int]

    def rank(self, weight: float) -> int:
        """Of the right fix, from 1."""
        scores = weighed(self.scores, self.opinions, weight)
        order = sorted(range(len(scores)), key=lambda number: (-round(scores[number], 9), number))
        return next(place for place, number in enumerate(order, start=1) if number in self.right)

    @property
    def fitted_on(self) -> bool:
        return hashlib.sha256(self.name.encode()).digest()[-1] % 2 == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sample", type=int, help="so many bugs, in a seeded order")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "whimbrel-ranking")
    parser.add_argument("--page", type=Path, help="also write the tables as a page")
    parser.add_argument("--report-only", action="store_true", help="only what the folder holds already")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    bugs = [bug for bug in load_all(names=arguments.names) if bug.edits == 1 and len(bug.hunks) == 1]
    random.Random(arguments.seed).shuffle(bugs)
    records: list[dict[str, Any]] = []
    for bug in bugs[: arguments.sample]:
        path = arguments.folder / f"{bug.name}.json"
        record = json.loads(path.read_text()) if path.exists() else None
        if not arguments.report_only:
            record = asyncio.run(completed(bug, record))
            path.write_text(json.dumps(record))
            print(
                f"{bug.name}: {len(record['candidates'])} candidates, right {record['right'][:1]}", flush=True
            )
        if record is not None:
            records.append(record)
    text = report(records)
    print(text)
    if arguments.page is not None:
        arguments.page.write_text(text, encoding="utf-8")
    return 0


async def completed(bug: Bug, record: dict[str, Any] | None) -> dict[str, Any]:
    """What is known of a bug with what is missing of it: candidates, opinions."""
    if record is None:
        with tempfile.TemporaryDirectory(prefix="bench-ranking-") as temporary:
            record = await generated(bug, Path(temporary).resolve())
    first = record["right"][:1]
    if "opinions" not in record and first and first[0] < MOST:
        sources = {path: ModuleSource(path, text.encode()) for path, text in record["texts"].items()}
        candidates = [_candidate(row) for row in record["candidates"][:MOST]]
        before, started = _children_cpu(), time.monotonic()
        judge = await Judge.open()
        try:
            record["opinions"] = await judge.differences(candidates, sources)
        finally:
            await judge.close()
        record["seconds"], record["cpu_s"] = time.monotonic() - started, _children_cpu() - before
        if judge.note.startswith(NONE):
            raise SystemExit(f"no language model: {judge.note.removeprefix(NONE)}")
        record["model"] = judge.note
    return record


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def generated(bug: Bug, base: Path) -> dict[str, Any]:
    """Candidates as a repair makes them, and which of them are right."""
    from project import opened
    from whimbrel.app.repair.baseline import take_baseline
    from whimbrel.app.repair.hunt import prepare, single_edits
    from whimbrel.app.repair.limits import Clock, Limits
    from whimbrel.app.repair.localise import localise

    async with opened(base, bug.repository()) as context:
        baseline = await take_baseline(context)
        localisation = localise(context, baseline)
        ground = await prepare(context, localisation, baseline, Clock.start(Limits(), None, 5))
        candidates = await single_edits(ground, baseline, 1)
    (path,) = bug.hunks
    right = [
        number
        for number, each in enumerate(candidates)
        if each.path == path and _same_program(each.text(localisation.sources[path]), bug.right[path])
    ]
    return {
        "name": bug.name,
        "kind": bug.kind,
        "texts": {path: source.text for path, source in localisation.sources.items()},
        "candidates": [
            [each.path, each.line, each.end_line, [[edit.start, edit.end, edit.text] for edit in each.edits],
             each.score, each.family, int(each.harm), each.description]
            for each in candidates
        ],
        "right": right,
    }  # fmt: skip


def _same_program(text: str, right: str) -> bool:
    squeezed = [sorted("".join(each.split()).strip()) for each in (_bare(text), _bare(right))]
    if squeezed[0] != squeezed[1]:
        return False  # parsing thousands of files takes long
    try:
        return ast.dump(ast.parse(text)) == ast.dump(ast.parse(right))
    except SyntaxError:
        return False


def _bare(text: str) -> str:
    """Without comments, brackets and quotes, of which equal programs may have different numbers."""
    lines = (line.partition("#")[0] for line in text.splitlines())
    return "\n".join(lines).translate(str.maketrans("", "", "()'\","))


def _candidate(row: Sequence[Any]) -> Candidate:
    path, line, end_line, edits, score, family, harm, description = row
    return Candidate(
        path, line, end_line, tuple(Edit(*edit) for edit in edits), family, "", description, Harm(harm), score
    )


def report(records: Sequence[dict[str, Any]]) -> str:
    """The page."""
    found = [each for each in records if each["right"]]
    cases = [
        Case(each["name"], each["kind"], tuple(row[4] for row in each["candidates"]), tuple(each["opinions"]),
             frozenset(each["right"]))
        for each in found
        if "opinions" in each
    ]  # fmt: skip
    fitted, others = ([case for case in cases if case.fitted_on is side] for side in (True, False))
    timed = [each for each in found if "cpu_s" in each]
    judged = sum(opinion is not None for each in timed for opinion in each["opinions"])
    best = min(WEIGHTS, key=lambda weight: (_geometric([case.rank(weight) for case in fitted]), weight))
    rate = "No times were taken"
    if timed:
        cpu, wall = (sum(each[key] for each in timed) for key in ("cpu_s", "seconds"))
        rate = (
            f"{judged / cpu:.0f} candidates a processor second and {judged / wall:.0f} a second were judged, the "
            f"start of the process included ({len(timed)} bugs"
        )
    lines = [
        "# The language model as a ranker, measured",
        "",
        "Made by `python benchmarks/repair_ranking.py --page docs/repair-ranking.md`, which says what is measured.",
        "",
        f"{len(records)} single-edit bugs of tests/repair_corpus; the right fix was generated for {len(found)}, "
        f"and for {len(cases)} of them it is among the first {MOST} candidates, which is how many are judged. "
        f"The ranks below are over all candidates of those {len(cases)} bugs "
        f"(median {statistics.median(len(each['candidates']) for each in found):.0f} a bug). A right fix beyond "
        f"the first {MOST} is not judged: it can only move up, by judged ones that fall behind it.",
        "",
        f"{rate}, {platform.machine()}, one thread, load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores).",
        "",
        *_table("Half the weight was chosen on", fitted, WEIGHTS),
        f"Chosen there, by the geometric mean of the ranks: {best:g} (the program uses {WEIGHT:g}, bound {BOUND:g}).",
        "",
        *_table("Other half", others, (0.0, best, WEIGHT)),
        *_table("All", cases, (0.0, best, WEIGHT)),
        "Candidates to the right fix, sums over the other half: "
        + _ratio(others, best)
        + f". With the model the right fix moves up in {_moved(others, best, up=True)}, "
        f"down in {_moved(others, best, up=False)} of {len(others)} bugs (by {_lost(others, best):g} places "
        "in the median).",
        "",
    ]
    return "\n".join(lines)


def _table(title: str, cases: Sequence[Case], weights: Sequence[float]) -> list[str]:
    lines = [
        f"{title} ({len(cases)} bugs):",
        "",
        "| weight | mean rank | geometric mean | median | " + " | ".join(f"top-{top}" for top in TOPS) + " |",
        "|---|---|---|---|" + "---|" * len(TOPS),
    ]
    for weight in dict.fromkeys(weights):
        ranks = [case.rank(weight) for case in cases]
        if ranks:
            tops = " | ".join(str(sum(rank <= top for rank in ranks)) for top in TOPS)
            name = f"{weight:g}" if weight else "0 (without)"
            lines.append(
                f"| {name} | {statistics.mean(ranks):.1f} | {_geometric(ranks):.1f} | "
                f"{statistics.median(ranks):g} | {tops} |"
            )
    return [*lines, ""]


def _geometric(ranks: Sequence[int]) -> float:
    return math.exp(statistics.mean(math.log(rank) for rank in ranks)) if ranks else 0.0


def _ratio(cases: Sequence[Case], weight: float) -> str:
    without, with_it = (sum(case.rank(each) for case in cases) for each in (0.0, weight))
    return f"{without} without, {with_it} with, ratio {without / max(1, with_it):.2f}"


def _lost(cases: Sequence[Case], weight: float) -> float:
    falls = [case.rank(weight) - case.rank(0.0) for case in cases]
    return statistics.median([each for each in falls if each > 0] or [0])


def _moved(cases: Sequence[Case], weight: float, *, up: bool) -> int:
    pairs = [(case.rank(0.0), case.rank(weight)) for case in cases]
    return sum(after < before if up else after > before for before, after in pairs)


if __name__ == "__main__":
    sys.exit(main())
