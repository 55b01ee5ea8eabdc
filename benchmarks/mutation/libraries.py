"""Small pure-Python libraries from source archives, set up so that their tests run."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Library:
    requirement: str
    package: str
    """Folder or file with the code, relative to the archive's root."""
    tests: tuple[str, ...]
    root: str = ""
    """Import root relative to the archive's root."""
    requires: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    """More words for pytest."""

    @property
    def name(self) -> str:
        return self.requirement.partition("==")[0]


TUNING = (
    Library("more-itertools==11.2.1", "more_itertools", ("tests",)),
    Library("toolz==1.2.0", "toolz", ("toolz/tests",)),
    Library("cachetools==8.0.2", "src/cachetools", ("tests",), root="src"),
    Library("inflection==0.5.1", "inflection", ("test_inflection.py",)),
    Library("cssselect==1.6.0", "cssselect", ("tests",), requires=("lxml",)),
    Library("natsort==8.4.0", "natsort", ("tests",), requires=("hypothesis", "pytest-mock")),
    Library("jmespath==1.1.0", "jmespath", ("tests",)),
    Library("parse==1.22.4", "parse", ("tests",)),
)
"""What the weights were chosen on."""

FINAL = (
    Library("boltons==26.2.0", "boltons", ("tests",)),
    Library("sqlparse==0.6.1", "sqlparse", ("tests",)),
    Library("tabulate==0.10.0", "tabulate", ("test",)),
    Library("funcy==2.1", "funcy", ("tests",), requires=("whatever",)),
    Library("mistune==3.4.0", "src/mistune", ("tests",), root="src"),
    Library("humanize==4.17.0", "src/humanize", ("tests",), root="src", requires=("freezegun",)),
    Library("semver==3.1.2", "src/semver", ("tests",), root="src"),
    Library("pyrsistent==0.20.0", "pyrsistent", ("tests",), requires=("hypothesis",)),
    Library("textdistance==4.6.3", "textdistance", ("tests/test_common.py", "tests/test_edit", "tests/test_token", "tests/test_sequence"), requires=("hypothesis", "numpy")),
)  # fmt: skip
"""Never looked at while choosing weights; the published figures."""


def set_up(library: Library, folder: Path, python: str = sys.executable) -> tuple[Path, Path]:
    """Fetches and unpacks the archive and makes an environment; gives the project's root and interpreter."""
    archives, projects = folder / "archives" / library.name, folder / "projects" / library.name
    environment = folder / "environments" / library.name
    if not projects.exists():
        archives.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
             "--dest", archives, library.requirement],
            check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        (archive,) = archives.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(projects, filter="data")
    ready = environment / "ready"
    if not ready.exists():
        if Path(python).resolve() == Path(sys.executable).resolve():
            venv.create(environment, with_pip=True)
        else:
            subprocess.run([python, "-m", "venv", environment], check=True)
        subprocess.run(
            [environment / "bin/python", "-m", "pip", "install", "--quiet", "pytest", *library.requires],
            check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        ready.touch()
    (root,) = [path for path in projects.iterdir() if path.is_dir()]
    return root, environment / "bin/python"
