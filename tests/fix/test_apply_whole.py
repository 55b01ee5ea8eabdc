"""A patch of several files is applied and taken back as a whole, or not at all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from tests.mock_server import MockServer, Request, completion

from .conftest import WHIMBREL, Ran, Repo


def test_a_patch_that_no_longer_fits_one_file_changes_none(
    buggy: Repo, fix: Callable[..., Ran], home: dict[str, str]
):
    buggy.write(**{"notes.txt": "one\ntwo\nthree\n"}).commit()

    def script(request: Request):
        if any(message["role"] == "tool" for message in request.messages):
            return completion(text="Done.")
        command = "sed -i 's/count < most/count > most/' tally.py; sed -i s/two/2/ notes.txt"
        return completion(calls=[("c", "bash", {"command": command})])

    def undo() -> subprocess.CompletedProcess[str]:
        command = [*WHIMBREL, "undo", "--repo", str(buggy.root)]
        return subprocess.run(command, env=home, capture_output=True, text=True)

    with MockServer(script) as server:
        ran = fix(buggy, "--python", sys.executable, "--apply", "--model", f"vllm:m@{server.url}")
    assert (ran.code, ran.result["applied"]) == (0, True), ran.out + ran.err
    (buggy.root / "tally.py").write_text("something else\n")
    patched = buggy.fingerprint()
    refused = undo()
    assert refused.returncode == 4 and "tally.py" in refused.stderr
    assert buggy.fingerprint() == patched, "notes.txt alone was not taken back"
