"""Builds the kernels with the machine's own C++ compiler: `python -m whimbrel.kernels.native.build`.

Standard library only, and no import of ours: the build of the package runs this file too. Every source is
compiled on its own, several at a time; variants that the compiler does not know are left out.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LIBRARY = "libwhimbrel.so"
COMPILERS = ("c++", "g++", "clang++")
FLAGS = (
    "-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=fast", "-pthread", "-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function",
    "-Wno-maybe-uninitialized",  # of the compiler's own headers
)  # fmt: skip
VARIANTS: dict[str, tuple[str, ...]] = {
    "portable": (),
    "avx2": ("-mavx2", "-mfma", "-mf16c", "-mbmi2"),
    "avx512": (
        "-mavx2", "-mfma", "-mf16c", "-mbmi2", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq",
        "-mavx512vnni", "-mavx512bf16", "-mprefer-vector-width=512",
    ),
    "amx": (
        "-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512bf16",
        "-mamx-tile", "-mamx-bf16",
    ),
}  # fmt: skip
TILES = "amx"
"""Not a variant of every kernel: files of its own (name_amx.cpp), which the kernels of avx512 call."""


class BuildError(RuntimeError):
    """There is no compiler, or it failed: one line, the compiler's own words after it."""


def sources(root: Path = ROOT) -> list[Path]:
    """Every C++ file and header below `root`, in a fixed order."""
    return sorted(path for path in root.rglob("*") if path.suffix in (".cpp", ".h"))


def fingerprint(root: Path = ROOT) -> str:
    """A hash of the sources and of this file: a library of other sources is not loaded."""
    digest = hashlib.sha256()
    for path in [*sources(root), root / "native" / "build.py"]:
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def compiler() -> list[str] | None:
    """$CXX, or the first compiler there is."""
    if named := os.environ.get("CXX"):
        argv = shlex.split(named)
        return argv if argv and shutil.which(argv[0]) else None
    found = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    return [found] if found else None


def build(target: Path, root: Path = ROOT, jobs: int | None = None) -> str:
    """Compiles everything below `root` into the shared library `target`, replaced whole.

    Returns:
        The variants in it, for people.

    Raises:
        BuildError: no compiler, or it failed.
    """
    cxx = compiler()
    if cxx is None:
        raise BuildError(f"no C++ compiler: $CXX or one of {', '.join(COMPILERS)} is needed")
    if os.name != "posix":
        raise BuildError(f"the kernels are not built on {sys.platform}")
    variants = {name: flags for name, flags in VARIANTS.items() if _knows(cxx, flags)}
    defines = [f"-DWHIMBREL_HAS_{name.upper()}" for name in variants]
    defines.append(f'-DWHIMBREL_SOURCES="{fingerprint(root)}"')
    with tempfile.TemporaryDirectory(prefix="whimbrel-build-") as folder:
        commands: list[list[str]] = []
        objects: list[str] = []
        for path in sources(root):
            if path.suffix != ".cpp":
                continue
            kind = path.stem.rpartition("_")[2]
            wanted = [name for name in variants if name != TILES] if kind == "each" else [kind]
            for name in wanted:
                if kind in VARIANTS and name not in variants:
                    continue
                target_object = str(Path(folder, f"{len(objects)}.o"))
                own = [*variants[name], f"-DWHIMBREL_VARIANT={name}"] if name in variants else []
                commands.append([*cxx, *FLAGS, *defines, *own, "-c", str(path), "-o", target_object])
                objects.append(target_object)
        # The large ones first, so that no thread is left alone with one at the end.
        commands.sort(key=lambda command: -Path(command[-3]).stat().st_size)
        with ThreadPoolExecutor(jobs or _processors()) as pool:
            list(pool.map(_run, commands))
        made = Path(folder, LIBRARY)
        _run([*cxx, "-shared", "-pthread", *objects, "-o", str(made)])
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            shutil.copy2(made, beside)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    return ", ".join(variants)


def ensure(say: Callable[[str], None] = print) -> Path:
    """Builds the library beside the sources unless there is one of these very sources; safe side by side."""
    import fcntl

    target = HERE / LIBRARY
    name = hashlib.sha256(str(HERE).encode()).hexdigest()[:16]
    with Path(tempfile.gettempdir(), f"whimbrel-kernels-{os.getuid()}-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists() or fingerprint().encode() not in target.read_bytes():
            say(f"kernels: built {target} ({build(target)})")
    return target


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _knows(cxx: list[str], flags: tuple[str, ...]) -> bool:
    """Whether the compiler takes a variant's flags: not for another family of processors, nor an old one."""
    if not flags:
        return True
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    argv = [*cxx, *flags, "-x", "c++", "-fsyntax-only", os.devnull]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def _run(argv: list[str]) -> None:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"{argv[0]} does not start: {error.strerror}") from error
    if done.returncode:
        raise BuildError(f"{argv[0]} failed with exit code {done.returncode}\n{done.stderr.strip()[-2000:]}")


if __name__ == "__main__":
    try:
        ensure()
    except BuildError as problem:
        sys.exit(f"kernels: not built: {problem}")
