"""Probes of what keeps a repository's code away from this machine, by starting it where possible."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

from ...sandbox.base.errors import SandboxUnavailable
from .advice import install_line
from .finding import Finding, State
from .probing import first_line, version_in

_ISOLATION_COST = "one of Docker, Podman or bubblewrap is needed to run a repository's code isolated"


async def docker() -> list[Finding]:
    """The container daemon Whimbrel would use (Docker's socket or Podman's) and its image."""
    from ...sandbox.daemon import connect, daemon_address

    address = daemon_address()
    socket = address.removeprefix("unix://")
    if socket != address and not Path(socket).exists():
        # The common case without Docker: answered without loading the SDK.
        how = install_line("docker")
        if shutil.which("dockerd"):
            how = "sudo systemctl start docker"
        elif shutil.which("podman"):
            how = "systemctl --user start podman.socket"
        if os.environ.get("DOCKER_HOST"):
            how = "start the daemon that DOCKER_HOST names, or unset DOCKER_HOST"
        detail = f"no daemon: there is no socket at {socket}"
        return [Finding("sandbox", "Docker", State.MISSING, detail, _ISOLATION_COST, how)]
    try:
        daemon = await connect()
    except SandboxUnavailable as error:
        return [Finding("sandbox", "Docker", State.MISSING, error.message, _ISOLATION_COST, error.hint)]
    try:
        from ...sandbox.images import default_image

        found = Finding("sandbox", "Docker", State.OK, f"{daemon.name} answers at {daemon.address}")
        image = await default_image(daemon)
        if image is None:
            picture = Finding(
                "sandbox",
                "Docker image",
                State.MISSING,
                "the daemon has no Whimbrel image",
                "the first run has to build one (minutes)",
                "whimbrel sandbox build",
            )
        else:
            picture = Finding(
                "sandbox", "Docker image", State.OK, f"{image.reference}, {image.size_bytes >> 20} MiB"
            )
        limits = [
            Finding("sandbox", "Docker limits", State.LIMITED, line, "such a limit is not enforced")
            for line in daemon.missing_limits()
        ]
        return [found, picture, *limits]
    finally:
        daemon.close()


async def podman() -> list[Finding]:
    line = await first_line(["podman", "--version"])
    if line is None:
        return [
            Finding(
                "sandbox",
                "Podman",
                State.MISSING,
                "not installed",
                "nothing is lost where Docker or bubblewrap works",
                install_line("podman"),
            )
        ]
    return [Finding("sandbox", "Podman", State.OK, version_in(line))]


async def bubblewrap() -> list[Finding]:
    """Whether bubblewrap really isolates here: it is started with all protections on."""
    install = install_line("bubblewrap")
    if not sys.platform.startswith("linux"):
        return [Finding("sandbox", "bubblewrap", State.MISSING, "exists on Linux only", _ISOLATION_COST)]
    if shutil.which("bwrap") is None:
        return [Finding("sandbox", "bubblewrap", State.MISSING, "not installed", _ISOLATION_COST, install)]
    from ...sandbox.bwrap import probe_bwrap

    try:
        version = await probe_bwrap()
    except SandboxUnavailable as error:
        how = error.hint or install
        return [Finding("sandbox", "bubblewrap", State.MISSING, error.message, _ISOLATION_COST, how)]
    return [Finding("sandbox", "bubblewrap", State.OK, f"{version} starts and isolates")]


async def debootstrap() -> list[Finding]:
    found = shutil.which("debootstrap")
    if found:
        return [Finding("sandbox", "debootstrap", State.OK, found)]
    return [
        Finding(
            "sandbox",
            "debootstrap",
            State.MISSING,
            "not installed",
            "images cannot be built without an image registry",
            install_line("debootstrap"),
        )
    ]


async def cgroups() -> list[Finding]:
    """Which limits control groups can really enforce for bubblewrap here: tried by making one."""
    if not sys.platform.startswith("linux"):
        return []
    mounts = await asyncio.to_thread(Path("/proc/self/mountinfo").read_text, "utf-8", "replace")
    kinds = {line.partition(" - ")[2].split()[0] for line in mounts.splitlines() if " - " in line}
    version = {(True, True): "v1 and v2", (True, False): "v1", (False, True): "v2"}.get(
        ("cgroup" in kinds, "cgroup2" in kinds), "none"
    )
    if version == "none":
        cost = "process count and memory are not limited together under bubblewrap"
        return [Finding("machine", "control groups", State.MISSING, "none mounted", cost)]
    from ...sandbox.bwrap.cgroups import CONTROLLERS, create_groups
    from ...sandbox.protocol import SandboxLimits

    groups = await asyncio.to_thread(create_groups, "doctor", SandboxLimits())
    try:
        usable = groups.controllers
    finally:
        await asyncio.to_thread(groups.remove)
    lacking = [name for name in CONTROLLERS if name not in usable]
    detail = f"{version}; usable here: {', '.join(sorted(usable)) or 'none'}"
    if not lacking:
        return [Finding("machine", "control groups", State.OK, detail)]
    cost = f"under bubblewrap {', '.join(lacking)} of a whole run cannot be limited (Docker does it itself)"
    return [Finding("machine", "control groups", State.LIMITED, detail, cost)]


async def user_namespaces() -> list[Finding]:
    if not sys.platform.startswith("linux"):
        return []
    line = await first_line(["unshare", "--user", "--map-root-user", "echo", "yes"])
    if line == "yes":
        return [Finding("machine", "user namespaces", State.OK, "available")]
    if shutil.which("unshare") is None:
        return [Finding("machine", "user namespaces", State.UNKNOWN, "unshare is not installed to try them")]
    return [
        Finding(
            "machine",
            "user namespaces",
            State.MISSING,
            "this kernel or container refuses them",
            "bubblewrap works for root only; inside a container use --sandbox outer",
        )
    ]
