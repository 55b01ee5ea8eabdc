"""Asks everything at once and says whether the main job can run here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ...sandbox.base.errors import ConfigError, SandboxUnavailable
from . import isolation, kernels, machine
from .advice import install_line, package_manager
from .finding import Finding, State
from .probing import Probe, guarded

GROUPS = ("needed", "sandbox", "machine", "languages", "extras", "hardware", "terminal")

PROBES: tuple[tuple[str, str, Probe], ...] = (
    ("needed", "Python", machine.python),
    ("needed", "git", machine.git),
    ("needed", "ripgrep", machine.ripgrep),
    ("sandbox", "Docker", isolation.docker),
    ("sandbox", "Podman", isolation.podman),
    ("sandbox", "bubblewrap", isolation.bubblewrap),
    ("sandbox", "debootstrap", isolation.debootstrap),
    ("machine", "control groups", isolation.cgroups),
    ("machine", "user namespaces", isolation.user_namespaces),
    ("machine", "disk", machine.disk),
    ("languages", "compilers", machine.compilers),
    ("extras", "packages", machine.extras),
    ("hardware", "GPU", machine.gpu),
    ("hardware", "kernels", kernels.kernels),
    ("terminal", "terminal", machine.terminal),
)


@dataclass(frozen=True)
class Diagnosis:
    """All findings and what follows from them."""

    findings: tuple[Finding, ...]
    sandbox: str | None
    """The isolating sandbox a run would use (docker or bwrap), or None."""
    verdict: str
    """One line."""
    exit_code: int
    """0: the main job can run; 9: no isolating sandbox; 10: git is not there."""


async def diagnose(probes: Sequence[tuple[str, str, Probe]] = PROBES) -> Diagnosis:
    """Runs all probes side by side; each ends within its own time limit."""
    answers = await asyncio.gather(*(guarded(group, name, probe) for group, name, probe in probes))
    return conclude([finding for answer in answers for finding in answer])


def conclude(findings: Sequence[Finding]) -> Diagnosis:
    """The verdict that follows from findings."""
    states = {finding.name: finding.state for finding in findings}
    usable = {name for name, state in states.items() if state in (State.OK, State.LIMITED)}
    docker = "Docker" in usable
    image = "Docker image" in usable
    sandbox = "docker" if docker and image else "bwrap" if "bubblewrap" in usable else None
    # An image can be made on the first run when the daemon answers and debootstrap is there.
    buildable = docker and not image and "debootstrap" in usable
    if "git" not in usable:
        verdict = f"The main job cannot run without git 2.31 or newer: {_quoted(install_line('git'))}."
        code = ConfigError.exit_code
    elif sandbox or buildable:
        chosen = sandbox or "docker"
        names = {"docker": "Docker", "bwrap": "bubblewrap"}
        later = "" if sandbox else ", after building its image (`whimbrel sandbox build`)"
        verdict = f"Ready: `whimbrel fix-issue` can run here, isolated by {names[chosen]}{later}."
        sandbox, code = chosen, 0
    else:
        way = "run `whimbrel sandbox build`" if docker else _get_one()
        verdict = f"No isolating sandbox works here: {way}, or accept none with --sandbox host."
        code = SandboxUnavailable.exit_code
    ordered = sorted(findings, key=lambda finding: GROUPS.index(finding.group))
    return Diagnosis(tuple(ordered), sandbox, verdict, code)


def _quoted(line: str) -> str:
    return f"`{line}`" if package_manager() else line


def _get_one() -> str:
    if package_manager() is None:
        return "install bubblewrap or Docker with the system's package manager"
    ways = [f"`{line}`" for line in (install_line("bubblewrap"), install_line("docker")) if line]
    return f"get one with {' or '.join(ways)}"
