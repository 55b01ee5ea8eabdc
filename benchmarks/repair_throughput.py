"""Candidates per second on a project of 200 tests: this repair against three ways people know.

The project, its one bug and the rivals' own mutants are made here. In one run:

    whimbrel    candidates of the real search through `Validator` (1 and 2 at a time)
    pytest -x   the same candidates, one `python -m pytest -x -q` each
    cosmic-ray  its mutants of the same module, one test command each
    mutmut 3    its mutants of the same module, forked from a loaded process

Overhead is what a candidate costs beyond the tests it runs, per core. mutmut picks the tests of
a mutated function, so its tests cost what ours do: the failing ones first, then those of the function.

    python benchmarks/repair_throughput.py [--candidates N] [--skip-rivals]

Needs pip's package index once for the rivals (a virtual environment in a temporary folder).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "repair"))

from project import opened
from whimbrel.app.repair.baseline import take_baseline
from whimbrel.app.repair.candidates import Candidate, generate
from whimbrel.app.repair.evidence import Evidence
from whimbrel.app.repair.localise import localise
from whimbrel.app.repair.novelty import Novelty
from whimbrel.app.repair.validate import Validator

FUNCTIONS = 40
TESTS_EACH = 5


def project() -> dict[str, str]:
    """40 functions with 5 tests each; the one in the middle has a bug that two of its tests see."""
    parts = ['"""Prices of many articles."""\n']
    tests = ["from shop.prices import *\n"]
    for n in range(FUNCTIONS):
        limit = "total > 100" if n != FUNCTIONS // 2 else "total >= 100"
        parts.append(
            f"""
def price_{n}(count, unit, rebate={n}):
    total = count * unit
    if {limit}:
        total = total - rebate
    if count == 0 or unit < 0:
        return 0
    return total + {n % 7}
"""
        )
        for count, unit in ((1, 5), (20, 5), (30, 9), (0, 4), (50, 2)):
            total = count * unit
            wanted = 0 if count == 0 else total - (n if total > 100 else 0) + n % 7
            tests.append(
                f"def test_{n}_{count}_{unit}():\n    assert price_{n}({count}, {unit}) == {wanted}\n"
            )
    assert len(tests) - 1 == FUNCTIONS * TESTS_EACH
    return {
        "shop/__init__.py": "",
        "shop/prices.py": "".join(parts),
        "tests/test_prices.py": "\n\n".join(tests),
        "setup.cfg": "[mutmut]\nsource_paths=shop\npaths_to_mutate=shop\ntests_dir=tests\n",
    }


async def ours(base: Path, count: int) -> tuple[dict[str, float], list[tuple[str, Candidate]]]:
    rates: dict[str, float] = {}
    async with opened(base, project()) as context:
        baseline = await take_baseline(context)
        localisation = localise(context, baseline)
        sources = localisation.sources
        novelty = Novelty(sources)
        everything = generate(localisation, Evidence.of(baseline.failing), 0)
        chosen = [each for each in everything if novelty.is_new(each)][:count]
        validator = await Validator.open(context.tests, baseline)
        print(f"whimbrel: {len(everything)} candidates, {len(chosen)} tried; {validator.note or 'warm'}")
        try:
            for workers in (1, 2, 1, 2):
                gate = asyncio.Semaphore(workers)

                async def one(candidate: Candidate, gate: asyncio.Semaphore = gate) -> bool:
                    async with gate:
                        lines = range(candidate.line, candidate.end_line + 1)
                        near = baseline.tests_through(candidate.path, lines)
                        stages = [validator.stage(baseline.targets)]
                        stages += [validator.stage(near)] if near else []
                        return (await validator.trial(candidate, sources, stages)).good

                started = time.monotonic()
                await asyncio.gather(*(one(each) for each in chosen))
                rate = len(chosen) / (time.monotonic() - started)
                key = f"whimbrel, {workers} at a time"
                rates[key] = max(rates.get(key, 0.0), rate)
        finally:
            await validator.close()
        print(f"modes: {dict(validator.modes)}")
        return rates, [(each.text(sources[each.path]), each) for each in chosen]


def pytest_each(python: str, folder: Path, texts: list[str]) -> float:
    path = folder / "shop/prices.py"
    original = path.read_text()
    started = time.monotonic()
    for text in texts:
        path.write_text(text)
        command = [python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        subprocess.run(command, cwd=folder, capture_output=True, check=False)
    rate = len(texts) / (time.monotonic() - started)
    path.write_text(original)
    return rate


def cosmic_ray(tools: Path, folder: Path, seconds: float) -> float:
    (folder / "cr.toml").write_text(
        "[cosmic-ray]\nmodule-path = 'shop'\ntimeout = 20.0\nexcluded-modules = []\n"
        f"test-command = '{tools}/python -m pytest -x -q -p no:cacheprovider'\n"
        "[cosmic-ray.distributor]\nname = 'local'\n"
    )
    subprocess.run([tools / "cosmic-ray", "init", "cr.toml", "cr.sqlite"], cwd=folder, check=True)
    started = time.monotonic()
    running = subprocess.Popen([tools / "cosmic-ray", "exec", "cr.toml", "cr.sqlite"], cwd=folder)
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(seconds)
    running.terminate()
    running.wait()
    elapsed = time.monotonic() - started
    dump = subprocess.run(
        [tools / "cosmic-ray", "dump", "cr.sqlite"], cwd=folder, capture_output=True, text=True, check=True
    )
    done = sum('"worker_outcome"' in line or "worker_outcome" in line for line in dump.stdout.splitlines())
    return done / elapsed


def mutmut(tools: Path, folder: Path) -> tuple[float, int]:
    """Mutants per second of the part that runs mutants, and how many processes it used."""
    # mutmut starts only from a suite that passes.
    path = folder / "shop/prices.py"
    path.write_text(path.read_text().replace("total >= 100", "total > 100"))
    children = os.cpu_count() or 1
    done = subprocess.run(
        [tools / "mutmut", "run", "--max-children", str(children)],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    found = re.findall(r"([\d.]+) mutations/second", done.stdout)
    if not found:
        raise SystemExit(f"mutmut did not run:\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}")
    return float(found[-1]), children


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--candidates", type=int, default=300)
    parser.add_argument("--skip-rivals", action="store_true")
    parser.add_argument("--tools", type=Path, help="bin folder of an environment that has the rivals")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        rates, tried = asyncio.run(ours(base / "ours", options.candidates))
        if not options.skip_rivals:
            tools = options.tools
            if tools is None:
                subprocess.run([sys.executable, "-m", "venv", base / "tools"], check=True)
                tools = base / "tools/bin"
                packages = ["pytest", "cosmic-ray", "mutmut>=3"]
                subprocess.run([tools / "pip", "install", "-q", *packages], check=True)
            for rival in ("pytest", "cosmic", "mutmut"):
                for path, text in project().items():
                    target = base / rival / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(text)
            few = [text for text, _ in tried[:12]]
            rates["pytest -x"] = max(pytest_each(str(tools / "python"), base / "pytest", few) for _ in "ab")
            rates["cosmic-ray"] = cosmic_ray(tools, base / "cosmic", 15)
            rates["mutmut 3"], children = mutmut(tools, base / "mutmut")
        best = rates["whimbrel, 2 at a time"]
        print(f"\n{'':26}candidates/s   times slower")
        for key, rate in rates.items():
            print(f"{key:26}{rate:12.1f}{best / rate:15.1f}")
        if "mutmut 3" in rates:
            print(f"\nper candidate and core: whimbrel {1000 / rates['whimbrel, 1 at a time']:.1f} ms, "
                  f"mutmut {1000 * children / rates['mutmut 3']:.1f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
