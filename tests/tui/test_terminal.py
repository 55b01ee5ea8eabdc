"""The real program in a real terminal: a whole repair by keyboard only and by mouse only, and how it leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fix.conftest import Repo

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")

WHIMBREL = f"{sys.executable} -m whimbrel.app.cli"
TUI = f"{WHIMBREL} tui --sandbox host --no-build --python {sys.executable}"


class Terminal:
    """A shell in tmux."""

    def __init__(self, folder: Path, environment: dict[str, str], size: tuple[int, int] = (120, 40)) -> None:
        self._socket = f"whimbrel-{uuid.uuid4().hex[:8]}"
        width, height = map(str, size)
        self._tmux("-f", os.devnull, "new-session", "-d", "-x", width, "-y", height, "-c", str(folder),
                   "env", "-i", *(f"{name}={value}" for name, value in environment.items()),
                   "sh", "-i")  # fmt: skip

    def _tmux(self, *arguments: str) -> str:
        environment = {**os.environ, "TMUX": ""}
        return subprocess.run(
            ["tmux", "-L", self._socket, *arguments],
            check=True, capture_output=True, text=True, env=environment,
        ).stdout  # fmt: skip

    def keys(self, *names: str) -> None:
        self._tmux("send-keys", *names)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    @property
    def scrollback(self) -> str:
        return self._tmux("capture-pane", "-p", "-S", "-500")

    def wait(self, text: str, seconds: float = 90.0, *, gone: bool = False) -> str:
        """Until a text is on the screen (or gone from it); returns the screen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            screen = self.screen
            if (text in screen) is not gone:
                return screen
            time.sleep(0.1)
        raise AssertionError(f"{text!r} did not {'go' if gone else 'come'}:\n{self.screen}")

    def click(self, text: str) -> None:
        """A left click on the first place that shows a text, as a terminal reports it."""
        for row, line in enumerate(self.wait(text).splitlines(), 1):
            column = line.find(text)
            if column >= 0:
                # Cells, not characters: what stands before it may be wide.
                at = f"{column + 2};{row}"
                self.type(f"\x1b[<0;{at}M\x1b[<0;{at}m")
                return

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminal(buggy: Repo, home: dict[str, str]) -> Iterator[Callable[[], Terminal]]:
    """Opens a shell in the repository with the failing test."""
    opened: list[Terminal] = []
    Path(home["WHIMBREL_STATE_DIR"], "tui-seen").touch()
    environment = {**home, "PS1": "$ ", "TERM": "tmux-256color", "COLORTERM": "truecolor"}
    environment["WHIMBREL_CONFIG_DIR"] = home["HOME"]

    def make() -> Terminal:
        opened.append(Terminal(buggy.root, environment))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_a_whole_repair_by_keyboard_only(terminal: Callable[[], Terminal], buggy: Repo):
    it = terminal()
    it.type(f"{TUI}; echo code $?")
    it.keys("Enter")
    it.wait("describe what to change")
    it.type("/fix")
    it.keys("Enter")
    it.wait("fixed: 1 test that failed passes now")
    assert "count < most" in (buggy.root / "tally.py").read_text(), "nothing is applied by itself"
    it.keys("F4")
    it.wait("Review the changes")
    it.keys("Enter")
    it.wait("applied to your files: tally.py")
    assert "count > most" in (buggy.root / "tally.py").read_text()
    it.keys("C-d")
    it.wait("code 0")
    # The terminal is as it was: what was on the screen is there again, and lines are edited.
    assert "tui --sandbox host" in it.screen and "go on with: whimbrel tui --resume" in it.screen
    it.type("stty -a | grep -o -- '-*icanon'; stty -a | grep -o -- ' -*echo '")
    it.keys("Enter")
    it.wait("\nicanon\n echo")


def test_a_whole_repair_by_mouse_only(terminal: Callable[[], Terminal], buggy: Repo):
    it = terminal()
    it.type(TUI)
    it.keys("Enter")
    it.wait("describe what to change")
    it.wait("sandbox host")
    it.click("Commands")
    it.wait("repair what the tests show")
    it.click("repair what the tests show")
    it.wait("fixed: 1 test that failed passes now")
    it.click("Review")
    it.wait("Review the changes")
    it.click("apply what is taken")
    it.wait("applied to your files: tally.py")
    assert "count > most" in (buggy.root / "tally.py").read_text()


@pytest.mark.parametrize("ending", ["terminated", "suspended"])
def test_the_terminal_is_sane_after_a_signal_and_after_ctrl_z(
    terminal: Callable[[], Terminal], ending: str, tmp_path: Path
):
    it = terminal()
    it.type("echo $$ > pid; stty -a > before")
    it.keys("Enter")
    it.type(TUI)
    it.keys("Enter")
    it.wait("describe what to change")
    it.wait("sandbox host")
    shell = int(Path(tmp_path, "project", "pid").read_text())
    [child] = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    if ending == "terminated":
        os.kill(int(child), signal.SIGTERM)
        it.wait("describe what to change", gone=True)
    else:
        it.keys("C-z")
        it.wait("Stopped")
    folder = Path(tmp_path, "project")
    it.type("stty -a > after; echo > written")
    it.keys("Enter")
    _until((folder / "written").exists)
    assert (folder / "after").read_text() == (folder / "before").read_text()
    it.type("\x1b[<0;5;5M")  # a mouse that still reported would do so
    it.keys("C-c")
    if ending == "suspended":
        it.type("fg")
        it.keys("Enter")
        it.wait("describe what to change")
        it.type("still here")
        it.wait("still here")
        it.keys("C-c", "C-c", "C-c")
        it.wait("$ ")


def test_without_arguments_a_terminal_gets_the_interface_also_with_ci_set_and_a_pipe_gets_help(
    terminal: Callable[[], Terminal], buggy: Repo, home: dict[str, str]
):
    it = terminal()
    it.type(f"CI=1 {WHIMBREL}")
    it.keys("Enter")
    it.wait("describe what to change")
    piped = subprocess.run(
        [sys.executable, "-m", "whimbrel.app.cli"], capture_output=True, text=True, env=home, cwd=buggy.root,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert piped.returncode == 0 and "Usage: whimbrel" in piped.stdout
    refused = subprocess.run(
        [sys.executable, "-m", "whimbrel.app.cli", "tui"], capture_output=True, text=True, env=home,
        cwd=buggy.root, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert refused.returncode == 2 and "needs a terminal" in refused.stderr


def test_plain_mode_and_a_dumb_terminal_write_lines_and_move_no_cursor(
    terminal: Callable[[], Terminal], buggy: Repo
):
    it = terminal()
    it.type(f"TERM=dumb {TUI} > ../out 2>&1; echo code $?")
    it.keys("Enter")
    log = buggy.root.parent / "out"
    _until(lambda: log.exists() and "needs a terminal" in log.read_text())
    it.type(f"TERM=dumb LC_ALL=C {TUI} --plain | tee ../out; echo code $?")
    it.keys("Enter")
    it.wait("/fix repairs")
    it.type("/fix")
    it.keys("Enter")
    it.wait("fixed: 1 test that failed passes now")
    it.type("/apply")
    it.keys("Enter")
    it.wait("applied to your files: tally.py")
    it.type("/quit")
    it.keys("Enter")
    it.wait("code 0")
    assert "\x1b" not in log.read_text()


def test_inline_mode_leaves_the_conversation_in_the_scrollback(terminal: Callable[[], Terminal]):
    it = terminal()
    it.type("echo before-it")
    it.keys("Enter")
    it.type(f"{TUI} --inline; echo code $?")
    it.keys("Enter")
    it.wait("describe what to change")
    assert "before-it" in it.scrollback
    it.keys("C-d")
    it.wait("code 0")
    assert "before-it" in it.scrollback and "describe what to change" in it.scrollback


def _until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def test_a_fault_of_the_whole_screen_ends_in_one_line_with_the_terminal_as_it_was(
    terminal: Callable[[], Terminal], tmp_path: Path
):
    script = tmp_path / "broken.py"
    script.write_text(
        "from whimbrel.app.cli import main\n"
        "from whimbrel.app.tui.screens.main import MainScreen\n"
        "def broken(self):\n"
        "    secret = 'hunter2hunter2'\n"
        "    raise RuntimeError('broken [/red]')\n"
        "MainScreen.action_rail = broken\n"
        "main(['tui', '--sandbox', 'host', '--no-build'])\n"
    )
    it = terminal()
    it.type(f"{sys.executable} {script}; echo code $?")
    it.keys("Enter")
    it.wait("describe what to change")
    it.wait("sandbox host")
    it.keys("C-b")
    screen = it.wait("code 1")
    told = screen.replace("\n", "")
    assert "whimbrel: internal error: RuntimeError: broken [/red] (traceback: " in told
    assert "hunter2" not in screen and "Traceback" not in screen


def test_a_terminal_that_goes_away_without_a_signal_ends_the_program(buggy: Repo, home: dict[str, str]):
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        TUI.split(), cwd=buggy.root, env={**home, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        seen = b""
        while b"Send" not in seen:
            seen += os.read(ours, 65536)
        os.close(ours)
        assert process.wait(60) == 128 + signal.SIGHUP
    finally:
        process.kill()
        process.wait()
