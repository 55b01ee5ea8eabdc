"""Images for common stacks from the Dockerfiles beside this module."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, cast

from .. import labels
from ..base.errors import SandboxUnavailable, UsageError
from ..daemon import Daemon, ask
from .info import ImageInfo, find_image, split_name

STACKS = ("python", "node", "go", "rust", "java", "cpp")

DEBIAN_PACKAGES: Mapping[str, str] = {
    "python": "build-essential pkg-config python3-dev python3-pip",
    "node": "nodejs npm",
    "go": "golang-go",
    "rust": "rustc cargo",
    "java": "default-jdk-headless maven",
    "cpp": "build-essential cmake ninja-build pkg-config",
}
"""What turns our Debian base image into a stack where no registry with ready ones can be reached."""

_NETWORK_TROUBLE = (
    "temporary failure resolving",
    "could not resolve",
    "connection timed out",
    "connection refused",
    "network is unreachable",
    "temporary failure in name resolution",
    "failed to establish a new connection",
)


def looks_like_network_trouble(text: str) -> bool:
    """Whether a failed build's output says that the network, not the recipe, was at fault."""
    text = text.lower()
    return any(words in text for words in _NETWORK_TROUBLE)


def dockerfile(stack: str) -> str:
    """The text of the stack's Dockerfile."""
    if stack not in STACKS:
        raise UsageError(f"unknown stack {stack!r}", hint=f"one of {', '.join(STACKS)}")
    return (files(__name__.rpartition(".")[0]) / f"Dockerfile.{stack}").read_text("utf-8")


async def build_stack(
    daemon: Daemon,
    stack: str,
    *,
    base: ImageInfo | None = None,
    tag: str | None = None,
    network_mode: str | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> ImageInfo:
    """Makes ``whimbrel/<stack>:latest``, or finds it already made.

    Args:
        base: a local image to start from; None = the stack's official image, from a registry.
            Our own Debian base gets the stack's Debian packages.
        network_mode: network of the build steps; None = the default bridge, then the host's
            when the bridge turns out not to work.

    Raises:
        UsageError: no such stack.
        SandboxUnavailable: the registry or the package mirror cannot be reached, or a step failed.
    """
    text = dockerfile(stack)
    reference = ":".join(split_name(tag or f"whimbrel/{stack}:latest"))
    arguments: dict[str, str] = {}
    if base:
        arguments["BASE"] = base.reference
        if base.kind == "base":
            arguments["PACKAGES"] = DEBIAN_PACKAGES[stack]
    key = hashlib.sha256(
        json.dumps([text, arguments, base.digest if base else ""], sort_keys=True).encode()
    ).hexdigest()
    found = await find_image(daemon, reference)
    if found and found.labels.get(labels.KEY) == key:
        return found
    marks = {labels.REFERENCE: reference, labels.KIND: "stack", labels.KEY: key, "whimbrel.stack": stack}
    return await build_dockerfile(
        daemon, text, reference, marks, arguments=arguments, network_mode=network_mode, report=report
    )


async def build_dockerfile(
    daemon: Daemon,
    text: str,
    reference: str,
    marks: Mapping[str, str],
    *,
    arguments: Mapping[str, str] | None = None,
    network_mode: str | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> ImageInfo:
    """Builds a Dockerfile that needs no context files; ``marks`` become labels of the image.

    Raises:
        SandboxUnavailable: a step failed; the message holds its last lines.
    """
    problem = ""
    for mode in (network_mode,) if network_mode else ("default", "host"):
        report(f"building {reference}" + (" with the host's network" if mode == "host" else ""))
        problem = await ask(
            f"building {reference}", _build, daemon, text, reference, marks, arguments or {}, mode
        )
        if not problem:
            break
        if not looks_like_network_trouble(problem):
            break
    found = None if problem else await find_image(daemon, reference)
    if found is None:
        raise SandboxUnavailable(
            f"{reference} could not be built: {problem or 'no image came out'}",
            hint="--from-debian needs no registry; --from IMAGE starts from a local image",
        )
    return found


def _build(
    daemon: Daemon,
    text: str,
    reference: str,
    marks: Mapping[str, str],
    arguments: Mapping[str, str],
    mode: str,
) -> str:
    """Blocking; returns what went wrong in at most a few lines, or empty."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        content = text.encode()
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    context.seek(0)
    lines: list[str] = []
    steps = daemon.api.build(
        fileobj=context,
        custom_context=True,
        tag=reference,
        labels=dict(marks),
        buildargs=dict(arguments),
        network_mode=mode,
        rm=True,
        forcerm=True,
        decode=True,
        timeout=None,
    )
    for step in cast("list[dict[str, Any]]", steps):
        if "error" in step:
            said = " / ".join(line for line in lines[-6:] if line)
            return " ".join(f"{step['error']}: {said}".split())[-800:]
        lines = [*lines, *str(step.get("stream", "")).strip().splitlines()][-20:]
    return ""
