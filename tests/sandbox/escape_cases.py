"""What a hostile or careless command may try inside an isolating sandbox, and what must come of it.

Plain scripts for ``/bin/sh -c`` with expectations, used against every isolating sandbox.
A script may use python3 and git, and these variables, which the test must set:

- ``SECRET_FILE``: a host file outside workspace and mounts, holding ``SECRET_TEXT``
- ``HOST_PORT``: a port on which a host process listens on 127.0.0.1 and all other addresses
- ``HOST_PID``: the pid of a host process of the test, whose command line holds ``HOST_MARK``
- ``HOST_ADDRESSES``: space-separated addresses of the host's own interfaces

Every script prints ``contained`` when it could not do what it tried, and ``ESCAPED ...`` when it could.
"""

from __future__ import annotations

from dataclasses import dataclass

SECRET_TEXT = "the-host-must-keep-this"


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
        '[ "$(head -c 64 /proc/kcore 2>/dev/null | wc -c)" -gt 0 ] && echo ESCAPED; echo contained',
    ),
    EscapeCase(
        "trigger the kernel's magic keys or change its settings",
        "(echo h > /proc/sysrq-trigger) 2>/dev/null && echo ESCAPED; "
        "(echo core > /proc/sys/kernel/core_pattern) 2>/dev/null && echo ESCAPED; "
        "(echo 1 > /proc/sys/kernel/panic) 2>/dev/null && echo ESCAPED; echo contained",
    ),
    EscapeCase(
        "take part in the host's shared memory segments",
        '[ "$(tail -n +2 /proc/sysvipc/shm | wc -l)" -gt 0 ] && echo ESCAPED; echo contained',
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
