"""The warm process: one fork per candidate, code exchanged, never stalled by what it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from whimbrel.app.repo.testing.adapters import UnittestAdapter
from whimbrel.app.repo.testing.warm import Answer, Stage, WarmServer

MODULE = """\
import functools

def early(): return 1
TABLE = early()

def plain(a, b=2):
    return a - b

def decorate(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

@decorate
def wrapped(a):
    return a * 2

class Box:
    SIZE = 3
    def __init__(self, n):
        self.n = n
    @property
    def double(self):
        return self.n + 2
    class Inner:
        @staticmethod
        def __hidden(): return 5
        @classmethod
        def show(cls):
            return cls.__hidden() + 1

if True:
    def outer(n):
        def inner(k):
            return k + n
        return inner(1)
"""

FILES = {
    "mod.py": MODULE,
    "lazy.py": "def late(): return 0\n",
    "test_a.py": """
        import os, subprocess, sys, time
        import mod
        def test_plain(): assert mod.plain(5, 3) == 8
        def test_wrapped(): assert mod.wrapped(4) == 9
        def test_double(): assert mod.Box(4).double == 8
        def test_inner(): assert mod.Box.Inner.show() == 7
        def test_outer(): assert mod.outer(1) == 3
        def test_table(): assert mod.TABLE == 2
        def test_default(): assert mod.plain(3) == 0
        def test_lazy():
            import lazy
            assert lazy.late() == 1
        def test_starts(): subprocess.run([sys.executable, "-c", ""])
        def test_writes(): open("made.txt", "w").close()
        def test_own_folder(tmp_path): (tmp_path / "x").write_text("x")
        def test_good(): assert mod.outer(0) == 1
    """,
}


def replacing(text: str, old: str, new: str) -> list[tuple[int, int, str]]:
    assert text.count(old) == 1
    start = text.index(old)
    return [(start, start + len(old), new)]


@asynccontextmanager
async def serving(made) -> AsyncIterator[WarmServer]:
    server = WarmServer()
    assert await server.start(made.runner), server.note
    try:
        yield server
    finally:
        await server.close()


async def ask(server: WarmServer, path: str, text: str, old: str, new: str, test: str) -> Answer:
    answer = await server.run({path: replacing(text, old, new)}, [Stage((test,), 2.0)])
    assert answer is not None
    return answer


SWAPPED = [
    ("a - b", "a + b", "test_plain"),
    ("a * 2", "a * 2 + 1", "test_wrapped"),
    ("self.n + 2", "self.n * 2", "test_double"),
    ("cls.__hidden() + 1", "cls.__hidden() + 2", "test_inner"),
    ("k + n", "k + n + 1", "test_outer"),
]


@pytest.mark.parametrize("version", ["3.8", "3.13"])
async def test_a_changed_function_is_exchanged_and_the_next_candidate_starts_from_the_original(
    project, interpreter, version
):
    made = await project(FILES, python=interpreter(version))
    async with serving(made) as server:
        for old, new, name in SWAPPED:
            test = f"test_a.py::{name}"
            answer = await ask(server, "mod.py", MODULE, old, new, test)
            assert (answer.mode, answer.ended, answer.stages) == ("swap", True, ({test: "passed"},))
            plain = await server.run({}, [Stage((test,), 2.0)])
            assert plain is not None and plain.stages == ({test: "failed"},)


async def test_what_cannot_be_exchanged_is_refused_with_the_reason(project):
    made = await project(FILES)
    async with serving(made) as server:

        async def refusal(old: str, new: str) -> str:
            return (await ask(server, "mod.py", MODULE, old, new, "test_a.py::test_good")).refused

        assert "ran while" in await refusal("def early(): return 1", "def early(): return 2")
        assert "outside of functions" in await refusal("SIZE = 3", "SIZE = 4")
        assert "defaults" in await refusal("b=2", "b=3")
        assert "defaults" in await refusal("@decorate\n", "")
        assert "SyntaxError" in await refusal("a - b", "a -")


async def test_a_module_that_only_a_test_imports_is_imported_with_the_edit(project):
    made = await project(FILES)
    async with serving(made) as server:
        answer = await ask(server, "lazy.py", FILES["lazy.py"], "0", "1", "test_a.py::test_lazy")
    assert (answer.mode, answer.stages) == ("import", ({"test_a.py::test_lazy": "passed"},))


async def test_a_later_stage_runs_only_when_all_before_passed(project):
    made = await project(FILES)
    good, bad, other = (f"test_a.py::test_{name}" for name in ("good", "plain", "wrapped"))
    async with serving(made) as server:
        passed = await server.run({}, [Stage((good,), 2.0), Stage((bad, other), 2.0, False)])
        stopped = await server.run({}, [Stage((bad, other), 2.0), Stage((good,), 2.0)])
    assert passed is not None and stopped is not None
    assert passed.stages == ({good: "passed"}, {bad: "failed", other: "failed"})
    assert stopped.stages == ({bad: "failed"},)


async def test_loops_crashes_and_hunger_end_only_their_own_candidate(project):
    made = await project(FILES)
    test = "test_a.py::test_plain"
    async with serving(made) as server:
        bodies = {
            "loop": "[0 for _ in iter(int, 1)]",
            "crash": "__import__('os').abort()",
            "leave": "__import__('os')._exit(0)",
            "memory": "bytearray(64 << 30)",
        }
        stage = Stage((test,), 0.3)
        edits = {name: replacing(MODULE, "a - b", body) for name, body in bodies.items()}
        running = {
            name: asyncio.create_task(server.run({"mod.py": each}, [stage])) for name, each in edits.items()
        }
        answers = {name: await task for name, task in running.items()}
        right = await ask(server, "mod.py", MODULE, "a - b", "a + b", test)
    assert answers["loop"] is not None and answers["loop"].stopped == "cpu"
    for name in ("loop", "crash", "leave"):
        answer = answers[name]
        assert answer is not None and not answer.ended and answer.stages == ({},)
    assert answers["memory"] is not None and answers["memory"].stages == ({test: "failed"},)
    assert right.stages == ({test: "passed"},)


async def test_a_test_that_waits_for_ever_is_ended_by_the_wall_clock(project, monkeypatch):
    made = await project(
        {"mod.py": "def f(): return 1\n", "test_a.py": "import time\ndef test_a(): time.sleep(600)\n"}
    )
    async with serving(made) as server:
        answer = await server.run({}, [Stage(("test_a.py::test_a",), 0.1)])
    assert answer is not None and answer.stopped == "wall" and not answer.ended


async def test_it_says_what_a_test_shares_with_other_processes(project):
    made = await project(FILES)
    names = ("starts", "writes", "own_folder", "good")
    stage = Stage(tuple(f"test_a.py::test_{name}" for name in names), 5.0)
    async with serving(made) as server:
        answer = await server.run({}, [stage])
    assert answer is not None
    assert answer.marks == {"test_a.py::test_starts": ("starts",), "test_a.py::test_writes": ("changes",)}


async def test_unittest_suites_are_served_too(project):
    files = {
        "mod.py": "def f(): return 1\n",
        "test_u.py": """
            import unittest, mod
            class T(unittest.TestCase):
                @classmethod
                def setUpClass(cls): cls.base = 1
                def test_f(self): self.assertEqual(mod.f() + self.base, 3)
                def test_g(self): self.assertEqual(self.base, 1)
        """,
    }
    made = await project(files, adapter=UnittestAdapter())
    stages = [Stage(("test_u.T.test_f",), 2.0), Stage(("test_u.T.test_g",), 2.0)]
    async with serving(made) as server:
        answer = await server.run({"mod.py": replacing(files["mod.py"], "1", "2")}, stages)
    assert answer is not None and answer.mode == "swap"
    assert answer.stages == ({"test_u.T.test_f": "passed"}, {"test_u.T.test_g": "passed"})


@pytest.mark.parametrize("unittest", [False, True])
async def test_it_says_at_which_of_its_own_lines_a_test_failed(project, unittest: bool):
    module = "def f(x):\n    return [x, 7]\n"
    body = ["one, two = mod.f(1)", "assert one == 2", "check(two)"]
    tests = ["import mod", "def check(value):", "    assert value == 8"]
    if unittest:
        tests += ["import unittest", "class T(unittest.TestCase):", "    def test_f(self):"]
        tests += [f"        {line}" for line in body]
        test, adapter = "test_a.T.test_f", {"adapter": UnittestAdapter()}
    else:
        tests += ["def test_f():", *(f"    {line}" for line in body)]
        test, adapter = "test_a.py::test_f", {}
    first = len(tests) - 1
    made = await project({"mod.py": module, "test_a.py": "\n".join([*tests, ""])}, **adapter)
    stage = Stage((test,), 5.0)
    async with serving(made) as server:
        before = await server.run({}, [stage])
        half = await server.run({"mod.py": replacing(module, "[x,", "[x + 1,")}, [stage])
        whole = await server.run({"mod.py": replacing(module, "[x, 7]", "[x + 1, 8]")}, [stage])
    assert before is not None and half is not None and whole is not None
    assert before.reached == {test: first}
    # Not the line of the helper that it called.
    assert half.reached == {test: first + 1}
    assert whole.reached == {} and whole.stages == ({test: "passed"},)


async def test_a_project_that_starts_threads_on_import_is_not_forked_from(project):
    made = await project(
        {
            "mod.py": "import threading, time\nthreading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n",
            "test_a.py": "import mod\ndef test_a(): pass\n",
        }
    )
    server = WarmServer()
    assert not await server.start(made.runner)
    assert "starts 1 threads" in server.note


async def test_when_the_process_is_gone_the_answer_is_none(project):
    made = await project(FILES)
    async with serving(made) as server:
        await server.close()
        assert await server.run({}, [Stage(("test_a.py::test_good",), 2.0)]) is None
