"""The escape attempts themselves: where nothing isolates, they must succeed, or they prove nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .escape_cases import ATTEMPTS, SECRET_TEXT, host_objects

# Those that are harmless on the machine that runs the tests (others write settings or files).
HARMLESS = {
    "take part in the host's shared memory segments",
    "use sockets that no namespace holds, or the host's abstract ones",
    "read a host file outside its workspace",
    "read a host file through a symbolic link",
    "see the host's processes",
    "signal the host's processes",
    "use system calls with a record of kernel bugs",
}


@pytest.mark.parametrize(
    "attempt",
    [attempt for attempt in ATTEMPTS if attempt.name in HARMLESS],
    ids=lambda attempt: attempt.name,
)
def test_without_isolation_the_attempt_succeeds(attempt: object, tmp_path: Path) -> None:
    assert {case.name for case in ATTEMPTS} >= HARMLESS
    secret = tmp_path / "secret"
    secret.write_text(SECRET_TEXT)
    mark = f"whimbrel-attempt-{os.getpid()}"
    with (
        host_objects(mark) as objects,
        subprocess.Popen(["/bin/sh", "-c", f"read x; : {mark}"], stdin=-1) as it,
    ):
        try:
            variables = {"SECRET_FILE": str(secret), "HOST_PID": str(it.pid), **objects}
            done = subprocess.run(
                ["/bin/sh", "-c", attempt.script],  # type: ignore[attr-defined]
                cwd=tmp_path,
                env={"PATH": os.environ["PATH"], **variables},
                capture_output=True,
                text=True,
            )
        finally:
            it.kill()
    assert "ESCAPED" in done.stdout or SECRET_TEXT in done.stdout, done.stderr
