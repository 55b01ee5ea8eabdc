"""Executed lines per test, by either mechanism of the interpreter."""

from __future__ import annotations

import pytest

FILES = {
    "shop.py": (
        "import threading\n"
        "def sign(x):\n"
        "    if x < 0:\n"
        "        return -1\n"
        "    return 1\n"
        "def later(x):\n"
        "    thread = threading.Thread(target=sign, args=(x,))\n"
        "    thread.start()\n"
        "    thread.join()\n"
    ),
    "test_shop.py": (
        "import sys\n"
        "from shop import later, sign\n"
        "def test_negative(): assert sign(-1) == -1\n"
        "def test_positive(): assert sign(1) == 1\n"
        "def test_again(): assert sign(-2) == -1\n"
        "def test_thread(): later(-1)\n"
        "def test_tracer(): sys.settrace(lambda *a: None)\n"
        "def test_after(): assert sign(1) == 1\n"
    ),
}


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.13"])
async def test_each_test_has_the_lines_it_executed_and_imports_are_apart(project, interpreter, version):
    made = await project(FILES, python=interpreter(version))
    run = await made.runner.run(purpose="baseline", coverage=True)
    lines = {
        test.rpartition("::")[2]: {path: set(executed) for path, executed in files.items()}
        for test, files in run.report.coverage.items()
    }
    assert lines["test_negative"] == {"shop.py": {3, 4}, "test_shop.py": {3}}
    assert lines["test_positive"] == {"shop.py": {3, 5}, "test_shop.py": {4}}
    assert lines["test_again"]["shop.py"] == {3, 4}
    assert lines["test_thread"]["shop.py"] == {3, 4, 7, 8, 9}
    assert lines[""]["shop.py"] == {1, 2, 6}
    assert all(not path.startswith("/") for files in lines.values() for path in files)


async def test_a_test_that_sets_its_own_trace_function_is_noted(project, interpreter):
    made = await project(FILES, python=interpreter("3.8"))
    run = await made.runner.run(purpose="baseline", coverage=True)
    assert "own trace function" in run.report.note


async def test_without_the_wish_nothing_is_recorded(project):
    made = await project(FILES)
    run = await made.runner.run(purpose="baseline")
    assert run.report.coverage == {}
