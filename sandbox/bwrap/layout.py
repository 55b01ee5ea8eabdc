"""What the file system looks like inside, as bubblewrap options. Pure: reads the host, changes nothing.

An allow-list: the inside starts as an empty tmpfs and gets the system's programs and
libraries read-only, a chosen part of /etc, private /tmp and HOME, the workspace and the
spec's mounts. Home directories, /run, /var, /srv, /sys and the like never appear, so there
is nothing to hide one by one. Symbolic links are made, not followed: a protected place
that is a link on the host stays a link, or is left out when it leads nowhere visible.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import SandboxUnavailable
from ..protocol import Mount, NetworkPolicy, SandboxSpec
from .places import PrivatePlaces

USER_NAME = "whimbrel"
HOME = f"/home/{USER_NAME}"
_SHM_BYTES = 256 << 20

_SYSTEM_DIRECTORIES = ("/usr", "/opt", "/nix/store", "/gnu/store")
_USR_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# World-readable settings that programs need; anything that may hold a secret stays out.
_ETC = (
    "alternatives",
    "bash.bashrc",
    "bindresvport.blacklist",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "host.conf",
    "inputrc",
    "issue",
    "java*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "magic.mime",
    "mime.types",
    "networks",
    "os-release",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "profile",
    "profile.d",
    "protocols",
    "perl",
    "python3*",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "system-release",
    "redhat-release",
    "terminfo",
    "timezone",
    "xml",
)
_NOT_A_WORKDIR = ("/proc", "/dev", "/etc", "/sys", "/bin", "/sbin", "/lib", "/lib64")


@dataclass
class Layout:
    """Bubblewrap options under construction.

    An ``int`` among the options stands for ``sources[int]``: a host path that only the
    caller (root) may be able to reach, replaced by the launcher.
    """

    options: list[str | int] = field(default_factory=list[str | int])
    sources: list[str] = field(default_factory=list[str])

    def add(self, *options: str) -> None:
        self.options += options

    def bind(self, source: Path, target: str, *, read_only: bool) -> None:
        self.options += ["--ro-bind" if read_only else "--bind", len(self.sources), target]
        self.sources.append(str(source))


def private_etc(uid: int, gid: int, network: NetworkPolicy) -> Mapping[str, str]:
    """Name -> content of the files in /etc that are ours instead of the host's."""
    files = {
        "passwd": (
            "root:x:0:0:root:/root:/usr/sbin/nologin\n"
            f"{USER_NAME}:x:{uid}:{gid}:{USER_NAME}:{HOME}:/bin/sh\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        ),
        "group": f"root:x:0:\n{USER_NAME}:x:{gid}:\nnogroup:x:65534:\n",
        "hosts": f"127.0.0.1 localhost {USER_NAME}\n::1 localhost ip6-localhost ip6-loopback\n",
        "hostname": f"{USER_NAME}\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    }
    if network is NetworkPolicy.ALLOW:
        try:
            # The host's file is often a link below /run, which does not exist inside: its content is copied.
            files["resolv.conf"] = Path("/etc/resolv.conf").read_text("utf-8", "replace")
        except OSError:
            files["resolv.conf"] = ""
    return files


def check_workdir(workdir: str) -> None:
    """Raises SandboxUnavailable for places where a workspace would break the sandbox itself."""
    path = Path(workdir)
    forbidden = workdir in ("/", "/usr", "/tmp", "/opt", "/home", "/var", HOME) or ".." in path.parts
    if not path.is_absolute() or forbidden or any(path.is_relative_to(place) for place in _NOT_A_WORKDIR):
        raise SandboxUnavailable(
            f"a repository at {workdir} cannot be shown inside the bubblewrap sandbox",
            hint="move it below a home directory or another directory of its own",
        )


def build_layout(
    spec: SandboxSpec, places: PrivatePlaces, *, sized_tmpfs: bool, hide: Sequence[Path] = ()
) -> Layout:
    """The mounts, from the empty root to the workspace, in the order bubblewrap makes them.

    Args:
        sized_tmpfs: whether this bubblewrap knows ``--size``.
        hide: host directories covered by an empty one where a system directory would show them.
    """
    layout = Layout()
    visible = _system(layout)
    layout.add("--proc", "/proc", "--dev", "/dev")
    # 1777 as everywhere; the size counts towards the memory group too.
    layout.add(
        *(("--size", str(_SHM_BYTES)) if sized_tmpfs else ()), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"
    )
    _cover_proc(layout)
    _etc(layout, places.etc)
    hidden = [place for place in hide if place.is_dir() and any(shown in place.parents for shown in visible)]
    for directory in hidden:
        layout.add("--tmpfs", str(directory))
    layout.bind(places.tmp, "/tmp", read_only=False)
    layout.add("--dir", "/var", "--symlink", "../tmp", "/var/tmp", "--dir", "/run")
    layout.bind(places.home, HOME, read_only=False)
    wanted = [*spec.mounts, Mount(spec.workspace, spec.workdir, read_only=False)]
    # Parents before children, so that a mount inside the workspace lands on top of it.
    for mount in sorted(wanted, key=lambda mount: len(Path(mount.target).parts)):
        if mount.read_only and mount.target == str(mount.source) and _already(mount.source, visible, hidden):
            continue
        layout.bind(mount.source, mount.target, read_only=mount.read_only)
    # Last, because the mounts above may lie in there.
    for directory in (*hidden, Path("/")):
        layout.add("--remount-ro", str(directory))
    return layout


def _already(source: Path, visible: Sequence[Path], hidden: Sequence[Path]) -> bool:
    shown = any(source.is_relative_to(place) for place in visible)
    return shown and not any(source.is_relative_to(place) for place in hidden)


def _system(layout: Layout) -> list[Path]:
    """Programs and libraries; returns the host directories that are visible at their own paths."""
    visible: list[Path] = []
    for name in _SYSTEM_DIRECTORIES:
        if Path(name).is_dir() and not Path(name).is_symlink():
            layout.add("--ro-bind", name, name)
            visible.append(Path(name))
    for name in _USR_LINKS:
        path = Path(name)
        if path.is_symlink():
            link = str(path.readlink()).lstrip("/")
            if link.startswith("usr/"):
                layout.add("--symlink", link, name)
        elif path.is_dir():
            layout.add("--ro-bind", name, name)
            visible.append(path)
    return visible


def _cover_proc(layout: Layout) -> None:
    """Kernel-wide files of /proc: unreadable for our uid anyway, and covered all the same."""
    for name in ("kcore", "keys", "key-users", "kmsg", "timer_list", "sched_debug", "sysrq-trigger"):
        if os.path.lexists(f"/proc/{name}"):
            layout.add("--ro-bind", "/dev/null", f"/proc/{name}")


def _etc(layout: Layout, private: Path) -> None:
    layout.add("--dir", "/etc")
    for path in sorted(path for pattern in _ETC for path in Path("/etc").glob(pattern)):
        if not path.exists() or not os.access(path, os.R_OK):
            continue
        if path.is_symlink():
            # Kept as a link when it leads to a place that is visible inside, else its content is shown.
            link = path.readlink()
            target = Path(os.path.normpath(path.parent / link))
            if target.is_relative_to("/usr"):
                relative = os.path.relpath(target, path.parent)
                layout.add("--symlink", relative, str(path))
                continue
        layout.bind(path.resolve(), str(path), read_only=True)
    for file in sorted(private.iterdir()):
        layout.bind(file, f"/etc/{file.name}", read_only=True)
    layout.add("--symlink", "../proc/self/mounts", "/etc/mtab")
