"""The library of kernels: found or explained, its threads, a fork, its build."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from whimbrel.kernels import mxfp4
from whimbrel.kernels.arrays import KernelError
from whimbrel.kernels.native import build, library


def _python(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", script]
    env = {**os.environ, **environment}
    return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60, check=False)


def _count(n: int, grain: int) -> np.ndarray:
    loaded = library.library()
    assert loaded is not None
    counts = np.zeros(n, np.int32)
    loaded.whimbrel_count(ctypes.c_void_p(counts.ctypes.data), ctypes.c_int64(n), ctypes.c_int64(grain))
    return counts


@pytest.mark.parametrize("threads", [1, 2, 5, 16])
def test_every_piece_is_done_once_by_any_number_of_threads(built: None, threads: int):
    with library.using("portable", threads):
        for n, grain in ((0, 1), (1, 1), (7, 3), (1000, 1), (1001, 64), (5, 100)):
            assert (_count(n, grain) == 1).all()


def test_callers_side_by_side_do_not_disturb_each_other(built: None):
    wrong: list[int] = []

    def work() -> None:
        wrong.extend(n for n in range(1, 200) if not (_count(n * 17, 5) == 1).all())

    with library.using("portable", 3):
        callers = [threading.Thread(target=work) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
    assert wrong == [] and not any(caller.is_alive() for caller in callers)


def test_a_child_after_a_fork_has_threads_of_its_own(built: None):
    script = (
        "import os, numpy as np\n"
        "from whimbrel.kernels import mxfp4\n"
        "w = mxfp4.quantise(np.eye(96, dtype=np.float32))\n"
        "x = np.arange(96, dtype=np.float32)[None]\n"
        "mxfp4.matmul(x, *w)\n"
        "child = os.fork()\n"
        "good = np.allclose(mxfp4.matmul(x, *w, precision='f32'), x)\n"
        "if child == 0: os._exit(0 if good else 1)\n"
        "print(os.waitpid(child, 0)[1], good)\n"
    )
    answer = _python(script, WHIMBREL_THREADS="3")
    assert answer.stdout.split() == ["0", "True"], answer.stderr


def test_the_environment_names_the_variant_and_the_threads(built: None):
    script = "from whimbrel.kernels.native.library import status; s = status(); print(s.variant, s.threads)"
    assert _python(script, WHIMBREL_KERNELS="portable", WHIMBREL_THREADS="3").stdout.split() == [
        "portable",
        "3",
    ]
    assert _python(script, WHIMBREL_KERNELS="numpy").stdout.split() == ["numpy", "0"]
    assert "there are no kernels 'sse'" in _python(script, WHIMBREL_KERNELS="sse").stderr


def test_a_library_of_other_sources_is_not_used(built: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stale = tmp_path / build.LIBRARY
    stale.write_bytes(
        (build.HERE / build.LIBRARY).read_bytes().replace(build.fingerprint().encode(), b"0" * 16)
    )
    broken = tmp_path / "broken" / build.LIBRARY
    broken.parent.mkdir()
    broken.write_bytes(b"no library")
    x, w = np.ones((1, 32), np.float32), mxfp4.quantise(np.ones((1, 32), np.float32))
    for folder, says in (
        (stale.parent, "other sources"),
        (broken.parent, "cannot be loaded"),
        (tmp_path / "no", "not built"),
    ):
        monkeypatch.setattr(build, "HERE", folder)
        monkeypatch.setattr(library.build, "fingerprint", lambda: "another")
        library.forget()
        try:
            assert library.status().variant == "numpy" and says in library.status().reason
            assert mxfp4.matmul(x, *w)[0, 0] == 32
        finally:
            monkeypatch.undo()
            library.forget()


def test_a_variant_that_is_not_there_is_refused(built: None):
    with pytest.raises(KernelError, match="no kernels 'neon'"), library.using("neon"):
        pass


def test_a_compiler_that_is_missing_or_fails_is_one_line_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    with pytest.raises(build.BuildError, match="no C\\+\\+ compiler"):
        build.build(tmp_path / "lib.so")
    false = shutil.which("false")
    assert false is not None
    monkeypatch.setenv("CXX", false)
    with pytest.raises(build.BuildError, match="exit code 1"):
        build.build(tmp_path / "lib.so")
    assert list(tmp_path.iterdir()) == []
