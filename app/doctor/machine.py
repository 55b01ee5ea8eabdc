"""Probes of tools, Python packages, hardware, terminal and disk."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

from ...sandbox.base.git import OLDEST_GIT, git_version
from .advice import install_line
from .finding import Finding, State
from .probing import first_line, version_in

_COMPILERS = (
    ("cc", ["cc", "--version"], "C"),
    ("c++", ["c++", "--version"], "C++"),
    ("node", ["node", "--version"], "JavaScript and TypeScript"),
    ("go", ["go", "version"], "Go"),
    ("cargo", ["cargo", "--version"], "Rust"),
    ("java", ["java", "-version"], "Java"),
)
EXTRA_COSTS = {
    "local": "candidate repairs are ranked without a language model's opinion",
    "native": "no native engine",
    "gpu": "no Triton kernels",
    "mcp": "no MCP servers",
    "otel": "no telemetry export",
    "keyring": "keys come from the environment only, not the system's key ring",
    "serve": "no model server",
    "s3": "no copies of sessions in an object store",
    "ray": "no batches on a Ray cluster",
    "tui": "no pictures in the terminal, no editors (whimbrel acp)",
    "dev": "Whimbrel's own tests and linters cannot run",
}
"""What is not there without an extra of pyproject.toml."""
_LOW_DISK_BYTES = 2 << 30


async def git() -> list[Finding]:
    line = await first_line(["git", "--version"])
    if line is None:
        cost = "nothing can be done with a repository"
        return [Finding("needed", "git", State.MISSING, "not installed", cost, install_line("git"))]
    version = git_version(shutil.which("git") or "git")
    if version is not None and version < OLDEST_GIT:
        wanted = ".".join(map(str, OLDEST_GIT))
        detail = f"{version_in(line)} is too old: {wanted} or newer is needed"
        cost = "an older git cannot be kept from running what a repository configures"
        return [Finding("needed", "git", State.MISSING, detail, cost, install_line("git"))]
    return [Finding("needed", "git", State.OK, version_in(line))]


async def python() -> list[Finding]:
    detail = f"{platform.python_version()} at {sys.executable}"
    return [Finding("needed", "Python", State.OK, detail)]


async def ripgrep() -> list[Finding]:
    line = await first_line(["rg", "--version"])
    if line is None:
        cost = "text search falls back to Python: the same results, slower on large repositories"
        return [Finding("needed", "ripgrep", State.MISSING, "not installed", cost, install_line("ripgrep"))]
    return [Finding("needed", "ripgrep", State.OK, version_in(line))]


async def compilers() -> list[Finding]:
    found: list[Finding] = []
    for tool, argv, language in _COMPILERS:
        line = await first_line(argv)
        if line is None:
            cost = f"{language} projects can be built and tested in a container image only"
            detail = "there, but it does not run" if shutil.which(tool) else "not installed"
            found.append(Finding("languages", tool, State.MISSING, detail, cost, install_line(tool)))
        else:
            found.append(Finding("languages", tool, State.OK, version_in(line)))
    return found


async def extras() -> list[Finding]:
    """Core dependencies and optional extras, from package metadata, nothing imported."""
    try:
        requirements = metadata.requires("whimbrel") or []
        names = metadata.metadata("whimbrel").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        cost = "nothing known: Whimbrel runs from a source folder that is not installed"
        return [
            Finding("extras", "package", State.UNKNOWN, "whimbrel is not installed", cost, "pip install .")
        ]
    wanted: dict[str, list[str]] = {"": [], **{name: [] for name in names}}
    for line in requirements:
        name = re.match(r"[A-Za-z0-9._-]+", line)
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", line)
        if name:
            wanted.setdefault(extra[1] if extra else "", []).append(name[0])
    found: list[Finding] = []
    for extra, packages in wanted.items():
        absent = [package for package in packages if not _installed(package)]
        title = extra or "core packages"
        if not absent:
            found.append(Finding("extras", title, State.OK, f"{len(packages)} packages"))
            continue
        line = f"pip install 'whimbrel[{extra}]'" if extra else f"pip install {' '.join(absent)}"
        cost = EXTRA_COSTS.get(extra, "") if extra else "the parts that use them fail when used"
        state = State.MISSING if len(absent) == len(packages) else State.LIMITED
        found.append(Finding("extras", title, state, f"not installed: {', '.join(absent)}", cost, line))
    return found


def _installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


async def gpu() -> list[Finding]:
    found: list[Finding] = []
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    line = await first_line(query)
    if line:
        found.append(Finding("hardware", "GPU", State.OK, f"NVIDIA: {line}"))
    elif shutil.which("nvidia-smi"):
        found.append(Finding("hardware", "GPU", State.LIMITED, "nvidia-smi is there but sees no GPU"))
    if Path("/dev/kfd").exists():
        found.append(Finding("hardware", "GPU", State.OK, "AMD: /dev/kfd is there (ROCm)"))
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.append(Finding("hardware", "GPU", State.OK, "Apple silicon: Metal"))
    if not found:
        cost = "large models run elsewhere; the embedded policy needs none"
        found.append(Finding("hardware", "GPU", State.MISSING, "none found", cost))
    return found


async def terminal() -> list[Finding]:
    name = os.environ.get("TERM", "")
    if not sys.stdout.isatty():
        return [
            Finding("terminal", "terminal", State.OK, "output is not a terminal: plain lines, no colours")
        ]
    size = shutil.get_terminal_size()
    deep = os.environ.get("COLORTERM", "") in ("truecolor", "24bit")
    colours = "16 million" if deep else "256" if "256" in name else "16"
    if os.environ.get("NO_COLOR"):
        colours = "off (NO_COLOR)"
    unicode = "utf" in (sys.stdout.encoding or "").lower()
    detail = f"TERM={name or 'unset'}, {size.columns}x{size.lines}, colours {colours}"
    detail += f", {'Unicode' if unicode else 'no Unicode'}"
    if name in ("", "dumb") or not unicode:
        cost = "the screen is drawn with plain characters; a UTF-8 locale and a real TERM give more"
        return [Finding("terminal", "terminal", State.LIMITED, detail, cost)]
    return [Finding("terminal", "terminal", State.OK, detail)]


async def disk() -> list[Finding]:
    """Room where state and caches are or would be; nothing is created."""
    import platformdirs

    places = (
        ("state", os.environ.get("WHIMBREL_STATE_DIR") or platformdirs.user_state_dir("whimbrel", False)),
        ("cache", os.environ.get("WHIMBREL_CACHE_DIR") or platformdirs.user_cache_dir("whimbrel", False)),
    )
    found: list[Finding] = []
    for title, place in places:
        path = Path(place).expanduser().absolute()
        nearest = next(parent for parent in (path, *path.parents) if parent.exists())
        free = shutil.disk_usage(nearest).free
        detail = f"{path}: {free / (1 << 30):.1f} GiB free"
        writable = os.access(nearest, os.W_OK)
        name = f"{title} folder"
        if not writable:
            cost = f"runs cannot be recorded; set WHIMBREL_{title.upper()}_DIR to a writable folder"
            found.append(Finding("machine", name, State.MISSING, f"{nearest} is not writable", cost))
        elif free < _LOW_DISK_BYTES:
            cost = "copies of large repositories and images may not fit"
            found.append(Finding("machine", name, State.LIMITED, detail, cost))
        else:
            found.append(Finding("machine", name, State.OK, detail))
    return found
