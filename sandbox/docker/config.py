"""From a ``SandboxSpec`` to a container's configuration: identity, mounts, limits, environment."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .. import labels
from ..base.environment import base_environment
from ..base.errors import SandboxUnavailable
from ..base.identity import sandbox_identity
from ..daemon import Daemon, known_sockets
from ..images.info import ImageInfo
from ..protocol import Mount, NetworkPolicy, SandboxSpec
from .filter import filter_options
from .scripts import FOLDER, KEEPER

SCRIPTS_DIR = "scripts"
"""Below the state directory: what is mounted for our own use."""
HOME = "/home/whimbrel"
_HOME_BYTES = 256 << 20
_SHM_BYTES = 256 << 20
_PODMAN_NPROC = 16384
_LOG = {"max-size": "256k", "max-file": "1"}
_RESERVED = ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
_HOSTS_OWN = ("PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "LANG", "LANGUAGE")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Identity:
    """Who commands run as inside, and how the daemon must map that."""

    uid: int
    gid: int
    userns: str = ""
    """``keep-id`` (rootless Podman), ``host`` (remapping daemon), or empty for the daemon's own way."""
    warnings: tuple[str, ...] = ()

    @property
    def user(self) -> str:
        return f"{self.uid}:{self.gid}"

    @property
    def keeper(self) -> str:
        """The container's own process has an identity of its own, so that no command can end it."""
        other = 65534 if self.uid != 65534 else 65533
        return f"{other}:{other}"


def identity_for(daemon: Daemon) -> Identity:
    """Files made inside must belong to the caller outside (or, for root, to the fixed sandbox identity)."""
    uid, gid = sandbox_identity()
    if daemon.rootless and daemon.podman:
        return Identity(uid, gid, userns="keep-id")
    if daemon.rootless:
        # There the person is uid 0 of the daemon's user namespace; any other uid would be a stranger.
        return Identity(
            0,
            0,
            warnings=("rootless Docker: commands run as uid 0 of a user namespace, without capabilities",),
        )
    if daemon.remapped:
        return Identity(
            uid,
            gid,
            userns="host",
            warnings=("the daemon's uid remapping is off for the sandbox, so that files keep their owner",),
        )
    return Identity(uid, gid)


def check_mounts(spec: SandboxSpec) -> None:
    """Refuses mounts that would open the sandbox or cannot work.

    Raises:
        SandboxUnavailable: a container socket would become visible, a source is missing,
            or a target would hide what the container needs.
    """
    for mount in all_mounts(spec):
        target = PurePosixPath(mount.target)
        if not target.is_absolute() or ".." in target.parts:
            raise SandboxUnavailable(f"the mount target {mount.target!r} is not an absolute path")
        if str(target) in _RESERVED or target.parts[1:2] in (("proc",), ("sys",), ("dev",)):
            raise SandboxUnavailable(
                f"{target} cannot be replaced inside a container: the system lives there",
                hint="work on a repository in another directory",
            )
        try:
            source = mount.source.resolve(strict=True)
        except OSError as error:
            raise SandboxUnavailable(f"the mount source {mount.source} cannot be used: {error}") from error
        opened = _socket_below(source)
        if opened:
            raise SandboxUnavailable(
                f"mounting {mount.source} would give the sandbox the container socket {opened}, "
                "and with it the whole machine",
                hint="mount something narrower",
            )


def _socket_below(source: Path) -> Path | None:
    candidates = [*known_sockets(), Path("/run/docker.sock"), Path("/run/containerd/containerd.sock")]
    address = os.environ.get("DOCKER_HOST", "")
    if address.startswith("unix://"):
        candidates.append(Path(address.removeprefix("unix://")))
    if stat.S_ISSOCK(source.stat().st_mode):
        return source
    for candidate in candidates:
        real = Path(os.path.realpath(candidate))
        if real.exists() and real.is_relative_to(source):
            return candidate
    return None


def container_environment(spec: SandboxSpec, image: ImageInfo) -> dict[str, str]:
    """The image's variables, then the scrubbed base, then the spec's own.

    PATH, home and locale are the container's: the host's mean nothing there.
    """
    scrubbed = base_environment()
    for name in list(scrubbed):
        if name in _HOSTS_OWN or name.startswith("LC_"):
            del scrubbed[name]
    environment = {"PATH": _DEFAULT_PATH, "LANG": "C.UTF-8", **image.env, **scrubbed}
    environment |= {"HOME": HOME, "USER": "whimbrel", "LOGNAME": "whimbrel", "TMPDIR": "/tmp"}
    environment.update(spec.env)
    return environment


def container_config(
    daemon: Daemon,
    spec: SandboxSpec,
    image: ImageInfo,
    identity: Identity,
    opened: Sequence[str],
) -> dict[str, Any]:
    """Keyword arguments for the SDK's ``create_container``.

    Args:
        opened: directories of the image that commands may not enter though mounts lie below
            them; each becomes an empty, enterable one.
    """
    limits = spec.limits
    # Podman cannot give a tmpfs an owner; there the home is open like /tmp, to the same single user.
    private = "mode=1777" if daemon.podman else f"mode=0700,uid={identity.uid},gid={identity.gid}"
    tmpfs = {
        "/tmp": f"rw,exec,nosuid,nodev,size={limits.tmp_bytes},mode=1777",
        HOME: f"rw,exec,nosuid,nodev,size={_HOME_BYTES},{private}",
    }
    ours = [Mount(spec.state_dir / SCRIPTS_DIR, FOLDER)]
    ours += [Mount(cover(spec, place), place) for place in opened]
    security = ["no-new-privileges:true"]
    security += filter_options(daemon)[0]
    if daemon.labelled:
        security.append("label=disable")
    api = daemon.api
    host_config: dict[str, Any] = api.create_host_config(
        network_mode="none" if spec.network is NetworkPolicy.NONE else "bridge",
        cap_drop=["ALL"],
        security_opt=security,
        read_only=True,
        init=True,
        ipc_mode="private",
        tmpfs=tmpfs,
        shm_size=_SHM_BYTES,
        mounts=[bind(mount) for mount in (*ours, *all_mounts(spec))],
        mem_limit=limits.memory_bytes,
        memswap_limit=limits.memory_bytes,
        nano_cpus=int(limits.cpus * 1_000_000_000),
        pids_limit=limits.pids,
        ulimits=_ulimits(daemon, spec),
        restart_policy={"Name": "no"},
        log_config={"Type": "json-file", "Config": _LOG} if not daemon.podman else None,
    )
    if identity.userns:
        # The SDK knows only "host" here; Podman's keep-id goes over the same field.
        host_config["UsernsMode"] = identity.userns
    return {
        "image": image.digest or image.reference,
        "entrypoint": ["/bin/sh", "-c", KEEPER],
        "command": [],
        "user": identity.keeper,
        "working_dir": "/",
        "hostname": "sandbox",
        "environment": container_environment(spec, image),
        "labels": labels.owner_labels(spec.run_id, "sandbox"),
        "host_config": host_config,
        "use_config_proxy": False,
        "healthcheck": {"Test": ["NONE"]},
    }


def all_mounts(spec: SandboxSpec) -> tuple[Mount, ...]:
    """The workspace, writable, and what the spec adds."""
    return (Mount(spec.workspace, spec.workdir, read_only=False), *spec.mounts)


def cover(spec: SandboxSpec, place: str) -> Path:
    """An enterable directory to lay over ``place``: empty but for the mount points below it.

    A tmpfs would take over the mode of what it covers (0700 for /root), and a read-only
    mount cannot be given mount points later, so they are made here.
    """
    root = spec.state_dir / "covers" / place.strip("/").replace("/", "-")
    for mount in all_mounts(spec):
        target = PurePosixPath(mount.target)
        if not target.is_relative_to(place) or str(target) == place:
            continue
        point = root / target.relative_to(place)
        point.parent.mkdir(parents=True, exist_ok=True)
        if mount.source.is_dir():
            point.mkdir(exist_ok=True)
        else:
            point.touch()
    for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    return root


def _ulimits(daemon: Daemon, spec: SandboxSpec) -> list[dict[str, Any]]:
    wanted = {"core": 0, "fsize": spec.limits.file_bytes, "nofile": 4096}
    if daemon.podman:
        # Left out, Podman raises it beyond its own limit and fails where it may not; the bound on
        # processes is the pids limit, this one counts all of a user's.
        wanted["nproc"] = _PODMAN_NPROC
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in wanted.items()]


def bind(mount: Mount) -> dict[str, Any]:
    """A bind mount that shows nothing mounted below its source: read-only would not reach those."""
    return {
        "Type": "bind",
        "Source": str(mount.source.resolve()),
        "Target": mount.target,
        "ReadOnly": mount.read_only,
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
    }
