"""The command where its output cannot go anywhere, and where a name is mistyped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WHIMBREL = [sys.executable, "-m", "whimbrel.app.cli"]


def _run(script: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(home), "WHIMBREL_STATE_DIR": str(home / "state")}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script}", "sh", *WHIMBREL],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("arguments", ["--help", "doctor", "fix-issue --help"])
def test_a_full_output_is_one_line_and_exit_code_10(tmp_path: Path, arguments: str):
    done = _run(f'"$@" {arguments} >/dev/full', tmp_path)
    assert done.returncode == 10
    assert done.stderr.strip() == "whimbrel: cannot write: No space left on device"


@pytest.mark.parametrize("arguments", ["--help", "doctor", "session list", "--version"])
def test_a_closed_output_is_no_fault_of_the_command(tmp_path: Path, arguments: str):
    done = _run(f'"$@" {arguments} >&-', tmp_path)
    assert "error" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 9)


def test_a_reader_that_leaves_is_no_error(tmp_path: Path):
    # The reader is gone before the first byte: the output waits for it.
    done = _run('(sleep 1; "$@" fix-issue --help) | true', tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", ["permissions test ls", "hook status", "batch x --output y"])
def test_a_current_directory_that_is_gone_is_said_in_one_line(tmp_path: Path, arguments: str):
    gone = tmp_path / "gone"
    done = _run(f'mkdir {gone}; cd {gone}; rmdir {gone}; "$@" {arguments}', tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "whimbrel: the current directory does not exist any more (cd to one that does)\n",
    )


def test_a_mistyped_command_is_guessed(tmp_path: Path):
    done = _run('"$@" fix-isue', tmp_path)
    assert done.returncode == 2 and "Did you mean 'fix-issue'?" in done.stderr


def test_ctrl_c_while_the_command_is_still_loading_is_one_line_and_no_traceback(tmp_path: Path):
    # A job in a shell's background starts with the signal ignored.
    listening = "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    interrupting = listening + "os.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(60)\n"
    (tmp_path / "click.py").write_text(interrupting)
    done = subprocess.run(
        [sys.executable, "-m", "whimbrel.app.cli", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "whimbrel: cancelled\n")
