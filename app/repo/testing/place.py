"""Where our helpers and the files of a run lie inside the sandbox."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ....sandbox.base.errors import EnvironmentBroken, ToolError
from ....sandbox.protocol import Mount, Sandbox, run_to_end

INSIDE_TARGET = "/run/whimbrel/inside"
_FOLDER = Path(__file__).parent / "inside"
_MARK = "whimbrel-place:"

# Runs with -I: neither the project's files nor its environment variables play a part.
_PROBE = """
import hashlib, json, os, sys, tempfile
wanted, found = sys.argv[1], ""
for folder in sys.argv[2:]:
    digest = hashlib.sha256()
    try:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    digest.update(name.encode() + bytes([0]) + file.read() + bytes([0]))
    except OSError:
        continue
    if digest.hexdigest() == wanted:
        found = folder
        break
base = tempfile.mkdtemp(prefix="whimbrel-")
print("whimbrel-place:" + json.dumps([base, found, list(sys.version_info[:3])]))
"""


def inside_mount() -> Mount:
    """The helpers, read-only, for sandboxes that can mount: saves copying them in."""
    return Mount(source=_FOLDER, target=INSIDE_TARGET, read_only=True)


@cache
def helper_files() -> Mapping[str, bytes]:
    """File name to content of everything that runs inside."""
    return {path.name: path.read_bytes() for path in sorted(_FOLDER.glob("*.py"))}


@cache
def _digest() -> str:
    digest = hashlib.sha256()
    for name, data in helper_files().items():
        digest.update(name.encode() + b"\0" + data + b"\0")
    return digest.hexdigest()


@dataclass(frozen=True)
class Place:
    """Directories inside the sandbox, and the interpreter's version."""

    base: str
    """Writable, ours alone; removed by the runner's ``close`` or with the sandbox."""
    inside: str
    version: tuple[int, int, int]


async def prepare_place(sandbox: Sandbox, python: str, cwd: str) -> Place:
    """Finds (or copies in) the helpers and makes the directory for the files of runs.

    Raises:
        EnvironmentBroken: the interpreter does not start.
    """
    if not python:
        return await _place_without_python(sandbox, cwd)
    argv = [python, "-I", "-c", _PROBE, _digest(), INSIDE_TARGET, str(_FOLDER)]
    try:
        result = await run_to_end(sandbox, argv, cwd=cwd, timeout_s=60, label="interpreter")
    except ToolError as error:
        raise EnvironmentBroken(
            f"the project's interpreter {python} does not start in the sandbox: {error.message}",
            hint="name a working one with --python",
        ) from error
    text = result.text()
    line = next((line for line in reversed(text.splitlines()) if line.startswith(_MARK)), "")
    if not line:
        last = text.strip().splitlines()[-1:] or [f"exit code {result.exit_code}"]
        raise EnvironmentBroken(
            f"the project's interpreter {python} does not start in the sandbox: {last[0]}",
            hint="name a working one with --python",
        )
    base, inside, version = json.loads(line.removeprefix(_MARK))
    if not inside:
        inside = f"{base}/inside"
        for name, data in helper_files().items():
            await sandbox.write(f"{inside}/{name}", data)
    return Place(base=base, inside=inside, version=(version[0], version[1], version[2]))


async def _place_without_python(sandbox: Sandbox, cwd: str) -> Place:
    """A directory for the files of runs; tools of other languages need no helpers of ours."""
    script = 'umask 077 && base=$(mktemp -d "${TMPDIR:-/tmp}/whimbrel-XXXXXXXX") && echo "$0$base"'
    result = await run_to_end(sandbox, ["/bin/sh", "-c", script, _MARK], cwd=cwd, timeout_s=60, label="place")
    line = next((line for line in result.text().splitlines() if line.startswith(_MARK)), "")
    if not line:
        raise EnvironmentBroken(f"the sandbox has no room for temporary files: {result.text().strip()[:200]}")
    return Place(base=line.removeprefix(_MARK), inside="", version=(0, 0, 0))
