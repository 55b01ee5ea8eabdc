"""`whimbrel tui --serve`, driven as a browser drives it: pages, files and the socket, with and without the token."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from whimbrel.app.tui.serving import child_argv

from tests.fix.conftest import WHIMBREL, Repo, buggy, home, repo

__all__ = ["buggy", "home", "repo"]


@pytest.fixture
async def served(home: dict[str, str], buggy: Repo) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    Path(home["WHIMBREL_STATE_DIR"], "tui-seen").touch()
    process = await asyncio.create_subprocess_exec(
        *WHIMBREL, "tui", str(buggy.root), "--serve", "--port", "0", "--sandbox", "host", "--no-build",
        "--python", sys.executable, env=home, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
        yield process, line.removeprefix("Open ").strip()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


async def seen(page: aiohttp.ClientWebSocketResponse, text: str) -> None:
    shown = b""
    async with asyncio.timeout(60):
        while text.encode() not in shown:
            message = await page.receive()
            assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), message
            shown += message.data if isinstance(message.data, bytes) else b""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for child processes in /proc")
async def test_the_interface_opens_in_a_browser_and_ctrl_c_ends_it_with_its_processes(
    served: tuple[asyncio.subprocess.Process, str],
):
    process, address = served
    assert address.startswith("http://127.0.0.1:")
    base, token = address.rstrip("/").rsplit("/", 1)
    assert len(token) >= 32
    async with aiohttp.ClientSession() as browser:
        for wrong in (
            "/",
            "/ws",
            "/static/js/textual.js",
            "/x/",
            f"/{token[:-1]}/",
            f"/{token}x/ws",
            "/download/1",
        ):
            async with browser.get(base + wrong) as answer:
                assert answer.status == 403, wrong
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await browser.ws_connect(f"{base}/ws")
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await browser.ws_connect(f"{address}ws", headers={"Origin": "http://elsewhere.example"})
        assert children(process.pid) == [], "whoever has no token starts nothing"
        async with browser.get(address) as answer:
            assert answer.status == 200 and "default-src 'self'" in answer.headers["Content-Security-Policy"]
            assert f'"ws://127.0.0.1:{address.split(":")[2].split("/")[0]}/{token}/ws"' in await answer.text()
        async with browser.get(f"{address}static/js/textual.js") as answer:
            assert answer.status == 200
        async with browser.ws_connect(f"{address}ws?width=100&height=30") as page:
            await seen(page, "Say what is wrong")
            (child,) = children(process.pid)
            await page.send_json(["stdin", "/help"])
            await seen(page, "keys and commands")
            # Ctrl-G, Ctrl-Z: there is no terminal to give to an editor or a shell.
            await page.send_json(["stdin", "\x07\x1a"])
            await seen(page, "no terminal for an editor")
            process.send_signal(signal.SIGINT)
            assert await asyncio.wait_for(process.wait(), 60) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


async def test_a_closed_page_ends_its_process_and_nothing_listens_elsewhere(
    served: tuple[asyncio.subprocess.Process, str],
):
    process, address = served
    port = int(address.split(":")[2].split("/")[0])
    other = socket.getaddrinfo(socket.gethostname(), port, socket.AF_INET)[0][4][0]
    if not str(other).startswith("127.0.0.1"):
        with pytest.raises(OSError):
            socket.create_connection((str(other), port), timeout=2).close()
    async with aiohttp.ClientSession() as browser:
        async with browser.ws_connect(f"{address}ws") as page:
            await seen(page, "Say what is wrong")
            (child,) = children(process.pid)
        async with asyncio.timeout(60):
            while children(process.pid):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_the_pages_process_gets_the_arguments_without_those_of_serving():
    given = ["--debug", "tui", "--serve", "--port", "0", "x", "--port=1", "--model", "embedded"]
    assert child_argv(given)[3:] == ["--debug", "tui", "x", "--model", "embedded"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--port", "1"), 2, "--port goes with --serve"),
        (("--serve", "--plain"), 2, "--serve has no --plain"),
        (("--serve", "--port", "TAKEN"), 2, "cannot be had"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    home: dict[str, str], repo: Repo, arguments: tuple[str, ...], code: int, said: str
):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        given = [port if argument == "TAKEN" else argument for argument in arguments]
        done = subprocess.run(
            [*WHIMBREL, "tui", str(repo.root), *given], env=home, capture_output=True, text=True, timeout=60
        )
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr


def test_without_the_extra_it_says_what_to_install(home: dict[str, str], repo: Repo, tmp_path: Path):
    code = "import sys; sys.modules['textual_serve'] = None; from whimbrel.app.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "tui", str(repo.root), "--serve"],
        env=home, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 10 and "pip install 'whimbrel[tui]'" in done.stderr
