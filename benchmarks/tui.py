"""The terminal interface: first paint, streaming, ticks, memory and rest; beside others of its kind.

    python benchmarks/tui.py [--rivals FOLDER] [--json FILE]

The programs run in a pseudo terminal of 120 x 40, in an empty repository, with an empty home. With
``--rivals`` a virtual environment is made in FOLDER (or used, where there is one), ``mistral-vibe``
and ``batrachian-toad`` are installed into it from the package index where that is possible, and
measured in the same run, in turns. What cannot be installed or never takes a key is said, not guessed.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

COLUMNS, ROWS = 120, 40
KEY = "ʒ"
"""A character that no program shows of its own accord."""
ESCAPES = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\)|\x1b.", re.DOTALL)
ROUNDS = 3
SETTLE_S, REST_S = 6.0, 4.0
FIGURES = ("first paint s", "key shown s", "resident MB", "load at rest %")
RIVALS = {"vibe": "mistral-vibe", "toad": "batrachian-toad"}


class Terminal:
    """A program in a pseudo terminal."""

    def __init__(self, argv: list[str], folder: Path, home: Path) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
            "MISTRAL_API_KEY": "none",  # one of the rivals asks for a key before anything else
        }
        self.began = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(argv[0], argv, environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.output = b""

    def read_until(self, done: Callable[[bytes], bool], limit_s: float) -> float | None:
        """Seconds since the start until the output satisfies ``done``; None: not within the limit."""
        end = time.perf_counter() + limit_s
        while not done(self.output):
            ready, _, _ = select.select([self.fd], [], [], max(0.0, min(0.05, end - time.perf_counter())))
            if ready:
                try:
                    self.output += os.read(self.fd, 1 << 16)
                except OSError:
                    return None
            elif time.perf_counter() > end:
                return None
        return time.perf_counter() - self.began

    def painted(self, output: bytes) -> bool:
        """It has taken the terminal over, and something to read is on the screen."""
        echoes = termios.tcgetattr(self.fd)[3] & termios.ECHO
        return not echoes and len(ESCAPES.sub(b"", output).strip()) > 40

    def rest(self, seconds: float) -> None:
        self.read_until(lambda output: False, seconds)

    def cpu_s(self) -> float:
        """Processor seconds of the program and its children so far."""
        return _cpu_ticks(self.pid) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(self.pid, sign)
            except ProcessLookupError:
                break
            for _ in range(40):
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    os.close(self.fd)
                    return
                self.read_until(lambda output: False, 0.05)
        os.close(self.fd)


def resident_mb(pid: int) -> float:
    """Memory of a process and its children that is really there, in megabytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6 + sum(map(resident_mb, children_of(pid)))


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cpu_ticks(pid: int) -> int:
    """Of a process, its children, and those that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(value) for value in fields[11:15]) + sum(map(_cpu_ticks, children_of(pid)))


def program(argv: list[str]) -> dict[str, float | None]:
    """First paint, first key shown, resident memory and load at rest of one start."""
    with tempfile.TemporaryDirectory() as place:
        folder, home = Path(place, "repository"), Path(place, "home")
        folder.mkdir()
        home.mkdir()
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        terminal = Terminal(argv, folder, home)
        try:
            paint = terminal.read_until(terminal.painted, 20)
            usable = None
            if paint is not None:
                for _ in range(100):
                    os.write(terminal.fd, KEY.encode())
                    usable = terminal.read_until(
                        lambda output: KEY.encode() in ESCAPES.sub(b"", output), 0.05
                    )
                    if usable is not None:
                        break
            terminal.rest(SETTLE_S)
            before, start = terminal.cpu_s(), time.perf_counter()
            terminal.rest(REST_S)
            load = (terminal.cpu_s() - before) / (time.perf_counter() - start)
            memory = resident_mb(terminal.pid)
            if paint is None or not memory:  # it never took the terminal, or has ended by now
                return dict.fromkeys(FIGURES)
            return dict(zip(FIGURES, (paint, usable, memory, 100 * load), strict=True))
        except (OSError, termios.error):
            return dict.fromkeys(FIGURES)
        finally:
            terminal.end()


# ------------------------------------------------------------ the widgets, in this process


async def ticks_during(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """The longest time the event loop was held up while ``work`` ran, in ms: by the clock, and in
    processor time of its thread, which other programs on the machine do not change."""
    worst_wall = worst_cpu = 0.0
    stop = False

    async def watch() -> None:
        nonlocal worst_wall, worst_cpu
        while not stop:
            wall, cpu = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.002)
            worst_wall = max(worst_wall, time.perf_counter() - wall - 0.002)
            worst_cpu = max(worst_cpu, time.thread_time() - cpu)

    task = asyncio.create_task(watch())
    await asyncio.sleep(0.05)
    worst_wall = worst_cpu = 0.0
    await work()
    stop = True
    await task
    return 1000 * worst_wall, 1000 * worst_cpu


async def widgets() -> dict[str, float]:
    from textual.app import App, ComposeResult
    from textual.widget import Widget
    from whimbrel.app.agent.events import ToolFinished, ToolStarted
    from whimbrel.app.tui.collecting import CalmCollector
    from whimbrel.app.tui.widgets.conversation_view import ConversationView
    from whimbrel.app.tui.widgets.diff_view import DiffView
    from whimbrel.app.tui.widgets.log_view import LogView
    from whimbrel.app.tui.widgets.streaming_markdown import StreamingMarkdown
    from whimbrel.app.tui.widgets.tool_card import ToolCard

    class Stage(App[None]):
        def __init__(self, make: Callable[[], Widget]) -> None:
            super().__init__()
            self._make = make

        def compose(self) -> ComposeResult:
            yield self._make()

    found: dict[str, float] = {}
    collector = CalmCollector()

    def put_ticks(name: str, ticks: tuple[float, float]) -> None:
        found[f"{name} ms"], found[f"{name} ms, cpu"] = ticks

    app = Stage(ConversationView)
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        view = app.query_one(ConversationView)
        collector.start(app)  # as the program does
        for number in range(2000):
            card = ToolCard(
                ToolStarted(
                    call_id=str(number),
                    name="bash",
                    permission="execute",
                    arguments={"command": f"run {number}"},
                )
            )
            view.mount(card)
            output = f"a line of output of command {number}\n" * 60
            card.finish(ToolFinished(call_id=str(number), name="bash", text=output, data={"exit_code": 0}))
            if number % 20 == 19:
                view.settle_soon()
                await pilot.pause()
        await pilot.pause()
        found["2,000 results: resident MB"] = resident_mb(os.getpid())
        found["2,000 results: widgets"] = len(view.children)

    text = (
        "Some *text* with `code`.\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nx = 1\n```\n\n"
        * 3000
    )[:200_000]
    for length in (100_000, 200_000):
        app = Stage(StreamingMarkdown)
        async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
            markdown = app.query_one(StreamingMarkdown)
            await pilot.pause()

            async def arrive(length: int = length, markdown: StreamingMarkdown = markdown) -> None:
                for at in range(0, length, 10):
                    markdown.append(text[at : at + 10])
                    if at % 1000 == 0:
                        await asyncio.sleep(0)
                markdown.finish()
                while not markdown.finished:
                    await pilot.pause(0.01)

            start = time.process_time()
            put_ticks(f"stream {length // 1000} kB: longest tick", await ticks_during(arrive))
            found[f"stream {length // 1000} kB cpu s"] = time.process_time() - start

    old = [f"line {number} = call({number})  # comment\n" for number in range(20_000)]
    body = "".join(
        f"-{line}+{line.replace('call', 'other')}" if number % 2 else f" {line}"
        for number, line in enumerate(old)
    )
    patch = f"diff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\n@@ -1,20000 +1,20000 @@\n{body}"
    app = Stage(DiffView)
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        view = app.query_one(DiffView)

        async def open_diff() -> None:
            view.show(patch)
            while len(view.rows) < 20_000:
                await pilot.pause(0.01)

        put_ticks("diff of 20,000 lines: longest tick", await ticks_during(open_diff))

    line = b"tests/test_module.py::test_\x1b[32mname\x1b[0m PASSED   [ 42%] some output of about a hundred bytes in a line\n"
    app = Stage(LogView)
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        log = app.query_one(LogView)

        async def stream() -> None:
            for _ in range(50_000_000 // (len(line) * 500)):
                log.append(line * 500)
                await asyncio.sleep(0)
            while log.line_count < 50_000_000 // (len(line) * 500) * 500:
                await pilot.pause(0.01)

        put_ticks("log of 50 MB: longest tick", await ticks_during(stream))
        found["log of 50 MB: held MB"] = log.memory / 1e6

    return found


# ------------------------------------------------------------ rivals


def install(folder: Path, python: str) -> dict[str, list[str]]:
    """The rivals' programs, installed into a virtual environment of their own."""
    binaries = folder / "bin"
    if not (binaries / "python").exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    found: dict[str, list[str]] = {}
    for name, package in RIVALS.items():
        if not (binaries / name).exists():
            pip = [
                str(binaries / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                package,
            ]
            done = subprocess.run(pip, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                print(f"{package} cannot be installed here: {reason[:150]}")
                continue
        found[name] = [str(binaries / name)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rivals", type=Path, help="folder for the virtual environment of other programs")
    parser.add_argument(
        "--rivals-python", default=sys.executable, help="interpreter for them (3.12 or newer)"
    )
    parser.add_argument("--json", type=Path, help="where the figures go as JSON")
    options = parser.parse_args()

    whimbrel = shutil.which("whimbrel", path=str(Path(sys.executable).parent)) or "whimbrel"
    programs = {
        "whimbrel": [whimbrel],
        **(install(options.rivals.absolute(), options.rivals_python) if options.rivals else {}),
    }
    runs: dict[str, list[dict[str, float | None]]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, argv in programs.items():
            runs[name].append(program(argv))
    figures = {
        name: {key: _median([run[key] for run in each]) for key in each[0]} for name, each in runs.items()
    }
    print(f"{'':<22}" + "".join(f"{name:>16}" for name in figures))
    for key in figures["whimbrel"]:
        own = figures["whimbrel"][key]
        cells = [_cell(values[key], own, name != "whimbrel") for name, values in figures.items()]
        print(f"{key:<22}" + "".join(f"{cell:>16}" for cell in cells))
    inner = asyncio.run(widgets())
    for key, value in inner.items():
        print(f"{key:<40} {value:10.2f}")
    print(
        f"{'stream: twice the text costs':<40} {inner['stream 200 kB cpu s'] / inner['stream 100 kB cpu s']:10.2f} x"
    )
    if options.json:
        options.json.write_text(json.dumps({"programs": figures, "widgets": inner}, indent=1))


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _cell(value: float | None, own: float | None, ratio: bool) -> str:
    if value is None:
        return "never"
    return f"{value:.2f} ({value / own:.1f}x)" if ratio and own else f"{value:.2f}"


if __name__ == "__main__":
    main()
