"""How to get a missing tool on this platform."""

from __future__ import annotations

import shutil
import sys

# Package names where they differ from the tool's own name; None: this manager has no such package.
_PACKAGES: dict[str, dict[str, str | None]] = {
    "git": {},
    "docker": {"apt": "docker.io", "dnf": "moby-engine", "apk": "docker", "brew": "--cask docker"},
    "podman": {},
    "bubblewrap": {"brew": None},
    "ripgrep": {},
    "debootstrap": {"brew": None, "apk": "debootstrap"},
    "cc": {"apt": "gcc", "dnf": "gcc", "apk": "gcc", "pacman": "gcc", "brew": None},
    "c++": {"apt": "g++", "dnf": "gcc-c++", "apk": "g++", "pacman": "gcc", "brew": None},
    "node": {"apt": "nodejs", "dnf": "nodejs", "apk": "nodejs", "pacman": "nodejs"},
    "go": {"apt": "golang-go", "dnf": "golang"},
    "cargo": {"brew": "rust", "pacman": "rust"},
    "java": {"apt": "default-jdk-headless", "dnf": "java-latest-openjdk-devel", "apk": "openjdk21",
             "pacman": "jdk-openjdk", "brew": "openjdk"},
}  # fmt: skip
_MANAGERS = (
    ("apt", "apt-get", "apt-get install {}"),
    ("dnf", "dnf", "dnf install {}"),
    ("apk", "apk", "apk add {}"),
    ("pacman", "pacman", "pacman -S {}"),
    ("brew", "brew", "brew install {}"),
)


def package_manager() -> str | None:
    """The system's package manager (apt, dnf, apk, pacman, brew), or None."""
    order = _MANAGERS[::-1] if sys.platform == "darwin" else _MANAGERS
    return next((name for name, program, _ in order if shutil.which(program)), None)


def install_line(tool: str, manager: str | None = None) -> str:
    """The command that installs ``tool`` here, or a plain sentence where no package manager is known."""
    manager = manager or package_manager()
    if manager == "brew" and tool in ("cc", "c++"):
        return "xcode-select --install"
    for name, _, line in _MANAGERS:
        if name == manager:
            package = _PACKAGES.get(tool, {}).get(name, tool)
            return line.format(package) if package else ""
    return f"install {tool} with the system's package manager"
