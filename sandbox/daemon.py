"""The way to a container daemon: Docker's, or Podman's Docker-compatible socket.

The SDK blocks, so every call to it goes through ``ask``, which runs it in a thread
and turns its many exceptions into one clear line.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .base.errors import SandboxUnavailable

if TYPE_CHECKING:
    from docker import APIClient


CONNECT_TIMEOUT_S = 10
CALL_TIMEOUT_S = 60
HOW_TO_START = "start it (`systemctl start docker`, or `dockerd` by hand), or choose --sandbox bwrap"

T = TypeVar("T")


@dataclass(frozen=True)
class Daemon:
    """A daemon that has answered.

    ``api`` is the SDK's low-level client; use it only inside ``ask``.
    """

    api: APIClient
    address: str
    """What it was reached by, for people (``unix:///var/run/docker.sock``)."""
    name: str
    """``Docker 20.10.24`` or ``Podman 4.3.1``."""
    podman: bool
    rootless: bool
    """The daemon lives in a user namespace: uid 0 inside is the person outside."""
    remapped: bool
    """A root daemon that maps container uids away (``userns-remap``)."""
    labelled: bool
    """SELinux labels decide what containers may read."""
    info: dict[str, Any] = field(default_factory=dict[str, Any])

    def missing_limits(self) -> tuple[str, ...]:
        """One line per resource limit this daemon's kernel cannot enforce."""
        wanted = {
            "MemoryLimit": "memory",
            "PidsLimit": "number of processes",
            "CPUCfsQuota": "processor share",
        }
        absent = [text for key, text in wanted.items() if self.info.get(key) is False]
        if self.info.get("SwapLimit") is False and self.info.get("MemoryLimit"):
            absent.append("swap")
        return tuple(f"{self.name} cannot limit the {text} of containers on this kernel" for text in absent)

    def close(self) -> None:
        self.api.close()


_LOOKING = "looking for it"


async def ask(doing: str, call: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Runs one blocking SDK call in a thread.

    Args:
        doing: what is being done, for the error line ("starting the container").

    Raises:
        SandboxUnavailable: the daemon is gone, too slow, or refuses; chained to the SDK's error.
            ``docker.errors.NotFound`` and conflicts (409) are passed on: callers know what they mean.
    """
    from docker.errors import APIError, DockerException, NotFound
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    try:
        return await asyncio.to_thread(call, *args, **kwargs)
    except NotFound:
        raise
    except APIError as error:
        if status_of(error) == 409:
            raise
        raise SandboxUnavailable(f"the container daemon refused {doing}: {explain(error)}") from error
    except (DockerException, RequestException, HTTPError, OSError) as error:
        raise unreachable(error, doing) from error


async def make_container(daemon: Daemon, doing: str, name: str, config: Mapping[str, Any]) -> str:
    """Creates a container and returns its id; a cancelled caller leaves none behind.

    Raises:
        SandboxUnavailable: as ``ask``; NotFound and conflicts (409) are passed on.
    """
    making = asyncio.ensure_future(ask(doing, daemon.api.create_container, name=name, **config))
    try:
        return str(cast("dict[str, Any]", await asyncio.shield(making))["Id"])
    except asyncio.CancelledError:
        # The SDK's call goes on in its thread: only after its end is there something to remove.
        await asyncio.wait([making])
        if not making.cancelled() and making.exception() is None:
            made = cast("dict[str, Any]", making.result())
            await ask("removing a container", daemon.api.remove_container, made["Id"], force=True, v=True)
        raise


def status_of(error: BaseException) -> int | None:
    """The HTTP status of an SDK error, or None."""
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    return status if isinstance(status, int) else None


def explain(error: BaseException) -> str:
    """The daemon's own words in one line of at most 400 characters."""
    text = getattr(error, "explanation", None) or str(error)
    return " ".join(str(text).split())[:400]


def unreachable(error: BaseException, doing: str) -> SandboxUnavailable:
    """The one line for a daemon that does not answer (refused, gone, or too slow)."""
    words = f"{type(error).__name__} {error}".lower()
    if "timed out" in words or "timeout" in words:
        return SandboxUnavailable(
            f"the container daemon did not answer in time while {doing}",
            hint="see whether `docker ps` answers; restart the daemon when it does not",
        )
    if "permission denied" in words:
        return SandboxUnavailable(
            "this user may not use the container daemon's socket",
            hint="add the user to the docker group and log in again, or use rootless Docker or Podman",
        )
    during = "" if doing == _LOOKING else f" any more ({doing})"
    return SandboxUnavailable(f"no container daemon answers at {daemon_address()}{during}", hint=HOW_TO_START)


def daemon_address() -> str:
    """Where the daemon is looked for: DOCKER_HOST, then the usual sockets of Docker and Podman."""
    if named := os.environ.get("DOCKER_HOST"):
        return named
    sockets = known_sockets()
    for path in sockets:
        if path.is_socket() and os.access(path, os.W_OK):
            return f"unix://{path}"
    return f"unix://{sockets[0]}"


def known_sockets() -> tuple[Path, ...]:
    """Sockets that give power over containers, in the order they are tried; they need not exist."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    paths = [Path("/var/run/docker.sock")]
    if runtime:
        paths += [Path(runtime, "docker.sock"), Path(runtime, "podman/podman.sock")]
    paths.append(Path("/run/podman/podman.sock"))
    return tuple(paths)


async def connect() -> Daemon:
    """Finds a daemon and learns what it can do.

    Raises:
        SandboxUnavailable: none answers; one line and how to start one.
    """
    return await ask(_LOOKING, _connect)


def _connect() -> Daemon:
    from docker import APIClient
    from docker.utils import kwargs_from_env

    address = daemon_address()
    options = cast("dict[str, Any]", kwargs_from_env())
    options.setdefault("base_url", address)
    # The first calls get a short limit: a hanging daemon must not hold the run back for a minute.
    api = APIClient(version="auto", timeout=CONNECT_TIMEOUT_S, **options)
    try:
        info = api.info()
        version = api.version()
    except BaseException:
        api.close()
        raise
    api.timeout = CALL_TIMEOUT_S
    components = cast("list[dict[str, Any]]", version.get("Components") or [])
    podman = any("podman" in str(part.get("Name", "")).lower() for part in components)
    options_list = cast("list[str]", info.get("SecurityOptions") or [])
    security = " ".join(options_list)
    return Daemon(
        api=api,
        address=address,
        name=f"{'Podman' if podman else 'Docker'} {version.get('Version', '?')}",
        podman=podman,
        rootless="name=rootless" in security or bool(info.get("Rootless")),
        remapped="name=userns" in security,
        labelled="name=selinux" in security,
        info=info,
    )
