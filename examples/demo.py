"""`make demo`: copies the example project, breaks nothing, repairs its one fault, shows the proof.

The sandbox is a real one where the machine has one: Docker when a daemon answers,
else bubblewrap. Where neither is there, the example (our own, trusted code) runs with
``--sandbox host``, and this script says so: Whimbrel itself never makes that choice.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent / "orderdesk"
WHIMBREL = [sys.executable, "-m", "whimbrel.app.cli"]


def git(*arguments: str, cwd: Path) -> None:
    identity = ["-c", "user.name=Demo", "-c", "user.email=demo@example.invalid", "-c", "commit.gpgsign=false"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    subprocess.run(["git", *identity, *arguments], cwd=cwd, check=True, env=environment)


def sandbox_argument() -> list[str]:
    """``--sandbox host`` only where no isolating sandbox can start here."""
    doctor = subprocess.run([*WHIMBREL, "doctor"], stdout=subprocess.PIPE, text=True)
    if doctor.returncode != 9:
        return []
    print(f"No isolating sandbox here: {doctor.stdout.strip().splitlines()[-1]}")
    print("The example is our own code, so the demo goes on with --sandbox host (no isolation).")
    print("For a real sandbox: apt-get install bubblewrap, or start Docker.\n")
    return ["--sandbox", "host"]


def main() -> int:
    if shutil.which("git") is None:
        print("The demo needs git: apt-get install git", file=sys.stderr)
        return 10
    with tempfile.TemporaryDirectory(prefix="whimbrel-demo-") as folder:
        repository = Path(folder) / "orderdesk"
        shutil.copytree(EXAMPLE, repository, ignore=shutil.ignore_patterns("__pycache__"))
        git("init", "--quiet", "--initial-branch=main", cwd=repository)
        git("add", "--all", cwd=repository)
        git("commit", "--quiet", "--message=Order desk 1.4.0", cwd=repository)
        command = [
            *WHIMBREL, "fix-issue", "--repo", str(repository), "--issue", str(repository / "ISSUE.md"),
            "--model", "embedded", "--output", "demo-output", *sandbox_argument(),
        ]  # fmt: skip
        print("$ whimbrel " + " ".join(command[3:]), flush=True)
        return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
