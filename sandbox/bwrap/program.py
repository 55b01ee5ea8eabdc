"""The bubblewrap program on this machine: where it is, what it can do, why it will not start."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import SandboxUnavailable
from ..base.process import base_environment, run_process

INSTALL_HINT = (
    "install bubblewrap (for example `apt install bubblewrap`), use Docker, or choose --sandbox host"
)
_NO_NAMESPACE_HINT = "allow user namespaces, use Docker, or choose --sandbox host or outer explicitly"


@dataclass(frozen=True)
class BwrapProgram:
    """An installed bubblewrap and the options it knows."""

    path: str
    version: str
    """As it names itself, such as ``bubblewrap 0.8.0``."""
    options: frozenset[str]

    def knows(self, option: str) -> bool:
        return option in self.options


async def find_bwrap(scratch: Path) -> BwrapProgram:
    """Looks bubblewrap up on PATH and asks it for its options.

    Args:
        scratch: a writable directory for the output of the questions.

    Raises:
        SandboxUnavailable: there is none, or it is too old to report its own state.
    """
    path = shutil.which("bwrap")
    if path is None:
        raise SandboxUnavailable("bubblewrap (the program bwrap) is not installed", hint=INSTALL_HINT)
    answers: list[str] = []
    for question in ("--version", "--help"):
        result = await run_process(
            [path, question],
            cwd="/",
            env=base_environment({"LC_ALL": "C"}),
            log_path=scratch / f"bwrap{question}.log",
            timeout_s=20,
        )
        if result.exit_code != 0:
            raise SandboxUnavailable(diagnose(result.text()), hint=INSTALL_HINT)
        answers.append(result.text())
    program = BwrapProgram(
        path,
        answers[0].strip().splitlines()[0],
        frozenset(re.findall(r"^\s+(--[a-z0-9-]+)", answers[1], re.M)),
    )
    if not program.knows("--json-status-fd"):
        raise SandboxUnavailable(f"{program.version} is too old", hint="version 0.4 or newer is needed")
    return program


def diagnose(output: str) -> str:
    """One line on why bubblewrap did not start: its own last words and the cause found on this machine."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = next(
        (line for line in reversed(lines) if line.startswith("bwrap:")), lines[-1] if lines else "no output"
    )
    said = said.removeprefix("bwrap:").strip()[:200]
    cause = _cause(said)
    return f"bubblewrap cannot start: {said}{f'; {cause}' if cause else ''}"


def failure(output: str) -> SandboxUnavailable:
    """``diagnose`` as the error to raise."""
    return SandboxUnavailable(diagnose(output), hint=_NO_NAMESPACE_HINT)


def _cause(said: str) -> str:
    lowered = said.lower()
    if "proc" in lowered and "mount" in lowered:
        return "a surrounding container masks parts of /proc, so that no new /proc can be mounted"
    refused = (
        "permission",
        "not permitted",
        "no space left",
        "namespace",
        "uid map",
        "uid_map",
        "invalid argument",
    )
    if not any(word in lowered for word in refused):
        return ""
    return namespace_obstacle()


def namespace_obstacle(proc: Path = Path("/proc")) -> str:
    """Which setting of this machine forbids user namespaces, as far as it can be seen."""
    if _setting(proc / "sys/user/max_user_namespaces") == "0":
        return "user namespaces are switched off (sysctl user.max_user_namespaces is 0)"
    if _setting(proc / "sys/kernel/unprivileged_userns_clone") == "0":
        return "unprivileged user namespaces are switched off (sysctl kernel.unprivileged_userns_clone is 0)"
    if _setting(proc / "sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor restricts unprivileged user namespaces "
            "(sysctl kernel.apparmor_restrict_unprivileged_userns is 1 and bwrap has no profile)"
        )
    if not (proc / "self/ns/user").exists():
        return "this kernel was built without user namespaces"
    if re.search(r"^Seccomp:\s*2", _setting(proc / "self/status"), re.M):
        return "the system-call filter of a surrounding container forbids user namespaces"
    return "user namespaces are not available to this user"


def _setting(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
