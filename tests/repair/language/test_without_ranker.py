"""What happens where there is no language model: everything but its opinion, and the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from project import opened
from whimbrel.app.tools.repair import RepairArguments, RepairTool

FILES = {
    "cart.py": "def total(prices):\n    result = 0\n    for price in prices:\n        result -= price\n"
    "    return result\n",
    "test_cart.py": "from cart import total\n\n\ndef test_total():\n    assert total([1, 3]) == 4\n",
}
INSTALL = [sys.executable, "-m", "whimbrel.app.repair.language.install"]


async def test_without_the_extra_a_repair_works_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("WHIMBREL_RANKER")
    monkeypatch.setitem(sys.modules, "llama_cpp", None)  # as if it were not installed
    async with opened(tmp_path, FILES) as context:
        result = await RepairTool().run(context, RepairArguments())
    assert result.data["status"] == "fixed"
    assert result.data["ranker"] == "none: llama-cpp-python is not installed (`make local`)"


async def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch):
    from whimbrel.app.repair.language.ordering import in_order, preference

    monkeypatch.setenv("WHIMBREL_RANKER", "off")
    assert (await in_order([], {})).ranker == "none: turned off by WHIMBREL_RANKER"
    assert await preference([], {}) == ([], "none: turned off by WHIMBREL_RANKER")


def install(tmp_path: Path, programs: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """The installation without an index, with only these programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in programs:
        (folder / name).write_text("#!/bin/false\n")
        (folder / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": str(folder),
        "WHIMBREL_CACHE_DIR": str(tmp_path / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
    }
    return subprocess.run(INSTALL, capture_output=True, text=True, env=environment, check=False)


def test_the_installation_without_a_compiler_is_one_line(tmp_path: Path):
    done = install(tmp_path, ("cmake",))
    assert done.returncode == 11
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: llama.cpp cannot be built: ninja, c++ not found")
    assert "apt-get install ninja-build g++" in line


def test_the_installation_without_the_package_index_is_one_line(tmp_path: Path):
    done = install(tmp_path, ("cmake", "ninja", "c++"))
    assert done.returncode == 11
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: llama-cpp-python cannot be downloaded: ")
