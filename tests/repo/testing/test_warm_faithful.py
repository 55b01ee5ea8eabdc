"""What the warm process says of an edit is what a fresh process would say, or it refuses."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from whimbrel.app.repo.testing.warm import Stage, WarmServer

CASES = {
    # name: (module, old, new, test that fails before and passes after, "swap" or part of the reason)
    "begun": (
        "def numbers():\n    yield 1\nNUMBERS = numbers()\n",
        "1", "2", "assert next(begun.NUMBERS) == 2", "ran while",
    ),
    "copied": (
        "import types\ndef f(): return 1\n"
        "COPY = types.FunctionType(f.__code__.replace(co_name='copy'), globals())\n",
        "1", "2", "assert copied.COPY() == 2", "other code",
    ),
    "signature": (
        "import inspect\ndef f(a, b): return 1\nNAMES = list(inspect.signature(f).parameters)\n",
        "a, b", "b, a", "assert signature.NAMES == ['b', 'a']", "arguments",
    ),
    "kind": (
        "import inspect\ndef f():\n    return 1\nIS = inspect.isgeneratorfunction(f)\n",
        "return 1", "yield 1", "assert kind.IS", "arguments",
    ),
    "documented": (
        "def f():\n    0; return 1\nTEXT = f.__doc__\n",
        "0;", "'text';", "assert documented.TEXT == 'text'", "documentation",
    ),
    "read_as_text": (
        "def f(): return 1\nSPACE = {}\nexec(open(__file__).read().split('SPACE')[0], SPACE)\n",
        "1\n", "2\n", "assert read_as_text.SPACE['f']() == 2", "as text",
    ),
    "unloaded": ("def f(): return 1\n", "1", "2", "assert UNLOADED() == 2", "not any more"),
    "twice": ("def f(): return 1\n", "1", "2", "assert SECOND.f() == twice.f() == 2", "more than one path"),
    "warned": ("def f(a):\n    return a\n", "return a", "return a is 1 or 2", "assert warned.f(0) == 2", "warns"),
    "reloaded": (
        "def f(): return 1\n", "1", "2",
        "import importlib; assert importlib.reload(reloaded).f() == 2", "swap",
    ),
    "shown": (
        "\f\ndef other():\n    return '\x0c'\n\ndef f():\n    return 1\n", "return 1", "return 2",
        "import inspect; assert inspect.getsource(shown.f) == 'def f():\\n    return 2\\n'", "swap",
    ),
    "cached": (
        "import functools\n@functools.lru_cache(None)\ndef f():\n    return 1\nALIAS = {'f': functools.partial(f)}\n",
        "return 1", "return 2", "assert cached.ALIAS['f']() == 2", "swap",
    ),
    "through_module": (
        "import math as numbers\ndef f(): return numbers.floor(1.5)\n",
        "1.5",
        "2.5",
        "assert through_module.f() == 2",
        "swap",
    ),
    "chosen": (
        "if not __file__:\n    def f(): return 0\nelse:\n    def f(): return 1\n",
        "return 1", "return 2", "assert chosen.f() == 2", "swap",
    ),
}  # fmt: skip

TEST_HEAD = """
import sys, importlib.util
import unloaded
UNLOADED = sys.modules.pop("unloaded").f
import twice
spec = importlib.util.spec_from_file_location("second", twice.__file__.replace("twice.py", "../" + ROOT + "/twice.py"))
SECOND = sys.modules["second"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(SECOND)
"""


def faithful_project() -> dict[str, str]:
    tests = "\n".join(f"def test_{name}():\n    {case[3]}" for name, case in CASES.items())
    imports = "\n".join(f"import {name}" for name in CASES if name != "unloaded")
    head = f"import os\nROOT = os.path.basename(os.path.dirname(__file__))\n{TEST_HEAD}"
    return {
        **{f"{name}.py": case[0] for name, case in CASES.items()},
        "test_all.py": f"{head}\n{imports}\n\n{tests}\n",
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


@pytest.mark.parametrize("version", ["3.8", "3.13"])
async def test_an_edit_has_the_effect_it_has_in_a_fresh_process_or_is_refused(project, interpreter, version):
    made = await project(faithful_project(), python=interpreter(version))
    async with serving(made) as server:
        for name, (module, old, new, _, expected) in CASES.items():
            stage = Stage((f"test_all.py::test_{name}",), 5.0)
            answer = await server.run({f"{name}.py": replacing(module, old, new)}, [stage])
            assert answer is not None
            if expected == "swap":
                assert (name, answer.refused, answer.stages) == (name, "", ({stage.tests[0]: "passed"},))
            else:
                assert expected in answer.refused, name
            plain = await server.run({}, [stage])
            assert plain is not None and plain.stages == ({stage.tests[0]: "failed"},), name


async def test_without_a_record_of_what_ran_nothing_is_exchanged(project):
    made = await project(
        {
            "mod.py": "import sys\nsys.setprofile(None)\ndef f(): return 1\nf()\n",
            "test_a.py": "import mod\ndef test_a(): assert mod.f() == 2\n",
        }
    )
    async with serving(made) as server:
        answer = await server.run({"mod.py": [(45, 46, "2")]}, [Stage(("test_a.py::test_a",), 5.0)])
    assert answer is not None and "profiler" in answer.refused


AROUND = {
    "mod.py": "def f(): return 1\n",
    "rows.txt": "one\ntwo\n",
    "test_a.py": """
        import os, subprocess, sys
        import pytest, mod
        ROWS = open("rows.txt")
        @pytest.fixture(scope="module")
        def folder():
            os.mkdir("made")
            yield
            os.rmdir("made")
        def test_first(folder): assert mod.f() == 2
        def test_second(folder): pass
        def test_rows(): assert ROWS.readline() == "one\\n"
        def test_source():
            assert "return 1" in open(mod.__file__).read()
        def test_gone_folder(tmp_path):
            os.chdir(tmp_path); tmp_path.rmdir()
            with pytest.raises(FileNotFoundError): open("x", "w")
        def test_daemon():
            code = "import os, time; print(os.getpid()); time.sleep(300)"
            run = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=open("pid.txt", "w"))
        def test_loop():
            while True: pass
        def test_floods():
            for _ in range(300): os.write(1, b"x" * 1000000)
    """,
}


async def test_candidates_leave_nothing_to_the_next(project):
    made = await project(AROUND)
    ids = {name: f"test_a.py::test_{name}" for name in ("first", "second", "rows", "gone_folder", "floods")}
    async with serving(made) as server:
        for _ in range(2):
            stopped = await server.run({}, [Stage((ids["first"], ids["second"]), 5.0)])
            assert stopped is not None and stopped.stages == ({ids["first"]: "failed"},)
            assert not (made.workspace.root / "made").exists()
        for name in ("rows", "rows", "gone_folder", "floods"):
            answer = await server.run({}, [Stage((ids[name],), 5.0)])
            assert answer is not None and answer.stages == ({ids[name]: "passed"},), name


async def test_a_program_that_left_the_session_of_its_test_is_ended_with_it(project):
    made = await project(AROUND)
    daemon = "test_a.py::test_daemon"
    async with serving(made) as server:
        answer = await server.run({}, [Stage((daemon,), 5.0)])
        assert answer is not None and set(answer.marks[daemon]) >= {"starts", "changes"}
        await server.run({}, [Stage(("test_a.py::test_rows",), 5.0)])
        text = (made.workspace.root / "pid.txt").read_text()
        assert not text or not Path(f"/proc/{int(text)}").exists()


async def test_a_test_that_reads_the_edited_file_itself_is_marked(project):
    made = await project(AROUND)
    test = "test_a.py::test_source"
    async with serving(made) as server:
        answer = await server.run({"mod.py": [(16, 17, "2")]}, [Stage((test,), 5.0)])
    assert answer is not None and answer.marks == {test: ("reads",)}


async def test_a_cancelled_candidate_gives_its_place_to_the_next(project):
    made = await project(AROUND)
    loop, good = (Stage((f"test_a.py::test_{name}",), 500.0) for name in ("loop", "rows"))
    async with serving(made) as server, asyncio.timeout(200):
        tasks = [asyncio.create_task(server.run({}, [loop])) for _ in range(3)]
        await asyncio.sleep(0.5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        answer = await server.run({}, [good])
    assert answer is not None and answer.ended


def server_of(state: Path) -> int:
    """Process id of the warm process whose files lie below a folder; what it forked has the same command."""
    found = [
        int(entry.parent.name)
        for entry in Path("/proc").glob("[0-9]*/cmdline")
        if b"serve.py" in (words := entry.read_bytes()) and str(state).encode() in words
    ]
    return min(found)


async def test_a_server_that_is_killed_answers_none_and_leaves_no_process(project):
    made = await project(AROUND)
    async with serving(made) as server:
        running = asyncio.create_task(server.run({}, [Stage(("test_a.py::test_loop",), 500.0)]))
        await asyncio.sleep(0.5)
        os.kill(server_of(made.state), signal.SIGKILL)
        assert await running is None
        assert not server.ready
        assert await server.run({}, [Stage(("test_a.py::test_rows",), 5.0)]) is None
    assert made.leftovers() == []


async def test_what_forked_processes_would_share_is_no_ground_for_forking(project):
    made = await project(
        {
            "mod.py": "import socket\nBOTH = socket.socketpair()\n",
            "test_a.py": "import mod\ndef test_a(): pass\n",
        }
    )
    server = WarmServer()
    assert not await server.start(made.runner)
    assert "a socket" in server.note
