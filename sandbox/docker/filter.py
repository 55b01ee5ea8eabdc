"""The system-call filter of containers whose daemon's own default leaves too much open.

Docker before version 25 lets containers use io_uring (which hides from filters what it does)
and AF_VSOCK sockets, which ignore network namespaces and reach the hypervisor. A container
has one filter, so ours takes the place of that default. It refuses what the default refuses
to a container without capabilities, and those two; newer daemons keep their own.
"""

from __future__ import annotations

import errno
import json
import re
from typing import Any

from ..bwrap.seccomp import ABSENT_CALLS, REFUSED_CALLS, SOCKET_FAMILIES
from ..daemon import Daemon

_CLOSED_BY_DEFAULT_SINCE = 25
_HIGHEST_FAMILY = 63
_CLONE_NEW = 0x7E020000
# Refused by Docker's default too, beyond what the bubblewrap sandbox refuses.
_ALSO_REFUSED = (
    "create_module",
    "get_kernel_syms",
    "get_mempolicy",
    "kcmp",
    "mbind",
    "migrate_pages",
    "move_pages",
    "name_to_handle_at",
    "nfsservctl",
    "pidfd_getfd",
    "process_vm_readv",
    "process_vm_writev",
    "query_module",
    "set_mempolicy",
    "sysfs",
    "umount",
    "uselib",
    "ustat",
    "vm86",
    "vm86old",
)


def filter_options(daemon: Daemon) -> tuple[list[str], tuple[str, ...]]:
    """Security options for the container, and warnings: one line when there is no filter at all."""
    if daemon.podman:
        return [], ()
    options = " ".join(daemon.info.get("SecurityOptions") or [])
    if "name=seccomp" not in options:
        return [], (f"{daemon.name} filters no system calls: the kernel is more exposed than it should be",)
    version = re.search(r"(\d+)\.", daemon.name)
    if version is not None and int(version[1]) < _CLOSED_BY_DEFAULT_SINCE:
        return [f"seccomp={json.dumps(filter_profile())}"], ()
    return [], ()


def filter_profile() -> dict[str, Any]:
    """The filter in the form Docker reads. 32-bit programs do not run under it."""
    families = [number for number in range(_HIGHEST_FAMILY + 1) if number not in SOCKET_FAMILIES]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [
            _refusal([*REFUSED_CALLS, *_ALSO_REFUSED], errno.EPERM),
            _refusal(list(ABSENT_CALLS), errno.ENOSYS),
            *(
                _refusal(
                    ["clone", "unshare"], errno.EPERM, index=0, value=bit, second=bit, op="SCMP_CMP_MASKED_EQ"
                )
                for bit in (1 << shift for shift in range(32))
                if _CLONE_NEW & bit
            ),
            *(_refusal(["socket"], errno.EAFNOSUPPORT, index=0, value=number) for number in families),
        ],
    }


def _refusal(
    names: list[str],
    number: int,
    *,
    index: int = -1,
    value: int = 0,
    second: int = 0,
    op: str = "SCMP_CMP_EQ",
) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": number}
    if index >= 0:
        rule["args"] = [{"index": index, "value": value, "valueTwo": second, "op": op}]
    return rule
