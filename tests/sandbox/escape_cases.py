"""What a hostile or careless command may try inside an isolating sandbox, and what must come of it.

Plain scripts for ``/bin/sh -c`` with expectations, used against every isolating sandbox.
A script may use python3 and git, and these variables, which the test must set:

- ``SECRET_FILE``: a host file outside workspace and mounts, holding ``SECRET_TEXT``
- ``HOST_PORT``: a port on which a host process listens on 127.0.0.1 and all other addresses
- ``HOST_PID``: the pid of a host process of the test, whose command line holds ``HOST_MARK``
- ``HOST_SHM``: the id of a System V shared memory segment of the host; one of POSIX is named ``HOST_MARK``,
  and so is an abstract UNIX socket on which a host process listens
- ``HOST_ADDRESSES``: space-separated addresses of the host's own interfaces

Every script prints ``contained`` when it could not do what it tried, and ``ESCAPED ...`` when it could.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECRET_TEXT = "the-host-must-keep-this"


@contextlib.contextmanager
def host_objects(mark: str) -> Iterator[dict[str, str]]:
    """Shared memory and an abstract socket of the host, named ``mark``; yields the variables for them."""
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(0, 4096, 0o1000 | 0o666)
    posix = Path("/dev/shm") / mark
    posix.write_bytes(b"shared")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + mark)
        listener.listen()
        try:
            yield {"HOST_SHM": str(segment), "HOST_MARK": mark}
        finally:
            libc.shmctl(segment, 0, None)
            posix.unlink()


@dataclass(frozen=True)
class EscapeCase:
    """One attempt."""

    name: str
    """Reads on from "a sandboxed command cannot ..."."""
    script: str
    timeout_s: float = 30


_CONNECT = """
import os, socket, sys
targets = [("127.0.0.1", int(os.environ["HOST_PORT"]))]
targets += [(address, int(os.environ["HOST_PORT"])) for address in os.environ["HOST_ADDRESSES"].split()]
targets += [("172.17.0.1", int(os.environ["HOST_PORT"])), ("1.1.1.1", 53), ("169.254.169.254", 80)]
for target in targets:
    try:
        socket.create_connection(target, timeout=2).close()
    except OSError:
        continue
    print("ESCAPED to", target)
    sys.exit(1)
try:
    socket.getaddrinfo("example.org", 80)
except OSError:
    print("contained")
else:
    print("ESCAPED: names are resolved")
"""

_SOCKETS = """
import os, socket
names = ["/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock"]
names += ["/run/containerd/containerd.sock"]
if os.environ.get("DOCKER_HOST", "").startswith("unix://"):
    names.append(os.environ["DOCKER_HOST"][7:])
for name in names:
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(name)
    except OSError:
        continue
    print("ESCAPED to", name)
    break
else:
    print("contained")
"""

_DEVICES = """
import os, stat
for folder, _, names in os.walk("/dev"):
    for name in names:
        path = os.path.join(folder, name)
        try:
            if stat.S_ISBLK(os.stat(path).st_mode):
                os.close(os.open(path, os.O_RDONLY))
                print("ESCAPED to", path)
        except OSError:
            pass
for path in ("/dev/mem", "/dev/kmem", "/dev/kvm", "/dev/fuse"):
    try:
        os.close(os.open(path, os.O_RDWR))
        print("ESCAPED to", path)
    except OSError:
        pass
print("contained")
"""

_RAISE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
gained = []
if libc.setuid(0) == 0 and os.getuid() != 0:
    gained.append("setuid")
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
    gained.append("mount")
MS_REMOUNT_BIND = 32 | 4096
for place in (b"/", b"/usr", b"/etc"):
    if libc.mount(b"none", place, None, MS_REMOUNT_BIND, None) == 0:
        gained.append("remount")
if libc.ptrace(16, 1, 0, 0) == 0:
    gained.append("ptrace of process 1")
if libc.chroot(b"/tmp") == 0:
    gained.append("chroot")
held = [line for line in open("/proc/self/status") if line.startswith(("CapEff", "CapPrm", "CapAmb"))]
if any(int(line.split()[1], 16) for line in held):
    gained.append("capabilities")
if "NoNewPrivs:\\t1" not in open("/proc/self/status").read():
    gained.append("new privileges")
print("ESCAPED by " + ", ".join(gained) if gained else "contained")
"""


_FAMILIES = """
import os, socket
reached = []
try:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    reached.append("vsock")
except OSError:
    pass
try:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("\\0" + os.environ["HOST_MARK"])
    reached.append("an abstract socket of the host")
except OSError:
    pass
for family in (17, 38, 29):
    try:
        socket.socket(family, socket.SOCK_RAW if family == 17 else socket.SOCK_SEQPACKET).close()
        reached.append(f"family {family}")
    except OSError:
        pass
print("ESCAPED to " + ", ".join(reached) if reached else "contained")
"""

_CALLS = """
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
numbers = {
    "io_uring": 425, "bpf": 321 if x86 else 280, "userfaultfd": 323 if x86 else 282,
    "perf_event_open": 298 if x86 else 241, "keyctl": 250 if x86 else 219, "fsopen": 430,
}
space = ctypes.create_string_buffer(256)
arguments = {
    "io_uring": (8, space), "bpf": (0, space, 128), "userfaultfd": (1,),
    "perf_event_open": (space, 0, -1, -1, 0), "keyctl": (0, -3, 1), "fsopen": (b"tmpfs", 0),
}
refused = (1, 13, 38)  # EPERM, EACCES, ENOSYS: anything else says that the call was looked at
used = []
for name, number in numbers.items():
    if libc.syscall(number, *arguments[name]) != -1 or ctypes.get_errno() not in refused:
        used.append(name)
for flags in (0x10000000, 0x00020000, 0x40000000):
    if libc.unshare(flags) == 0:
        used.append(f"unshare({flags:#x})")
print("ESCAPED by " + ", ".join(used) if used else "contained")
"""


def _python(text: str) -> str:
    return f"python3 - <<'SCRIPT'\n{text}\nSCRIPT\n"


ATTEMPTS = (
    EscapeCase("reach the network, the host's loopback or its other addresses", _python(_CONNECT), 60),
    EscapeCase("connect to a container daemon's socket", _python(_SOCKETS)),
    EscapeCase("open disks or raw memory", _python(_DEVICES)),
    EscapeCase("gain privileges", _python(_RAISE)),
    EscapeCase(
        "read a host file outside its workspace",
        'if cat "$SECRET_FILE" 2>/dev/null | grep -q .; then echo ESCAPED; else echo contained; fi',
    ),
    EscapeCase(
        "read a host file through another process's root",
        'for root in /proc/[0-9]*/root; do cat "$root$SECRET_FILE" 2>/dev/null && echo ESCAPED; done; '
        "echo contained",
    ),
    EscapeCase(
        "read a host file through a symbolic link",
        'ln -s "$SECRET_FILE" stolen; cat stolen 2>/dev/null && echo ESCAPED; rm -f stolen; echo contained',
    ),
    EscapeCase(
        "read the host's password hashes or the caller's keys",
        "cat /etc/shadow /root/.ssh/* /root/.docker/config.json /root/.netrc 2>/dev/null | grep -q . "
        "&& echo ESCAPED; echo contained",
    ),
    EscapeCase(
        "see the host's processes",
        "for entry in /proc/[0-9]*; do "
        'line=$(tr "\\0" " " < "$entry/cmdline" 2>/dev/null); '
        'case $line in *"$HOST_MARK"*) echo "ESCAPED to $entry" ;; esac; '
        "done; echo contained",
    ),
    EscapeCase(
        "signal the host's processes",
        'line=$(tr "\\0" " " < "/proc/$HOST_PID/cmdline" 2>/dev/null); '
        'case $line in *"$HOST_MARK"*) kill -0 "$HOST_PID" && echo ESCAPED ;; esac; '
        "echo contained",
    ),
    EscapeCase(
        "write outside its workspace and its temporary folder",
        "for place in / /etc /usr /usr/bin /var /opt /home /root /boot /srv /sys /proc/sys/kernel; do "
        '(: > "$place/whimbrel-was-here") 2>/dev/null && { echo "ESCAPED to $place"; '
        'rm -f "$place/whimbrel-was-here"; }; done; echo contained',
    ),
    EscapeCase(
        "read the kernel's memory",
        # Root of the machine gets bytes, and addresses that are not zero (an ordinary user gets those
        # too where the kernel is set up so openly that they are no secret: perf_event_paranoid 1 or less).
        "for place in /proc/kcore /dev/mem /dev/kmem /dev/port /proc/kmsg /dev/kmsg; do "
        '[ "$(timeout 2 head -c 64 "$place" 2>/dev/null | wc -c)" -gt 0 ] && echo "ESCAPED to $place"; done; '
        'if [ "$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 2)" -gt 1 ]; then '
        "grep -qv '^0000000000000000 ' /proc/kallsyms 2>/dev/null && echo ESCAPED to addresses; fi; echo contained",
    ),
    EscapeCase(
        "trigger the kernel's magic keys or change its settings",
        "(echo h > /proc/sysrq-trigger) 2>/dev/null && echo ESCAPED; "
        "(echo core > /proc/sys/kernel/core_pattern) 2>/dev/null && echo ESCAPED; "
        "(echo 1 > /proc/sys/kernel/panic) 2>/dev/null && echo ESCAPED; echo contained",
    ),
    EscapeCase(
        "take part in the host's shared memory segments",
        # The test makes HOST_SHM (System V) outside; without a namespace of its own a command sees it.
        'tail -n +2 /proc/sysvipc/shm | grep -q "^ *[0-9]* *$HOST_SHM " && echo ESCAPED; '
        '[ -e "/dev/shm/$HOST_MARK" ] && echo ESCAPED to POSIX shared memory; echo contained',
    ),
    EscapeCase("use sockets that no namespace holds, or the host's abstract ones", _python(_FAMILIES)),
    EscapeCase("use system calls with a record of kernel bugs", _python(_CALLS)),
    EscapeCase(
        "change its own control groups",
        "find /sys/fs/cgroup -type f -writable 2>/dev/null | head -n 1 | grep . && echo ESCAPED; "
        "for group in /sys/fs/cgroup /sys/fs/cgroup/*; do "
        '(echo "|/tmp/owned" > "$group/release_agent") 2>/dev/null && echo ESCAPED; '
        'mkdir "$group/whimbrel-was-here" 2>/dev/null && { rmdir "$group/whimbrel-was-here"; echo ESCAPED; }; '
        "done; echo contained",
    ),
    EscapeCase(
        "make device nodes or set-uid programs that work",
        "mknod disk b 254 0 2>/dev/null && head -c 1 disk 2>/dev/null | grep -q . && echo ESCAPED; rm -f disk; "
        'cp "$(command -v id)" elevated && chmod 4755 elevated && ./elevated -u | grep -qx 0 && echo ESCAPED; '
        "rm -f elevated; echo contained",
    ),
    EscapeCase(
        "find the caller's keys in its environment",
        "env | grep -E '^(OPENAI|ANTHROPIC|AWS|GITHUB|GH)_|API_KEY|TOKEN|^GIT_(DIR|WORK_TREE|INDEX_FILE)=' "
        "&& echo ESCAPED; "
        "echo contained",
    ),
)

FORK_BOMB = EscapeCase(
    "take the machine down with a fork bomb",
    "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 60",
    timeout_s=3,
)
"""Must end at its time limit, leave the sandbox usable and no process of it alive."""

DISK_FILL = EscapeCase(
    "fill the disk",
    "i=0; while [ $i -lt 400 ]; do head -c 10485760 /dev/zero > fill.$i || exit 9; "
    "i=$((i + 1)); sleep 0.05; done; "
    "echo ESCAPED",
    timeout_s=120,
)
"""4 GB in pieces of 10 MiB; with a disk limit far below, must end early and say why in the note."""

ONE_LARGE_FILE = EscapeCase(
    "write a file beyond the file size limit",
    "head -c 300000000 /dev/zero > large; echo; "
    'if [ "$(wc -c < large)" -lt 300000000 ]; then echo contained; else echo ESCAPED; fi',
)
"""Give limits.file_bytes below 300 MB."""

ONE_GIGABYTE_OF_OUTPUT = EscapeCase(
    "exhaust memory with output",
    "head -c 1000000000 /dev/zero; printf last-line",
    timeout_s=120,
)
"""total_bytes must be 1000000009, head and tail bounded, the last line in the tail."""

TEN_THOUSAND_FILES = EscapeCase(
    "be slowed down by ten thousand files",
    'mkdir many; cd many; i=0; while [ $i -lt 10000 ]; do : > "file $i"; i=$((i + 1)); done; ls | wc -l',
    timeout_s=60,
)
"""Prints 10000; not an attack: it must simply work."""

DAEMONISED_CHILD = EscapeCase(
    "leave a daemon behind",
    "(env -i setsid sh -c 'while :; do sleep 1; done' >/dev/null 2>&1 &) ; "
    "(setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; echo alive >> heartbeat; done' &) ; "
    "sleep 1; echo started",
)
"""Must return soon after printing ``started``; ``heartbeat`` must not grow afterwards."""

GIT_CONFIG = EscapeCase(
    "change the caller's git configuration",
    "git config --global core.pager 'touch /tmp/owned'; git config --global --get core.pager; true",
)
"""The host's configuration must be the same afterwards, and a fresh sandbox must not have the entry."""
