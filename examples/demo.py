"""`make demo`: copies the example project, breaks nothing, repairs its one fault, shows the proof.

The sandbox is a real one where the machine has one: Docker when a daemon answers,
else bubblewrap. Where neither is there, the example (our own, trusted code) runs with
``--sandbox host``, and this script says so: Whimbrel itself never makes that choice.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent / "orderdesk"
PLACE = Path("demo-output")
"""Below the current folder: the repaired copy and the result stay there, to be looked at."""
WHIMBREL = [sys.executable, "-m", "whimbrel.app.cli"]


def git(*arguments: str, cwd: Path) -> None:
    identity = ["-c", "user.name=Demo", "-c", "user.email=demo@example.invalid", "-c", "commit.gpgsign=false"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    subprocess.run(["git", *identity, *arguments], cwd=cwd, check=True, env=environment)


def sandbox_argument() -> list[str]:
    """``--sandbox host`` only where no isolating sandbox can start here."""
    doctor = subprocess.run([*WHIMBREL, "doctor", "--json"], stdout=subprocess.PIPE, text=True)
    if doctor.returncode != 9:
        return []
    print(json.loads(doctor.stdout)["verdict"])
    print("The example is our own code, so the demo goes on with --sandbox host (no isolation).")
    print()
    return ["--sandbox", "host"]


def main() -> int:
    if shutil.which("git") is None:
        print("The demo needs git: apt-get install git", file=sys.stderr)
        return 10
    repository = PLACE / EXAMPLE.name
    shutil.rmtree(repository, ignore_errors=True)
    shutil.copytree(EXAMPLE, repository, ignore=shutil.ignore_patterns("__pycache__"))
    git("init", "--quiet", "--initial-branch=main", cwd=repository)
    git("add", "--all", cwd=repository)
    git("commit", "--quiet", "--message=Order desk 1.4.0", cwd=repository)
    command = [
        *WHIMBREL, "fix-issue", "--repo", str(repository), "--issue", str(repository / "ISSUE.md"),
        "--model", "embedded", "--output", str(PLACE / "result"), *sandbox_argument(),
    ]  # fmt: skip
    print("$ whimbrel " + shlex.join(command[3:]), flush=True)
    code = subprocess.run(command).returncode
    if code == 0:
        whimbrel = Path(sys.executable).parent / "whimbrel"
        here = Path.cwd()
        shown = whimbrel.relative_to(here) if whimbrel.is_relative_to(here) else whimbrel
        print(f"\nNow try: {shown} apply --repo {repository}, and undo instead of apply to take it back.")
    return code


if __name__ == "__main__":
    sys.exit(main())
