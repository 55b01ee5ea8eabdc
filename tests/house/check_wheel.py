"""Builds the wheel, installs it into an empty environment, and uses it from there.

Run by `make wheel`: it needs the network for the dependencies, so it is not a unit test.
Prints the installed size (the limit is 150 MB) and the start-up cost of `whimbrel --help`.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_MB = 150
MUST_SHIP = (
    "whimbrel/__init__.py",
    "whimbrel/app/cli.py",
    "whimbrel/app/tools/read.md",
    "whimbrel/sandbox/protocol.py",
)
NEED_EXTRAS = (
    ("native", "engine tiny made"),
    ("native", "engine info ."),
    ("native", "engine verify ."),
    ("native", "engine quantize . made"),
    ("serve", "serve kimi:."),
    ("tui", "acp"),
)
"""Commands that stand on an extra: without it they say so in one line, and which one."""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", work, ROOT],
            check=True,
        )
        (wheel,) = work.glob("whimbrel-*.whl")
        names = set(zipfile.ZipFile(wheel).namelist())
        missing = [name for name in MUST_SHIP if name not in names]
        strays = [n for n in names if not n.startswith("whimbrel") or n.startswith("whimbrel/app/_package")]
        if missing or strays:
            print(f"wheel: missing {missing}, stray {strays}")
            return 1
        subprocess.run([sys.executable, "-m", "venv", work / "env"], check=True)
        begin = time.monotonic()
        pip = [work / "env/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, wheel], check=True)
        took = time.monotonic() - begin
        site = next((work / "env/lib").glob("python*/site-packages"))
        size = sum(p.stat().st_size for p in site.rglob("*") if p.is_file() and not p.is_symlink())
        pip_size = sum(p.stat().st_size for p in site.glob("pip*/**/*") if p.is_file())
        installed = (size - pip_size) / 1e6
        command = [work / "env/bin/whimbrel", "--help"]
        best = float("inf")
        for _ in range(7):
            begin = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
            best = min(best, time.monotonic() - begin)
        probe = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        peak = subprocess.run(
            [sys.executable, "-c", probe, *command], check=True, capture_output=True, text=True
        )
        # Every file of the source must be in the wheel, and every module must import from there alone.
        lacking = [
            str(path.relative_to(ROOT))
            for top in ("app", "engine", "kernels", "sandbox")
            for path in (ROOT / top).rglob("*")
            if path.is_file()
            and not path.name.startswith(".")  # what a build leaves beside the sources
            and "__pycache__" not in path.parts
            and "_package" not in path.parts
            and f"whimbrel/{path.relative_to(ROOT).as_posix()}" not in names
        ]
        if lacking:
            print(f"wheel: not in it: {lacking}")
            return 1
        # Modules, and packages with all that is in them, that stand on an extra: they are imported behind a
        # check that names it.
        extras = (
            "app.acp",
            "app.tui.serving",
            "app.mcp.connection",
            "app.mcp.http",
            "app.mcp.stdio",
            "app.mcp.tools",
            "engine.kimi",
            "engine.scheduling",
            "engine.serve.app",
            "engine.serve.metrics",
            "engine.serve.run",
            "kernels",
        )
        inner = ("inside", "__main__", "launcher", "scripts")  # run by other interpreters, or as programs
        modules = sorted(
            name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            for name in names
            if name.endswith(".py") and not any(part in name for part in inner)
        )
        modules = [m for m in modules if not f"{m}.".startswith(tuple(f"whimbrel.{e}." for e in extras))]
        subprocess.run(
            [work / "env/bin/python", "-c", "import importlib, sys; [importlib.import_module(m) for m in sys.argv[1:]]", *modules],
            check=True, cwd=folder, env={**os.environ, "PYTHONPATH": ""},
        )  # fmt: skip
        for extra, line in NEED_EXTRAS:
            ran = subprocess.run(
                [work / "env/bin/whimbrel", *line.split()],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder,
            )  # fmt: skip
            if (ran.returncode, ran.stderr.count("\n")) != (10, 1) or f"whimbrel[{extra}]" not in ran.stderr:
                print(
                    f"wheel: without the extra {extra}, `whimbrel {line}` ends with {ran.returncode}: {ran.stderr}"
                )
                return 1
        print(
            f"wheel: {len(names)} files; installed {installed:.0f} MB without pip (limit {LIMIT_MB}) in {took:.0f} s; "
            f"`whimbrel --help` {best:.3f} s, {int(peak.stdout) / 1024:.0f} MB peak"
        )
        return 0 if installed < LIMIT_MB else 1


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
