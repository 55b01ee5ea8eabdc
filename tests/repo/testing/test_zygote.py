"""The fork server: quick, isolated from what it runs, never stalled by it."""

from __future__ import annotations

import pytest
from whimbrel.app.repo.testing.adapters import UnittestAdapter
from whimbrel.app.repo.testing.report import Outcome
from whimbrel.app.repo.testing.zygote import Zygote

FILES = {
    "mod.py": "VALUE = 1\n",
    "test_a.py": """
        import os, subprocess, sys, time
        import mod
        def test_value(): assert mod.VALUE == 1
        def test_hang():
            while True: pass
        def test_crash(): os.abort()
        def test_leave(): os._exit(0)
        def test_memory(): bytearray(64 << 30)
        def test_child():
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        def test_second(): assert mod.VALUE == 1
    """,
}


@pytest.mark.parametrize("version", ["3.8", "3.13"])
async def test_each_request_sees_the_files_as_they_are_now(project, interpreter, version):
    made = await project(FILES, python=interpreter(version))
    await made.runner.run(["test_a.py::test_value"], purpose="baseline")
    zygote = Zygote()
    await zygote.start(made.runner)
    assert zygote.forks, zygote.note
    one = ["test_a.py::test_value"]
    assert (await zygote.run(one, timeout_s=20)).good
    made.write("mod.py", "VALUE = 2\n")
    worse = await zygote.run(one, timeout_s=20)
    assert not worse.good and worse.report.cases[0].outcome is Outcome.FAILED
    assert worse.report.cases[0].frames[-1].path == "test_a.py"
    made.write("mod.py", "VALUE = 1\n")
    assert (await zygote.run(one, timeout_s=20)).good
    await zygote.close()
    assert made.leftovers() == []


async def test_hangs_crashes_and_greed_of_a_child_never_stall_the_server(project):
    made = await project(FILES)
    await made.runner.run(["test_a.py::test_value"], purpose="baseline")
    zygote = Zygote()
    await zygote.start(made.runner)
    hang = await zygote.run(["test_a.py::test_hang"], timeout_s=3)
    assert hang.report.cases[0].outcome is Outcome.TIMEOUT
    assert hang.report.cases[0].frames[-1].function == "test_hang"
    crash = await zygote.run(["test_a.py::test_crash"], timeout_s=20)
    assert crash.crashed and crash.report.cases[0].outcome is Outcome.CRASHED
    leave = await zygote.run(["test_a.py::test_leave"], timeout_s=20)
    assert leave.crashed and not leave.good
    greedy = await zygote.run(["test_a.py::test_memory"], timeout_s=20)
    assert greedy.report.cases[0].exception == "MemoryError"
    assert (await zygote.run(["test_a.py::test_child"], timeout_s=20)).good
    assert (await zygote.run(["test_a.py::test_value"], timeout_s=20)).good
    await zygote.close()


async def test_it_stops_at_the_first_failure_unless_told_otherwise(project):
    made = await project(FILES)
    made.write("mod.py", "VALUE = 2\n")
    zygote = Zygote()
    await zygote.start(made.runner)
    ids = ["test_a.py::test_value", "test_a.py::test_second"]
    assert len((await zygote.run(ids, timeout_s=20)).report.cases) == 1
    assert len((await zygote.run(ids, timeout_s=20, fail_fast=False)).report.cases) == 2
    await zygote.close()


async def test_a_killed_server_is_replaced_at_the_next_request(project):
    made = await project(
        {
            **FILES,
            "test_b.py": "import os, signal\ndef test_b(): os.kill(os.getppid(), signal.SIGKILL)\n",
        }
    )
    zygote = Zygote()
    await zygote.start(made.runner)
    lost = await zygote.run(["test_b.py::test_b"], timeout_s=20)
    assert lost.crashed and "starts a new one" in lost.report.note
    assert (await zygote.run(["test_a.py::test_value"], timeout_s=20)).good
    await zygote.close()


async def test_rows_of_forked_runs_are_marked_as_not_fresh(project):
    made = await project(FILES)
    zygote = Zygote()
    await zygote.start(made.runner)
    await zygote.run(["test_a.py::test_value"], timeout_s=20)
    tree = await made.workspace.snapshot()
    await zygote.run(["test_a.py::test_value"], timeout_s=20, tree=tree)
    (row,) = made.ledger.rows
    assert not row.fresh_process and row.tree == tree
    assert row.outcomes == {"test_a.py::test_value": "passed"}
    await zygote.close()


async def test_a_package_that_starts_threads_is_not_preloaded(project, interpreter, site_packages):
    python = interpreter("3.13")
    made = await project({"test_a.py": "import restless\ndef test_a(): pass\n"}, python=python)
    site = site_packages(python)
    restless = site / "restless.py"
    restless.write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    )
    try:
        await made.runner.run(purpose="baseline")
        assert "restless" in made.runner.preload
        zygote = Zygote()
        await zygote.start(made.runner)
        assert zygote.forks and "threads" in zygote.note
        assert (await zygote.run(["test_a.py"], timeout_s=20)).good
        await zygote.close()
    finally:
        restless.unlink()


async def test_unittest_runs_in_the_fork_server_too(project, interpreter):
    made = await project(
        {"test_a.py": "import unittest\nclass TestA(unittest.TestCase):\n    def test_a(self): pass\n"},
        python=interpreter("3.8", "nothing"),
        adapter=UnittestAdapter(),
    )
    zygote = Zygote()
    await zygote.start(made.runner)
    assert zygote.forks
    assert (await zygote.run(["test_a.TestA.test_a"], timeout_s=20)).good
    await zygote.close()
