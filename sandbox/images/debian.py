"""The base image from Debian packages: debootstrap, then an import; no image registry involved."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from .. import labels
from ..base.errors import SandboxUnavailable
from ..base.identity import SANDBOX_GID, SANDBOX_UID
from ..base.process import base_environment, run_process
from ..base.results import ExecResult
from ..daemon import Daemon, ask
from .info import ImageInfo, find_image, remove_image, split_name
from .scratch import build_scratch

REPOSITORY = "whimbrel/base"
DEFAULT_SUITE = "bookworm"
PACKAGES = ("ca-certificates", "git", "perl", "procps", "python3", "python3-gdbm", "python3-venv", "ripgrep")
"""What every sandbox has. Beside themselves, python3, python3-gdbm and perl bring in the shared
libraries that interpreters mounted from the host need (ssl, ffi, sqlite3, z, bz2, lzma, readline,
ncurses, expat, gdbm, uuid, db), under whatever names the suite gives them."""

NEEDED_BYTES = 2 << 30
_TIMEOUT_S = 1800
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LEFT_OUT = (
    "./dev/*",
    "./proc/*",
    "./sys/*",
    "./debootstrap",
    "./var/cache/apt/archives/*.deb",
    "./var/lib/apt/lists/*",
    "./usr/share/doc/*",
    "./usr/share/man/*",
    "./usr/share/locale/*",
)
_RECIPE = "2"
"""Raised when the steps below change what comes out, so that older images are not taken for current."""


def host_suite(os_release: Path = Path("/etc/os-release")) -> str:
    """The host's own Debian suite (its shared libraries then match), or the default one elsewhere."""
    try:
        text = os_release.read_text("utf-8", "replace")
    except OSError:
        return DEFAULT_SUITE
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if fields.get("ID", "").strip("\"'") != "debian":
        return DEFAULT_SUITE
    return fields.get("VERSION_CODENAME", "").strip("\"'") or DEFAULT_SUITE


def host_mirror(suite: str, apt: Path = Path("/etc/apt")) -> str | None:
    """The mirror the host's apt configuration names for ``suite``, or None (debootstrap has one)."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for path in files:
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        found = _deb822_mirror(text, suite) if path.suffix == ".sources" else _one_line_mirror(text, suite)
        if found:
            return found
    return None


def cannot_build() -> SandboxUnavailable | None:
    """Why an image cannot be made from Debian packages here, or None when it can."""
    if shutil.which("debootstrap") is None:
        return SandboxUnavailable(
            "debootstrap, which makes an image from Debian packages, is not installed",
            hint="apt-get install debootstrap, or `whimbrel sandbox build --stack python` with a registry",
        )
    if os.geteuid() != 0:
        return SandboxUnavailable(
            "making an image from Debian packages needs root (debootstrap changes root and owners)",
            hint="sudo whimbrel sandbox build --from-debian",
        )
    return None


async def build_base(
    daemon: Daemon,
    *,
    suite: str | None = None,
    mirror: str | None = None,
    tag: str | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> ImageInfo:
    """Makes ``whimbrel/base:<suite>`` or finds it already made.

    Args:
        suite: Debian code name; None = the host's own.
        mirror: package mirror; None = the host's apt configuration, then debootstrap's default.
        tag: another full name for the image.
        report: receives progress lines.

    Raises:
        SandboxUnavailable: debootstrap or root is missing, the disk is too small, or a step failed.
    """
    suite = suite or host_suite()
    if not re.fullmatch(r"[a-z][a-z0-9-]*", suite):
        raise SandboxUnavailable(f"{suite!r} is no Debian suite", hint="for example --suite bookworm")
    reference = ":".join(split_name(tag or f"{REPOSITORY}:{suite}"))
    key = _key(suite)
    found = await _current(daemon, reference, key)
    if found:
        return found
    problem = cannot_build()
    if problem:
        raise problem
    async with build_scratch(NEEDED_BYTES) as scratch:
        found = await _current(daemon, reference, key)
        if found:
            return found
        replaced = await find_image(daemon, reference)
        report(f"making {reference} from Debian packages (once; one to three minutes)")
        root = scratch / "root"
        await _debootstrap(suite, mirror or host_mirror(suite), root, scratch)
        _add_user(root)
        report("packing the file system")
        archive = await _pack(root, scratch)
        report("importing it into the container daemon")
        with archive.open("rb") as stream:
            await _import(daemon, stream, reference, key, suite)
    if replaced and replaced.kind == "base":
        await remove_image(daemon, replaced.digest)
    found = await find_image(daemon, reference)
    if found is None:
        raise SandboxUnavailable(f"the container daemon imported {reference} but does not have it")
    return found


async def _current(daemon: Daemon, reference: str, key: str) -> ImageInfo | None:
    found = await find_image(daemon, reference)
    return found if found and found.labels.get(labels.KEY) == key else None


async def _debootstrap(suite: str, mirror: str | None, root: Path, scratch: Path) -> None:
    argv = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(root)]
    if mirror:
        argv.append(mirror)
    if shutil.which("unshare"):
        # Its mounts below the new root vanish with a private mount namespace, however it ends.
        argv = ["unshare", "--mount", *argv]
    result = await run_process(
        argv,
        cwd=scratch,
        env=base_environment({"PATH": _PATH, "LC_ALL": "C"}, keep=("http_proxy", "https_proxy", "no_proxy")),
        log_path=scratch / "debootstrap.log",
        timeout_s=_TIMEOUT_S,
    )
    _check(result, f"debootstrap could not make a {suite} system", root / "debootstrap/debootstrap.log")


async def _pack(root: Path, scratch: Path) -> Path:
    archive = scratch / "root.tar"
    argv = ["tar", "--numeric-owner", "--xattrs", "-C", str(root), "-cf", str(archive)]
    argv += [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    result = await run_process(
        [*argv, "."],
        cwd=scratch,
        env=base_environment({"PATH": _PATH, "LC_ALL": "C"}),
        log_path=scratch / "tar.log",
        timeout_s=_TIMEOUT_S,
    )
    _check(result, "the new file system could not be packed")
    return archive


async def _import(daemon: Daemon, stream: BinaryIO, reference: str, key: str, suite: str) -> None:
    repository, tag = split_name(reference)
    marks = {labels.REFERENCE: reference, labels.KIND: "base", labels.KEY: key, "whimbrel.suite": suite}
    changes = [f"LABEL {name}={json.dumps(value)}" for name, value in marks.items()]
    changes += [f"ENV PATH={_PATH}", "ENV LANG=C.UTF-8", 'CMD ["/bin/sh"]']
    answer = await ask(
        "importing the base image",
        daemon.api.import_image,
        src=stream,
        repository=repository,
        tag=tag,
        changes=changes,
    )
    for line in str(answer).splitlines():
        if '"error"' in line:
            raise SandboxUnavailable(f"the container daemon could not import the image: {line[:300]}")


def _add_user(root: Path) -> None:
    """Gives the fixed unprivileged identity a name: tools look up who they run as."""
    entry = f"whimbrel:x:{SANDBOX_UID}:{SANDBOX_GID}:Whimbrel sandbox:/home/whimbrel:/bin/sh\n"
    with (root / "etc/passwd").open("a") as passwd:
        passwd.write(entry)
    with (root / "etc/group").open("a") as group:
        group.write(f"whimbrel:x:{SANDBOX_GID}:\n")


def _check(result: ExecResult, what: str, extra_log: Path | None = None) -> None:
    if result.exit_code == 0 and not result.timed_out:
        return
    text = result.text()
    if extra_log and extra_log.exists():
        text += extra_log.read_text("utf-8", "replace")[-20000:]
    if "No space left on device" in text:
        raise SandboxUnavailable(
            f"{what}: the disk is full", hint="free some, or point TMPDIR at a larger disk"
        )
    if result.timed_out:
        raise SandboxUnavailable(f"{what} within {_TIMEOUT_S // 60} minutes", hint="is the mirror reachable?")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E:", "tar:", "W: Failure"))]
    said = "; ".join((errors or lines)[-2:])[:300]
    raise SandboxUnavailable(f"{what}: {said}", hint="is the mirror reachable? (--mirror URL)")


def _key(suite: str) -> str:
    parts = json.dumps([_RECIPE, suite, PACKAGES, platform.machine(), SANDBOX_UID, SANDBOX_GID])
    return hashlib.sha256(parts.encode()).hexdigest()


def _one_line_mirror(text: str, suite: str) -> str | None:
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+(.*)", line)
        if match and match[2] == suite and "main" in match[3].split():
            return match[1]
    return None


def _deb822_mirror(text: str, suite: str) -> str | None:
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, list[str]] = {}
        for line in stanza.splitlines():
            name, colon, value = line.partition(":")
            if colon and not line.startswith(("#", " ", "\t")):
                fields[name.strip().lower()] = value.split()
        if fields.get("enabled") == ["no"] or "deb" not in fields.get("types", []):
            continue
        if suite in fields.get("suites", []) and "main" in fields.get("components", []):
            uris = fields.get("uris") or []
            if uris:
                return uris[0]
    return None
