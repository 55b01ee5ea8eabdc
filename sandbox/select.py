"""Which sandbox a run gets: the choice is explicit, recorded, and never quietly weaker than asked for.

``auto`` means docker when a daemon answers and has (or may build) a usable image, then
bubblewrap when it really starts, else nothing. A kind named by the person is tried alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .base.errors import SandboxUnavailable, UsageError
from .base.identity import SANDBOX_GID, SANDBOX_UID
from .protocol import Sandbox, SandboxSpec, SnapshotStore

KINDS = ("auto", "docker", "bwrap", "host", "outer")
HOW_TO_GET_ONE = (
    "start a Docker daemon (then `whimbrel sandbox build` once), or install bubblewrap, "
    "or accept no isolation with --sandbox host"
)


@dataclass(frozen=True)
class Choice:
    """The kind of sandbox a run uses and why; written to the result."""

    kind: str
    """docker, bwrap, host or outer."""
    image: str | None = None
    image_digest: str | None = None
    reasons: tuple[str, ...] = ()
    """One line per fact that led here, in order, including what was tried and refused."""


async def choose_kind(
    requested: str,
    *,
    image: str | None,
    allow_build: bool,
    report: Callable[[str], None],
) -> Choice:
    """Settles which sandbox to use.

    Args:
        requested: one of ``KINDS``.
        image: the container image the person asked for, or None for the default one; makes ``auto``
            mean docker.
        allow_build: whether a missing image may be built now (minutes, needs the network).
        report: receives progress lines while an image is built.

    Raises:
        UsageError: ``requested`` is no kind we know.
        SandboxUnavailable: the kind asked for (or, for auto, any isolating kind) cannot start.
    """
    match requested:
        case "docker":
            return await _docker(image, allow_build, report)
        case "bwrap":
            return await _bwrap()
        case "host":
            return Choice(
                "host", reasons=("asked for explicitly: commands run on this machine, not isolated",)
            )
        case "outer":
            return Choice("outer", reasons=outer_evidence())
        case "auto":
            return await _auto(image, allow_build, report)
        case _:
            raise UsageError(f"unknown sandbox {requested!r}", hint=f"one of {', '.join(KINDS)}")


def make_sandbox(choice: Choice, spec: SandboxSpec, store: SnapshotStore) -> Sandbox:
    """The sandbox of the chosen kind, not yet started."""
    match choice.kind:
        case "docker":
            from .docker import DockerSandbox

            return DockerSandbox(spec, store)
        case "bwrap":
            from .bwrap import BwrapSandbox

            return BwrapSandbox(spec, store)
        case "host" | "outer":
            from .host import HostSandbox

            return HostSandbox(spec, store, outer=choice.kind == "outer")
        case other:
            raise UsageError(f"unknown sandbox {other!r}", hint=f"one of {', '.join(KINDS)}")


def workspace_owner(kind: str) -> tuple[int, int] | None:
    """The uid and gid the workspace copy must belong to, or None for the caller's own.

    Isolating sandboxes started by root run commands as a fixed non-root user, who must own the copy.
    """
    if kind in ("docker", "bwrap") and os.geteuid() == 0:
        return SANDBOX_UID, SANDBOX_GID
    return None


def outer_evidence(root: Path = Path("/")) -> tuple[str, ...]:
    """What says that this process already lives in a container; one line per finding.

    ``outer`` trusts the person's word that the container is a throw-away one, so nothing
    found is recorded as such instead of refused: some CI systems leave no trace.
    """
    found: list[str] = []
    for marker in (".dockerenv", "run/.containerenv"):
        if (root / marker).exists():
            found.append(f"/{marker} exists")
    named = os.environ.get("container")  # noqa: SIM112 - spelt so by systemd-nspawn and Podman
    if named:
        found.append(f"the environment says container={named[:40]!r}")
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        found.append("the environment is a Kubernetes pod's")
    for line in _lines(root / "proc/1/cgroup"):
        path = line.rpartition(":")[2]
        if any(word in path for word in ("docker", "kubepods", "containerd", "libpod", "lxc", "garden")):
            found.append(f"process 1 is in the control group {path[:80]}")
            break
    asked = "asked for explicitly: the surrounding container is the only isolation"
    if not found:
        return (asked, "no sign of a surrounding container was found on this machine")
    return (asked, *found)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


async def _docker(image: str | None, allow_build: bool, report: Callable[[str], None]) -> Choice:
    from .images import usable_image

    usable = await usable_image(image, allow_build=allow_build, report=report)
    return Choice(
        "docker", usable.reference, usable.digest, (f"a Docker daemon answers and has {usable.reference}",)
    )


async def _bwrap() -> Choice:
    from .bwrap import probe_bwrap

    version = await probe_bwrap()
    return Choice("bwrap", reasons=(f"{version} starts here",))


async def _auto(image: str | None, allow_build: bool, report: Callable[[str], None]) -> Choice:
    if image is not None:
        # Only a container can be what the person asked for.
        return await _docker(image, allow_build, report)
    refused: list[str] = []
    try:
        chosen = await _docker(image, allow_build, report)
    except SandboxUnavailable as error:
        refused.append(f"docker: {error.message}")
    else:
        return chosen
    try:
        chosen = await _bwrap()
    except SandboxUnavailable as error:
        refused.append(f"bwrap: {error.message}")
        raise SandboxUnavailable(
            f"no isolating sandbox can start here; {'; '.join(refused)}", hint=HOW_TO_GET_ONE
        ) from error
    return Choice(chosen.kind, reasons=(*refused, *chosen.reasons))
