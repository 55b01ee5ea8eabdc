"""Fault localisation on mutants of real libraries: Whimbrel's ranking against plain Ochiai, same data.

Small pure-Python libraries come as source archives with their tests. Seeded mutations of many
kinds are put into them one at a time; those that some test catches are kept with their real test
results and coverage (in the folder, as data), and both rankings are measured on that.

    python benchmarks/localisation.py [--set final|tuning|all] [--only NAME] [--mutants N] [--seed N]
                                      [--folder DIR] [--python PATH] [--ranking-only] [--kinds]

Weights were chosen on the tuning libraries only; the final ones are for the published figures.
The package index is asked once per library. Statements are what is ranked: a compound one counts
with its header, for both rankings; where scores of Ochiai tie, the chance in a random order counts.
Exit code 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from mutation.collect import collect, load
from mutation.libraries import FINAL, TUNING
from mutation.measure import FUNCTION_TOPS, LINE_TOPS, Table, measure_all

GOALS = {"function top-1": 55.0, "function top-5": 85.0, "line top-5": 60.0}
COLUMNS = [*(f"function top-{k}" for k in FUNCTION_TOPS), *(f"line top-{k}" for k in LINE_TOPS)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=["final", "tuning", "all"], default="final")
    parser.add_argument("--only", action="append", help="a library by name; repeatable")
    parser.add_argument("--mutants", type=int, default=20, help="caught mutants per library")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "whimbrel-localisation")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of the libraries (3.12 or later is faster)"
    )
    parser.add_argument("--ranking-only", action="store_true", help="only rank what the folder holds already")
    parser.add_argument("--kinds", action="store_true", help="also a table by kind of mutation")
    arguments = parser.parse_args()
    chosen = {"final": FINAL, "tuning": TUNING, "all": (*TUNING, *FINAL)}[arguments.set]
    table = Table()
    print("| library | mutants | ranking | " + " | ".join(COLUMNS) + " |")
    print("|---|---|---|" + "---|" * len(COLUMNS))
    for library in chosen:
        if arguments.only and library.name not in arguments.only:
            continue
        if not arguments.ranking_only:
            collect(
                library, arguments.folder, arguments.mutants, arguments.seed, arguments.python,
                lambda text: print(text, file=sys.stderr),
            )  # fmt: skip
        rows = measure_all(load(library, arguments.folder))
        if rows:
            table.rows += rows
            print_rows(library.name, Table(rows))
    if not table.rows:
        print("no mutant to rank", file=sys.stderr)
        return 1
    print_rows("all", table)
    if arguments.kinds:
        for kind in sorted({row.kind for row in table.rows}):
            print_rows(kind, Table([row for row in table.rows if row.kind == kind]))
    return report_goals(table)


def print_rows(name: str, table: Table) -> None:
    for ours in (True, False):
        shares = " | ".join(f"{share:.1f}" for share in table.shares(ours))
        print(f"| {name} | {len(table.rows)} | {'Whimbrel' if ours else 'Ochiai'} | {shares} |", flush=True)


def report_goals(table: Table) -> int:
    ours = dict(zip(COLUMNS, table.shares(True), strict=True))
    plain = dict(zip(COLUMNS, table.shares(False), strict=True))
    missed = [
        f"{name} is {ours[name]:.1f}, not {goal:.0f}" for name, goal in GOALS.items() if ours[name] < goal
    ]
    missed += [
        f"{name}: Ochiai has {plain[name]:.1f}, we {ours[name]:.1f}"
        for name in COLUMNS
        if ours[name] < plain[name]
    ]
    print("\n" + ("Goals reached." if not missed else "Missed: " + "; ".join(missed)))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
