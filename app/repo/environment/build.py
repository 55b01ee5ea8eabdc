"""Making an environment where none is usable: a cached virtual environment, or a cached image layer.

Only declared dependencies are installed, never the project itself. On the host, untrusted,
only wheels are: unpacking a wheel runs none of its code, building a source distribution
does. A container may build source distributions, since nothing but the container is at risk.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ....sandbox.base.errors import EnvironmentBroken, SandboxUnavailable
from ....sandbox.base.files import atomic_write
from ....sandbox.base.process import base_environment, run_process
from ....sandbox.base.results import ExecResult
from ....sandbox.protocol import Mount
from .dependencies import Dependencies
from .interpreter import Interpreter
from .readable import cache_directory

IMAGE_ENVIRONMENT: Final = "/opt/whimbrel-env"
BUILD_TIMEOUT_S: Final = 1800
_MARK: Final = "whimbrel-environment.json"
_NETWORK_VARIABLES: Final = (
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
)
_PIP_CONFIGURATIONS: Final = (
    "/etc/pip.conf",
    "/etc/xdg/pip/pip.conf",
    "~/.config/pip/pip.conf",
    "~/.pip/pip.conf",
)


@dataclass(frozen=True)
class Wanted:
    """What to install."""

    requirements: tuple[str, ...]
    pins: tuple[str, ...]
    sources: tuple[str, ...]

    def files(self) -> dict[str, bytes]:
        return {
            "requirements.txt": "".join(f"{line}\n" for line in self.requirements).encode(),
            "constraints.txt": "".join(f"{line}\n" for line in self.pins).encode(),
        }

    def shown_sources(self) -> str:
        return ", ".join(self.sources) or "nothing declared"


def wanted(dependencies: Dependencies, *, pytest: bool) -> Wanted:
    """Everything declared, and pytest when the tests need it and nobody says so."""
    lines = dict.fromkeys((*dependencies.runtime, *dependencies.test))
    named = (re.match(r"[A-Za-z0-9._-]+", line) for line in lines)
    if pytest and "pytest" not in {match[0].lower() for match in named if match}:
        lines["pytest"] = None
    return Wanted(tuple(lines), dependencies.pins, dependencies.sources)


async def build_virtualenv(
    base: Interpreter, want: Wanted, *, trusted: bool, report: Callable[[str], None]
) -> Path:
    """A virtual environment in the cache with the wanted distributions; made once per content.

    After pip's single run nothing of it is executed on the host.

    Returns:
        Its directory.

    Raises:
        EnvironmentBroken: it cannot be made; the message holds pip's own words.
    """
    key = _key(str(base.base_binary), base.version, base.base_binary.stat().st_mtime_ns, want, trusted)
    place = cache_directory() / "environments" / key
    place.parent.mkdir(parents=True, exist_ok=True)
    with _locked(place.with_name(f"{key}.lock")):
        if (place / _MARK).is_file():
            return place
        shutil.rmtree(place, ignore_errors=True)
        report(f"installing the project's test dependencies ({want.shown_sources()}) once")
        try:
            await _make(base, place, want, trusted)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        atomic_write(place / _MARK, json.dumps({"sources": want.sources}).encode())
    return place


async def _make(base: Interpreter, place: Path, want: Wanted, trusted: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="whimbrel-install-") as name:
        scratch = Path(name)
        for file, content in want.files().items():
            atomic_write(scratch / file, content)
        made = await _run([str(base.base_binary), "-I", "-m", "venv", str(place)], scratch)
        if made.exit_code != 0:
            raise EnvironmentBroken(
                f"{base.base_binary} cannot make a virtual environment: {last_words(made)}",
                hint="install its venv and ensurepip modules, or make .venv yourself",
            )
        argv = [str(place / "bin" / "python"), "-I", "-m", "pip", "install", "--progress-bar=off"]
        if not trusted:
            argv.append("--only-binary=:all:")
        argv += ["-r", str(scratch / "requirements.txt"), "-c", str(scratch / "constraints.txt")]
        installed = await _run(argv, scratch)
        if installed.exit_code != 0:
            raise EnvironmentBroken(
                f"the project's test dependencies cannot be installed: {last_words(installed)}",
                hint="make .venv with them"
                if trusted
                else "make .venv with them, or pass --trust to allow packages that must be built",
            )


async def _run(argv: Sequence[str], scratch: Path) -> ExecResult:
    keep = (*_NETWORK_VARIABLES, *(name for name in os.environ if name.startswith("PIP_")))
    return await run_process(
        argv,
        cwd=scratch,
        env=base_environment(keep=keep),
        log_path=scratch / "output.log",
        timeout_s=BUILD_TIMEOUT_S,
    )


def last_words(result: ExecResult) -> str:
    """The error lines of a tool's output, bounded, without credentials in URLs."""
    if result.timed_out:
        return "it took too long"
    lines = [line.strip() for line in result.text().splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    text = " / ".join((errors or lines)[-2:]) or f"exit code {result.exit_code}"
    return re.sub(r"://[^/@\s]+@", "://***@", text)[:400]


async def build_image_layer(
    base: str | None, want: Wanted, *, report: Callable[[str], None]
) -> tuple[str, str]:
    """A container image with a virtual environment of the image's own Python; made once per content.

    Returns:
        The image and the interpreter inside it.

    Raises:
        SandboxUnavailable: no daemon, no base image, or a command failed.
    """
    from ....sandbox.images import build_layer, usable_image

    if base is None:
        base = (await usable_image(None, allow_build=True, report=report)).reference
    python = f"{IMAGE_ENVIRONMENT}/bin/python"
    tag = f"whimbrel/project:{_key(base, want)[:12]}"
    commands = [
        f"python3 -m venv {IMAGE_ENVIRONMENT}",
        shlex.join([python, "-m", "pip", "install", "--no-cache-dir", "--progress-bar=off"])
        + " -r /mnt/requirements.txt -c /mnt/constraints.txt",
    ]
    env, mounts = _pip_settings(os.environ)
    with tempfile.TemporaryDirectory(prefix="whimbrel-layer-") as name:
        for file, content in want.files().items():
            atomic_write(Path(name) / file, content)
        made = await build_layer(
            base,
            commands,
            tag=tag,
            context_dir=Path(name),
            mounts=mounts,
            env=env,
            timeout_s=BUILD_TIMEOUT_S,
            report=report,
        )
    return made.reference, python


async def build_repository_image(
    repository: Path, dockerfile: str, context: str, *, digest: str, report: Callable[[str], None]
) -> str:
    """The image of a trusted repository's Dockerfile, by the container program's own ``build``.

    Raises:
        SandboxUnavailable: there is no such program, or the build failed.
    """
    program = shutil.which("docker") or shutil.which("podman")
    if program is None:
        raise SandboxUnavailable(
            f"building {dockerfile} needs the docker command, which is not installed",
            hint="install it, or name a ready image in the recipe",
        )
    tag = f"whimbrel/project:{digest[:12]}"
    report(f"building {dockerfile}")
    argv = [program, "build", "--tag", tag, "--file", str(repository / dockerfile), str(repository / context)]
    with tempfile.TemporaryDirectory(prefix="whimbrel-image-") as scratch:
        keep = (*_NETWORK_VARIABLES, "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_RUNTIME_DIR")
        result = await run_process(
            argv,
            cwd=repository,
            env=base_environment(keep=keep),
            log_path=Path(scratch) / "build.log",
            timeout_s=BUILD_TIMEOUT_S,
        )
    if result.exit_code != 0:
        raise SandboxUnavailable(f"{dockerfile} cannot be built: {last_words(result)}")
    return tag


def _pip_settings(environ: Mapping[str, str]) -> tuple[dict[str, str], tuple[Mount, ...]]:
    """pip's configuration for a container: variables, its files, and local folders of packages they name."""
    env = {
        name: value
        for name, value in environ.items()
        if name.startswith("PIP_") or name in _NETWORK_VARIABLES
    }
    mounts: dict[str, Mount] = {}
    texts = list(env.values())
    for name in _PIP_CONFIGURATIONS:
        path = Path(name).expanduser()
        if path.is_file():
            texts.append(path.read_text(encoding="utf-8", errors="replace"))
            target = "/etc/pip.conf" if name.startswith("~") else name
            mounts[target] = Mount(path.resolve(), target)
    for word in re.split(r"[\s=,'\"]+", "\n".join(texts)):
        path = Path(urlsplit(word).path if word.startswith("file://") else word)
        if path.name == "simple":
            # An index on disk: its pages link to files that lie beside it.
            path = path.parent
        if path.is_absolute() and len(path.parts) > 2 and path.exists():
            mounts[str(path)] = Mount(path.resolve(), str(path))
    return env, tuple(mounts.values())


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


@contextmanager
def _locked(path: Path) -> Generator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
