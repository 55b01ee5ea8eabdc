"""A project's own image layer: commands run once in a container on a base image, then committed.

This needs no image registry and no Dockerfile; the network is open for these commands only.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from .. import labels
from ..base.errors import SandboxUnavailable
from ..daemon import Daemon, ask, connect, make_container
from ..protocol import Mount
from .info import ImageInfo, find_image, list_images, remove_image, split_name
from .stacks import looks_like_network_trouble

CONTEXT = "/mnt"
"""Where the context directory appears, read-only, while the commands run."""
_LOG_LINES = 400


async def build_layer(
    base: str,
    commands: Sequence[str],
    *,
    tag: str,
    context_dir: Path | None = None,
    mounts: Sequence[Mount] = (),
    env: Mapping[str, str] | None = None,
    network: bool = True,
    network_mode: str | None = None,
    cache_key: str | None = None,
    timeout_s: float = 1800,
    report: Callable[[str], None] = lambda line: None,
) -> ImageInfo:
    """Makes an image from ``base`` by running shell commands as root in it, or finds it already made.

    Args:
        base: a local image.
        commands: lines for /bin/sh; the first that fails ends the build.
        tag: full name of the new image (``whimbrel/project:1a2b3c``).
        context_dir: files the commands need, seen read-only at ``/mnt`` (also their working directory).
        mounts: further host paths the commands need (a folder of wheels); never part of the image.
        env: variables for the commands only; not kept in the image.
        network: whether the commands may reach the network.
        network_mode: None = the default bridge, then the host's network when the bridge does not work.
        cache_key: what decides whether an earlier layer is the same; None = the content of ``context_dir``.
            The base image, the commands and ``env`` always count as well.

    Raises:
        SandboxUnavailable: no daemon, no such base, or a command failed (its last lines are in the message).
    """
    tag = ":".join(split_name(tag))
    daemon = await connect()
    try:
        parent = await find_image(daemon, base)
        if parent is None:
            raise SandboxUnavailable(f"the base image {base} is not on this machine")
        if cache_key is None:
            cache_key = await asyncio.to_thread(_content_hash, context_dir) if context_dir else ""
        parts = [parent.digest, list(commands), sorted((env or {}).items()), cache_key]
        key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        for known in await list_images(daemon, kind="layer", key=key):
            if known.reference == tag:
                return known
            await ask("naming the image", daemon.api.tag, known.digest, *split_name(tag), force=True)
            return await _require(daemon, tag)
        await labels.sweep_leftovers(daemon)
        replaced = await find_image(daemon, tag)
        binds = list(mounts)
        if context_dir:
            binds.append(Mount(context_dir, CONTEXT))
        modes = ["none"] if not network else [network_mode] if network_mode else ["bridge", "host"]
        for mode in modes:
            report(f"building {tag}" + (" with the host's network" if mode == "host" else ""))
            code, log = await _run_and_commit(
                daemon, parent, commands, tag, key, binds, env or {}, mode, timeout_s, report
            )
            if code == 0:
                if replaced and replaced.labels.get(labels.REFERENCE) == tag:
                    await remove_image(daemon, replaced.digest)
                return await _require(daemon, tag)
            if mode == modes[-1] or not looks_like_network_trouble(log):
                last = " / ".join(line.strip() for line in log.splitlines()[-6:] if line.strip())
                raise SandboxUnavailable(f"{tag} could not be built (exit code {code}): {last[-800:]}")
        raise AssertionError("unreachable: the last mode returns or raises")
    finally:
        daemon.close()


async def _run_and_commit(
    daemon: Daemon,
    parent: ImageInfo,
    commands: Sequence[str],
    tag: str,
    key: str,
    mounts: Sequence[Mount],
    env: Mapping[str, str],
    mode: str,
    timeout_s: float,
    report: Callable[[str], None],
) -> tuple[int, str]:
    """One try; returns the exit code and the last lines of output. The container never survives."""
    api = daemon.api
    # Exported by the script, not set on the container: a commit would keep the latter in the image.
    variables = {"DEBIAN_FRONTEND": "noninteractive", "PIP_NO_INPUT": "1", **env}
    script = "\n".join(
        [*(f"export {name}={shlex.quote(value)}" for name, value in variables.items()), *commands]
    )
    host_config = api.create_host_config(
        network_mode=mode,
        mounts=[_bind(mount) for mount in mounts],
        init=True,
        security_opt=["no-new-privileges:true"],
        pids_limit=4096,
    )
    name = f"whimbrel-build-{secrets.token_hex(6)}"
    config: dict[str, Any] = {
        "image": parent.reference,
        "entrypoint": ["/bin/sh", "-ec"],
        "command": [script, "build"],
        "user": "0:0",
        "working_dir": CONTEXT if any(mount.target == CONTEXT for mount in mounts) else "/",
        "labels": labels.owner_labels(tag, "build"),
        "host_config": host_config,
        "use_config_proxy": False,
    }
    identity = await make_container(daemon, "creating the build container", name, config)
    try:
        await ask("starting the build container", api.start, identity)
        code = await _follow(daemon, identity, timeout_s, report)
        log = await _log(daemon, identity, _LOG_LINES)
        if code == 0:
            await ask("keeping the image", _commit, daemon, identity, tag, key, parent)
        return code, log
    finally:
        # Shielded: a cancelled build must still remove its container.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(
                ask("removing the build container", api.remove_container, identity, force=True, v=True)
            )


def _commit(daemon: Daemon, identity: str, tag: str, key: str, parent: ImageInfo) -> None:
    repository, version = split_name(tag)
    marks = {name: value for name, value in parent.labels.items() if not name.startswith("whimbrel.")}
    marks |= {labels.REFERENCE: tag, labels.KIND: "layer", labels.KEY: key, "whimbrel.parent": parent.digest}
    # Committing merges the container's labels in; emptied, they name no owner.
    marks |= {labels.RUN: "", labels.PID: "", labels.BOOT: ""}
    config: dict[str, Any] = {
        "Labels": marks,
        "Env": [f"{name}={value}" for name, value in parent.env.items()],
        "Cmd": ["/bin/sh"],
        "Entrypoint": [],
        "WorkingDir": "/",
        "User": "",
    }
    daemon.api.commit(identity, repository=repository, tag=version, conf=config)


async def _follow(daemon: Daemon, identity: str, timeout_s: float, report: Callable[[str], None]) -> int:
    """Waits for the end, reporting the newest output line now and then; 124 after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    last = ""
    while True:
        state = cast(
            "dict[str, Any]",
            (await ask("looking at the build", daemon.api.inspect_container, identity))["State"],
        )
        if state.get("Status") in ("exited", "dead"):
            return int(state.get("ExitCode", 1))
        if time.monotonic() > deadline:
            return 124
        newest = await _log(daemon, identity, 1)
        if newest.strip() and newest != last:
            last = newest
            report(newest.strip()[:120])
        await asyncio.sleep(0.5)


async def _log(daemon: Daemon, identity: str, lines: int) -> str:
    raw = await ask("reading the build's output", daemon.api.logs, identity, tail=lines)
    return cast("bytes", raw).decode("utf-8", "replace")


async def _require(daemon: Daemon, tag: str) -> ImageInfo:
    found = await find_image(daemon, tag)
    if found is None:
        raise SandboxUnavailable(f"the container daemon built {tag} but does not have it")
    return found


def _bind(mount: Mount) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": str(mount.source),
        "Target": mount.target,
        "ReadOnly": mount.read_only,
    }


def _content_hash(folder: Path) -> str:
    """Hash of the names and contents of the regular files below ``folder``."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
            total.update(f"{path.relative_to(folder)}\0{content}\0".encode("utf-8", "surrogateescape"))
    return total.hexdigest()
