"""A small system-call filter, assembled by hand, on top of what bubblewrap's namespaces give.

It closes what namespaces and dropped capabilities leave open to an ordinary process: new
user namespaces (and with them the kernel's privileged surface), kernel keyrings, socket
families that ignore network namespaces (AF_VSOCK reaches the hypervisor), terminal input
injection, and calls with a long record of kernel bugs (bpf, io_uring, userfaultfd, perf).

The format is classic BPF (``struct sock_filter``: u16 code, u8 jt, u8 jf, u32 k) over
``struct seccomp_data``: nr at offset 0, arch at 4, args (u64) from 16. See seccomp(2).
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_NR, _ARCH, _ARGS = 0, 4, 16

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000

_CLONE_NEW = 0x7E020000  # mount, cgroup, uts, ipc, user, pid and network namespaces
_CLONE_NEWTIME = 0x80  # means something else in clone(2), where it lies in the exit-signal byte
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
SOCKET_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

_AUDIT_ARCH: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name -> (x86_64, aarch64); None where the architecture has no such call.
REFUSED_CALLS: Mapping[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
# Answered as if the kernel were too old, so that programs use the calls they used before.
ABSENT_CALLS: Mapping[str, tuple[int, int]] = {
    "clone3": (435, 435),  # its flags lie in memory, out of a filter's sight
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_CLONE = (56, 220)
_UNSHARE = (272, 97)
_IOCTL = (16, 29)
_SOCKET = (41, 198)
_PTRACE = (101, 117)


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def _fail(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _when_call(number: int, body: list[bytes]) -> list[bytes]:
    """``body`` for one call; it must end in a return or fall through to reloading the call's number."""
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _argument(index: int) -> bytes:
    """Loads the low 32 bits of an argument (little-endian machines only)."""
    return _step(_LOAD, _ARGS + 8 * index)


def filter_program(machine: str | None = None) -> bytes | None:
    """The filter for ``machine`` (default: this one), or None where we have no table for it."""
    machine = machine or platform.machine()
    if machine not in _AUDIT_ARCH:
        return None
    column = 0 if machine == "x86_64" else 1
    allow = _step(_RETURN, _ALLOW)
    program = [
        _step(_LOAD, _ARCH),
        # 32-bit calls have other numbers: a program of another architecture gets none at all.
        _step(_EQUAL, _AUDIT_ARCH[machine], 1, 0),
        _fail(errno.ENOSYS),
        _step(_LOAD, _NR),
    ]
    if machine == "x86_64":  # the x32 ABI: same architecture word, numbers from 0x40000000
        program += [_step(_AT_LEAST, 0x40000000, 0, 1), _fail(errno.ENOSYS)]
    for numbers in REFUSED_CALLS.values():
        number = numbers[column]
        if number is not None:
            program += _when_call(number, [_fail(errno.EPERM)])
    for pair in ABSENT_CALLS.values():
        program += _when_call(pair[column], [_fail(errno.ENOSYS)])
    for call, mask in ((_CLONE, _CLONE_NEW), (_UNSHARE, _CLONE_NEW | _CLONE_NEWTIME)):
        body = [_argument(0), _step(_ANY_BIT, mask, 0, 1), _fail(errno.EPERM), allow]
        program += _when_call(call[column], body)
    body = [_argument(1)]
    for request in (_TIOCSTI, _TIOCLINUX):
        body += [_step(_EQUAL, request, 0, 1), _fail(errno.EPERM)]
    program += _when_call(_IOCTL[column], [*body, allow])
    # Process 1 is bubblewrap's reaper, no stronger than the command. Taking it over (which /proc/1/mem
    # still allows) could only forge the command's own exit code; debuggers have no business there.
    body = [_argument(1), _step(_EQUAL, 1, 0, 1), _fail(errno.EPERM), allow]
    program += _when_call(_PTRACE[column], body)
    body = [_argument(0)]
    for family in SOCKET_FAMILIES:
        body += [_step(_EQUAL, family, 0, 1), allow]
    program += _when_call(_SOCKET[column], [*body, _fail(errno.EAFNOSUPPORT)])
    program.append(allow)
    return b"".join(program)
